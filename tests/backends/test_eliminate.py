"""Engines of `eliminate` against its text, and the text against the system."""

import numpy as np
import pytest

from dualclust.algos.offline._near_host import eliminate
from tests.backends.rows import row_id, rows_of
from tests.compare import to_numpy

ROWS = rows_of("eliminate")


def system(sides, k=7):
    """A matrix, which clusters are free, what comes to the diagonal, and right-hand sides."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(k, k))
    free = (np.arange(k) % 3 > 0).astype(np.float64)
    return half @ half.T, free, rng.uniform(0.5, 1.5, k), rng.normal(size=(*sides, k))


@pytest.mark.parametrize("sides", [(), (3,)])
def test_the_text_solves_the_system_on_the_free_clusters(sides):
    matrix, free, diagonal, rhs = system(sides)
    found = eliminate.reference(matrix, free, diagonal, rhs)
    whole = matrix * free[:, None] * free + np.diag(diagonal)
    np.testing.assert_allclose(found @ whole, rhs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("row", ROWS, ids=row_id)
@pytest.mark.parametrize("sides", [(), (3,)])
def test_an_engine_solves_what_the_text_does(row, sides):
    given = system(sides)
    found = row.engine()(*(row.arrays().asarray(array) for array in given))
    expected = eliminate.reference(*given)
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9, atol=1e-12)
