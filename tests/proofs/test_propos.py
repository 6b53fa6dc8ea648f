"""The claims of ProPos: each stands as it is, and each notices a planted error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dualclust.algos import (
    counter_noise,
    directions,
    kmeans,
    losses,
    prototype_losses,
    prototypes,
    von_mises_fisher,
)
from dualclust.proofs import propos, propos_mixture, propos_scattering, propos_tables
from dualclust.proofs.registry import REGISTRY, Status
from tests.proofs.planted import assert_noticed

ALGOS = "dualclust.algos."
LOSSES = ALGOS + "prototype_losses."
PROTOTYPES = ALGOS + "prototypes."
DENSITY = ALGOS + "von_mises_fisher."
PROOFS = "dualclust.proofs."

# The replacements below call the functions as they were when this module was imported.
same_view, cross_view = prototype_losses.psl_same_view, prototype_losses.psl_cross_view
mixed_view = prototype_losses.psl_mixed_view
alignment = prototype_losses.prototypical_alignment
uniformity = prototype_losses.prototypical_uniformity
psa, perturbed = prototype_losses.positive_sampling_alignment, prototype_losses.perturbed
normalize_sums, prototype_sums = prototypes.normalize_sums, prototypes.prototype_sums
weighted_sums, batch_prototypes = prototypes.weighted_sums, prototypes.batch_prototypes
moving_average = prototypes.moving_average
log_density, log_normalizer = von_mises_fisher.log_density, von_mises_fisher.log_normalizer
log_sphere_area, kmeans_as_is = von_mises_fisher.log_sphere_area, kmeans.kmeans
log_softmax, unit_directions = losses.log_softmax, directions.unit_directions
normal_noise = counter_noise.normal_noise
elbo, kl, moving_objective = (
    propos_mixture._elbo,
    propos_mixture._kl,
    propos_mixture._moving_objective,
)
simplex_bound = propos_scattering._simplex_bound


def every_cluster_valid(*args: Any, **kwargs: Any) -> Any:
    found = batch_prototypes(*args, **kwargs)
    return found._replace(valid=np.ones_like(found.valid))


def sums_never_masked(sums: Any, **kwargs: Any) -> Any:
    with np.errstate(invalid="ignore"):
        vectors = sums.sums / np.linalg.norm(sums.sums, axis=1, keepdims=True)
    return prototypes.Prototypes(vectors, np.ones_like(sums.mass, dtype=np.bool_))


def hard_shares(features: Any, weights: Any) -> Any:
    """A soft sample goes to one cluster alone."""
    return weighted_sums(features, np.eye(weights.shape[1])[np.argmax(weights, axis=1)])


def doubled_sums(features: Any, weights: Any) -> Any:
    found = weighted_sums(features, weights)
    return found._replace(sums=2.0 * found.sums)


def zero_sums(features: Any, weights: Any) -> Any:
    found = weighted_sums(features, weights)
    return found._replace(sums=0.0 * found.sums)


def with_the_diagonal(online: Any, *, temperature: float) -> Any:
    cosines = online.vectors @ online.vectors.T / temperature
    return np.mean(np.log(np.sum(np.exp(cosines), axis=1)))


def truncated(features: Any, noise: Any, *, sigma: float, on_sphere: bool = True) -> Any:
    """Positives that do stay close."""
    return perturbed(features, np.clip(noise, -0.4, 0.4), sigma=sigma, on_sphere=on_sphere)


def variance_for_deviation(features: Any, noise: Any, *, sigma: float, **kwargs: Any) -> Any:
    return perturbed(features, noise, sigma=sigma**2, **kwargs)


def cube_noise(shape: tuple[int, ...], *, key: int, stream: int = 0, xp: Any) -> Any:
    """Uniform in a cube, with variance 1."""
    rng = np.random.default_rng(key)
    return np.sqrt(12.0) * (rng.random(shape) - 0.5)


def wide_noise(shape: tuple[int, ...], *, key: int, stream: int = 0, xp: Any) -> Any:
    return 1.1 * normal_noise(shape, key=key, stream=stream, xp=xp)


def falling_kmeans(x: Any, centers: Any, *, n_iter: int, progress: Any) -> Any:
    """Minimizes the objective."""
    return kmeans_as_is(
        x,
        centers,
        n_iter=n_iter,
        progress=lambda state, churn: progress(state._replace(objective=-state.objective), churn),
    )


PLANTED: list[tuple[str, str, Callable[..., Any] | Any]] = [
    ("P1", LOSSES + "psl_cross_view", same_view),
    ("P1", ALGOS + "losses.log_softmax", lambda x: log_softmax(2.0 * x)),
    ("P2", LOSSES + "positive_sampling_alignment", lambda p, t: np.mean(np.sum((p - t) ** 2, 1))),
    ("P3", LOSSES + "psl_same_view", mixed_view),
    ("P3", LOSSES + "psl_cross_view", mixed_view),
    ("P3", LOSSES + "psl_mixed_view", cross_view),
    ("P4", LOSSES + "prototypical_uniformity", with_the_diagonal),
    ("P4", PROOFS + "propos_scattering._simplex_bound", lambda k, t: simplex_bound(k + 1, t)),
    ("P5", PROTOTYPES + "batch_prototypes", every_cluster_valid),
    ("P5", PROTOTYPES + "normalize_sums", sums_never_masked),
    (
        "P5",
        PROTOTYPES + "prototype_sums",
        lambda x, y, n_clusters: prototype_sums(x, np.maximum(y, 1), n_clusters=n_clusters),
    ),
    ("P6", PROTOTYPES + "batch_prototypes", every_cluster_valid),
    ("P6", PROTOTYPES + "weighted_sums", hard_shares),
    ("P7", LOSSES + "psl_mixed_view", alignment),
    ("P8", LOSSES + "perturbed", variance_for_deviation),
    ("P8", ALGOS + "counter_noise.normal_noise", wide_noise),
    ("P9", LOSSES + "perturbed", truncated),
    ("P9", ALGOS + "counter_noise.normal_noise", wide_noise),
    (
        "P10",
        PROTOTYPES + "moving_average",
        lambda a, b, momentum: moving_average(b, a, momentum=momentum),
    ),
    (
        "P11",
        ALGOS + "directions.unit_directions",
        lambda x: directions.Directions(x, x[..., 0] > 0),
    ),
    ("P12", DENSITY + "log_density", lambda x, m, k: log_density(x, m, k) + 1e-9),
    (
        "P12",
        DENSITY + "log_normalizer",
        lambda kappa, n_features: log_normalizer(kappa, n_features=n_features + 1),
    ),
    ("P12", DENSITY + "log_sphere_area", lambda n: log_sphere_area(n) + 1e-9),
    ("P13", ALGOS + "counter_noise.normal_noise", cube_noise),
    ("P14", PROOFS + "propos_mixture._elbo", lambda q, joint: np.sum(q * joint, axis=1)),
    ("P14", PROOFS + "propos_mixture._kl", lambda q, log_p: -kl(q, log_p)),
    ("P14", ALGOS + "losses.log_softmax", lambda x: log_softmax(0.9 * x)),
    (
        "P15",
        PROOFS + "propos_mixture._moving_objective",
        lambda sympy, theta, fixed: moving_objective(sympy, theta, theta),
    ),
    ("P16", PROOFS + "propos_mixture._elbo", lambda q, j: np.max(j, axis=1) + 0.8),
    ("P16", DENSITY + "log_density", lambda x, m, k: log_density(x, m, 4.0 * k)),
    ("P17", DENSITY + "log_density", lambda x, m, k: log_softmax(k * (x * m).sum(axis=-1))),
    ("P17", DENSITY + "log_sphere_area", lambda n: np.log(3.0)),
    ("P17", ALGOS + "losses.log_softmax", lambda x, temperature: x / temperature - 1.0),
    (
        "P18",
        ALGOS + "losses.log_softmax",
        lambda x, temperature=1.0: log_softmax(x, temperature=2.0 * temperature),
    ),
    ("P18", DENSITY + "log_density", lambda x, m, k: log_density(x, m, 1.0 + 0.0 * k)),
    (
        "P19",
        PROTOTYPES + "batch_prototypes",
        lambda x, y, n_clusters: batch_prototypes(-x, y, n_clusters=n_clusters),
    ),
    ("P19", DENSITY + "log_density", lambda x, m, k: log_density(x, m, 3.0 * k)),
    ("P19", ALGOS + "kmeans.kmeans", falling_kmeans),
    (
        "P20",
        LOSSES + "prototypical_alignment",
        lambda a, b, temperature: alignment(a, a, temperature=temperature),
    ),
    ("P20", PROTOTYPES + "weighted_sums", doubled_sums),
    ("P21", PROTOTYPES + "weighted_sums", zero_sums),
    ("P21", PROOFS + "propos_pairs._pair_weights", lambda x, y, share: x @ y.T),
    (
        "P22",
        PROOFS + "propos_tables.STL_10",
        {n: (75.0, 86.0, 73.0) for n in ("CC", "TCL", "ProPos")},
    ),
    ("P22", PROOFS + "propos_tables.IMAGENET_10", dict.fromkeys(("IDFD", "ProPos"), (9, 9, 9))),
    (
        "P23",
        PROOFS + "propos_tables.IMAGENET_DOGS",
        propos_tables.IMAGENET_DOGS | {"TCL": (57.7, 62.1, 52.3)},  # for a gain of 20 percent
    ),
    ("P26", PROOFS + "propos_tables.WITHOUT_ALIGNMENT", propos_tables.FULL),
    ("P26", PROOFS + "propos_tables.FULL", ((85.1, 0.01), (91.6, 0.01), (83.5, 0.01))),
    (
        "P28",
        PROTOTYPES + "prototype_sums",
        lambda x, y, n_clusters: prototype_sums(x, np.where(y, y, -1), n_clusters=n_clusters),
    ),
]

IDS = [c.id for c in REGISTRY.values() if c.paper == "ProPos"]


def test_every_row_is_registered() -> None:
    assert propos.__all__
    assert sorted(IDS, key=lambda i: int(i[1:])) == [f"P{i}" for i in range(1, 30)]


@pytest.mark.parametrize(("claim_id", "target", "replacement"), PLANTED)
def test_a_planted_error_is_noticed(
    claim_id: str, target: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_noticed(claim_id, monkeypatch, target, replacement)


def test_every_claim_that_is_not_empirical_has_its_planted_errors() -> None:
    planted = {(claim_id, target) for claim_id, target, _ in PLANTED}
    listed = {(i, target) for i in IDS for target in REGISTRY[i].mutations}
    assert planted == listed
    bare = [i for i in IDS if not REGISTRY[i].mutations]
    assert all(REGISTRY[i].status is Status.EMPIRICAL for i in bare)
