"""ProPos's alignment, its sampled positives, and what uniform means: P2, P8 to P11, P13, P25."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...algos.clustering import metrics
from ...algos.core import directions, random
from ...algos.core.errors import InvalidValueError
from ...algos.losses.propos import prototypes, scattering
from ..references.sphere_points import random_units
from ..references.split_mix import KNOWN_WORDS, normal_numbers, random_words
from ..references.violations import below_by, difference, excess, unless, worst
from ..registry.claims import Status, claim

Floats = NDArray[np.float64]

_Z = 4.75
"""Standard deviations that a normal statistic exceeds once in 500,000 draws, on both sides."""


def _normal_below(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def _excess_share(hits: int, n: int, probability: float) -> float:
    """Return by how much a share is further from its probability than `_Z` deviations."""
    deviation = math.sqrt(max(probability * (1.0 - probability), 1.0 / n) / n)
    return excess(abs(hits / n - probability), _Z * deviation)


def _rational_direction(t: int, u: int) -> tuple[Fraction, ...]:
    """Return a rational point of the unit sphere in R^3, by stereographic projection."""
    a, b = Fraction(t, 7), Fraction(u, 5)
    s = 1 + a * a + b * b
    return 2 * a / s, 2 * b / s, (s - 2) / s


@claim(
    id="P2",
    paper="ProPos",
    place="Eq. 3",
    statement="-2 g . f' = || g - f' ||^2 - 2.",
    hypotheses="g and f' have unit length, as the paper says.",
    status=Status.HOLDS,
    derivation="""
    || g - f' ||^2 = ||g||^2 + ||f'||^2 - 2 g . f', and the first two are 1. Without unit length it
    is false: g = f' = 0 gives 0 and -2. In floating point the two sides are not equally good:
    2 - 2 g . f' has no digits left where the vectors agree, the difference has all of them.
    """,
    tolerance=1e-14,
    covers=("losses.propos.scattering.positive_sampling_alignment",),
)
def check_cosine_and_distance() -> float:
    """Return the violation on rational unit vectors, exactly, and of our function on them."""
    points = [_rational_direction(t, u) for t in range(-6, 7, 3) for u in range(-4, 5, 2)]
    violations = []
    for g, f in itertools.product(points, repeat=2):
        dot = sum((a * b for a, b in zip(g, f, strict=True)), Fraction(0))
        squares = sum(((a - b) ** 2 for a, b in zip(g, f, strict=True)), Fraction(0))
        violations.append(unless(-2 * dot == squares - 2))
    x = np.asarray([[float(c) for c in p] for p in points])
    for i in range(len(points)):
        shifted = np.roll(x, i, axis=0)
        ours = float(scattering.positive_sampling_alignment(3.0 * x, 0.5 * shifted))
        violations.append(
            difference(ours - 2.0, -2.0 * float(np.mean(np.sum(x * shifted, axis=1))))
        )
    pairs = np.asarray([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]]), np.asarray([[1.0, 0], [0, 0], [1, 0]])
    ours = scattering.positive_sampling_alignment(*pairs)  # no angle counts as a right one
    violations.append(difference(ours, 2.0))
    empty = np.zeros((0, 2))
    violations.append(difference(scattering.positive_sampling_alignment(empty, empty), 0.0))
    near = np.asarray([[1.0, 1e-9]])
    ours = float(scattering.positive_sampling_alignment(near, np.asarray([[1.0, 0.0]])))
    return worst(*violations, abs(ours / 1e-18 - 1.0) - 1e-14)


@claim(
    id="P8",
    paper="ProPos",
    place="Eq. 8 to 10",
    statement="v = f + sigma eps is a sample of N(f, sigma^2 I); for sigma = 0, PSA is Eq. 3.",
    hypotheses="f has unit length, as section 3 says; Eq. 3 is meant up to its constant -2.",
    status=Status.HOLDS,
    derivation="""
    An affine map of a standard normal vector is normal with mean f and covariance sigma^2 I, and
    its derivative in f is the identity: gradients reach the network. At sigma = 0, v = f, and
    || g(f) - f' ||^2 is Eq. 3 plus 2 (P2).

    The released code adds the noise to the output of the projector *before* it is normalized. Since
    q + sigma eps has the direction of q / ||q|| + (sigma / ||q||) eps, its sigma is one of
    sigma / ||q|| on the sphere, and falls as features grow; both readings are options here.

    Check: the numbers are those of SplitMix64 under the method of Box and Muller, for several keys,
    streams and shapes, whose words are the published generator's; both readings; moments.
    """,
    tolerance=1e-12,
    covers=(
        "losses.propos.scattering.perturbed",
        "losses.propos.scattering.positive_sampling_alignment",
        "core.random.normal_noise",
    ),
)
def check_reparametrized_noise() -> float:
    """Return the violation of both readings, and of the moments (false alarm: 1e-5)."""
    n, d, sigma = 4096, 8, 0.25
    x = 10.0 * random_units(0, n, d)
    noise = random.normal_noise((n, d), key=1, xp=np)
    v = scattering.perturbed(x, noise, sigma=sigma)
    residual = (np.asarray(v) - x / 10.0) / sigma
    raw = scattering.perturbed(x, noise, sigma=sigma, on_sphere=False)
    exact = normal_numbers(n * d, 1, 0).reshape(n, d)
    other = 3.0 * np.random.default_rng(1).normal(size=(5, 3)), np.full((5, 3), 0.5)
    lengths = np.linalg.norm(other[0], axis=1, keepdims=True)
    scaled = scattering.perturbed(x, noise, sigma=sigma / 10.0)
    y = random_units(1, n, d)
    still = scattering.perturbed(x, noise, sigma=0.0)
    eq3 = -2.0 * float(np.mean(np.sum(x / 10.0 * y, axis=1)))
    covariance = residual.T @ residual / n - np.eye(d)
    return worst(
        *_noise_violations(),
        difference(noise, exact),
        difference(v, x / 10.0 + sigma * exact),
        difference(raw, x + sigma * exact),
        difference(scattering.perturbed(*other, sigma=0.3), other[0] / lengths + 0.15),
        difference(scattering.perturbed(*other, sigma=0.3, on_sphere=False), other[0] + 0.15),
        difference(np.asarray(raw) / 10.0, scaled),
        difference(still, x / 10.0),
        difference(scattering.positive_sampling_alignment(still, y) - 2.0, eq3),
        excess(np.abs(np.mean(residual, axis=0)), 5.5 / math.sqrt(n)),
        excess(np.abs(covariance), 5.5 * math.sqrt(2.0 / n)),
    )


def _noise_violations() -> list[float]:
    """Check the reference's words, and normal numbers by key, stream and shape."""
    violations = [
        unless(tuple(random_words(seed, len(words))) == words)
        for seed, words in KNOWN_WORDS.items()
    ]
    for key, stream, shape in ((7, 3, (3, 5)), (2**40 + 5, 2**30 + 1, (2, 2, 2)), (7, 4, (9,))):
        found = random.normal_noise(shape, key=key, stream=stream, xp=np)
        violations.append(
            difference(found, normal_numbers(math.prod(shape), key, stream).reshape(shape))
        )
        later = random.normal_noise(shape, key=key, stream=np.asarray(stream), xp=np)
        violations.append(difference(found, later))
    first = random.normal_noise((9,), key=7, stream=4, xp=np, dtype=np.float32)
    return [*violations, unless(first.dtype == np.float32)]


