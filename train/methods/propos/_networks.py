"""ProPos's networks at the start: a predictor near zero, and a target that is a copy."""

from __future__ import annotations

import copy

import torch
from torch import nn

from ...networks.network import Network
from ...state.seeding import generator

__all__ = ["init_predictor", "target_of"]

PREDICTOR_STD = 0.01
"""Standard deviation of the predictor's first weights, as released; its biases are 0."""


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
        target.compile_with(network.compiler, or_plain=network.or_plain)  # a copy is not compiled
    return target.train()
