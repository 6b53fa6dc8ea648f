"""Ranks as threads: one that ends early or fails leaves no other at the barrier, and is told."""

from __future__ import annotations

import pytest

from tests.thread_ranks import on_threads

torch = pytest.importorskip("torch")


def exchanged(ranks, times):
    """What the ranks have sent in so many exchanges: their numbers."""
    own = torch.tensor([ranks.rank])
    return [ranks.join(own, [1] * ranks.world_size).tolist() for _ in range(times)]


@pytest.mark.parametrize("early", [0, 1])
def test_a_rank_that_ends_early_is_named(early):
    with pytest.raises(AssertionError, match=f"exchanges something and rank {early} has ended"):
        on_threads(3, lambda ranks: exchanged(ranks, 1 if ranks.rank == early else 2))


@pytest.mark.parametrize("early", [0, 2])
def test_the_error_of_a_rank_is_raised_and_no_consequence_of_it(early):
    def work(ranks):
        exchanged(ranks, 1)
        if ranks.rank == early:
            msg = "the cause"
            raise ValueError(msg)
        return exchanged(ranks, 1)

    with pytest.raises(ValueError, match="the cause"):
        on_threads(3, work)


def test_ranks_that_exchange_as_often_end_together():
    assert on_threads(3, lambda ranks: exchanged(ranks, 2)) == [[[0, 1, 2]] * 2] * 3
