"""Random streams: labels one by one, in any batches, by steps of any size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.online import (
    StepRule,
    assign,
    measured_steps,
    next_pass,
    relaxed,
    size_certificate,
)
from tests.judge_bounds import judge_sizes, judge_stream
from tests.problems import replay
from tests.random_problems.drawn import draw_counts, draw_scores, draw_shape

__all__ = ["random_stream"]


def random_stream(rng: np.random.Generator) -> str:
    """Label a stream in batches; judge each batch, its certificate and each choice."""
    n, k = draw_shape(rng)
    scores = draw_scores(rng, n, k)
    scores = scores.astype(np.float32) if scores.dtype == np.float16 else scores
    lower, upper = draw_counts(rng, n, k)
    bounds = SizeBounds.from_counts(lower, upper, n_samples=n)
    steps = draw_steps(rng, bounds)
    state = None
    if rng.random() < 0.3:  # a second pass, from prices learned in a first
        state = next_pass(assign(scores, relaxed(bounds), steps=steps).state)
    start = None if state is None else state.duals
    cuts = np.sort(rng.integers(0, n + 1, int(rng.integers(0, 4))))
    edges = [0, *cuts.tolist(), n]
    labels = np.zeros(0, dtype=np.int64)
    for first, last in pairwise(edges):
        found = assign(scores[first:last], bounds, state, steps=steps)
        before, state = state, found.state
        judge_stream(found.labels, before, state, bounds.lower, bounds.upper, n)
        labels = np.concatenate([labels, found.labels])
        assert np.isfinite(state.duals.lower).all()
        assert np.isfinite(state.duals.upper).all()
        if state.seen:
            certified(state, bounds)
    rule = steps or measured_steps(bounds)
    is_whole = all(edge % rule.chunk_size == 0 for edge in edges[:-1])
    if is_whole and np.isinf(rule.l1_radius):
        best_choices(scores, labels, bounds, rule, start)
    return "labels"


def certified(state: Any, bounds: SizeBounds) -> None:
    """What duals prove of the counts is true, or they say why they prove nothing."""
    try:
        found = size_certificate(state, bounds)
    except InvalidValueError:
        found = None
    if found is None:
        assert np.isnan(state.step_size), "a certificate is missing"
    else:
        judge_sizes(state, bounds.lower_share, bounds.upper_share, found)


def best_choices(scores: Any, labels: Any, bounds: SizeBounds, rule: StepRule, start: Any) -> None:
    """Each label is the best of those that were open, at the prices that labels before it left."""
    scores = scores.astype(np.float64)
    began = None if start is None else (np.asarray(start.lower), np.asarray(start.upper))
    done = replay(scores, labels, bounds, rule, began)
    sizes = np.abs(scores).max(axis=1) + np.abs(done.rho).max() + np.abs(done.rho_up).max()
    moved = rule.step_size * (len(scores) + 1)
    lost = done.gaps > 2.0**-40 * (sizes + moved)
    assert not lost.any(), f"row {np.flatnonzero(lost)[:1]} has a better cluster"


def draw_steps(rng: np.random.Generator, bounds: SizeBounds) -> StepRule | None:
    """Those that are measured, by any kappa and scale, or any rule."""
    kind = rng.random()
    if kind < 0.2:
        return None
    if kind < 0.5:
        return measured_steps(
            bounds,
            kappa=float(10.0 ** rng.uniform(-9, 9)),
            epoch=int(rng.choice([0, 1, 5, 30])),
            scale=float(10.0 ** rng.uniform(-250, 250)),
        )
    size = 10.0 ** (rng.uniform(-300, 300) if rng.random() < 0.3 else rng.uniform(-4, 1))
    free_sign = bool(rng.random() < 0.3)
    return StepRule(
        float(size),
        int(rng.choice([1, 1, 2, 7, 1000])),
        free_sign,
        bool(rng.random() < 0.2),
        float("inf") if free_sign or rng.random() < 0.8 else float(10.0 ** rng.uniform(-300, 300)),
    )
