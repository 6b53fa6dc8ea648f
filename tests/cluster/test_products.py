"""A product has the same bits on any number of threads, and BLAS has one."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dualclust.algos.core.errors import InvalidValueError
from dualclust.cluster.threads import products_on

# With OpenBLAS's own threads, the third and the fourth differ on every processor that we tried.
SHAPES = [(0, 3, 4), (1, 1, 1), (777, 24, 12), (4096, 300, 13), (64, 513, 2000), (200, 700, 200)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_bits_are_the_same_for_any_number_of_threads(rng, shape, dtype):
    m, d, n = shape
    a, b = rng.normal(size=(m, d)).astype(dtype), rng.normal(size=(n, d)).astype(dtype).T
    found = []
    for threads in (1, 2, 3, 7):
        # Whatever the caller has asked of BLAS.
        with threadpool_limits(threads, user_api="blas"), products_on(threads) as multiply:
            found.append(multiply(a, b))
    assert found[0].dtype == np.dtype(dtype)
    assert all(product.tobytes() == found[0].tobytes() for product in found)
    wide = a.astype(np.float64) @ b.astype(np.float64)
    atol = 8 * d * np.finfo(dtype).eps
    np.testing.assert_allclose(
        found[0], wide, rtol=0, atol=atol * max(1.0, abs(wide).max(initial=0))
    )


def test_blas_has_one_thread_inside():
    def counts():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = counts()  # a library that others have loaded may know no more than one
        assert 2 in before
        with products_on(3):
            assert set(counts()) == {1}
        assert counts() == before


def test_no_threads_are_refused_before_blas_is_touched():
    with pytest.raises(InvalidValueError, match="n_threads must be at least 1, got 0"):
        products_on(0).__enter__()
