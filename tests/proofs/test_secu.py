"""The claims of SeCu's supplement: each check passes, and notices each planted error."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dualclust.algos import hardness_centers
from dualclust.proofs import secu, secu_centers, secu_tables
from dualclust.proofs.registry import REGISTRY, Status
from tests.proofs.planted import assert_noticed, original, scaled, shifted

SECU = "dualclust.proofs.secu."
CENTERS = "dualclust.proofs.secu_centers."
TABLES = "dualclust.proofs.secu_tables."
SIZES = "dualclust.proofs.feasible_sizes."
ALGOS = "dualclust.algos."
CLAIMS = [c for c in REGISTRY.values() if c.paper == secu.PAPER]


def _last_tie(f: Any) -> Any:
    """Ties at the highest index: scores in reversed order."""

    def wrong(scores: Any, *args: Any, **options: Any) -> Any:
        labels, state = f(scores[:, ::-1], *args, **options)
        return scores.shape[1] - 1 - labels, state

    return wrong


def _upper_twice(f: Any) -> Any:
    """An upper dual that charges where it should give."""

    def wrong(scores: Any, duals: Any, **options: Any) -> Any:
        labels, state = f(scores, duals._replace(upper=-duals.upper), **options)
        return labels, state._replace(upper=duals.upper)

    return wrong


def _greedy_stream(f: Any) -> Any:
    """Labels without prices, caps and completion."""

    def wrong(scores: Any, rho: Any, rho_up: Any, counts: Any, **options: Any) -> Any:
        labels = np.asarray(scores).argmax(axis=1)
        sizes = counts + np.bincount(labels, minlength=scores.shape[1])
        return labels, rho, rho_up, sizes, -1

    return wrong


def _random_stream(f: Any) -> Any:
    def wrong(scores: Any, *args: Any, **options: Any) -> Any:
        labels, *rest = f(scores, *args, **options)
        return np.roll(labels, 1), *rest

    return wrong


def _rolled_assignment(f: Any) -> Any:
    def wrong(*args: Any, **options: Any) -> Any:
        result = f(*args, **options)
        return result._replace(labels=np.roll(result.labels, 1))

    return wrong


def _signs(f: Any) -> Any:
    def wrong(duals: Any, sizes: Any, n: int, **options: Any) -> Any:
        return f(duals, sizes, n, **(options | {"step_size": -options["step_size"]}))

    return wrong


def _outward(f: Any) -> Any:
    return lambda *args, **options: f(*args, **(options | {"rounding": "outward"}))


def _no_upper(f: Any) -> Any:
    """Nobody asks whether the upper bounds leave enough room."""
    return lambda low, high, n: f(low, [*high[:-1], high[-1] + n], n)


def _rounded_down(f: Any) -> Any:
    return lambda value: -f(-value)


def _other_label(f: Any) -> Any:
    def wrong(scores: Any, frozen: Any, labels: Any, **options: Any) -> Any:
        return f(scores, frozen, (labels + 1) % scores.shape[-1], **options)

    return wrong


def _hotter(f: Any) -> Any:
    def wrong(*args: Any, temperature: float, **options: Any) -> Any:
        return f(*args, temperature=1.1 * temperature, **options)

    return wrong


def _rounded_hardness(f: Any) -> Any:
    """``1 - p`` by subtraction in float32."""

    def wrong(x: Any, labels: Any, centers: Any, *, temperature: float) -> Any:
        e = np.exp((x @ centers.T / temperature).astype(np.float32))
        return (np.float32(1.0) - e[np.arange(len(x)), labels] / e.sum(axis=1)).astype(np.float64)

    return wrong


def _plain_mean(f: Any) -> Any:
    """The k-means center: all weights 1."""
    return lambda x, labels, centers, *, temperature: np.ones(len(x))


def _mean_target(f: Any) -> Any:
    """The Frank-Wolfe target without hardness, with a gap that claims success."""

    def wrong(w: Any, start: Any, x: Any, labels: Any, member: Any, *rest: Any) -> Any:
        pull = member.T @ x
        norm = np.linalg.norm(pull, axis=1, keepdims=True)
        target = np.where(norm > 0, pull / np.where(norm > 0, norm, 1.0), start)
        return target, np.abs(target - w).sum(axis=1)

    return wrong


def _all_clusters(f: Any) -> Any:
    """The log-sum-exp over all clusters, the own one included."""

    def wrong(x: Any, labels: Any, centers: Any, temperature: float) -> Any:
        return np.log(np.exp(x @ centers.T / temperature).sum(axis=1))

    return wrong


def _row(column: int, row: int, value: float) -> Any:
    """A table with one number mistyped."""

    def change(table: Any) -> Any:
        rows = [list(r) for r in table]
        rows[row][column] = value
        return tuple(tuple(r) for r in rows)

    return change


def _setting(f: Any) -> Any:
    return {"secu-imagenet": f["secu-imagenet"]._replace(eta=2.0)}


def _short_chunk(f: Any) -> Any:
    return lambda name: type(f(name))(step_size=f(name).step_size, chunk_size=128)


def _all_valid(f: Any) -> Any:
    def wrong(*args: Any, **options: Any) -> Any:
        found = f(*args, **options)
        return found._replace(valid=np.ones_like(found.valid))

    return wrong


def _quadratic(f: Any) -> Any:
    """The weight that grows as the square of the number of samples."""
    return lambda n: f(n).__class__(6_000.0 * (n / 50_000) ** 2, n)


PLANTED = [
    ("S1", SECU + "_misses", lambda f: lambda labels, k: f(labels % 2, k)),
    ("S1", ALGOS + "prototypes.batch_prototypes", _all_valid),
    ("S2", SECU + "_ratio_of_variances", lambda f: lambda k, a2: 1 / (1 - a2)),
    (
        "S2",
        SECU + "_ratio_of_variances",  # right for the simplex, wrong for independent means
        lambda f: lambda k, a2: (1 - a2 / (k - 1) ** 2) / (1 - a2),
    ),
    ("S2", SECU + "_variance", scaled(1.01)),
    ("S3a", ALGOS + "losses.center_loss", _hotter),
    ("S3a", ALGOS + "losses.center_loss", _other_label),
    ("S3a", CENTERS + "_distance_loss", lambda f: lambda x, c, y, t: f(x, c, y, 2 * t)),
    ("S3b", ALGOS + "losses.log_softmax", _hotter),
    ("S3b", ALGOS + "losses.log_softmax", shifted(1e-6)),
    ("S3c", ALGOS + "hardness_centers.hardness", _plain_mean),
    ("S3c", ALGOS + "hardness_centers._linear_minimum", _mean_target),
    ("S3c", ALGOS + "losses.center_loss", scaled(-1.0)),
    ("S3d", CENTERS + "_printed_gradient", scaled(-1.0)),
    ("S3d", CENTERS + "_printed_gradient", lambda f: lambda x, q, w: -(q @ x) / q.sum()),
    ("S3d", CENTERS + "_kappa", scaled(0.1)),
    ("S3d", ALGOS + "hardness_centers.hardness", _plain_mean),
    ("S3d", ALGOS + "losses.center_loss", _hotter),
    ("S3e", ALGOS + "hardness_centers._sigmoid", shifted(1e-15)),
    ("S3e", ALGOS + "hardness_centers._log_others", _all_clusters),
    ("S3e", ALGOS + "hardness_centers.hardness", _rounded_hardness),
    ("S4", ALGOS + "duals.assign_batch", _upper_twice),
    ("S4", ALGOS + "duals.update_duals", _signs),
    ("S5", ALGOS + "duals.update_duals", _signs),
    ("S5", ALGOS + "certificates.dual_value", shifted(0.01)),
    ("S5", ALGOS + "certificates.dual_value", scaled(0.5)),
    ("S5", ALGOS + "bounds.from_ratios", _outward),
    ("S5", SIZES + "_room", _no_upper),
    ("S5", SIZES + "_ceil", _rounded_down),
    ("S6", ALGOS + "losses.center_loss", scaled(4.0)),
    ("S6", ALGOS + "losses.center_loss", lambda f: lambda *a, **o: f(*a, **o).sum()),
    ("S7", ALGOS + "duals.assign_batch", _last_tie),
    ("S7", ALGOS + "assignment.assign", _rolled_assignment),
    ("S7", ALGOS + "assignment.assign_stream", _random_stream),
    ("S8", TABLES + "_TABLE_2", _row(2, 0, 5_000)),
    ("S8", TABLES + "_TABLE_2", _row(2, 3, 3_489)),
    ("S8", ALGOS + "assignment.assign_stream", _greedy_stream),
    ("S9", ALGOS + "entropy_assignment.published_rule", _quadratic),
    ("S10", TABLES + "_TABLE_1", lambda table: table | {512: 88.0}),
    ("S10", TABLES + "_TABLE_1", lambda table: table | {128: 88.2, 256: 88.1}),
    ("S11", TABLES + "_TABLE_3", lambda table: table | {64: 88.4}),
    ("S11", ALGOS + "duals.update_duals", _signs),
    ("S12", TABLES + "_TABLE_2", _row(1, 2, 5_120)),
    ("S12", TABLES + "_TABLE_2", _row(2, 2, 4_622)),
    ("S12", TABLES + "_TABLE_2", _row(3, 2, 88.6)),
    ("S12", TABLES + "_linear_program", lambda f: lambda s, gamma: -f(s, gamma)),
    ("S13", ALGOS + "steps.PUBLISHED", _setting),
    ("S13", ALGOS + "steps.published_steps", _short_chunk),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.id)
def test_a_check_stands_and_repeats(claim: Any) -> None:
    worst = claim.check()
    assert worst <= claim.tolerance
    assert claim.check() == worst


@pytest.mark.parametrize(("claim_id", "target", "change"), PLANTED)
def test_a_planted_error_is_noticed(
    monkeypatch: pytest.MonkeyPatch, claim_id: str, target: str, change: Any
) -> None:
    assert_noticed(claim_id, monkeypatch, target, change(original(target)))


def test_every_mutation_listed_is_planted() -> None:
    listed = {(c.id, target) for c in CLAIMS for target in c.mutations}
    assert listed == {(claim_id, target) for claim_id, target, _ in PLANTED}


def test_every_row_has_a_verdict() -> None:
    rows = {f"S{i}" for i in range(1, 14) if i != 3} | {f"S3{c}" for c in "abcde"}
    assert {c.id for c in CLAIMS} == rows
    verdicts = {c.id: c.status for c in CLAIMS}
    refuted = {i for i, s in verdicts.items() if s is Status.REFUTED}
    assert refuted == {"S3c", "S3d", "S8"}
    assert {i for i, s in verdicts.items() if s is Status.ERRATUM} == {"S3e", "S6", "S9"}
    assert all(REGISTRY[i].counterexample for i in refuted)


def test_the_printed_variance_is_off_by_this_at_the_simplex() -> None:
    a2, k = Fraction(16, 25), 10
    printed = secu._ratio_of_variances(k, a2) * (1 - a2)
    assert float(1 - printed) == pytest.approx(0.0711, abs=1e-4)
    assert float(a2 / (k - 1) ** 2) == pytest.approx(0.0079, abs=1e-4)


def test_the_printed_step_of_gradient_descent_cycles() -> None:
    half = math.radians(40.0)
    x = np.asarray([[math.cos(half), math.sin(half)], [math.cos(half), -math.sin(half)]])
    turn = math.radians(1.0)
    centers = np.asarray([[math.cos(turn), math.sin(turn)], [-1.0, 0.0]])
    assert secu_centers._iterate(x, centers, 0.05, 1.0) > 1.0
    labels = np.zeros(2, dtype=np.int64)
    q = hardness_centers.hardness(
        x, labels, np.asarray([[1.0, 0.0], [-1.0, 0.0]]), temperature=0.05
    )
    assert secu_centers._kappa(x, q, np.asarray([1.0, 0.0]), 0.05) == pytest.approx(10.79, abs=0.01)


def test_the_linear_program_meets_its_bounds() -> None:
    scores = np.asarray([[1.0, 0.0]] * 4)
    assert secu_tables._linear_program(scores, 1.0) == pytest.approx(2.0)
    assert secu_tables._linear_program(scores, 0.5) == pytest.approx(3.0)
