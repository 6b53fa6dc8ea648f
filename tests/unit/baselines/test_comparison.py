"""All methods on one problem: what each promises, and whether the table says so."""

import numpy as np
import pytest
import torch

from dualclust.algos.baselines.comparison import (
    METHODS,
    Method,
    compare_assignments,
    level_prices,
    record,
    table,
    target_shares,
)
from dualclust.algos.baselines.sign_rule import SignRule, assign_sign_rule
from dualclust.algos.baselines.sinkhorn_transport import SWAV, SinkhornOptions, sinkhorn
from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import DeviceMismatchError, InvalidTypeError, InvalidValueError
from dualclust.algos.online.certificates import dual_value
from tests.compare import assert_close, assert_same_kind, to_numpy
from tests.problems import best_value, cone_scores


def bounds_of(xp, lower, upper, n):
    return xp.freeze(
        SizeBounds.from_counts(lower, upper, n_samples=n, xp=xp.namespace, device=xp.device)
    )


def test_every_method_on_every_library(xp, rng):
    scores = rng.normal(size=(24, 3))
    bounds = bounds_of(xp, [7, 7, 7], [9, 9, 9], 24)
    found = compare_assignments(xp.asarray(scores), bounds)
    assert [r.method for r in found] == list(METHODS)
    for r in found:
        labels = to_numpy(r.labels)
        assert_same_kind(r.labels, xp.asarray(np.zeros(24, np.int64)))
        assert_same_kind(r.prices, xp.asarray(np.zeros(3)))
        assert_same_kind(r.counts, xp.asarray(np.zeros(3, np.int64)))
        counts = np.bincount(labels, minlength=3)
        assert to_numpy(r.counts).tolist() == counts.tolist()
        assert r.violation == max(0, int((7 - counts).max()), int((counts - 9).max()))
        assert r.objective == pytest.approx(scores[np.arange(24), labels].sum())
        assert r.upper_bound == pytest.approx(
            dual_value(xp.asarray(scores), r.prices, bounds), rel=1e-12
        )
        assert not (r.guaranteed and r.violation)
    by_name = {r.method: r for r in found}
    optimum = by_name["exact"].objective
    assert by_name["exact"].upper_bound == pytest.approx(optimum)
    assert all(r.upper_bound >= optimum - 1e-9 for r in found)
    assert by_name["greedy"].objective > optimum  # and its violation says why
    assert by_name["greedy"].violation > 0


def test_the_module_lists_the_methods_and_their_promises():
    from dualclust.algos.baselines import comparison

    lines = [line.split() for line in comparison.__doc__.splitlines()]
    written = {words[0]: words for words in lines if words and words[0] in METHODS}
    assert set(written) == set(METHODS)
    for name, words in written.items():
        assert ("yes" in words) == METHODS[name].guaranteed


def test_soft_prices_prove_as_much_as_they_are_worth():
    """On cone scores the bound of Sinkhorn's prices is within epsilon log k per sample."""
    scores, bounds = (
        cone_scores(1000, 5),
        SizeBounds.from_ratios(5, n_samples=1000, lower=1.0, upper=1.0),
    )
    exact, soft, three = compare_assignments(scores, bounds, names=["exact", "sinkhorn", "swav"])
    assert exact.objective <= soft.upper_bound <= exact.objective + 1000 * 0.01 * np.log(5)
    assert soft.violation > 0
    assert three.violation > soft.violation
    assert not soft.guaranteed


def test_shares_aimed_at_are_inside_the_bounds(xp):
    bounds = bounds_of(xp, [0, 4, 4], [2, 6, 4], 10)
    assert_close(target_shares(bounds), xp.asarray(np.asarray([0.1, 0.5, 0.4])))
    bounds = bounds_of(xp, [3, 3, 3], [12, 12, 12], 12)
    assert_close(target_shares(bounds), xp.asarray(np.full(3, 1 / 3)))
    bounds = bounds_of(xp, [0, 5], [0, 5], 5)
    shares = to_numpy(target_shares(bounds))
    assert shares.min() > 0
    assert shares[1] > 0.999


