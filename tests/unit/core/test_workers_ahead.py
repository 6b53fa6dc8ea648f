"""How many items of a pass are begun before the result of the first is taken."""

import numpy as np
import pytest

from dualclust.algos.core.workers import map_in_order, workers

LIKE = np.zeros(1)


class Counted:
    """Items that note when they are read, by the caller's thread alone."""

    def __init__(self, n):
        self.n, self.read = n, []

    def __iter__(self):
        for i in range(self.n):
            self.read.append(i)
            yield i


class Sized(Counted):
    """The same, and how many they are."""

    def __len__(self):
        return self.n


@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("items", [Counted(16), Sized(17)])
def test_two_items_a_thread_are_begun_ahead(items, n_threads):
    items.read.clear()
    with workers(n_threads):
        results = map_in_order(abs, items, like=LIKE)
        for taken in range(1, 4):
            next(results)
            assert len(items.read) == 2 * n_threads + taken
        results.close()


def test_a_few_items_that_can_be_counted_are_begun_at_once():
    items = Sized(16)
    with workers(2):
        results = map_in_order(abs, items, like=LIKE)
        next(results)
        assert len(items.read) == 16
        assert list(results) == list(range(1, 16))
