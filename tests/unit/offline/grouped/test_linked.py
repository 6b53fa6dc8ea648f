"""Pairs of rows together and apart: what is refused, proven and repaired, in every library."""

import numpy as np
import pytest

from dualclust.algos.bounds import SizeBounds
from dualclust.algos.core.errors import InfeasibleBoundsError, InvalidTypeError, InvalidValueError
from dualclust.algos.offline.grouped import assign_linked
from dualclust.algos.offline.grouped._links import links_of
from dualclust.algos.offline.grouped._relaxation import merged
from dualclust.algos.scores.sources import score_source
from tests.compare import to_numpy
from tests.judge_groups import judge_linked
from tests.linked_problems import Linked, among_many, best_linked


def pairs(*rows):
    return np.asarray(rows, dtype=np.int64).reshape(-1, 2)


def free(n, k):
    return SizeBounds.from_ratios(k, n_samples=n, lower=0.0, upper=np.inf)


def test_every_library_finds_the_optimum(xp):
    rng = np.random.default_rng(0)
    sizes = SizeBounds.from_counts(
        [1, 1, 1], [4, 4, 4], n_samples=7, xp=xp.namespace, device=xp.device
    )
    must, cannot = pairs((0, 1), (1, 2)), pairs((0, 3), (3, 4), (4, 5), (5, 3))
    for _ in range(2):
        scores = rng.normal(size=(7, 3))
        scores[6, 0] = -np.inf
        links = {"must_link": xp.asarray(must), "cannot_link": xp.asarray(cannot)}
        found = assign_linked(xp.asarray(scores), sizes, **links, tol=0.0)
        best = best_linked(Linked(scores, must, cannot, np.full(3, 1), np.full(3, 4)))
        assert found.objective == pytest.approx(best, abs=1e-9)
        assert found.status == "optimal"
        assert to_numpy(found.counts).sum() == 7


@pytest.mark.parametrize(
    ("k", "links", "words"),
    [
        (3, {"must_link": pairs((0, 1), (1, 2)), "cannot_link": pairs((2, 0))}, "rows 2 and 0"),
        (2, {"cannot_link": pairs((0, 1), (1, 2), (2, 0))}, "rows 0, 1 and 2 must all be apart"),
        (
            2,
            {"cannot_link": pairs((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))},
            "rows 2, 1, 0, 4 and 3 must each be apart from the next, in a circle",
        ),
        (1, {"cannot_link": pairs((3, 4))}, "rows 3 and 4 must all be apart, in k=1 clusters"),
        (
            3,  # a wheel of five spokes: no clique of four, no two colors
            {
                "cannot_link": pairs(
                    *((i, (i + 1) % 5) for i in range(5)), *((i, 5) for i in range(5))
                )
            },
            "a search of all",
        ),
    ],
)
def test_what_no_labels_can_keep_is_named(k, links, words):
    with pytest.raises(InfeasibleBoundsError, match=words):
        assign_linked(np.zeros((6, k)), free(6, k), **links)


def test_a_block_that_no_cluster_has_room_for():
    sizes = SizeBounds.from_counts([0, 0], [3, 3], n_samples=6)
    links = {"must_link": pairs((0, 1), (1, 2), (2, 3))}
    with pytest.raises(InfeasibleBoundsError, match="a search of all"):
        assign_linked(np.zeros((6, 2)), sizes, **links)


def test_large_problems_say_that_nothing_was_found():
    must = pairs((0, 1), (1, 2), (2, 3))
    small = Linked(np.zeros((6, 2)), must, pairs(), np.zeros(2, int), np.full(2, 3))
    scores, _, _, lower, upper = among_many(small)
    sizes = SizeBounds.from_counts(lower, upper, n_samples=len(scores))
    with pytest.raises(InvalidValueError, match="nor is it shown that there are none"):
        assign_linked(scores, sizes, must_link=must)


