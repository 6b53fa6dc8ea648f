"""Prices at falling temperatures: engines and the text find the same."""

import numpy as np
import pytest

from dualclust.algos.offline import _smoothed_dual
from dualclust.algos.offline._candidates import all_candidates
from dualclust.algos.offline._smoothed_dual import FAR, refine_prices
from dualclust.algos.scores.sources import score_source
from dualclust.backends import engine, numba_smoothed_dual
from tests.compare import to_numpy
from tests.libraries import LIBRARIES

NUMPY = LIBRARIES[0]


def problem_of(xp, seed, n=60_000, k=5, slack=0.1):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, k)) - np.linspace(0.0, 1.0, k)
    even = np.full(k, n / k)
    limit = np.full(k, 9.0)
    made = all_candidates(score_source(xp.asarray(scores)), like=xp.asarray(np.zeros(k)))
    made = made.smoothed_dual(xp.asarray((1.0 - slack) * even), xp.asarray((1.0 + slack) * even))
    return made._replace(low=xp.asarray(-limit), high=xp.asarray(limit))


def test_engines_find_the_prices_of_the_text():
    for seed in range(2):
        made = problem_of(NUMPY, seed)
        found = refine_prices(made, np.zeros(5), start=0.5, fractional=150.0)
        with engine("reference"):
            whole = refine_prices(made, np.zeros(5), start=0.5, fractional=150.0)
        assert found.temperature == whole.temperature
        # As near as descents end: a small part of the temperature.
        moved = np.abs(to_numpy(found.prices) - to_numpy(whole.prices))
        assert moved.max() < 0.5 * whole.temperature


def test_engines_have_the_numbers_of_the_text():
    assert (numba_smoothed_dual.FAR, numba_smoothed_dual.INSIDE) == (FAR, _smoothed_dual.INSIDE)
    torch_engine = pytest.importorskip("dualclust.backends.torch_engine")
    assert torch_engine.INSIDE == _smoothed_dual.INSIDE
