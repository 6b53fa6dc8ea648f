"""Rows worth a look: against all rows at once, over blocks and ranks, and as a table."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from dualclust.algos.bounds.sizes import SizeBounds
from dualclust.algos.clustering import restricted_scores
from dualclust.algos.scores.sources import Group, feature_source
from dualclust.cluster import notable as module
from dualclust.cluster.notable import Lines, find_notable, rows_csv
from tests.cluster.results import result

METRICS = ["cosine", "euclidean"]


def all_at_once(source, found, metric, weights):
    """Nearness, margins, second choices, favorites and losses of all rows, in float64."""
    x = source.rows(0, source.group.n_local).astype(np.float64)
    n = len(x)
    squared = ((x[:, None] - found.centers) ** 2).sum(axis=2)
    scores = x @ found.centers.T if metric == "cosine" else -0.5 * squared
    near = (scores if metric == "cosine" else squared)[np.arange(n), found.labels]
    scores = scores if weights is None else weights[:, None] * scores
    line = np.arange(n)
    loss = scores.max(axis=1) - scores[line, found.labels]
    free = np.where(loss > 1e-12, scores.argmax(axis=1), found.labels)
    priced = scores + found.prices
    own = priced[line, found.labels].copy()
    priced[line, found.labels] = -np.inf
    return (
        near,
        own - priced.max(axis=1),
        priced.argmax(axis=1),
        free,
        np.where(loss > 1e-12, loss, 0),
    )


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_against_all_rows_at_once(metric, weighted) -> None:
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=700) if weighted else None
    source, found, _ = result(7, 700, metric=metric, weights=weights)
    got = find_notable(source, found, metric, weights, most=4, all_rows=True)
    near, margin, second, free, loss = all_at_once(source, found, metric, weights)
    np.testing.assert_allclose(got.choices.margin, margin, atol=1e-12)
    np.testing.assert_allclose(got.choices.loss, loss, atol=1e-12)
    np.testing.assert_array_equal(got.choices.runner_up, second)
    np.testing.assert_array_equal(got.choices.free, free)
    assert got.loss == pytest.approx(loss.sum())
    moved = free != found.labels
    assert got.n_moved == moved.sum() > 20
    np.testing.assert_array_equal(got.moved_in, np.bincount(found.labels[moved], minlength=7))
    np.testing.assert_array_equal(got.moved_out, np.bincount(free[moved], minlength=7))
    assert sorted(got.moved.row) == np.flatnonzero(moved).tolist()  # so few: all of them
    far = near if metric == "euclidean" else -near
    for i in range(7):
        mine = np.flatnonzero(found.labels == i)
        for lines, key in ((got.exemplars, far), (got.doubtful, margin)):
            rows = lines.row[lines.cluster == i]
            assert set(rows) <= set(mine)
            # Not the rows: on the border between two clusters margins tie up to rounding.
            np.testing.assert_allclose(key[rows], np.sort(key[mine])[:4], atol=1e-12)
        lost = loss[got.moved.row[got.moved.cluster == i]]
        assert (np.diff(lost) <= 0).all()


def test_of_many_moved_rows_those_that_paid_most(monkeypatch) -> None:
    source, found, _ = result(5, 600)
    every = find_notable(source, found, "cosine")
    monkeypatch.setattr(module, "ALL_MOVED", every.n_moved - 1)
    some = find_notable(source, found, "cosine", most=3)
    assert some.n_moved == every.n_moved
    for i in range(5):
        rows = every.moved.row[every.moved.cluster == i][:3]
        assert some.moved.row[some.moved.cluster == i].tolist() == rows.tolist()


def test_equal_rows_are_told_apart_by_their_numbers() -> None:
    """Every row twelve times, in several blocks: the first of them are kept."""
    source, found, _ = result(4, 50)
    x = np.concatenate([source.rows(0, 50)] * 1200)
    whole = found._replace(labels=np.concatenate([found.labels] * 1200))
    got = find_notable(feature_source(x), whole, "cosine", most=5)
    for lines in (got.exemplars, got.doubtful):
        for i in range(4):
            rows = lines.row[lines.cluster == i]
            assert rows.tolist() == (rows[0] + 50 * np.arange(5)).tolist()
            assert rows[0] < 50


class Ranks:
    """Ranks one after the other: each gives its parts and takes those of all at the second try."""

    def __init__(self, edges) -> None:
        self.edges, self.sent = edges, [[] for _ in edges[:-1]]

    def run(self, call):
        for _ in range(40):  # each round, every rank gets one exchange further
            done = []
            for rank, (start, stop) in enumerate(zip(self.edges, self.edges[1:], strict=False)):
                done.append(self._one(rank, start, stop, call))
            if all(result is not None for result in done):
                return done
        raise AssertionError

    def _one(self, rank, start, stop, call):
        step = -1

        def gather(array):
            nonlocal step
            step += 1
            if len(self.sent[rank]) <= step:
                self.sent[rank].append(np.array(array))
            if any(len(sent) <= step for sent in self.sent):
                raise InterruptedError
            return np.concatenate([sent[step] for sent in self.sent])

        try:
            return call(Group(start, stop - start, self.edges[-1], gather))
        except InterruptedError:
            return None


@pytest.mark.parametrize("metric", METRICS)
def test_the_same_on_any_number_of_ranks(metric) -> None:
    n, block = 20_000, 8192
    source, found, _ = result(6, n, metric=metric)
    alone = find_notable(source, found, metric, all_rows=True)

    def call(group):
        first = group.first_row
        own = source._replace(group=group, rows=lambda a, b: source.rows(first + a, first + b))
        return find_notable(own, found, metric, all_rows=True)

    for edges in ([0, block, n], [0, block, 2 * block, n, n]):
        for got in Ranks(edges).run(call):
            for one, other in zip(got, alone, strict=True):
                if isinstance(one, tuple):
                    for a, b in zip(one, other, strict=True):
                        np.testing.assert_array_equal(a, b)
                else:
                    np.testing.assert_array_equal(one, other)


def test_far_from_the_origin_no_row_is_moved_by_rounding() -> None:
    """Scores of 1e6 have no digits for distances of 1 in float32."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(500, 4)) + 1000.0 * (1 + np.arange(4))).astype(np.float32)
    centers = x[:5].copy()
    labels = ((x[:, None].astype(np.float64) - centers) ** 2).sum(axis=2).argmin(axis=1)
    _, found, _ = result(5, 500)
    found = found._replace(
        labels=labels,
        centers=centers,
        counts=np.bincount(labels, minlength=5),
        prices=np.zeros(5),
    )
    got = find_notable(feature_source(x), found, "euclidean")
    assert got.n_moved == 0
    assert got.loss == 0.0