def _crossings(margin: float, sigma: float, n: int, faces: int = 1) -> int:
    """Count samples around f that leave a cell whose faces are at the distance `margin` from f.

    The faces are hyperplanes through the origin, as those of spherical k-means are, here with the
    normals e_1, ..., e_faces: f has these coordinates all equal to the margin.
    """
    d = faces + 1
    f = np.full(d, margin)
    f[-1] = math.sqrt(1.0 - faces * margin**2)
    noise = random.normal_noise((n, d), key=9, stream=faces, xp=np)
    v = scattering.perturbed(np.tile(f, (n, 1)), noise, sigma=sigma)
    return int(np.sum(np.any(np.asarray(v)[:, :faces] < 0.0, axis=1)))


def _own_crossings(margin: float, sigma: float, n: int, faces: int = 1) -> int:
    """Return the same from the numbers of the reference: m + sigma e < 0 for one normal number."""
    noise = normal_numbers(n * (faces + 1), 9, faces).reshape(n, faces + 1)[:, :faces]
    return int(np.sum(np.any(margin + sigma * noise < 0.0, axis=1)))


@claim(
    id="P9",
    paper="ProPos",
    place="Section 4.2",
    statement="PSA can guarantee that the sampled positives are from the same cluster.",
    hypotheses="None makes it true for sigma > 0; with probability it holds as below.",
    status=Status.REFUTED,
    derivation="""
    A normal distribution has a positive density everywhere, in every other cluster too. How often
    it leaves: the cells of spherical k-means are cones with faces through the origin, so that the
    normalization of v changes no side. Along the unit normal of a face at the distance m, v - f is
    N(0, sigma^2): it crosses with probability Phi(-m / sigma), for every dimension d. By the union
    bound a sample stays with probability at least 1 - (K - 1) Phi(-m / sigma). At m = sigma a face
    is crossed by 15.9% of all samples; features close to a face are no exception while clusters
    still form. As a probability the statement is a good one: at sigma = 0.001 and m = 0.01 it
    fails with 8e-24.
    """,
    counterexample="One face at the distance m = sigma: the share that crosses is Phi(-1) = 0.159.",
    covers=("losses.propos.scattering.perturbed",),
)
def check_samples_cross_faces() -> float:
    """Return how far the shares are from Phi and the union bound (false alarm: 3e-6)."""
    n, violations = 2**15, []
    for ratio in (0.5, 1.0, 2.0):
        hits = _crossings(0.01 * ratio, 0.01, n)
        violations.append(_excess_share(hits, n, _normal_below(-ratio)))
        violations.append(unless(hits == _own_crossings(0.01 * ratio, 0.01, n) > 0))
    several, bound = _crossings(0.02, 0.01, n, faces=9), 9 * _normal_below(-2.0)
    violations.append(excess(several / n, bound + _Z * math.sqrt(bound / n)))
    exact = 1.0 - (1.0 - _normal_below(-2.0)) ** 9  # of orthogonal normals
    violations.append(unless(several == _own_crossings(0.02, 0.01, n, faces=9)))
    violations.append(_excess_share(several, n, exact))
    long = np.full((1, 2), 5.0 / math.sqrt(2.0))  # on the sphere, or at the length it has
    one = np.asarray([[1.0, -1.0]])
    near, far = (
        np.asarray(scattering.perturbed(long, one, sigma=0.1, on_sphere=on)) for on in (True, False)
    )
    violations.append(excess(difference(near - long / 5.0, 0.1 * one), 1e-14))
    return worst(*violations, excess(difference(far - long, 0.1 * one), 1e-14))


