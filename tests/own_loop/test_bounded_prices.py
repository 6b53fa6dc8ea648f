"""Theorem R for the modules: prices stay bounded for every stream, and say how sizes have gone."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dualclust.algos.online.step_sizes import StepRule
from dualclust.proofs.theorem_r.regret import (
    largest_price,
    largest_price_two_sided,
    sum_of_prices,
)
from dualclust.torch import PricedLabels, PricedRouter

REACH = 1.0
TINY = 1e-9


class Stream(NamedTuple):
    """Batches whose rows like one cluster each, and a step with its longest chunk."""

    k: int
    favorites: list[list[int]]
    liking: list[float]
    step_size: float
    chunk_size: int
    lower: float
    upper: float

    def batches(self):
        for favorites, liking in zip(self.favorites, self.liking, strict=True):
            scores = torch.zeros(len(favorites), self.k, dtype=torch.float64)
            yield scores.scatter_(1, torch.tensor(favorites).reshape(-1, 1), liking)

    @property
    def eta(self):
        """The most that one batch moves a price."""
        longest = max(len(favorites) for favorites in self.favorites)
        return self.step_size * min(longest, self.chunk_size)


@st.composite
def streams(draw, *, two_sided):
    k = draw(st.integers(2, 5))
    few = st.lists(st.integers(0, k - 1), max_size=6)
    # Long runs of one favorite drive prices up, and what comes after lets them fall.
    run = st.tuples(st.integers(0, k - 1), st.integers(1, 30)).map(lambda r: [r[0]] * r[1])
    favorites = draw(st.lists(few | run, min_size=1, max_size=15)) * draw(st.integers(1, 6))
    liking = st.lists(
        st.sampled_from([0.25, REACH]), min_size=len(favorites), max_size=len(favorites)
    )
    return Stream(
        k,
        favorites,
        draw(liking),
        draw(st.sampled_from([1 / 64, 1 / 16, 1 / 4])),
        draw(st.sampled_from([1, 4, 100])),
        draw(st.sampled_from([0.0, 0.5, 0.9])),
        draw(st.sampled_from([1.1, 1.5, 2.0])) if two_sided else math.inf,
    )


def module(stream, **options):
    steps = StepRule(stream.step_size, stream.chunk_size)
    return PricedLabels(stream.k, lower=stream.lower, upper=stream.upper, steps=steps, **options)


@given(streams(two_sided=False))
def test_lower_prices_stay_below_the_bounds_of_the_theorem(stream):
    label = module(stream)
    most, total = (bound(stream.k, REACH, stream.eta) for bound in (largest_price, sum_of_prices))
    for batch in stream.batches():
        label(batch)
        assert label.price_lower.max() <= most + TINY  # R3
        assert label.price_lower.sum() <= total + TINY  # R2
        assert label.price_upper.max() <= 0.0


@given(streams(two_sided=True))
def test_both_prices_stay_below_the_bound_of_the_theorem(stream):
    label = module(stream)
    most = largest_price_two_sided(stream.k, REACH, stream.eta)
    for batch in stream.batches():
        label(batch)
        assert torch.stack(label.duals).max() <= most + TINY  # R4
        assert torch.stack(label.duals).min() >= 0.0


@given(streams(two_sided=True), st.booleans())
def test_prices_are_receipts_for_sizes(stream, routed):
    stream = stream._replace(chunk_size=100)  # one step size: no batch is longer than a chunk
    steps = StepRule(stream.step_size, stream.chunk_size)
    label = module(stream)
    if routed:
        label = PricedRouter(stream.k, top_k=2, lower=stream.lower, upper=stream.upper, steps=steps)
    for batch in stream.batches():
        label(batch)
        n = label.counts.sum()
        least = n * label.lower_share - label.price_lower / stream.step_size
        most = n * label.upper_share + label.price_upper / stream.step_size
        assert (label.counts >= least - TINY).all()  # R1
        assert (label.counts <= most + TINY).all()


def test_the_bound_of_the_largest_price_is_nearly_reached():
    """One favorite for ever, and two clusters: the other's price ends at the reach."""
    label = PricedLabels(2, lower=1.0, steps=StepRule(1 / 16, 4))
    rows = torch.tensor([[1.0, 0.0]] * 40)
    for _ in range(200):
        label(rows)
    assert REACH <= label.price_lower.max() <= largest_price(2, REACH, 4 / 16)


@pytest.mark.parametrize("chunk_size", [4, 1000])
def test_the_bound_is_one_of_the_step(chunk_size):
    """A step that ignores the length of the chunk would pass the bound of the shorter one."""
    label = PricedLabels(2, lower=1.0, steps=StepRule(1 / 16, chunk_size))
    rows, highest = torch.tensor([[1.0, 0.0]] * 200), 0.0
    for _ in range(200):
        label(rows)
        highest = max(highest, float(label.price_lower.max()))
    assert (highest <= largest_price(2, REACH, 4 / 16)) == (chunk_size == 4)
