"""SeCu on small problems, on given features, with its state in the words of the transcription."""

import numpy as np
import torch

from dualclust.train.config.run import RunConfig, override
from dualclust.train.methods.secu import SeCu
from dualclust.train.networks.network import build_network
from tests.problems import cone_features, unit_rows

D = 12
SMALL = ["network.width=2", "network.hidden=8", f"network.out_dim={D}", "heads.target=3"]


def make(clusters=(3, 7, 5), n=120, changes=(), channels=1, size=8):
    heads = f"heads.clusters={list(clusters)}"
    config = override(RunConfig(), [*SMALL, heads, f"heads.target={clusters[0]}", *changes])
    network = build_network(config.network, (channels, size, size), seed=config.seed)
    return SeCu(config, network.train(), n)


def on_features(method):
    """The method in float64 on given features: its views are unit features, leaves of the graph."""
    found = SeCu(method.config, method.network.double(), method.n_samples)
    found.terms = lambda views, total: torch.stack(views)
    found.begin_epoch(0)
    return found


def draw_views(rng, ids, spread=0.5, terms=2):
    """Two noisy views of each of many points of a cone, so that labels are contested."""
    base = cone_features(1000, 0, d=D)[ids]
    noise = rng.normal(size=(terms, *base.shape)) / 4
    return np.stack([unit_rows(base + spread * part) for part in noise])


def compare_state(method, printed, tol=1e-9):
    for head, k in enumerate(printed.k):
        seen = printed.labels[head] >= 0
        found = method.labels[head].numpy()
        np.testing.assert_array_equal(found[seen], printed.labels[head][seen])
        assert (found[~seen] == 0).all()
        if printed.options.constraint == "entropy":
            counts = method.heads.counts[head].numpy()
            np.testing.assert_array_equal(counts[:k], printed.counts[head])
            np.testing.assert_array_equal(counts, np.bincount(found[seen], minlength=len(counts)))
            continue
        for dual, expected in zip(
            method.heads.duals, (printed.rho[head], printed.rho_up[head]), strict=True
        ):
            np.testing.assert_allclose(dual[head, :k].numpy(), expected, rtol=tol, atol=tol * 1e-3)
            assert (dual[head, k:] == 0).all()