@claim(
    id="P10",
    paper="ProPos",
    place="Eq. 11",
    statement="The target network is the moving average m theta' + (1 - m) theta.",
    hypotheses="0 <= m <= 1; m = 1 freezes the target and m > 1 diverges.",
    status=Status.HOLDS,
    derivation="""
    It is a definition; what makes it an average is that it contracts: for a constant theta,
    theta'_new - theta = m (theta' - theta), so that after t steps the distance is m^t of the first.
    m = 0 copies, m = 1 keeps to the last bit; the paper's [0, 1] includes a target that never
    learns. Prototypes average the same way, and are put back on the sphere.
    """,
    covers=(
        "losses.propos.prototypes.moving_average",
        "losses.propos.prototypes.update_prototypes",
    ),
)
def check_contraction() -> float:
    """Return the violation on dyadic numbers, zero tolerance."""
    rng = np.random.default_rng(0)
    violations = []
    for _ in range(50):
        target, online = (rng.integers(-64, 64, size=6) / 16.0 for _ in range(2))
        for m in (0.0, 0.25, 0.75, 1.0):
            now = target
            for t in range(1, 5):
                now = prototypes.moving_average(now, online, momentum=m)
                violations.append(difference(now - online, m**t * (target - online)))
    try:
        prototypes.moving_average(target, online, momentum=1.25)
        violations.append(1.0)
    except InvalidValueError:
        pass
    return worst(*violations, *_prototype_violations())


