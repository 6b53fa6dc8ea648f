"""Small methods of CoKe, on images or on given features, that several tests start from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from dualclust.train.config.run import RunConfig, from_mapping, override
from dualclust.train.methods.coke import CoKe
from dualclust.train.networks.network import build_network
from tests.problems import cone_features, unit_rows

D, N = 12, 60
PREDICTOR = ["network.predictor=8"]
MULTI = ["coke.views=multi", "coke.small_crops=3", "small.noise=0.3"]
AVERAGED = ["coke.views=one", "coke.second_stage=2", "coke.slots=2"]


def settings(clusters=(3, 7, 5), changes=()) -> RunConfig:
    base: dict[str, Any] = {"method": "coke", "epochs": 6, "batch_size": 15}
    return override(
        from_mapping(RunConfig, base),
        [
            "network.width=2",
            "network.hidden=8",
            f"network.out_dim={D}",
            f"heads.clusters={list(clusters)}",
            f"heads.target={clusters[0]}",
            "assignment.kappa=1.0",
            *changes,
        ],
    )


def make(clusters=(3, 7, 5), n=N, changes=(), dtype=torch.float32) -> CoKe:
    """A method on 8 x 8 images."""
    config = settings(clusters, changes)
    network = build_network(config.network, (1, 8, 8), seed=config.seed).to(dtype)
    return CoKe(config, network.train(), n)


def on_features(method: CoKe) -> CoKe:
    """The method with views that are unit features themselves, so that they can be leaves."""
    method._rows = lambda views: views
    return method


def draw_views(rng, method, ids, spread=0.5):
    """Noisy views of points of a cone, so that labels are contested; a row for each part."""
    base = cone_features(1000, 0, d=D)[ids]
    parts = 2 if method.beta else 1
    return [
        np.concatenate(
            [unit_rows(base + spread * rng.normal(size=base.shape) / 4) for _ in range(parts)], 1
        )
        for _ in method.views
    ]


def draw_images(method, b, seed=0, dtype=torch.float32):
    """As many random images as the method has views of b images."""
    draws = torch.Generator().manual_seed(seed)
    base = torch.randn(b, 1, 8, 8, generator=draws)
    noise = [torch.randn(b, 1, 8, 8, generator=draws) for _ in method.views]
    return tuple((base + 0.3 * part).to(dtype) for part in noise)
