"""What labels prove: each term of the bound by its definition, and results in another unit."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline import SolverOptions
from dualclust.algos.offline._candidates import all_candidates
from dualclust.algos.offline._proof import (
    SMALLEST,
    OfflineAssignment,
    _labels_of_all_rows,
    in_unit,
    proven,
    rounding_of,
)
from dualclust.algos.offline.grouped import GroupedAssignment
from dualclust.algos.scores.sources import score_source
from dualclust.algos.scores.statistics import ScoresOutOfRangeError

OPTIONS = SolverOptions(chunk_rows=7)

ROUNDING = 2.0**-46
"""What sums of terms of 1 can be off by."""


def lost_by(scores, prices, labels, bounds, scale=0.0, **changed):
    """The gap of some labels, what they lose, and the labels."""
    scores, labels = np.asarray(scores), np.asarray(labels)
    kept = all_candidates(score_source(scores), like=np.zeros(2))._replace(**changed)
    slots = np.argmax(kept.clusters == labels[:, None], axis=1)
    own = SizeBounds.from_counts(*bounds, n_samples=len(scores))
    found, misplaced = proven(kept, slots, np.asarray(prices), own, scale, OPTIONS)
    assert found.labels.tolist() == labels.tolist()
    return found.gap, misplaced


def test_rounding_explains_as_much_as_it_may_be_and_no_more():
    """A loss of 2^-48 is 64 roundings of prices as large as 2^-2."""
    scores, bounds, scale = [[1.0, 1.0 + 2.0**-48]], ([0, 0], [1, 1]), 2.0**-2
    assert lost_by(scores, [0.0, 0.0], [0], bounds, scale) == (0.0, 0.0)
    gap, misplaced = lost_by(scores, [0.0, 0.0], [0], bounds, scale - 2.0**-40)
    assert gap > 0.0
    assert 0.0 < misplaced < 2.0**-48


def test_a_row_that_loses_nothing_explains_nothing():
    """Two rows of this scale would explain the loss of one."""
    scores, bounds, scale = [[1.0, 1.0 + 2.0**-48], [1.0, 0.0]], ([0, 0], [2, 2]), 0.15
    assert 2.0**-46 * scale < 2.0**-48 < 2.0**-46 * 2.0 * scale
    gap, misplaced = lost_by(scores, [0.0, 0.0], [0, 0], bounds, scale)
    assert gap > 0.0
    assert misplaced > 0.0


@pytest.mark.parametrize("price", [1e15, 1e17, 1e200])
def test_prices_of_another_scale_explain_nothing(price):
    """Both clusters cost the same, and rows are in each other's place: they lose 2, as without."""
    scores, bounds = [[2.0, 1.0], [1.0, 2.0]], ([1, 1], [1, 1])
    gap, misplaced = lost_by(scores, [price, price], [1, 0], bounds, price)
    assert gap == pytest.approx(0.5)
    assert misplaced <= 2.0
    assert lost_by(scores, [price, price], [0, 1], bounds, price)[0] == 0.0


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e9])
def test_a_loss_below_the_rounding_of_large_scores_is_still_lost(offset):
    """Scores far from 0 have large sums; what rows differ by is not rounded with them."""
    scores = np.asarray([[1.0, 1.5], [1.0, 0.0]]) + offset
    gap, misplaced = lost_by(scores, [0.0, 2.0**-20], [0, 1], ([1, 1], [1, 1]), 1.0)
    lost = 0.5 + 2.0**-20 + 1.0 - 2.0**-20
    assert gap == pytest.approx(lost / (1.0 + 2.0 * offset + lost), rel=1e-12)
    assert misplaced == pytest.approx(lost, rel=1e-12)


def test_a_price_that_makes_up_for_a_score_does_so_without_rounding():
    """float64 has no number between 1e17 and 1e17 + 16."""
    for score, price in ((-1e17, 1e17), (-(2.0**80), 2.0**80)):
        gap, misplaced = lost_by([[1.0, score]], [0.0, price], [1], ([0, 1], [1, 1]))
        assert gap == pytest.approx(1.0 / -score, rel=1e-12, abs=0.0)
        assert misplaced == 1.0