def _prototype_violations() -> list[float]:
    """Check how prototypes move on the sphere: rows of both batches, of one, of none."""
    a, b = random_units(2, 6, 3), random_units(3, 6, 3)
    b[4] = -a[4]  # cancels at momentum 1/2
    one = np.asarray([True, True, False, False, True, True])
    two = np.asarray([True, False, True, False, True, True])
    old, new = (prototypes.Prototypes(x * v[:, None], v) for x, v in ((a, one), (b, two)))
    violations = []
    for m in (0.0, 0.5, 0.75, 1.0):
        found = prototypes.update_prototypes(old, new, momentum=m)
        moved = m * a + (1.0 - m) * b
        lengths = np.linalg.norm(moved, axis=1, keepdims=True)
        exact = moved / np.where(lengths > 1e-9, lengths, 1.0)
        exact[1], exact[2], exact[3] = a[1], b[2], 0.0
        exact[4] = exact[4] if m != 0.5 else a[4]
        violations.append(excess(difference(found.vectors, exact), 1e-15))
        violations.append(unless(np.array_equal(found.valid, one | two)))
    return violations


@claim(
    id="P11",
    paper="ProPos",
    place="Section 5.2.1",
    statement="""
    Uniform directions have the standard deviation 1 / sqrt(d) per coordinate, and features with a
    standard deviation close to it are uniform.
    """,
    hypotheses="The first half needs none, and is exact. None makes the second true.",
    status=Status.REFUTED,
    derivation="""
    First half: a uniform direction and its opposite are equally likely, so that coordinates have
    mean 0; their squares sum to 1 and are alike, so that each has the mean 1 / d.

    Second half: for any features of unit length with mean vector m, the variances of the
    coordinates sum to 1 - ||m||^2. The figure sees nothing but how near the *mean* of all features
    is to the origin: two opposite points, a total collapse, have the full value.
    """,
    counterexample="""
    d = 256, half of the features at (1/16, ..., 1/16) and half at its opposite: the standard
    deviation is 1/16 = 1 / sqrt(d) in every coordinate.
    """,
    covers=("core.directions.unit_directions",),
)
def check_antipodal_features() -> float:
    """Return the violation of the counterexample, exactly, and of the identity to 1e-12."""
    atom = np.full((1, 256), 8.0)
    x = directions.unit_directions(np.concatenate([atom, -atom], axis=0)).vectors
    violations = [difference(np.std(x, axis=0), 1.0 / 16.0), difference(np.abs(x), 1.0 / 16.0)]
    spread = directions.unit_directions(np.concatenate([np.eye(16), -np.eye(16)])).vectors
    violations.append(difference(np.std(spread, axis=0), 0.25))  # its moments are the uniform ones
    figure = metrics.uniformity(np.concatenate([atom, -atom])), metrics.uniformity(atom)
    violations.append(difference(figure, (1.0 / 16.0, 0.0)))
    for seed in range(5):
        y = directions.unit_directions(
            np.random.default_rng(seed).normal(size=(40, 9)) + 1.0
        ).vectors
        total = float(np.sum(np.var(y, axis=0)))
        gap = difference(total, 1.0 - float(np.sum(np.mean(y, axis=0) ** 2)))
        violations.append(excess(gap, 1e-12))
        mean = float(np.mean(np.std(y, axis=0)))
        violations.append(excess(abs(metrics.uniformity(5.0 * np.asarray(y)) - mean), 1e-12))
    found = directions.unit_directions(
        np.asarray([[[3e300, -4e300]], [[0.0, 0.0]], [[3e-300, 4e-300]]])
    )
    violations.append(unless(np.array_equal(found.valid, [[True], [False], [False]])))
    violations.append(difference(found.vectors, [[[0.6, -0.8]], [[0.0, 0.0]], [[0.0, 0.0]]]))
    return worst(*violations)


