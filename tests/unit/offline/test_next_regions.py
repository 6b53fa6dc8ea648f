"""What a pass of the offline solver leaves to the next: lists, memory, a region that shrinks."""

import numpy as np
import pytest

from dualclust.algos.offline.assignment import _after_pass
from dualclust.algos.scores.sources import score_source
from tests.unit.offline.test_assignment_steps import REGION, N, Pass, problem, search_of


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
