"""Whether ProPos's alternation converges: claim P19."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...algos.clustering import constrained
from ...algos.losses.propos import prototypes
from ...algos.theory import von_mises_fisher
from ..references.lloyd import lloyd_violations
from ..references.sphere_points import at_angles, random_units
from ..references.violations import below_by, difference, excess, worst
from ..registry.claims import Status, claim
from .mixture import log_joint, log_likelihood

Floats = NDArray[np.float64]


def _hard_step(x: Floats, means: Floats) -> tuple[Floats, Floats]:
    """Return the labels by the nearest center, and the centers of these labels."""
    labels = np.argmax(x @ means.T, axis=1)
    found = prototypes.batch_prototypes(x, labels, n_clusters=means.shape[0])
    kept = np.where(np.asarray(found.valid)[:, None], found.vectors, means)
    return labels, np.asarray(kept)


@claim(
    id="P19",
    paper="ProPos",
    place="Eq. 30, section 8.4",
    statement="log p(x; theta_{t+1}) >= log p(x; theta_t), which guarantees convergence.",
    hypotheses="""
    Exact posteriors in the E-step and an M-step that raises the ELBO, none of which the method has.
    Then values converge where they are bounded; parameters need more.
    """,
    status=Status.REFUTED,
    derivation="""
    The chain log p(theta_{t+1}) >= ELBO(q, theta_{t+1}) >= ELBO(q, theta_t) = log p(theta_t) has a
    first link that holds (P14), a second that is asked of an optimizer of another objective
    (Eq. 12, by stochastic gradients), and a third that is false for hard labels (P16). So the
    likelihood can fall, even where both steps are carried out exactly: in the counterexample, of
    two samples and written out by hand, -log(2 pi I_0(1)) + 0.642 becomes + 0.576.

    What is true of two exact hard steps: the *classification* likelihood, the sum of
    kappa mu_y . v, never falls, since each step maximizes it in its own variable. It is bounded, so
    its values converge; with finitely many labelings the labels do after finitely many steps if
    ties are broken in one way. None of it speaks of the network's parameters.

    Check: the counterexample by its closed form; hard steps never lower the classification
    likelihood; `kmeans` takes the same steps as a transcription, on the sphere and for squared
    distances, with and without weights, for any number of steps, from a state, with empty clusters.
    """,
    counterexample="""
    d = 2, kappa = 1, two samples at plus and minus 50 degrees, centers at plus and minus 10: the
    labels are one each, the new centers are the samples, and the mean log-likelihood falls by
    0.0656.
    """,
    tolerance=1e-12,
    covers=(
        "losses.propos.prototypes.batch_prototypes",
        "theory.von_mises_fisher.log_density",
        "clustering.lloyd.kmeans",
    ),
)
def check_likelihood_can_fall() -> float:
    """Return how far the counterexample is from its closed form, and hard steps from monotone."""
    x, means = at_angles(50, -50), at_angles(10, -10)
    _, after = _hard_step(x, means)
    constant = von_mises_fisher.log_normalizer(np.asarray(1.0), n_features=2)
    exact = constant + x @ means.T - math.log(2.0)
    fall = np.mean(log_likelihood(log_joint(x, means, 1.0)))
    fall -= np.mean(log_likelihood(log_joint(x, after, 1.0)))
    cosines = np.exp(np.cos(np.radians([40.0, 60.0, 0.0, 100.0])))
    by_hand = math.log(np.sum(cosines[:2])) - math.log(np.sum(cosines[2:]))
    violations = [difference(fall, by_hand), excess(0.06, fall), difference(after, x)]
    violations.append(difference(log_joint(x, means, 1.0), exact))
    for seed in range(6):
        features, centers = random_units(seed, 60, 3), random_units(seed + 30, 5, 3)
        values = []
        for _ in range(12):
            labels, moved = _hard_step(features, centers)
            chosen = labels.astype(np.int64)
            values.append(float(np.sum(features * centers[chosen])))
            values.append(float(np.sum(features * moved[chosen])))
            centers = moved
        violations.append(excess(values[:-1], values[1:]))
        violations.append(below_by(values[0], values[-1], 1.0))
        found: list[float] = []
        constrained.kmeans(
            features,
            random_units(seed + 30, 5, 3),
            max_iter=12,
            progress=lambda state, _, found=found: found.append(state.objective),  # type: ignore[misc]
        )
        violations.append(excess(found[:-1], found[1:]))
        violations.append(excess(found[-1] - 1e-9, values[-1]))  # the same alternation
    return worst(*violations, *lloyd_violations())