def test_what_a_truncated_cluster_may_be_worth_beyond_the_label_is_lost():
    """The row has the better of two candidates, 2; a cluster that was cut off may be worth 5."""
    worth = {"truncation": np.asarray([5.0])}
    gap, misplaced = lost_by([[2.0, 1.0]], [0.0, 0.0], [0], ([0, 0], [1, 1]), **worth)
    assert gap == pytest.approx(3.0 / 5.0, rel=1e-15)
    assert misplaced == 0.0  # a larger window of the paths would not help


def test_a_truncated_cluster_that_is_worth_the_label_explains_nothing():
    """The row loses half a unit beside another candidate, which is no larger."""
    worth = {"truncation": np.asarray([1e17])}
    gap, misplaced = lost_by([[1e17, 1e17]], [0.0, 0.5], [0], ([0, 0], [1, 0]), **worth)
    assert gap == pytest.approx(0.5e-17, rel=1e-9, abs=0.0)
    assert misplaced == pytest.approx(0.5)


def test_a_far_way_of_the_prices_explains_no_more_than_the_rounding_of_the_objective():
    """Weak duality holds for the prices of the proof, wherever they have been before."""
    scores, bounds = [[2.0, 1.0], [1.0, 2.0]], ([1, 1], [1, 1])
    for scale in (0.0, 1e17):
        assert lost_by(scores, [0.5, 0.25], [1, 0], bounds, scale)[0] == pytest.approx(0.5)
    # Of labels that are all best, what is paid for bounds that are not reached.
    zero = all_candidates(score_source(np.ones((4, 2))), like=np.zeros(2))
    loose = SizeBounds.from_counts([1, 1], [3, 3], n_samples=4)
    slack = proven(zero, np.asarray([0, 0, 1, 1]), np.full(2, 0.5), loose, 1e17, OPTIONS)
    assert slack[0].upper_bound == pytest.approx(slack[0].objective + 1.0, rel=1e-13)
    assert slack[0].upper_bound > slack[0].objective + 1.0  # rounded up


def test_prices_of_bounds_that_are_not_reached_are_lost():
    scores = np.zeros((4, 2))
    kept = all_candidates(score_source(scores), like=np.zeros(2))
    slots = np.argmax(kept.clusters == np.asarray([[0], [0], [1], [1]]), axis=1)
    bounds = SizeBounds.from_counts([1, 1], [3, 3], n_samples=4)
    for prices, lost in (([0.5, 0.5], 1.0), ([-0.25, -0.25], 0.5), ([0.0, 0.0], 0.0)):
        found, _ = proven(kept, slots, np.asarray(prices), bounds, 0.0, OPTIONS)
        assert lost <= found.upper_bound <= lost * (1.0 + 2.0**-45)
        free, _ = proven(kept, slots, np.asarray(prices), bounds, 0.0, OPTIONS, or_zero=True)
        assert (free.upper_bound, free.prices.tolist()) == (0.0, [0.0, 0.0])  # which pay nothing


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e17])
def test_rounding_of_prices_explains_what_a_truncated_cluster_seems_to_be_worth(scale):
    """As much as the scale of the prices, and no more than the label, which is worth 1."""
    kept = all_candidates(score_source(np.asarray([[1.0, 0.0]])), like=np.zeros(2))
    bounds = SizeBounds.from_counts([0, 0], n_samples=1)
    for beyond in (0.75 * ROUNDING, 1.5 * ROUNDING):
        cut = kept._replace(truncation=np.asarray([1.0 + beyond]))
        slots = np.zeros(1, np.int64)
        found, misplaced = proven(cut, slots, np.zeros(2), bounds, scale, OPTIONS)
        is_lost = beyond > ROUNDING or scale == 0.0
        assert found.upper_bound == 1.0 + beyond * is_lost
        assert (found.status == "optimal") != is_lost
        assert misplaced == 0.0  # beside the candidates the label is the best


