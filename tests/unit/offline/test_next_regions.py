"""What a pass of the offline solver leaves to the next: lists, memory, a region that shrinks."""

import numpy as np
import pytest

from dualclust.algos.offline import _search, assignment
from dualclust.algos.offline._candidates import TrustRegion
from dualclust.algos.offline._held_prices import Blocks
from dualclust.algos.offline._search import started
from dualclust.algos.offline.assignment import _after_pass
from dualclust.algos.scores.sources import score_source
from tests.unit.offline.test_assignment_steps import (
    NEXT,
    ONES,
    REGION,
    N,
    Pass,
    problem,
    search_of,
)


@pytest.mark.parametrize("n_passes", [0, 1])
@pytest.mark.parametrize(
    ("tied", "width", "n_at_edge", "is_limited"),
    [
        (0.51, 2, 1, True),
        (0.51, 2, 5, True),
        (0.51, 2, 0, False),  # it shrinks by itself
        (0.5, 2, 1, False),
        (0.51, 3, 1, False),  # longer lists are nearly all clusters
    ],
)
def test_a_region_too_wide_for_its_lists_shrinks(
    tied, width, n_at_edge, is_limited, n_passes, monkeypatch
):
    one = Pass(monkeypatch, tied=tied, gap=0.75, n_at_edge=n_at_edge)
    own = problem(often_tied_share=0.5)._replace(source=score_source(np.zeros((N, 8))))
    found = _after_pass(own, search_of(width=width), n_passes)
    if n_passes and width == 3:
        assert found.is_tied
        return
    assert (found.width, found.is_limited, found.is_tied) == (2 * width, is_limited, False)
    assert one.asked["region"][2] is is_limited


@pytest.mark.parametrize("n_passes", [0, 1])
@pytest.mark.parametrize(
    ("width", "limited", "shrinks"), [(2, False, True), (3, False, False), (2, True, False)]
)
def test_a_region_in_which_nothing_is_learned_shrinks_before_rows_count_as_tied(
    width, limited, shrinks, n_passes, monkeypatch
):
    one = Pass(monkeypatch, tied=1.0)
    own = problem()._replace(source=score_source(np.zeros((N, 8))))
    found = _after_pass(own, search_of(width=width, is_limited=limited), n_passes)
    assert found.region is REGION
    assert (found.width, found.is_limited) == (2 * width, limited or shrinks)
    assert found.is_tied is (n_passes > 0 and not shrinks)
    assert "solve" not in one.asked


@pytest.mark.parametrize(
    ("limited", "truncated", "gap", "n_passes", "most", "tol", "width", "is_limited"),
    [
        (False, False, 0.75, 1, 200, 0.125, 2, False),
        (False, True, 0.75, 1, 80, 0.125, 4, False),
        (False, True, 0.75, 1, 79, 0.125, 4, True),
        (False, True, 0.75, 1, 79, 0.0, 4, False),
        (True, True, 0.75, 1, 200, 0.125, 2, True),
        (False, False, None, 0, 200, 0.125, 2, False),
        (False, False, None, 1, 200, 0.125, 2, True),
    ],
)
def test_what_the_next_pass_gets(
    limited, truncated, gap, n_passes, most, tol, width, is_limited, monkeypatch
):
    one = Pass(monkeypatch, gap=gap, tied=0.05 if truncated else 0.0)
    own = problem(tol, max_entries=most)
    found = _after_pass(own, search_of(is_limited=limited), n_passes)
    assert (found.width, found.is_limited) == (width, is_limited)
    assert one.asked["region"][2] is is_limited


@pytest.mark.parametrize(
    ("before", "limited", "most", "is_lost"),
    [
        (6.99, True, 400, True),
        (6.995, True, 400, False),  # as good as before, but for one part of 1,000
        (6.9, False, 400, False),
        (6.9, True, 20, False),  # memory cuts it: blocks look for what it holds back
    ],
)
def test_a_region_that_finds_worse_goes_back_to_the_best_prices(
    before, limited, most, is_lost, monkeypatch
):
    one = Pass(monkeypatch, gap=0.75)
    best = np.asarray([0.25, -0.5, 0.0, 1.0, 2.0])
    region = REGION._replace(radius=np.asarray([1.0, 3.0, 0.5, 0.5, 0.5]))
    own = problem(max_entries=most)
    search = search_of(is_limited=limited, least_bound=before, best_prices=best, region=region)
    found = _after_pass(own, search, 1)
    assert one.asked["solve"]
    if is_lost:
        assert found.region.center is best
        assert found.region.radius.tolist() == [3.0] * 5
    else:
        assert found.region is NEXT


@pytest.mark.parametrize(
    ("tied", "width", "options", "is_limited"),
    [
        (0.76, 2, {}, True),
        (0.75, 2, {}, False),
        (1.0, 3, {}, False),  # four times as long they are all clusters
        (1.0, 2, {"reach": ONES}, False),  # a region not from samples
        (1.0, 2, {"max_entries": 2 * N - 1}, True),
    ],
)
def test_a_search_begins_with_less_where_a_few_rows_say_that_nearly_all_would_tie(
    tied, width, options, is_limited, monkeypatch
):
    monkeypatch.setattr(_search, "first_region", lambda *args: REGION)
    asked = []
    monkeypatch.setattr(
        _search, "expected_tied_share", lambda *given, options: asked.append(given) or tied
    )
    own = problem(mostly_tied_share=0.75, pass_width=width, **options)
    own = own._replace(source=score_source(np.zeros((N, 8))))
    assert started(own, ONES).is_limited is is_limited
    assert asked == [(own.source, REGION, width)] * (width == 2 and not options)


@pytest.mark.parametrize("moves", [True, False])
def test_a_region_around_blocks_begins_with_a_pass(moves, monkeypatch):
    """What the last look has ruled out holds inside its own region alone."""
    Pass(monkeypatch, gap=0.75, again=True)
    elsewhere = TrustRegion(ONES, 0.5 * ONES)
    asked = []

    def around(source, bounds, blocks, region, radius, options, *, judge):
        asked.append((blocks, region.center, radius, judge))
        return elsewhere if moves else region

    monkeypatch.setattr(assignment, "around_blocks", around)
    found = _after_pass(problem(), search_of(), 2)
    assert asked == [(Blocks([]), ONES, REGION.radius, True)]
    assert found.region is (elsewhere if moves else NEXT)
    assert (found.known is None, found.is_arriving) == (moves, moves)
    asked.clear()
    _after_pass(problem(max_passes=3), search_of(), 2)
    assert not asked  # no pass would use it
