"""The paths of a search as Python: the nearest node first, of two as near the smaller one."""

import numpy as np
import pytest

from tests.backends.interpreted import ending

N_NODES = 12


@pytest.fixture
def t():
    with ending("numba_shortest_paths") as module:
        yield module


def random_arcs(seed):
    """Lengths of few levels, so that many tie, and many arcs that are not there."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, size=(N_NODES, N_NODES)) / 4.0
    return np.where(rng.random((N_NODES, N_NODES)) < 0.3, lengths, np.inf)


def nodes_in_order(lengths, source):
    """Nodes with their distances and the nodes before them, without a heap."""
    dist, before, done = {source: 0.0}, {source: -1}, []
    while set(dist) - set(done):
        u = min(set(dist) - set(done), key=lambda v: (dist[v], v))
        done.append(u)
        for v in range(N_NODES):
            if dist[u] + lengths[u, v] < dist.get(v, np.inf):
                dist[v], before[v] = dist[u] + lengths[u, v], u
    return [(u, dist[u], before[u]) for u in done]


def search(t, tree, lengths, source, most=N_NODES):
    t.reach(tree, source, 0.0, -1, -1)
    found = []
    for _ in range(most):
        u = t.nearest(tree)
        if u < 0:
            break
        assert tree.is_done[u]
        assert tree.nodes[u, t.VIA] == 100 * tree.nodes[u, t.PARENT] + u or u == source
        found.append((u, tree.dist[u], tree.nodes[u, t.PARENT]))
        for v in range(N_NODES):
            if not tree.is_done[v] and lengths[u, v] < np.inf:
                t.reach(tree, v, tree.dist[u] + lengths[u, v], u, 100 * u + v)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_searches_end_at_each_node_by_its_shortest_path(t, seed):
    """Several on one tree: what one has left behind, whole or not, the next does not find."""
    lengths, tree = random_arcs(seed), t.empty_tree(N_NODES)
    for source in range(N_NODES):
        most = N_NODES if source % 2 else 3
        expected = nodes_in_order(lengths, source)
        assert search(t, tree, lengths, source, most) == expected[:most]
        touched = tree.nodes[: tree.counts[t.N_TOUCHED], t.TOUCHED].tolist()
        assert sorted(touched) == np.flatnonzero(tree.dist < np.inf).tolist()
        t.forget(tree)
        assert (tree.dist == np.inf).all()
        assert not tree.is_done.any()
        assert not tree.counts.any()


def test_a_path_that_is_no_shorter_changes_nothing(t):
    tree = t.empty_tree(3)
    t.reach(tree, 1, 0.5, 0, 7)
    for length in (0.5, 0.75, np.inf):
        t.reach(tree, 1, length, 2, 8)
    assert tree.dist.tolist() == [np.inf, 0.5, np.inf]
    assert tree.nodes[1, [t.PARENT, t.VIA]].tolist() == [0, 7]
    assert t.nearest(tree) == 1
    assert t.nearest(tree) == -1


def test_a_tree_that_has_not_begun(t):
    tree = t.empty_tree(4)
    assert [a.shape for a in tree] == [(4,), (4,), (4,), (4, 5), (2,)]
    assert [a.dtype for a in tree] == [np.float64, np.float64, np.bool_, np.int64, np.int64]
    assert (tree.dist == np.inf).all()
    assert not tree.is_done.any()
    assert t.nearest(tree) == -1
