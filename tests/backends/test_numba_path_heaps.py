"""The heaps of samples as Python: after any moves they hold what they should, the least on top."""

import numpy as np
import pytest

from tests.backends.interpreted import ending
from tests.backends.test_augmenting_paths import candidates_of


@pytest.fixture
def h():
    with ending("numba_path_heaps") as module:
        yield module


class Samples:
    """Some rows of a problem in heaps, and what is known of them without the heaps."""

    def __init__(self, h, seed):
        rng = np.random.default_rng(seed)
        m, k = 8, int(rng.integers(2, 5))
        scores = rng.integers(-3, 4, size=(m, k)) / 4.0  # few levels: many ties
        self.values, self.clusters = candidates_of(scores, int(rng.integers(2, k + 1)), rng)
        self.n_listed = (self.clusters >= 0).sum(axis=1)
        self.slots = rng.integers(0, self.n_listed)
        self.rows = np.flatnonzero(rng.random(m) < 0.8)
        self.heaps = h.empty_heaps(self.rows, self.clusters.shape[1], k)
        self.h, self.k = h, k

    def home(self, t):
        i = self.rows[t]
        return np.int64(self.clusters[i, self.slots[i]])

    def fill(self, u):
        """Let those of a cluster wait, and fill its heaps."""
        for t in range(len(self.rows)):
            if self.home(t) == u:
                self.h.join(self.heaps, u, t)
                assert not self.h.is_filled(self.heaps, u)
        self.h.fill(self.heaps, self.values, self.clusters, self.slots, u)
        assert self.h.is_filled(self.heaps, u)

    def move(self, t, slot):
        i, u = self.rows[t], self.home(t)
        self.h.take_out(self.heaps, self.clusters, u, t, self.slots[i])
        self.slots[i] = slot
        v = self.home(t)
        self.h.name_roots(self.heaps, v, np.int64(1))
        self.h.put_in(self.heaps, self.values, self.clusters, v, t, slot)
        self.h.name_roots(self.heaps, v, np.int64(0))

    def losses(self, u):
        """What each node of a cluster loses, by the cluster that it would go to."""
        width, found = self.clusters.shape[1], {}
        for t, i in enumerate(self.rows):
            if self.home(t) == u:
                for j in range(self.n_listed[i]):
                    if j != self.slots[i]:
                        loss = self.values[i, self.slots[i]] - self.values[i, j]
                        found.setdefault(self.clusters[i, j], {})[t * width + j] = loss
        return found

    def below(self, x, before):
        """Nodes of a list and below them; each knows what comes before it, and loses least."""
        found = []
        while x >= 0:
            assert self.heaps.links[x, self.h.BEFORE] == before
            nodes = self.below(self.heaps.links[x, self.h.CHILD], x)
            found += [x, *nodes]
            assert len(set(found)) == len(found) <= len(self.heaps.loss)
            assert x == min([x, *nodes], key=lambda y: (self.heaps.loss[y], y))
            before, x = x, self.heaps.links[x, self.h.AFTER]
        return found

    def check(self, u):
        wanted, width, h = self.losses(u), self.clusters.shape[1], self.h
        root, before, met = self.heaps.of_cluster[u, h.FIRST], h.NONE, []
        while root >= 0:
            v = self.clusters[self.rows[root // width], root % width]
            assert self.heaps.links[root, h.TO] == v
            nodes = [root, *self.below(self.heaps.links[root, h.CHILD], root)]
            assert {x: self.heaps.loss[x] for x in nodes} == wanted[v]
            assert len(nodes) == len(wanted[v])
            assert root == min(nodes, key=lambda y: (self.heaps.loss[y], y))
            assert self.heaps.links[root, h.BEFORE] == before
            met.append(v)
            before, root = root, self.heaps.links[root, h.AFTER]
        assert sorted(met) == sorted(wanted)
        assert (self.heaps.of_cluster[:, h.ROOT_TO] < 0).all()


def test_samples_that_come_and_go_leave_heaps_in_order(h):
    for seed in range(25):
        rng, samples = np.random.default_rng(seed), Samples(h, seed)
        for u in rng.permutation(samples.k):
            samples.fill(np.int64(u))
            samples.check(u)
        for _ in range(30 * (len(samples.rows) > 0)):
            t = int(rng.integers(len(samples.rows)))
            i, u = samples.rows[t], samples.home(t)
            others = np.setdiff1d(np.arange(samples.n_listed[i]), samples.slots[i])
            if len(others):
                samples.move(t, rng.choice(others))
                samples.check(u)
                samples.check(samples.home(t))


def test_losses_are_counted_from_the_first_candidate_of_a_row(h):
    """A constant added to a row changes no bit of them, however large it is."""
    clusters = np.asarray([[0, 1, 2]], dtype=np.int32)
    for start in (0.0, 2.0**49, -(2.0**49)):
        values = np.asarray([[1.125, 0.25, 0.125]]) + start
        for slot in range(3):
            heaps = h.empty_heaps(np.asarray([0]), 3, 3)
            h.join(heaps, np.int64(slot), 0)
            h.fill(heaps, values, clusters, np.asarray([slot]), np.int64(slot))
            others = [j for j in range(3) if j != slot]
            assert heaps.loss[others].tolist() == (values[0, slot] - values[0, others]).tolist()


def test_empty_heaps_have_no_roots_and_nobody_waits(h):
    heaps = h.empty_heaps(np.asarray([3, 5, 9, 11]), 2, 3)
    assert [a.shape for a in heaps] == [(8, 4), (8,), (3, 3), (4, 3)]
    assert [a.dtype for a in heaps] == [np.int32, np.float64, np.int32, np.int32]
    assert heaps.of_sample[:, h.ROW].tolist() == [3, 5, 9, 11]
    assert (heaps.of_cluster < 0).all()
    assert [len(a) for a in h.empty_heaps(np.asarray([], dtype=np.int64), 2, 3)] == [0, 0, 3, 0]


def test_rows_and_nodes_are_counted_in_64_bits_where_32_are_too_few(h):
    assert [h._integers(n) for n in (70, 2**31 - 1, 2**31)] == [np.int32, np.int32, np.int64]
    for row, kind in ((2**31 - 1, np.int32), (2**31, np.int64)):
        heaps = h.empty_heaps(np.asarray([3, row]), 2, 3)
        assert [a.dtype for a in heaps] == [kind, np.float64, kind, kind]
        assert heaps.of_sample[:, h.ROW].tolist() == [3, row]
