"""ProPos and BYOL: an online network that follows a target network and scatters its prototypes.

`method` is the method, with the step; `_passes` says whose statistics normalize a batch, `_labels`
clusters all features before an epoch, and `_networks` makes the target network and the predictor.
"""

from .method import ProPos

__all__ = ["ProPos"]