@claim(
    id="P13",
    paper="ProPos",
    place="Section 8.1",
    statement="A normalized standard normal vector is approximately uniform if d is large.",
    hypotheses="None.",
    status=Status.ERRATUM,
    derivation="""
    Too weak: the normal density depends on ||z|| alone, so that z and Q z have one distribution for
    every rotation Q. So have their directions, and the uniform distribution is the only one on the
    sphere that no rotation changes. Exact for every d, not an approximation for large d. (What is
    approximate for large d is ||z|| = sqrt(d).)
    """,
    covers=("core.random.normal_noise",),
)
def check_normalized_normal_is_uniform() -> float:
    """Return by how much Kolmogorov's statistic is beyond its 1e-6 quantile for d = 2, 3 and 4."""
    n, violations = 2**17, []
    for stream in (2, 3):
        z = random.normal_noise((50, stream), key=3, stream=stream, xp=np)
        gap = difference(np.reshape(z, (-1,)), normal_numbers(50 * stream, 3, stream))
        violations.append(excess(gap, 1e-12))
    ranks = np.arange(n + 1) / n
    for d in (2, 3, 4):
        z = random.normal_noise((n, d), key=3, stream=d, xp=np)
        x = directions.unit_directions(z).vectors
        if d == 2:
            u = np.arctan2(x[:, 1], x[:, 0]) / (2.0 * np.pi) + 0.5
        elif d == 3:
            u = 0.5 * (x[:, 0] + 1.0)  # Archimedes: a coordinate is uniform
        else:
            u = x[:, 0] ** 2 + x[:, 1] ** 2  # in R^4, so is the share of two coordinates
        u = np.sort(u)
        distance = max(np.max(ranks[1:] - u), np.max(u - ranks[:-1]))
        violations.append(excess(math.sqrt(n) * distance, 2.70))
    return worst(*violations)


@claim(
    id="P25",
    paper="ProPos",
    place="Fig. 4 and 7",
    statement="""
    Sampled neighbors keep their class for sigma < 0.005 and less so at 0.01; results are robust for
    r in 1 to 8, sigma up to 0.001 and lambda_psl in 0.01 to 0.1.
    """,
    hypotheses="CIFAR-10 and CIFAR-20, ResNet-18.",
    status=Status.EMPIRICAL,
    derivation="""
    Measured there, not derivable. The trend in sigma is that of P9: the share that stays falls with
    sigma as Phi(m / sigma), with a threshold at sigma of about the margin m. A threshold between
    0.005 and 0.01 says that margins are of that order, some 0.02.
    """,
    covers=("losses.propos.scattering.perturbed",),
)
def check_preservation_trend() -> float:
    """Return the violation of the trend at the margin 0.02 (false alarm: 4e-6)."""
    n, violations, shares = 2**14, [], []
    for sigma in (0.001, 0.005, 0.01, 0.02):
        hits = _crossings(0.02, sigma, n)
        violations.append(_excess_share(hits, n, _normal_below(-0.02 / sigma)))
        violations.append(unless(hits == _own_crossings(0.02, sigma, n)))
        shares.append(hits / n)
    return worst(*violations, below_by(shares[1:-1], shares[2:], 0.01), shares[0])
