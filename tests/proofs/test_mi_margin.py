"""The claims of the MI + margin supplement: each passes, and notices each planted error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust.algos import pseudo_labels_energy
from dualclust.proofs import mi_margin, mi_margin_labels
from dualclust.proofs.registry import REGISTRY, Status
from tests.proofs.planted import assert_noticed, original, scaled, shifted

LOSS = "dualclust.proofs.mi_margin."
LABELS = "dualclust.proofs.mi_margin_labels."
ALGOS = "dualclust.algos."
CLAIMS = [c for c in REGISTRY.values() if c.paper == mi_margin.PAPER]


def _concave(f: Any) -> Any:
    """The fairness term with the other sign."""

    def wrong(sigma: Any, y: Any, *, balance: float, beta: float = 1.0, u: Any = None) -> Any:
        alone = f(sigma, y, balance=0.0, beta=beta, u=u)
        return 2.0 * alone - f(sigma, y, balance=balance, beta=beta, u=u)

    return wrong


def _with(**changed: Any) -> Any:
    """Make a wrong function of a right one: the same with other options."""
    return lambda f: lambda *args, **options: f(*args, **(options | changed))


def _forgotten_beta(f: Any) -> Any:
    """N = M instead of M / beta."""

    def wrong(sigma: Any, y: Any, *, balance: float, beta: float, u: Any) -> Any:
        return f(sigma, y, balance=balance * beta, beta=beta, u=u)

    return wrong


def _unsolved(f: Any) -> Any:
    """Labels that are the outputs, sold as the solution."""

    def wrong(sigma: Any, **options: Any) -> Any:
        result = f(sigma, **options)
        keep = {name: options[name] for name in ("balance", "beta", "u") if name in options}
        value = pseudo_labels_energy.label_objective(sigma, sigma, **keep)
        gap = pseudo_labels_energy.label_gap(sigma, sigma, **keep)
        return result._replace(labels=sigma, objective=value, gap=gap)

    return wrong


def _floored(f: Any) -> Any:
    """The solution for outputs that were floored far too high."""
    return lambda sigma, **options: f(0.99 * sigma + 0.01 / sigma.shape[1], **options)


def _no_prior(f: Any) -> Any:
    return lambda scores, prior=None, **options: f(scores, None, **options)


def _no_margin(f: Any) -> Any:
    def wrong(scores: Any, weights: Any, prior: Any = None, **options: Any) -> Any:
        return f(scores, 0.0 * weights, prior, **options)

    return wrong


def _long_norm(f: Any) -> Any:
    """The norm itself, not its square."""
    return lambda v, *, margin_weight: f(v, margin_weight=margin_weight) ** 0.5


def _row(name: str, *values: float) -> Any:
    return lambda table: table | {name: values}


PLANTED = [
    ("M1", ALGOS + "pseudo_labels_energy.label_objective", _concave),
    ("M1", ALGOS + "pseudo_label_losses.pseudo_label_energy", _with(beta=0.7)),
    ("M1", LABELS + "_curvature", scaled(1.05)),
    ("M2", ALGOS + "information_losses.prior_divergence", _no_prior),
    ("M2", ALGOS + "information_losses.prior_divergence", shifted(1e-9)),
    ("M2", ALGOS + "information_losses.mutual_information", scaled(-1.0)),
    ("M2", ALGOS + "information_losses.mean_entropy", scaled(1.001)),
    ("M2", ALGOS + "information_losses.information_margin_loss", _with(fairness_weight=1.3)),
    ("M3", ALGOS + "pseudo_labels_em.em_step", _forgotten_beta),
    ("M3", ALGOS + "pseudo_labels.pseudo_labels", _unsolved),
    ("M3", ALGOS + "pseudo_labels_energy.label_objective", _concave),
    ("M3", LABELS + "_printed_step", lambda f: lambda s, y, lam, n, u: f(s, y, lam, 1.1 * n, u)),
    ("M3", ALGOS + "pseudo_labels.pseudo_labels", _floored),
    ("M3", ALGOS + "pseudo_label_losses.pseudo_label_loss", _with(margin_weight=0.2)),
    ("M4", ALGOS + "pseudo_labels_em.em_labels", _with(epsilon=1e-6)),
    ("M4", ALGOS + "pseudo_labels_em.em_labels", _with(epsilon=0.0)),
    ("M4", ALGOS + "pseudo_labels.pseudo_labels", _unsolved),
    ("M4", ALGOS + "pseudo_label_losses.pseudo_label_divergence", scaled(0.5)),
    ("M4", LABELS + "_ZERO", lambda sigma: 0.9 * sigma + 0.05),
    ("M5", ALGOS + "information_losses.mean_entropy", shifted(1e-9)),
    ("M5", ALGOS + "information_losses.mean_entropy", _with(temperature=1.1)),
    ("M5", ALGOS + "information_losses.margin_term", _long_norm),
    ("M6", ALGOS + "information_losses.information_margin_loss", _no_margin),
    ("M6", ALGOS + "information_losses.information_margin_loss", _with(margin_weight=10.0)),
    ("M6", ALGOS + "information_losses.margin_term", scaled(0.0)),
    ("M7", LOSS + "_FIGURE_5", lambda pair: (63.0, 53.25)),
    ("M8", LOSS + "_side_after", lambda f: lambda n, k, s, p: -((k - n - 2 * p) // s) + 1),
    ("M8", LOSS + "_VGG4", lambda table: table | {"grey": (32, *table["grey"][1:])}),
    ("M9", LOSS + "_TABLE_2", _row("ours", 47.20, 41.31, 26.76)),
    ("M9", LOSS + "_TABLE_2", _row("ours", 47.40, 41.13, 26.76)),
    ("M9", LOSS + "_TABLE_2", _row("IIC", 44.73, 36.6, 26.17)),
    ("M9", ALGOS + "joint_information.joint_information_loss", _with(entropy_weight=1.5)),
    ("M9", ALGOS + "self_labeling.self_labeling_loss", scaled(0.5)),
    ("M9", ALGOS + "self_labeling.transport_objective", _with(sharpness=20.0)),
    ("M10", ALGOS + "pseudo_labels_em.em_labels", lambda f: lambda s, **options: s),
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
    assert {c.id for c in CLAIMS} == {f"M{i}" for i in range(1, 11)}
    verdicts = {c.id: c.status for c in CLAIMS}
    assert verdicts["M4"] is Status.REFUTED
    assert REGISTRY["M4"].counterexample
    assert {i for i, s in verdicts.items() if s is Status.EXTRA} == {"M1", "M2", "M3", "M6"}
    assert {i for i, s in verdicts.items() if s is Status.HOLDS} == {"M5", "M8"}


def test_the_first_printed_step_keeps_a_zero_and_divides_by_one() -> None:
    third = np.full(2, 0.5)
    y = mi_margin_labels._printed_step(
        mi_margin_labels._ZERO, mi_margin_labels._ZERO, 3.0, 3.0, third
    )
    assert (y[:2, 1] == 0.0).all()
    with np.errstate(invalid="ignore"):
        dead = mi_margin_labels._DEAD
        assert np.isnan(mi_margin_labels._printed_step(dead, dead, 3.0, 3.0, third)).any()


def test_the_numbers_printed_for_the_stuck_start() -> None:
    sigma = mi_margin_labels._ZERO
    stuck = np.asarray([[1.0, 0.0], [1.0, 0.0], [0.16, 0.84]])
    value = pseudo_labels_energy.label_objective(sigma, stuck, balance=3.0)
    assert float(value) == pytest.approx(2.7920, abs=1e-4)


def test_the_widest_strip_separates_the_two_sides() -> None:
    direction, margin = mi_margin._largest_margin()
    assert (mi_margin._SIDE @ direction >= margin - 1e-9).all()
