"""The search of the offline solver step by step: what each pass is asked, and where it ends."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.offline import SolverOptions, _search, assignment
from dualclust.algos.offline._candidates import TooManyCandidatesError, TrustRegion
from dualclust.algos.offline._held_prices import Blocks
from dualclust.algos.offline._proof import OfflineAssignment
from dualclust.algos.offline._reduced import ReducedSolution
from dualclust.algos.offline._search import Search, started
from dualclust.algos.offline.assignment import (
    Problem,
    _after_pass,
    _solved,
)
from dualclust.algos.scores.sources import score_source

N, K = 20, 5
ZERO, ONES = np.zeros(K), np.ones(K)
CENTER = np.asarray([0.5, -0.5, 0.0, 1.0, 2.0])
REGION, NEXT = TrustRegion(CENTER, 2.0 * ONES), TrustRegion(ZERO, ONES)
PART = TrustRegion(CENTER, 0.5 * ONES)
BOUNDS = SizeBounds.from_counts([0] * K, n_samples=N)
FEW = {"full_entries": 0}


def labels_of(gap):
    return OfflineAssignment(ZERO, ZERO, ZERO, 1.0, 1.0, 0.0, 0, gap)


def problem(tol=0.125, exponent=0, reach=None, **options):
    source = score_source(np.zeros((N, K)))._replace(exponent=exponent)
    return Problem(source, BOUNDS, tol, SolverOptions(**(FEW | options)), reach)


def search_of(**changes):
    return Search(REGION, 2, False, None, None, math.inf, CENTER)._replace(**changes)


def test_a_search_from_known_prices_begins_where_they_can_be(monkeypatch):
    """Without samples, in one pass that is wide enough."""
    monkeypatch.setattr(_search, "first_region", None)
    monkeypatch.setattr(_search, "expected_tied_share", None)
    asked = []
    monkeypatch.setattr(_search, "wanted_width", lambda *given, options: asked.append(given) or 4)
    reach = np.asarray([0.5, 1.0, 0.25, 2.0, 4.0])
    own = problem(reach=reach, pass_width=1)
    found = started(own, CENTER)
    assert found.region.radius.tolist() == reach.tolist()
    assert found == Search(found.region, 4, False, CENTER, None, math.inf, CENTER)
    assert asked == [(own.source, found.region, 1)]


@pytest.mark.parametrize(
    ("tol", "options", "width", "is_limited"),
    [
        (0.1, {"pass_width": 6, "max_entries": 120}, 6, False),
        (0.1, {"pass_width": 6, "max_entries": 119}, 6, True),
        (0.0, {"pass_width": 6, "max_entries": 119}, 6, False),
        (0.1, {"pass_width": 6, "large_pass_width": 4, "large_pass_rows": N}, 6, False),
        (0.1, {"pass_width": 6, "large_pass_width": 4, "large_pass_rows": N - 1}, 4, False),
    ],
)
def test_the_first_search(tol, options, width, is_limited, monkeypatch):
    seen = []
    monkeypatch.setattr(_search, "first_region", lambda *args: seen.append(args) or REGION)
    own = problem(tol, **options)
    assert started(own, ONES) == Search(REGION, width, is_limited, ONES, None, math.inf, CENTER)
    assert seen == [(own.source, BOUNDS, ONES, own.options)]


class Pass:
    """One pass whose candidates and solution were agreed before."""

    def __init__(
        self,
        monkeypatch,
        tied=0.0,
        gap=None,
        too_many=False,
        again=False,
        at_edge=False,
        n_at_edge=0,
    ):
        self.tied, self.too_many, self.again, self.asked = tied, too_many, again, {}
        self.candidates, self.at_edge = SimpleNamespace(at_edge=self.standing), at_edge
        self.n_at_edge = n_at_edge
        self.solution = ReducedSolution(None if gap is None else labels_of(gap), ONES, 7.0, ONES)
        monkeypatch.setattr(assignment, "candidates_in", self.collect)
        monkeypatch.setattr(assignment, "may_look_again", self.judge)
        monkeypatch.setattr(assignment, "blocks_of_pass", lambda *given: Blocks([]))
        monkeypatch.setattr(assignment, "leaves_the_part", self.leave)
        monkeypatch.setattr(assignment, "tied_share", self.share)
        monkeypatch.setattr(assignment, "solve_reduced", self.solve)
        monkeypatch.setattr(assignment, "next_region", self.region)

    def collect(self, source, region, known, *, width, max_entries):
        self.asked["collect"] = (region, known, width, max_entries)
        if self.too_many:
            raise TooManyCandidatesError
        return self.candidates, region if known is None else PART

    def standing(self, prices):
        assert prices is ONES
        return np.arange(K) < self.n_at_edge

    def leave(self, candidates, prices, region):
        assert candidates is self.candidates
        assert (prices, region) == (ONES, REGION)
        return self.at_edge

    def judge(self, candidates, prices, n_rows, options):
        assert candidates is self.candidates
        self.asked["judge"] = (prices, n_rows, options)
        return self.again

    def share(self, candidates, n_rows):
        assert candidates is self.candidates
        assert n_rows == N
        return self.tied

    def solve(self, candidates, bounds, region, tol, *, max_truncation, options):
        assert candidates is self.candidates
        assert bounds is BOUNDS
        self.asked["solve"] = (region, tol, max_truncation, options)
        return self.solution

    def region(self, region, prices, *, is_moving, options):
        self.asked["region"] = (region, prices, is_moving, options)
        return NEXT


@pytest.mark.parametrize(
    ("tol", "n_passes", "max_truncation"),
    [
        (0.125, 2, 0.125),
        (0.125, 3, 0.5),
        (0.625, 3, 0.625),
        (0.0, 3, 0.0),
    ],
)
def test_a_pass_looks_at_the_region_and_goes_on_from_its_prices(
    tol, n_passes, max_truncation, monkeypatch
):
    one = Pass(monkeypatch, gap=0.75)
    own = problem(tol, rough_after=3, rough_gap=0.5, max_entries=99, few_truncated=-1.0)
    before = search_of()
    found = _after_pass(own, before, n_passes)
    assert one.asked["collect"] == (REGION, None, 2, None if tol == 0.0 else 99)
    assert one.asked["solve"] == (REGION, tol, max_truncation, own.options)
    assert one.asked["region"] == (REGION, ONES, False, own.options)
    judged = before.judged(one.solution)
    assert found == judged._replace(region=NEXT)
    assert judged.best is one.solution.assignment


@pytest.mark.parametrize("n_passes", [0, 1])
@pytest.mark.parametrize(
    ("tied", "changes"), [(0.25, {}), (0.2501, {}), (0.25, {"is_limited": True})]
)
def test_truncated_rows_may_cost_what_the_gap_allows(tied, changes, n_passes, monkeypatch):
    """From the first pass on: a second look would cost time and prove more than was asked for."""
    one = Pass(monkeypatch, gap=0.75, tied=tied)
    _after_pass(problem(), search_of(**changes), n_passes)
    assert one.asked["solve"][2] == 0.125


def test_more_candidates_than_memory_holds_halve_the_region(monkeypatch):
    Pass(monkeypatch, too_many=True)
    found = _after_pass(problem(), search_of(known=SimpleNamespace()), 0)
    assert found.known is None
    assert found.region.center is CENTER
    assert found.region.radius.tolist() == [1.0] * K
    assert found == search_of(is_limited=True)._replace(region=found.region)


@pytest.mark.parametrize(
    ("tied", "n_passes", "options", "expected"),
    [
        (0.51, 0, {"reach": ONES}, {"is_tied": True}),
        (0.5, 0, {"reach": ONES}, None),
        (0.75, 0, {}, None),
        (0.751, 0, {}, {"width": 4}),
        (0.751, 1, {}, {"width": 4, "is_tied": True}),
    ],
)
def test_a_pass_in_which_most_rows_tie_teaches_nothing(
    tied, n_passes, options, expected, monkeypatch
):
    one = Pass(monkeypatch, tied=tied)
    own = problem(often_tied_share=0.5, tied_share=0.75, **options)
    found = _after_pass(own, search_of(), n_passes)
    assert ("solve" in one.asked) is (expected is None)
    if expected is not None:
        assert found == search_of(**expected)


@pytest.mark.parametrize(("gap", "ends"), [(0.125, True), (0.1251, False)])
def test_labels_within_the_gap_end_the_search(gap, ends, monkeypatch):
    one = Pass(monkeypatch, tied=0.6, gap=gap)
    found = _after_pass(problem(), search_of(width=4), 1)
    assert found.best is one.solution.assignment
    assert found.is_tied is not ends  # else it would be said that further passes teach nothing
    assert found.region is REGION
    assert "region" not in one.asked


@pytest.mark.parametrize(
    ("tied", "n_passes", "width", "is_tied"),
    [(0.51, 1, 2, True), (0.5, 1, 2, False), (0.51, 0, 2, False), (0.51, 1, 1, False)],
)
def test_later_passes_are_tied_where_their_width_is_near_k(
    tied, n_passes, width, is_tied, monkeypatch
):
    one = Pass(monkeypatch, tied=tied, gap=0.75)
    found = _after_pass(problem(often_tied_share=0.5), search_of(width=width), n_passes)
    assert found.is_tied is is_tied
    assert found.best is one.solution.assignment
    assert found.region is (REGION if is_tied else NEXT)


def test_a_width_of_exactly_a_quarter_of_the_clusters_is_not_near_them(monkeypatch):
    Pass(monkeypatch, tied=0.6, gap=0.75)
    for k, is_near in ((7, True), (8, False)):
        own = problem()._replace(source=score_source(np.zeros((N, k))))
        assert _after_pass(own, search_of(width=2), 1).is_tied is is_near


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_candidates_are_kept_for_a_second_look(again, limited, monkeypatch):
    one, own = Pass(monkeypatch, gap=0.75, again=again), problem()
    found = _after_pass(own, search_of(is_limited=limited), 0)
    assert found.known is (one.candidates if again and not limited else None)
    if not limited:
        assert one.asked["judge"] == (ONES, N, own.options)


@pytest.mark.parametrize("at_edge", [False, True])
def test_a_second_look_looks_at_a_part_and_leaves_the_rest_to_a_pass(at_edge, monkeypatch):
    one, known = Pass(monkeypatch, gap=0.75, at_edge=at_edge), SimpleNamespace()
    before = search_of(known=known)
    found = _after_pass(problem(), before, 1)
    assert one.asked["collect"][1] is known
    assert one.asked["solve"][0] is PART
    assert found.best is one.solution.assignment
    assert found.known is None
    if at_edge:  # prices that want to leave the part may do so in the whole region
        assert (found.region, found.width, found.is_limited) == (REGION, 2, False)
        assert "region" not in one.asked
    else:
        assert found.region is NEXT
        assert one.asked["region"][0] is PART


class Passes:
    """A search whose passes were agreed before; what happened is kept, in order."""

    def __init__(self, monkeypatch, after=lambda search, n: search, start=None, online=None):
        self.events, self.after, self.online = [], after, online
        self.start = search_of() if start is None else start
        monkeypatch.setattr(assignment, "started", self.begin)
        monkeypatch.setattr(assignment, "_after_pass", self.one_pass)
        monkeypatch.setattr(assignment, "within_memory", self.shrink)
        monkeypatch.setattr(_search, "without_prices", lambda *args: self.ask("free", *args))
        monkeypatch.setattr(assignment, "_with_online_passes", self.pass_online)
        monkeypatch.setattr(assignment, "_last_resort", lambda *args: self.ask("last", *args))
        monkeypatch.setattr(assignment, "_solve_in_full", lambda *args: self.ask("full", *args))
        self.answers = {"last": "last", "full": "full"}

    def ask(self, name, *args):
        self.events.append((name, *args))
        return self.answers.get(name)

    def begin(self, own, prices):
        self.events.append(("start", own, prices))
        return self.start

    def one_pass(self, own, search, n_passes):
        self.events.append(("pass", n_passes, search))
        return self.after(search, n_passes)

    def shrink(self, source, region, width, options):
        self.events.append(("shrink", region, width, options))
        return NEXT, 9

    def pass_online(self, own, search):
        self.events.append(("online", search))
        return search._replace(online=self.online)

    def names(self):
        return [event[0] for event in self.events]


def test_few_scores_are_solved_in_full(monkeypatch):
    for most, names in ((N * K, ["full"]), (N * K - 1, ["start", *["pass"] * 16, "last"])):
        passes = Passes(monkeypatch)
        own = problem(full_entries=most, few_growth=0, online_after=99, exponent=3)
        found = _solved(own, 8.0 * CENTER)
        assert passes.names() == names
        assert found == names[-1]
        # Prices are in the unit of the source.
        assert passes.events[0][2].tolist() == CENTER.tolist()


def test_labels_without_prices_are_sought_where_no_prices_are_given(monkeypatch):
    passes = Passes(monkeypatch)
    own = problem()
    passes.answers["free"] = "free labels"
    assert _solved(own, None) == "free labels"
    assert passes.events == [("free", own.source, BOUNDS, 0.125, own.options)]
    passes = Passes(monkeypatch)
    assert _solved(own, ZERO) == "last"
    assert "free" not in passes.names()
    passes = Passes(monkeypatch)
    assert _solved(problem(max_passes=2, online_after=99), None) == "last"
    assert passes.names() == ["free", "start", "pass", "pass", "last"]
    assert passes.events[1][2] is None


@pytest.mark.parametrize(("gap", "n_passes"), [(0.125, 2), (0.126, 4)])
def test_the_first_labels_within_the_gap_are_returned(gap, n_passes, monkeypatch):
    best = labels_of(gap)
    passes = Passes(monkeypatch, lambda search, n: search._replace(best=best) if n == 1 else search)
    found = _solved(problem(max_passes=4), ZERO)
    assert passes.names().count("pass") == n_passes
    assert found == (best if n_passes == 2 else "last")
    assert [e[1] for e in passes.events if e[0] == "pass"] == list(range(n_passes))


@pytest.mark.parametrize(
    ("tol", "options", "n_passes"),
    [
        (0.125, {"last_entries": N * K - 1, "max_limited_passes": 3}, 3),
        (0.125, {"last_entries": N * K, "max_limited_passes": 3}, 6),
        (0.0, {"last_entries": N * K - 1, "max_limited_passes": 3}, 6),
    ],
)
def test_a_search_that_memory_limits(tol, options, n_passes, monkeypatch):
    passes = Passes(monkeypatch, start=search_of(is_limited=True))
    own = problem(tol, max_passes=6, online_after=99, **options)
    assert _solved(own, ZERO) == "last"
    assert passes.names() == ["start", *["shrink", "pass"] * n_passes, "last"]
    assert passes.events[1] == ("shrink", REGION, 2, own.options)
    assert passes.events[2][2] == search_of(is_limited=True, region=NEXT, width=9)


@pytest.mark.parametrize(
    ("most", "ends"), [(N * K, True), (N * K - 1, False)], ids=["may keep all", "too many"]
)
def test_ties_end_a_search_that_may_keep_all_scores(most, ends, monkeypatch):
    passes = Passes(monkeypatch, lambda search, n: search._replace(is_tied=True))
    _solved(problem(last_entries=most, max_passes=3, online_after=99), ZERO)
    assert passes.names().count("pass") == (1 if ends else 3)


@pytest.mark.parametrize("online_gap", [0.25, 0.5, 0.75])
def test_a_reach_that_was_wrong_is_forgotten(online_gap, monkeypatch):
    early, online = labels_of(0.5), labels_of(online_gap)
    found = {"best": early, "online": online, "is_tied": True}
    passes = Passes(monkeypatch, lambda search, n: search._replace(**found))
    reach = np.asarray([8.0, 4.0, 16.0, 8.0, 2.0])
    own = problem(reach=reach, last_entries=0, max_passes=3, online_after=99, exponent=3)
    given = 8.0 * CENTER
    assert _solved(own, given) == "last"
    # One pass with the reach, then all over without it, from the prices as they were given.
    assert passes.names() == ["start", "pass", "start", *["pass"] * 3, "last"]
    first, second = (event for event in passes.events if event[0] == "start")
    assert (8.0 * first[1].reach).tolist() == reach.tolist()  # in the unit of the source
    assert second[1].reach is None
    assert second[2].tolist() == CENTER.tolist()
    assert passes.events[1][2].online is None
    assert passes.events[3][2].online is (online if online_gap < 0.5 else early)
    name, last, search = passes.events[-1]
    assert (name, last._replace(source=None)) == ("last", second[1]._replace(source=None))
    assert search.best is early


@pytest.mark.parametrize(
    ("tol", "gap", "best", "names", "is_online"),
    [
        (0.125, 0.125, None, ["pass", "pass", "online"], True),
        (0.125, 0.126, None, ["pass", "pass", "online", "pass", "last"], False),
        (0.125, None, None, ["pass", "pass", "online", "pass", "last"], False),
        (0.125, 0.0, 0.5, ["pass", "pass", "pass", "last"], False),
        (0.0, 0.0, None, ["pass", "pass", "pass", "last"], False),
    ],
)
def test_online_passes_look_for_labels_once(tol, gap, best, names, is_online, monkeypatch):
    online = None if gap is None else labels_of(gap)
    start = search_of(best=None if best is None else labels_of(best))
    passes = Passes(monkeypatch, start=start, online=online)
    found = _solved(problem(tol, max_passes=3, online_after=1), ZERO)
    assert passes.names()[1:] == names
    assert found is online if is_online else found == "last"