@pytest.mark.parametrize("seed", range(10))
def test_the_level_of_prices_is_the_best_one(xp, seed):
    rng = np.random.default_rng(seed)
    n, k = 6, int(rng.integers(1, 5))
    sizes = np.bincount(rng.integers(0, k, n), minlength=k)
    lower = np.maximum(sizes - rng.integers(0, 4, k), 0).tolist()
    upper = np.minimum(sizes + rng.integers(0, 4, k), n).tolist()
    scores, prices = rng.normal(size=(n, k)), rng.integers(-8, 9, k) / 4.0
    bounds = bounds_of(xp, lower, upper, n)
    level = to_numpy(level_prices(xp.asarray(prices), bounds))
    assert np.ptp(level - prices) < 1e-12
    s = xp.asarray(scores)
    best = dual_value(s, xp.asarray(level), bounds)
    grid = [dual_value(s, xp.asarray(prices + c), bounds) for c in np.linspace(-4, 4, 33)]
    assert best <= min(grid) + 1e-9
    assert best >= best_value(scores, np.asarray(lower), np.asarray(upper)) - 1e-9


def test_a_method_of_ones_own(rng):
    scores, bounds = rng.normal(size=(6, 2)), SizeBounds.from_counts([3, 3], n_samples=6)
    own = Method(lambda s, b: (np.asarray([0, 0, 0, 1, 1, 1]), np.zeros(2)), True)
    found = compare_assignments(scores, bounds, names=["own", "exact"], others={"own": own})
    assert [r.method for r in found] == ["own", "exact"]
    assert found[0].violation == 0
    assert found[0].objective <= found[1].objective + 1e-12
    assert [r.method for r in compare_assignments(scores, bounds, others={"own": own})] == [
        *METHODS,
        "own",
    ]


def test_a_broken_promise_is_refused():
    scores, bounds = np.zeros((4, 2)), SizeBounds.from_counts([2, 2], n_samples=4)
    wrong = Method(lambda s, b: (np.zeros(4, np.int64), np.zeros(2)), True)
    with pytest.raises(InvalidValueError, match="'wrong' must be inside the bounds"):
        compare_assignments(scores, bounds, names=["wrong"], others={"wrong": wrong})
    honest = record("wrong", scores, np.zeros(4, np.int64), np.zeros(2), bounds)
    assert (honest.violation, honest.guaranteed) == (2, False)


def test_the_table_has_a_line_for_each(rng):
    scores, bounds = rng.normal(size=(6, 2)), SizeBounds.from_counts([3, 3], n_samples=6)
    lines = table(compare_assignments(scores, bounds)).splitlines()
    assert len(lines) == 1 + len(METHODS)
    assert len({len(line) for line in lines}) == 1
    assert table(()).split() == ["method", "objective", "upper", "bound", "violation", "guaranteed"]


def test_a_cluster_that_may_hold_nothing_is_aimed_at_a_thousandth_of_a_sample(xp):
    shares = target_shares(bounds_of(xp, [0, 5], [0, 5], 5))
    assert_close(shares, xp.asarray(np.asarray([0.001, 5.0]) / 5.001))


@pytest.mark.parametrize(("n", "batch"), [(5, 1), (24, 2), (10_230, 1023), (10_250, 1024)])
def test_the_methods_run_with_the_options_that_the_table_names(rng, n, batch):
    scores = rng.normal(size=(n, 2)) + np.asarray([1.0, 0.0])
    bounds = SizeBounds.from_counts([1, 2], [n, n - 1], n_samples=n)
    shares = {"shares": np.asarray([1 / n, 2 / n]), "upper_shares": np.asarray([1.0, (n - 1) / n])}
    expected = assign_sign_rule(scores, SignRule(0.01, batch), n_passes=10, **shares)
    labels, bias = METHODS["sign"].solve(scores, bounds)
    np.testing.assert_array_equal(labels, expected.labels)
    np.testing.assert_array_equal(bias, expected.bias)
    if n > 100:  # the others have no batches
        return
    for name, options in (("sinkhorn", SinkhornOptions(epsilon=0.01)), ("swav", SWAV)):
        expected = sinkhorn(scores, shares=target_shares(bounds), options=options)
        labels, prices = METHODS[name].solve(scores, bounds)
        np.testing.assert_array_equal(labels, expected.labels)
        np.testing.assert_array_equal(prices, expected.prices)


def test_the_table_says_what_the_records_hold():
    scores = np.asarray([[0.9, 0.1], [0.8, 0.1], [0.6, 0.5]])
    bounds = SizeBounds.from_counts([1, 1], n_samples=3)
    written = table(compare_assignments(scores, bounds, names=["greedy", "exact"]))
    assert written.splitlines() == [
        "method  objective  upper bound  violation  guaranteed",
        "greedy     2.3000       2.3000          1          no",
        "exact      2.2000       2.2000          0         yes",
    ]