@pytest.mark.parametrize(("scale", "size"), [(1.0, 1.0), (0.25, 0.25), (1e17, 4.0)])
def test_what_prices_pay_is_explained_by_their_scale_and_no_more_than_the_labels(scale, size):
    """Four rows of score 1 in two clusters that might have one row less: both prices pay."""
    kept = all_candidates(score_source(np.ones((4, 2))), like=np.zeros(2))
    bounds = SizeBounds.from_counts([1, 1], [3, 3], n_samples=4)
    for paid, is_lost in ((0.75, False), (1.5, True)):
        lost = paid * size * ROUNDING
        prices = np.full(2, 0.5 * lost)
        slots = np.asarray([0, 0, 1, 1])
        found, _ = proven(kept, slots, prices, bounds, scale, OPTIONS)
        assert found.gap == (pytest.approx(lost / 4.0, rel=1e-6) if is_lost else 0.0)
        assert found.upper_bound == 4.0 + lost * is_lost


@pytest.mark.parametrize("signs", [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]])
def test_sums_that_overflow_need_another_unit(signs):
    """Where scores cancel, their absolute values do."""
    kept = all_candidates(score_source(np.zeros((4, 2))), like=np.zeros(2))
    kept = kept._replace(values=np.asarray(signs)[:, None] * np.full((4, 2), 1.5 * 2.0**1022))
    bounds = SizeBounds.from_counts([0, 0], n_samples=4)
    with np.errstate(over="ignore"), pytest.raises(ScoresOutOfRangeError):
        proven(kept, np.zeros(4, np.int64), np.zeros(2), bounds, 0.0, OPTIONS)


def made(objective=3.0, upper=4.0, rounding=0.5, price=-1.5):
    labels, counts, prices = np.asarray([0, 1]), np.asarray([1, 2]), np.asarray([price, 0.25])
    return OfflineAssignment(labels, counts, prices, objective, upper, rounding, 0, 0.125)


def test_a_result_in_the_unit_of_the_scores():
    own = made()
    assert in_unit(own, 0) is own
    for exponent in (-3, 5, 1000, -1060):
        found = in_unit(own, exponent)
        assert found.objective == math.ldexp(3.0, exponent)
        assert found.upper_bound == math.ldexp(4.0, exponent)
        assert found.rounding == math.ldexp(0.5, exponent) + SMALLEST
        assert found.prices.tolist() == [math.ldexp(-1.5, exponent), math.ldexp(0.25, exponent)]
        assert (found.gap, found.violation, found.labels) == (0.125, 0, own.labels)
    # Each of three rows may have lost a digit, of the coarser unit.
    for units in ([1000], [10, 1000]):
        assert in_unit(made(rounding=0.0), *units).rounding == math.ldexp(3.0, 1000 - 1074)
    assert (SMALLEST, rounding_of(1.0)) == (5e-324, 2.0**-46)


def test_prices_of_groups_have_the_same_unit():
    own = made()
    prices = np.asarray([[0.5, -(2.0**30)]])
    grouped = GroupedAssignment(
        own.labels, own.counts, None, own.prices, prices, 3.0, 4.0, 0.5, 0.0
    )
    found = in_unit(grouped, 5)
    assert found.group_prices.tolist() == [[16.0, -(2.0**35)]]
    assert (found.prices.tolist(), found.objective) == ([-48.0, 8.0], 96.0)
    with pytest.raises(InvalidValueError, match="scores must have prices that float64 holds"):
        in_unit(grouped, 994)


@pytest.mark.parametrize("large", ["objective", "upper", "rounding", "price"])
def test_a_number_that_does_not_fit_is_an_error(large):
    what = "prices" if large == "price" else "a sum"
    words = f"scores must have {what} that float64 holds, .*: the labels stay the same"
    with pytest.raises(InvalidValueError, match=words):
        in_unit(made(**{large: 2.0**30}), 994)
    found = in_unit(made(**{large: 2.0**30}), 993)
    assert max(found.upper_bound, found.rounding, found.prices.max()) < math.inf


def test_labels_of_more_than_a_million_rows():
    """Free rows get what was chosen for them, in their order, in every part; others keep theirs."""
    n = 2**20 + 20_000
    labels, is_free = np.arange(n) % 3, np.arange(n) % 7 == 0
    chosen = np.random.default_rng(0).integers(0, 3, is_free.sum())
    rows = SimpleNamespace(labels=labels, is_free=is_free, first_free=0)
    expected = labels.copy()
    expected[is_free] = chosen
    found = _labels_of_all_rows(rows, chosen, SolverOptions())
    np.testing.assert_array_equal(found, expected)
