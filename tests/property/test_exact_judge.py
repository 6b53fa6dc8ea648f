"""Labels and proofs of scores of any size, judged in rational arithmetic, on every library.

The judge enumerates all labels of a few rows and adds up scores as fractions, so that it has no
rounding of its own. Scores run from the smallest subnormal number to 1e300, with ties and zeros of
both signs, in every precision and in every order in memory.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.offline.assignment import assign_offline
from dualclust.algos.online.assignment import assign
from tests.compare import to_numpy
from tests.examples import examples
from tests.libraries import LIBRARIES

SIZES = {"float16": 6e4, "float32": 1e37, "float64": 1e300}
LAYOUTS = ("rows", "columns", "spread", "backward")


@st.composite
def problems(draw):
    """Scores, sizes of clusters that some labels have, and an order in memory."""
    kind = draw(st.sampled_from(sorted(SIZES)))
    dtype, top = np.dtype(kind), SIZES[kind]
    info = np.finfo(dtype)
    limits = [0.0, -0.0, 1.0, top, -top, float(info.smallest_subnormal), float(info.tiny)]
    limits += [1e-300, -1e-300, 1.0 + float(info.eps)]
    entry = st.one_of(st.floats(-1.0, 1.0, width=16), st.sampled_from(limits))
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    scores = draw(arrays(np.float64, shape, elements=entry)).astype(dtype)
    labels = draw(arrays(np.int64, shape[0], elements=st.integers(0, shape[1] - 1)))
    slack = draw(st.integers(0, 2))
    return scores, np.bincount(labels, minlength=shape[1]), slack, draw(st.sampled_from(LAYOUTS))


def laid_out(xp, scores, layout):
    """The same numbers in another order in memory, where the library has such arrays."""
    if layout == "columns":
        return xp.namespace.permute_dims(xp.asarray(scores.T), (1, 0))
    if layout == "spread":
        return xp.asarray(np.repeat(scores, 2, axis=0))[::2, :]
    if layout == "backward" and xp.namespace is LIBRARIES[0].namespace:
        return xp.asarray(scores[::-1, ::-1].copy())[::-1, ::-1]
    return xp.asarray(scores)


def worth(scores, labels):
    """The objective without rounding."""
    return sum((Fraction(float(row[y])) for row, y in zip(scores, labels, strict=True)), Fraction())


def best_worth(scores, low, high):
    """The largest objective of all labels whose counts lie between two bounds."""
    n, k = scores.shape
    return max(
        worth(scores, labels)
        for labels in itertools.product(range(k), repeat=n)
        if all(low[j] <= labels.count(j) <= high[j] for j in range(k))
    )


def judge(xp, problem):
    """Labels inside the bounds, finite figures, and a gap that is not below the true one."""
    scores, sizes, slack, layout = problem
    if scores.dtype == np.float16 and xp.name.startswith("strict"):
        scores = scores.astype(np.float32)  # the standard has no half precision
    n = len(scores)
    low, high = np.maximum(sizes - slack, 0), np.minimum(sizes + slack, n)
    bounds = SizeBounds.from_counts(
        low.tolist(), high.tolist(), n_samples=n, xp=xp.namespace, device=xp.device
    )
    x = laid_out(xp, scores, layout)
    best = best_worth(scores, low, high)
    for tol in (1e-4, 0.0):
        found = assign_offline(x, bounds, tol=tol)
        labels = to_numpy(found.labels).tolist()
        counts = np.bincount(labels, minlength=scores.shape[1])
        assert ((low <= counts) & (counts <= high)).all()
        np.testing.assert_array_equal(to_numpy(found.counts), counts)
        figures = found.objective, found.upper_bound, found.rounding, found.gap
        assert np.isfinite(figures).all()
        assert np.isfinite(to_numpy(found.prices)).all()
        lost = best - worth(scores, labels)
        rounding = Fraction(found.rounding)
        sized = [abs(Fraction(float(row[y]))) for row, y in zip(scores, labels, strict=True)]
        reach = max(sum(sized, Fraction()), abs(Fraction(found.upper_bound)))
        assert lost <= Fraction(found.gap) * reach + rounding
        assert best <= Fraction(found.upper_bound) + rounding
        assert abs(worth(scores, labels) - Fraction(found.objective)) <= rounding
    if scores.dtype == np.float16:
        with pytest.raises(InvalidValueError, match="half precision changes labels"):
            assign(x, bounds)
        return
    online = assign(x, bounds)
    counts = np.bincount(to_numpy(online.labels).tolist(), minlength=scores.shape[1])
    assert ((low <= counts) & (counts <= high)).all()
    assert np.isfinite(to_numpy(online.state.duals.lower)).all()


@given(problem=problems())
@examples(40)
def test_no_gap_is_below_the_true_one(xp, problem):
    judge(xp, problem)


def test_the_judge_sees_a_gap_that_is_too_small(monkeypatch):
    scores = np.asarray([[1.0, 0.0], [1.0, 0.5]])

    right = assign_offline

    def claimed(x, bounds, *, tol):
        found = right(x, bounds, tol=0.0)
        return found._replace(
            labels=1 - found.labels, counts=found.counts, gap=0.0, objective=1.0, upper_bound=2.0
        )

    monkeypatch.setitem(globals(), "assign_offline", claimed)
    with pytest.raises(AssertionError):
        judge(LIBRARIES[0], (scores, np.asarray([1, 1]), 0, "rows"))
