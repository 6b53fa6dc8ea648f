"""Steps of the trust region one by one: when it is accepted, grown, moved, and learned on more."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions, _trust_region
from dualclust.algos.offline._candidates import AT_EDGE, TrustRegion, next_region
from dualclust.algos.offline._region_from_rows import (
    LEAST_REACH,
    RegionLimit,
    initial_radius,
    largest_radius,
    raise_empty_clusters,
    shifted_together,
)
from dualclust.algos.offline._smoothed_dual import RefinedPrices
from dualclust.algos.offline._trust_region import (
    _Attempt,
    _judged,
    _kept,
    _limit,
    _Look,
    _moved,
    _refine_on,
    _refined,
    _Sample,
    initial_region,
)
from dualclust.algos.scores.sources import score_source, subsample
from dualclust.algos.scores.statistics import score_range, strided_ids

M, K = 40, 4
CENTER, RADIUS = np.asarray([0.5, 0.0, -1.0, 2.0]), np.asarray([1.0, 1.0, 2.0, 4.0])
PRICES = CENTER + np.asarray([0.0, 0.5, -0.5, 4.0])  # the last one stands at the edge
EDGE = np.asarray([False, False, False, True])


def sample_of(max_radius=8.0):
    lower, upper = np.asarray([1.0, 2.0, 3.0, 4.0]), np.asarray([9.0, 9.0, 9.5, 9.5])
    return _Sample(score_source(np.zeros((M, K))), 0.25, lower, upper, max_radius, 0.0)


def look_of(at_edge=EDGE, n_truncated=0):
    lost = np.arange(M) < n_truncated
    return _Look(SimpleNamespace(is_truncated=lost), "problem", RefinedPrices(PRICES, 0.5), at_edge)


def attempt_of(n_left=3, n_moves=0, radius=RADIUS):
    return _Attempt(TrustRegion(CENTER, radius), 12, n_left, n_moves, math.inf)


def limited(monkeypatch, radius, width=7):
    """Let candidates allow this radius; returns the prices at which it was asked for."""
    asked = []

    def limit(sample, center, options):
        asked.append(center.tolist())
        return RegionLimit(radius, width)

    monkeypatch.setattr(_trust_region, "_limit", limit)
    return asked


@pytest.mark.parametrize("n_moves", [0, 2])
def test_prices_off_the_edge_are_accepted(n_moves):
    attempt = attempt_of(n_moves=n_moves)
    found, is_last = _judged(sample_of(), attempt, look_of(~EDGE & EDGE, M), SolverOptions())
    assert found is attempt
    assert is_last


def test_the_region_grows_where_prices_stand_at_its_edge(monkeypatch):
    asked = limited(monkeypatch, 1.0)
    options = SolverOptions(truncated_often=0.25)
    # A quarter of the rows may have lost candidates.
    found, is_last = _judged(sample_of(), attempt_of(), look_of(n_truncated=10), options)
    assert (found.width, found.n_left, found.n_moves, is_last) == (12, 2, 0, False)
    assert found.region.center is PRICES
    assert found.region.radius.tolist() == [1.0, 1.0, 2.0, 8.0]
    assert asked == []
    last = attempt_of(n_left=1)
    assert _judged(sample_of(), last, look_of(), options) == (last, True)


def test_the_region_moves_where_candidates_are_often_truncated(monkeypatch):
    options = SolverOptions(truncated_often=0.25, min_moving_radius=0.125)
    asked = limited(monkeypatch, 1.5)
    found, is_last = _judged(sample_of(), attempt_of(), look_of(n_truncated=11), options)
    assert asked == [CENTER.tolist()]
    assert found.region.center is CENTER
    assert found.region.radius.tolist() == [1.0, 1.0, 1.5, 1.5]
    assert (found.width, found.n_left, found.n_moves, is_last) == (7, 3, 1, False)
    limited(monkeypatch, 1.0)  # an eighth of 8: too small to move
    found, is_last = _judged(sample_of(), attempt_of(), look_of(n_truncated=11), options)
    assert (found.width, found.n_left, found.n_moves, is_last) == (12, 2, 0, False)
    assert found.region.center is PRICES


def test_a_region_that_moves_goes_on_moving(monkeypatch):
    seen = []
    monkeypatch.setattr(_trust_region, "_moved", lambda *args: seen.append(args) or "moved")
    sample, attempt, options = sample_of(), attempt_of(n_moves=1), SolverOptions()
    assert _judged(sample, attempt, look_of(n_truncated=M), options) == "moved"
    [args] = seen
    assert all(one is other for one, other in zip(args, (sample, attempt, PRICES), strict=False))
    assert args[3:] == (1, options)


def test_a_move_follows_the_prices_and_keeps_the_size_that_fits(monkeypatch):
    """Twice as large where prices left it, at most the median elsewhere; then to size."""
    for radius, most, share in ((3.0, 8.0, 1.5), (3.0, 1.0, 0.5)):
        asked = limited(monkeypatch, radius)
        found, is_last = _moved(
            sample_of(most), attempt_of(n_moves=2), PRICES, 1, SolverOptions(edge_share=0.25)
        )
        assert asked == [PRICES.tolist()]
        assert found.region.center is PRICES
        assert found.region.radius.tolist() == [share * r for r in (1.0, 1.0, 2.0, 8.0)]
        assert (found.width, found.n_left, found.n_moves, is_last) == (7, 3, 3, False)


def test_where_moves_end(monkeypatch):
    limited(monkeypatch, 3.0)

    def is_last(n_moves=1, n_at_edge=1, n_left=3, **options):
        attempt = attempt_of(n_left=n_left, n_moves=n_moves)
        found, last = _moved(sample_of(), attempt, PRICES, n_at_edge, SolverOptions(**options))
        assert (found is attempt) is last
        return last

    assert not is_last(n_moves=30, edge_share=0.25)
    assert is_last(n_moves=31, edge_share=0.25)
    assert is_last(edge_share=0.26)  # so few are accepted
    assert not is_last(n_moves=30, full_width_rows=M)
    assert not is_last(n_moves=5, n_left=5, full_width_rows=M - 1)
    assert is_last(n_moves=6, n_left=5, full_width_rows=M - 1)
    limited(monkeypatch, 1.0)
    options = SolverOptions(min_moving_radius=0.125)
    found, last = _moved(sample_of(), attempt_of(), PRICES, 1, options)
    assert last  # most rows tie
    assert found.region.center is PRICES
    assert found.region.radius.tolist() == [1.0, 1.0, 2.0, 8.0]
    assert (found.width, found.n_moves) == (12, 0)
    limited(monkeypatch, 1.001)
    assert not _moved(sample_of(), attempt_of(), PRICES, 1, options)[1]


@pytest.mark.parametrize(("most", "rows"), [(25, 25), (99, M)])
def test_the_limit_of_a_sample_is_that_of_some_of_its_rows(most, rows, monkeypatch):
    seen = []

    def limit(scores, prices, **options):
        seen.append((scores.shape, prices, options))
        return "limit"

    monkeypatch.setattr(_trust_region, "largest_radius", limit)
    options = SolverOptions(range_rows=most, moving_entries=77)
    assert _limit(sample_of(), CENTER, options) == "limit"
    assert seen == [((rows, K), CENTER, {"n_rows": M, "max_entries": 77, "options": options})]


@pytest.mark.parametrize(
    ("radius", "start"), [(RADIUS, 1.0), (np.zeros(K), 1e-290)], ids=["wide", "none"]
)
@pytest.mark.parametrize(("undecided", "border"), [(8.0, 8.0), (1.0, math.sqrt(10.0))])
def test_a_look_at_a_region(radius, start, undecided, border, monkeypatch):
    sample, seen = sample_of(), []

    def collect(source, low, high, *, width):
        seen.append((source, low.tolist(), high.tolist(), width))
        return SimpleNamespace(
            problem=lambda lower, upper: (lower, upper), at_edge=lambda prices: ("edge of", prices)
        )

    def refine(problem, center, *, start, border):
        seen.append((problem, center, start, border))
        return RefinedPrices(PRICES, 0.5)

    monkeypatch.setattr(_trust_region, "collect_candidates", collect)
    monkeypatch.setattr(_trust_region, "refine_prices", refine)
    options = SolverOptions(sample_temperature=0.5, min_undecided=undecided)
    look = _refined(sample, attempt_of(radius=radius), options)
    low, high = (CENTER - radius).tolist(), (CENTER + radius).tolist()
    assert seen == [
        (sample.source, low, high, 12),
        ((sample.lower, sample.upper), CENTER, pytest.approx(start), pytest.approx(border)),
    ]
    assert look.problem == (sample.lower, sample.upper)
    assert look.refined == RefinedPrices(PRICES, 0.5)
    assert look.at_edge == ("edge of", PRICES)


@pytest.mark.parametrize(("n_truncated", "is_tied"), [(30, False), (31, True)])
@pytest.mark.parametrize(("rows", "width"), [(M, 17), (M - 1, 4)])
def test_a_sample_is_looked_at_until_the_last_attempt(
    n_truncated, is_tied, rows, width, monkeypatch
):
    tried, asked = [], []

    def judged(sample, attempt, look, options):
        tried.append(attempt)
        region = TrustRegion(attempt.region.center, attempt.region.radius * 2.0)
        return attempt._replace(region=region), len(tried) == 3

    def errors(problem, refined, share):
        asked.append((problem, refined, share))
        return np.asarray([0.25, 0.5, 0.0, 1.0])

    monkeypatch.setattr(_trust_region, "_refined", lambda *args: look_of(EDGE, n_truncated))
    monkeypatch.setattr(_trust_region, "_judged", judged)
    monkeypatch.setattr(_trust_region, "price_errors", errors)
    options = SolverOptions(
        sample_width=17, full_width_rows=rows, deviations=3.0, tied_share=0.75, region_growth=1.5
    )
    start = TrustRegion(CENTER, np.asarray([1.0, 2.0, 3.0, 4.0]))
    found, tied, settled = _refine_on(sample_of(100.0), start, 5, options)
    assert [a.region.radius.tolist()[3] for a in tried] == [4.0, 8.0, 16.0]
    assert [a[1:] for a in tried] == [(width, 5, 0, math.inf)] * 3
    assert asked == [("problem", RefinedPrices(PRICES, 0.5), 0.25)]
    assert found.center is PRICES
    # Three deviations and two temperatures; at the edge the last region, grown by half.
    assert found.radius.tolist() == [1.75, 2.5, 1.0, 48.0]
    assert tied is is_tied
    assert not settled  # a price stands at the edge


def test_what_counts_as_the_edge_and_as_the_least_reach():
    assert (AT_EDGE, LEAST_REACH) == (1.0 - 1e-9, 1e-6)
    region = TrustRegion(np.zeros(2), np.asarray([1.0, 2.0**40]))
    at_edge = np.asarray([AT_EDGE, 0.0])
    assert next_region(region, at_edge).radius.tolist() == [4.0, 2.0**38]
    assert next_region(region, 0.999 * at_edge).radius.tolist() == [0.25, 2.0**38]


def test_no_rows_allow_no_region():
    none = largest_radius(np.zeros((0, 9)), np.zeros(9), n_rows=5, max_entries=10**6)
    assert none == RegionLimit(0.0, 4)


N = 1000
SCORES = np.random.default_rng(0).normal(size=(N, 3)) + np.asarray([0.0, 0.5, 2.0])
BOUNDS = SizeBounds.from_counts([100, 250, 300], [500, 350, 400], n_samples=N)


def learned(monkeypatch, tied_at=None, settled_at=(), prices=None, **options):
    """The samples on which a region is learned, and those of online passes."""
    samples, passes = [], []

    def refine(sample, region, n_attempts, own):
        samples.append((sample, region, n_attempts))
        m = sample.source.group.n_total
        return TrustRegion(np.full(3, float(m)), np.ones(3)), m == tied_at, m in settled_at

    def learn(source, bounds, *, n_passes, options):
        passes.append((source, bounds, n_passes, options))
        return np.asarray([0.25, 0.0, -1.5])

    monkeypatch.setattr(_trust_region, "_refine_on", refine)
    monkeypatch.setattr(_trust_region, "learn_prices", learn)
    options = {
        "sample_rows_per_cluster": 5,
        "min_sample_rows": 20,
        "sample_growth": 4,
        "sample_entries": 10**6,
    } | options
    region = initial_region(score_source(SCORES), BOUNDS, prices, SolverOptions(**options))
    return samples, passes, region


def rows(samples):
    return [sample.source.group.n_total for sample, _, _ in samples]


def test_samples_grow_until_one_would_cost_as_much_as_all_rows(monkeypatch):
    samples, passes, region = learned(monkeypatch, initial_attempts=9, attempts=4)
    assert rows(samples) == [20, 80, 320]  # not 1280
    assert [n_attempts for _, _, n_attempts in samples] == [9, 4, 4]
    assert [sample.few for sample, _, _ in samples] == [0.0, 0.06, 0.06]  # 2 % of 3 prices
    for sample, _, _ in samples:
        m = sample.source.group.n_total
        ids = strided_ids(N, m, SCORES)
        np.testing.assert_array_equal(sample.source.block(0, m), SCORES[ids])
        assert sample.share == m / N
        np.testing.assert_allclose(sample.lower, m / N * np.asarray([100, 250, 300]), rtol=1e-15)
        np.testing.assert_allclose(sample.upper, m / N * np.asarray([500, 350, 400]), rtol=1e-15)
        first = SCORES[strided_ids(N, 20, SCORES)]
        assert sample.max_radius == 2.0 * score_range(first)
    assert [found.center.tolist() for _, found, _ in samples[1:]] == [[20.0] * 3, [80.0] * 3]
    assert region.center.tolist() == [320.0] * 3
    [(source, bounds, n_passes, _)] = passes
    assert source is samples[0][0].source
    assert (bounds.lower.tolist(), bounds.upper.tolist()) == ([0] * 3, [20] * 3)
    assert (bounds.n_samples, n_passes) == (20, 4)
    np.testing.assert_allclose(bounds.lower_share, [0.1, 0.25, 0.3])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min_sample_rows": 900}, [250]),  # a quarter of the rows at most
        ({"min_sample_rows": 900, "sample_part": 8}, [125, 500]),
        ({"sample_rows_per_cluster": 60}, [180, 720]),
        ({"sample_rows_per_cluster": 63}, [189]),  # 756 are more than three quarters
        ({"sample_rows_per_cluster": 400}, []),  # no sample of all rows
        ({"min_sample_rows": 75, "sample_growth": 10}, [75]),  # 750 are three quarters
        ({"sample_width": 10, "sample_entries": 800}, [20, 80]),
        ({"sample_width": 10, "sample_entries": 799}, [20]),
        ({"tied_at": 80}, [20, 80]),
    ],
)
def test_the_rows_of_the_samples(options, expected, monkeypatch):
    samples, _, region = learned(monkeypatch, **options)
    assert rows(samples) == expected
    assert (region.center.tolist() == [float(expected[-1])] * 3) if expected else True


@pytest.mark.parametrize("n_moves", [0, 1])
@pytest.mark.parametrize("edge", [EDGE, np.zeros(4, dtype=bool)])
def test_what_is_settled(edge, n_moves, monkeypatch):
    """Neither a price at the edge nor a region that had to move."""
    accepted = attempt_of(n_moves=n_moves), True
    monkeypatch.setattr(_trust_region, "_refined", lambda *args: look_of(edge))
    monkeypatch.setattr(_trust_region, "_judged", lambda *args: accepted)
    monkeypatch.setattr(_trust_region, "price_errors", lambda *args: np.ones(4))
    _, _, settled = _refine_on(sample_of(), TrustRegion(CENTER, np.ones(4)), 5, SolverOptions())
    assert settled is (n_moves == 0 and not edge.any())


@pytest.mark.parametrize(
    ("settled_at", "doubted", "expected"),
    [
        ((), (), [20, 80, 320]),
        ((20,), (), [20]),
        ((80,), (), [20, 80]),
        ((20,), (80,), [20, 80, 320]),  # what Newton's method then finds is not settled
        ((20, 80), (80,), [20, 80]),
        ((20,), (320,), [20, 320]),
    ],
)
def test_averages_take_over_once_prices_are_settled(settled_at, doubted, expected, monkeypatch):
    asked = []

    def averaged(sample, bounds, region, before, *, options):
        asked.append((before, m := sample.group.n_total))
        np.testing.assert_array_equal(sample.block(0, m), SCORES[strided_ids(N, m, SCORES)])
        assert bounds == BOUNDS
        return None if m in doubted else TrustRegion(np.full(3, -float(m)), np.ones(3))

    monkeypatch.setattr(_trust_region, "averaged_region", averaged)
    samples, _, region = learned(monkeypatch, settled_at=settled_at)
    assert rows(samples) == expected
    tried = [m for m in (80, 320) if m > min(settled_at, default=N)]
    tried = [80] if 80 in doubted and 80 not in settled_at else tried
    assert asked == [(m // 4, m) for m in tried]
    assert region.center.tolist() == [320.0 if 320 in expected else -320.0] * 3


def test_where_passes_are_slow_nothing_is_averaged(monkeypatch):
    monkeypatch.setattr(_trust_region, "passes_are_fast", lambda array: False)
    samples, _, _ = learned(monkeypatch, settled_at=(20, 80, 320))
    assert rows(samples) == [20, 80, 320]


@pytest.mark.parametrize(("most", "n_rows"), [(8, 8), (99, 20)])
def test_the_first_region_is_that_of_a_few_rows(most, n_rows, monkeypatch):
    looks = []
    real = _trust_region.score_range
    monkeypatch.setattr(_trust_region, "score_range", lambda rows: looks.append(rows) or real(rows))
    given = np.asarray([3.0, 2.5, -40.0])
    for prices in (None, given):
        samples, passes, _ = learned(monkeypatch, prices=prices, range_rows=most)
        assert len(passes) == (prices is None)
        some = SCORES[strided_ids(N, 20, SCORES)][:n_rows]
        start = np.asarray([0.25, 0.0, -1.5]) if prices is None else given
        center = shifted_together(raise_empty_clusters(some, start, BOUNDS.lower), BOUNDS)
        np.testing.assert_array_equal(looks[0], some)
        _, region, _ = samples[0]
        np.testing.assert_array_equal(region.center, center)
        radius = initial_radius(some, center, SolverOptions(range_rows=most))
        np.testing.assert_array_equal(region.radius, radius)
        assert samples[0][0].max_radius == 2.0 * score_range(some)


@pytest.mark.parametrize(("most", "is_kept"), [(60, True), (59, False)])
def test_scores_of_a_small_sample_are_kept(most, is_kept):
    plain, n_taken = score_source(SCORES), []
    source = plain._replace(take=lambda ids: n_taken.append(len(ids)) or plain.take(ids))
    some = subsample(source, strided_ids(N, 20, SCORES))
    sample = _kept(some, BOUNDS, SolverOptions(kept_entries=most))
    before = sum(n_taken)
    assert before == (20 if is_kept else 0)
    for _ in range(2):
        np.testing.assert_array_equal(sample.block(3, 9), SCORES[strided_ids(N, 20, SCORES)][3:9])
    assert sum(n_taken) == before + (0 if is_kept else 12)
    assert sample.group.n_total == 20