def test_arguments_of_a_comparison_are_checked():
    scores, bounds = np.zeros((4, 2)), SizeBounds.from_counts([2, 2], n_samples=4)
    for names in ("exact", {"exact"}, 3):
        with pytest.raises(InvalidTypeError, match="names must be a list of names, got"):
            compare_assignments(scores, bounds, names=names)
    with pytest.raises(InvalidTypeError, match="others must map names to methods, got"):
        compare_assignments(scores, bounds, others=["own"])
    with pytest.raises(InvalidTypeError, match=r"others\['own'\] must be"):
        compare_assignments(scores, bounds, others={"own": len})
    with pytest.raises(InvalidValueError, match="scores must have shape"):
        compare_assignments(scores[:3], bounds, names=[])
    with pytest.raises(InvalidValueError, match="scores must be finite"):
        compare_assignments(scores + np.nan, bounds, names=[])
    with pytest.raises(InvalidTypeError, match="scores must have a real floating dtype"):
        compare_assignments(scores.astype(int), bounds, names=[])
    with pytest.raises(DeviceMismatchError, match="must be of the same"):
        compare_assignments(torch.asarray(scores), bounds, names=[])
    labels, prices = np.asarray([0, 0, 1, 1]), np.zeros(2)
    with pytest.raises(InvalidValueError, match="scores must be finite"):
        record("m", scores + np.nan, labels, prices, bounds)
    with pytest.raises(InvalidTypeError, match="scores must have a real floating dtype"):
        record("m", scores.astype(int), labels, prices, bounds)


def test_refusals_say_what_and_why():
    scores, bounds = np.zeros((4, 2)), SizeBounds.from_counts([2, 2], n_samples=4)
    labels, prices = np.asarray([0, 0, 1, 1]), np.zeros(2)
    with pytest.raises(InvalidValueError, match="names must be one of 'greedy'"):
        compare_assignments(scores, bounds, names=["best"])
    with pytest.raises(InvalidValueError, match="got those of a stream"):
        compare_assignments(scores, SizeBounds.for_stream(2), names=["greedy"])
    with pytest.raises(InvalidValueError, match="got those of a stream"):
        target_shares(SizeBounds.for_stream(2))
    with pytest.raises(InvalidValueError, match="scores must have shape"):
        record("m", scores[:3], labels, prices, bounds)
    with pytest.raises(InvalidValueError, match="labels must lie in"):
        record("m", scores, labels + 1, prices, bounds)
    with pytest.raises(InvalidValueError, match="prices must be finite"):
        record("m", scores, labels, prices + np.inf, bounds)
    with pytest.raises(InvalidValueError, match="prices must have shape"):
        level_prices(np.zeros(3), bounds)
    with pytest.raises(DeviceMismatchError, match="labels must be of the same"):
        record("m", scores, torch.asarray(labels), prices, bounds)


def test_of_two_levels_of_the_same_bound_the_first_is_taken():
    """Both kinks are least where the slope between them is 0: by hand."""
    bounds = SizeBounds.from_counts([0, 0], [4, 4], n_samples=4)
    assert level_prices(np.asarray([1.0, 0.0]), bounds).tolist() == [0.0, -1.0]
    assert level_prices(np.asarray([0.0, 1.0]), bounds).tolist() == [-1.0, 0.0]


def test_prices_and_bounds_come_from_one_library():
    scores, labels = np.zeros((4, 2)), np.asarray([0, 0, 1, 1])
    bounds, prices = SizeBounds.from_counts([2, 2], n_samples=4), np.zeros(2)
    theirs = SizeBounds.from_counts([2, 2], n_samples=4, xp=torch)
    for call in (
        lambda: level_prices(torch.asarray(prices), bounds),
        lambda: level_prices(prices, theirs),
        lambda: record("m", scores, labels, torch.asarray(prices), bounds),
        lambda: record("m", scores, labels, prices, theirs),
        lambda: compare_assignments(scores, theirs, names=[]),
    ):
        with pytest.raises(DeviceMismatchError, match="must be of the same"):
            call()
    with pytest.raises(InvalidTypeError, match="bounds must be"):
        target_shares(3)