def test_fixed_rows_are_neither_doubtful_nor_moved() -> None:
    source, found, _ = result(5, 300)
    bounds = SizeBounds.from_counts(found.lower, found.upper, n_samples=300)
    plain = find_notable(source, found, "cosine")
    known = np.full(300, -1)
    known[plain.moved.row] = plain.moved.cluster
    known[plain.doubtful.row[:3]] = plain.doubtful.cluster[:3]
    got = find_notable(
        source,
        found,
        "cosine",
        restricted=lambda scores: restricted_scores(scores, bounds, fixed=known),
    )
    assert plain.n_moved > 0
    assert got.n_moved == 0
    assert not set(plain.doubtful.row[:3].tolist()) & set(got.doubtful.row.tolist())


def test_one_cluster_has_nothing_doubtful() -> None:
    source, found, _ = result(1, 20, lower=0.0, upper=np.inf)
    got = find_notable(source, found, "cosine")
    assert (len(got.exemplars.row), len(got.doubtful.row), got.n_moved) == (10, 0, 0)


@pytest.mark.parametrize("ids", [None, {i: f"a,{i}" for i in range(200)}])
def test_the_table(ids) -> None:
    source, found, _ = result(4, 200)
    got = find_notable(source, found, "cosine", most=2)
    lines = list(csv.DictReader(io.StringIO(rows_csv(got, "cosine", ids))))
    kinds = {"exemplar": got.exemplars, "doubtful": got.doubtful, "moved": got.moved}
    assert len(lines) == sum(len(part.row) for part in kinds.values())
    for kind, part in kinds.items():
        mine = [line for line in lines if line["kind"] == kind]
        names = ("row", "cluster", "runner_up", "free_choice", "similarity", "margin", "loss")
        for name, column in zip(names, Lines(*part), strict=True):
            assert [float(line[name]) for line in mine] == pytest.approx(column.tolist())
        if ids is not None:
            assert [line["id"] for line in mine] == [ids[row] for row in part.row.tolist()]
    assert ("id" in lines[0]) == (ids is not None)


def on_bisectors(n):
    """Rows as far from one center as from the other, of which only rounding tells them apart."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    x[:, 0] = 0.0
    centers = np.zeros((2, 5))
    centers[:, 0], centers[:, 1:] = (0.7, -0.7), 0.3 * rng.normal(size=4)
    labels = np.arange(n) % 2
    _, found, _ = result(2, n)
    counts = np.bincount(labels)
    return x, found._replace(labels=labels, centers=centers, counts=counts, prices=np.zeros(2))


def test_a_tie_is_one_of_the_weight_of_its_own_row_on_any_rank() -> None:
    """Rounding of a heavy row is more than that of a light one, whichever rank reads it."""
    n = 4000
    x, found = on_bisectors(n)
    x += np.float32(30.0)
    found = found._replace(centers=found.centers + 30.0)
    weights = np.where(np.arange(n) < n // 2, 1e-6, 1e6)
    source = feature_source(x)

    def call(group):
        first = group.first_row
        own = source._replace(group=group, rows=lambda a, b: x[first + a : first + b])
        return find_notable(own, found, "euclidean", weights)

    [alone] = Ranks([0, n]).run(call)
    for got in (alone, *Ranks([0, n // 2, n]).run(call)):
        assert got.n_moved == 0
        assert got.loss == 0.0


def test_a_row_of_weight_0_is_moved_if_it_would_be_elsewhere() -> None:
    source, found, _ = result(5, 300)
    plain = find_notable(source, found, "cosine", all_rows=True)
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 2.0)
    got = find_notable(source, found, "cosine", weights, all_rows=True)
    assert got.n_moved == plain.n_moved > 20
    assert sorted(got.moved.row) == sorted(plain.moved.row)
    np.testing.assert_array_equal(got.choices.free, plain.choices.free)
    np.testing.assert_array_equal(got.moved_in, plain.moved_in)
    light = weights == 0.0
    assert (got.choices.loss[light] == 0.0).all()
    np.testing.assert_allclose(got.choices.loss[~light], 2.0 * plain.choices.loss[~light])
