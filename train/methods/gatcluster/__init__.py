"""GATCluster: label features learned from four tasks, with a branch of Gaussian attention.

`method` is the method, with the passes over a large batch; `_targets` computes what a large batch
is learned by. The branches themselves are a network (`train.networks.attention_branches`).
"""

from .method import GATCluster

__all__ = ["GATCluster"]
