"""A model that was never trained, a few numbers large, in which lies can be told."""

from __future__ import annotations

from pathlib import Path

import torch

from dualclust.train.config.run import NetworkConfig
from dualclust.train.models.files import model_bytes
from dualclust.train.models.spec import InputSpec, ModelSpec
from dualclust.train.networks.network import build_network

__all__ = ["write_model"]


def write_model(path: Path) -> Path:
    """Write a model of two clusters of rows of three numbers, and return its path."""
    config = NetworkConfig(name="mlp", width=2, hidden=4, out_dim=2, predictor=0)
    spec = ModelSpec("secu", "directions", 0.1, 2, 8, InputSpec((3,)), config)
    network = build_network(config, (3,))
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {"centers": torch.eye(2), "mean": torch.zeros(3), "std": torch.ones(3)}
    tensors |= {"prices": torch.zeros(2, dtype=torch.float64)}
    sizes = {"lower": 0, "upper": 8, "counts": 4}
    tensors |= {name: torch.tensor([size] * 2) for name, size in sizes.items()}
    path.write_bytes(model_bytes(spec, tensors))
    return path