@pytest.mark.parametrize(
    ("links", "error", "words"),
    [
        ({"must_link": pairs((0, 6))}, InvalidValueError, "rows from 0 to 5, got 6"),
        ({"cannot_link": pairs((-1, 2))}, InvalidValueError, "rows from 0 to 5, got -1"),
        ({"cannot_link": pairs((2, 2))}, InvalidValueError, "got row 2 twice"),
        ({"must_link": np.zeros((2, 3), int)}, InvalidValueError, "must_link"),
        ({"must_link": np.zeros((2, 2))}, InvalidTypeError, "must_link"),
        ({"tol": 2.0}, InvalidValueError, "tol"),
        ({"weights": np.ones(5)}, InvalidValueError, "weights"),
    ],
)
def test_what_is_refused(links, error, words):
    with pytest.raises(error, match=words):
        assign_linked(np.zeros((6, 3)), free(6, 3), **links)
    with pytest.raises(InvalidTypeError, match="bounds"):
        assign_linked(np.zeros((6, 3)), (0, 6))


def test_a_source_has_its_own_weights():
    source = score_source(np.zeros((6, 3)), np.ones(6))
    with pytest.raises(InvalidValueError, match="those of the source"):
        assign_linked(source, free(6, 3), weights=np.ones(6))


def random_links(n, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(n)[: n // 5].reshape(-1, 2)
    return {"must_link": rows[::2], "cannot_link": rows[1::2]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_rows_within_the_gap_that_is_asked_for(dtype):
    n, k = 4000, 8
    scores = np.random.default_rng(1).normal(size=(n, k)).astype(dtype)
    sizes, links = SizeBounds.from_ratios(k, n_samples=n), random_links(n, 2)
    for tol in (1.0, 0.0):
        found = assign_linked(scores, sizes, **links, tol=tol)
        judge_linked(scores, sizes, links["must_link"], links["cannot_link"], found)
        assert found.gap <= 5e-3
        if tol == 1.0:
            assert found.n_repaired > 0
            rough = found
    assert found.gap < 0.2 * rough.gap
    assert found.upper_bound <= rough.upper_bound


def test_pairs_that_chain_rows_are_repaired():
    """Cliques that share no row cover few of the pairs of a long path: the rest is repaired."""
    n, k = 3000, 5
    scores = np.random.default_rng(3).normal(size=(n, k))
    path = np.stack([np.arange(999), np.arange(1, 1000)], axis=1)
    sizes = SizeBounds.from_ratios(k, n_samples=n)
    found = assign_linked(scores, sizes, cannot_link=path)
    judge_linked(scores, sizes, None, path, found)
    assert found.gap < 0.05


def test_weights_multiply_scores_and_sizes_count_rows():
    rng = np.random.default_rng(4)
    scores, weights = rng.normal(size=(60, 3)), rng.uniform(0.0, 3.0, 60)
    sizes, links = SizeBounds.from_ratios(3, n_samples=60), random_links(60, 5)
    found = assign_linked(scores, sizes, **links, weights=weights, tol=0.0)
    other = assign_linked(weights[:, None] * scores, sizes, **links, tol=0.0)
    assert found.objective == pytest.approx(other.objective)
    again = assign_linked(scores, sizes, **links, weights=weights, prices=found.prices, tol=0.0)
    assert again.objective == pytest.approx(found.objective)


def test_without_pairs_it_is_the_plain_problem():
    import dualclust as dc

    scores = np.random.default_rng(6).normal(size=(500, 4))
    sizes = SizeBounds.from_ratios(4, n_samples=500, lower=1.0, upper=1.0)
    found = assign_linked(scores, sizes, must_link=pairs(), cannot_link=pairs())
    assert found.objective == pytest.approx(dc.assign_exact(scores, sizes).objective)
    assert (found.status, found.n_repaired) == ("optimal", 0)


def test_rows_of_a_block_have_its_mean_in_passes_and_by_their_ids():
    scores = np.random.default_rng(7).normal(size=(6, 2))
    links = links_of([(4, 1), (1, 5)], [(0, 4)], 2)
    source = merged(score_source(scores), free(6, 2), links).of_means()
    expected = scores.copy()
    expected[[1, 4, 5]] = scores[[1, 4, 5]].mean(axis=0)
    np.testing.assert_allclose(source.block(1, 6), expected[1:], rtol=1e-15)
    np.testing.assert_allclose(source.take(np.asarray([5, 0, 4])), expected[[5, 0, 4]], rtol=1e-15)
