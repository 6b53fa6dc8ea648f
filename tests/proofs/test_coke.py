"""The parts of which the checks of CoKe's claims are made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dualclust.algos.bounds import sizes
from dualclust.algos.core.errors import InfeasibleBoundsError
from dualclust.algos.offline import _candidates as candidates
from dualclust.algos.offline import _search, assignment
from dualclust.algos.scores import sources
from dualclust.proofs.coke import labels, tables, theorem_1
from dualclust.proofs.references import optimality


def test_many_scores_take_the_path_of_few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the checks of candidates would be checks of the full problem again."""
    widths = []

    def spy(source: Any, low: Any, high: Any, *, width: int, max_entries: int | None = None) -> Any:
        widths.append(width)
        return candidates.collect_candidates(
            source, low, high, width=width, max_entries=max_entries
        )

    monkeypatch.setattr(_search, "collect_candidates", spy)
    few = optimality.full_problem(np.random.default_rng(1), 9, 4)
    assignment.assign_exact(few.scores, few.limits)
    assert widths == []
    many = optimality.reduced_problem(45, 8_300, 8)
    found = assignment.assign_exact(many.scores, many.limits)
    assert widths
    assert optimality.gap_by_hand(many.scores, many.limits, found) < 1e-8


def test_a_proof_by_hand_can_fail() -> None:
    few = optimality.full_problem(np.random.default_rng(2), 9, 4)
    found = assignment.assign_exact(few.scores, few.limits)
    assert optimality.gap_by_hand(few.scores, few.limits, found) < 1e-12
    worse = [
        found._replace(labels=np.roll(found.labels, 1)),
        found._replace(objective=found.objective + 1.0),
        found._replace(upper_bound=found.upper_bound - 1.0),
        found._replace(prices=found.prices + 0.25),
        found._replace(counts=found.counts + 1),
        found._replace(gap=0.5),
    ]
    for wrong in worse:
        assert optimality.gap_by_hand(few.scores, few.limits, wrong) > 1e-3


def test_regions_around_wrong_prices_truncate_candidates() -> None:
    low, high = np.zeros(4), np.full(4, 2.0)
    scores = np.asarray([[1.0, 0.5, 0.0, -1.0]])
    kept = candidates.collect_candidates(sources.score_source(scores), low, high, width=2)
    assert 2.0 <= float(kept.truncation[0]) < 2.0 + 1e-12  # rounded up
    assert candidates.TrustRegion(low, high).radius.shape == (4,)
    promised, n_truncated, n_solved = optimality.unsound_candidates(46, 75)
    assert promised < 1e-12
    assert n_truncated > 100
    assert n_solved > 15


def test_the_linear_program_meets_its_bounds() -> None:
    scores = np.asarray([[1.0, 0.0]] * 4)
    assert optimality.linear_program(scores, [2, 2])[0] == pytest.approx(2.0)
    assert optimality.linear_program(scores, [1, 1])[0] == pytest.approx(3.0)


def test_prices_keep_the_bound_on_regret_and_greedy_labels_do_not() -> None:
    """Rows that all prefer cluster 0: the check of C12 is not met by labels without prices."""
    scores = np.tile(np.asarray([1.0, 0.5, 0.0]), (4, 512, 1))
    share, best, tau, root = np.asarray([0.25, 0.25, 0.5]), 512 * 0.375, 4.0, math.sqrt(2 * 512)
    assert theorem_1._mean_excess(scores, best, share, tau, root) < 0.0
    short = 512 * float(share.max())  # of cluster 2, which greedy labels leave empty
    assert best - 512.0 + tau * short > tau * root


def test_a_label_softmax_is_that_of_the_definition() -> None:
    rows = labels._log_softmax(np.asarray([[0.0, math.log(3.0)]]))
    assert np.exp(rows) == pytest.approx(np.asarray([[0.25, 0.75]]))


def test_three_thousand_clusters_have_no_room_for_inward_bounds() -> None:
    with pytest.raises(InfeasibleBoundsError, match="2833 more"):
        sizes.SizeBounds.from_ratios(3000, n_samples=tables.IMAGES, lower=1.0, rounding="inward")
