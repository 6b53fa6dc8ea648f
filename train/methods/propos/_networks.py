"""ProPos's networks at the start: a predictor near zero, and a target that is a copy."""

from __future__ import annotations

import copy

import torch
from torch import nn

from ....algos.core.errors import UsageError
from ...config.run import RunConfig
from ...networks.network import Network
from ...state.seeding import generator

__all__ = ["check_networks", "init_predictor", "target_of"]

PREDICTOR_STD = 0.01
"""Standard deviation of the predictor's first weights, as released; its biases are 0."""


def check_networks(config: RunConfig, network: Network) -> nn.Module:
    """Return the predictor of a network that ProPos can train.

    Raises
    ------
    UsageError
        If there is none, or more than one number of clusters.
    """
    if len(config.heads.clusters) != 1:
        k, clusters = config.heads.target, list(config.heads.clusters)
        msg = f"ProPos has one head, got heads.clusters={clusters}. To fix: heads.clusters=[{k}]"
        raise UsageError(msg)
    if network.predictor is None:
        msg = (
            "ProPos needs a predictor, and network.predictor is 0. To fix this, set it to the "
            "units of its hidden layer, such as network.hidden"
        )
        raise UsageError(msg)
    return network.predictor


@torch.no_grad()
def init_predictor(predictor: nn.Module, seed: int) -> None:
    """Draw a predictor's linear weights from N(0, 0.01^2) by the run's seed; its biases are 0."""
    draws = generator(seed, "predictor")
    for layer in predictor.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.copy_(PREDICTOR_STD * torch.randn(layer.weight.shape, generator=draws))
            if layer.bias is not None:
                layer.bias.zero_()


def target_of(network: Network) -> Network:
    """Copy of a network, in training mode, without its predictor and without gradients."""
    target = copy.deepcopy(network)
    target.predictor = None
    target.requires_grad_(False)
    if network.compiler is not None:
        target.compile_with(network.compiler)  # a copy is not compiled
    return target.train()
