"""What each rank reads: its own rows and no others, from the shards that hold them, at every step.

The ranks are threads (`tests.thread_ranks`) that run the whole command. The rows that each asks a
file for are recorded; those of the other ranks are a failure, whichever step wants them.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict

import numpy as np
import pytest

from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cli.main import main
from dualclust.cluster import command as cluster_command
from dualclust.cluster import launch, problem
from dualclust.cluster.embeddings import open_embeddings
from dualclust.common.formats import copies, open_rows
from dualclust.common.formats import plain as plain_rows
from dualclust.common.ranks import Launch, Ranks
from tests.cli.cluster_files import listing
from tests.problems import unit_rows
from tests.thread_ranks import on_threads

pytest.importorskip("torch")

N, D = 4 * MOST_ROWS + 777, 6
PARTS = 7


class Recorded:
    """Rows of a file that remember which of them were asked for."""

    def __init__(self, rows, seen):
        self.inner, self.seen = rows, seen

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def rows(self, start, stop):
        self.seen.update(range(start, stop))
        return self.inner.rows(start, stop)

    def take(self, ids):
        self.seen.update(int(i) for i in ids)
        return self.inner.take(ids)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Seven shards of unequal length, no edge of which is an edge of a block."""
    folder, rng = tmp_path_factory.mktemp("rows") / "X", np.random.default_rng(0)
    folder.mkdir()
    centers = unit_rows(rng.normal(size=(9, D)))
    x = centers[rng.integers(9, size=N) ** 2 // 9] + 0.4 * rng.normal(size=(N, D))
    edges = [0, *sorted(rng.choice(N, PARTS - 1, replace=False)), N]
    for i in range(PARTS):
        np.save(folder / f"part-{i}.npy", x[edges[i] : edges[i + 1]].astype(np.float16))
    return folder, edges


OPTIONS = {
    "cosine": ("--report", "--table", "table.csv", "--checkpoint", "state"),
    "euclidean": ("--metric", "euclidean", "--report", "--gap", "0"),
}


def arguments(folder, out, metric):
    words = [
        str(out / word) if word in ("table.csv", "state") else word for word in OPTIONS[metric]
    ]
    return ["cluster", str(folder), "-k", "9", "--tol", "0", "--max-iter", "2", *words]


def far_start(started):
    """Starting centers of which one is nobody's, so that it moves to a row of some rank."""

    def start(source, k, **options):
        centers = np.array(started(source, k, **options))
        centers[0] = centers[1]
        return centers

    return start


def on_ranks(size, words, monkeypatch):
    """Run the command on threads; return the rows and the files that each rank has read."""
    here = threading.local()
    rows, files = defaultdict(set), defaultdict(set)
    opened = plain_rows._descriptor

    def descriptor(place):
        files[here.ranks.rank].add(place)
        return opened(place)

    def recorded(path, selection):
        return Recorded(open_rows(path, selection), rows[here.ranks.rank])

    def work(ranks):
        here.ranks = ranks
        return main(words)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "join_ranks", lambda *_, **__: here.ranks)
        patch.setattr(problem, "open_embeddings", recorded)
        patch.setattr(plain_rows, "_descriptor", descriptor)
        codes = on_threads(size, work)
    return codes, rows, files


@pytest.mark.unjudged(reason="it lists the files that ranks read")
@pytest.mark.parametrize(("metric", "size"), [("cosine", 2), ("euclidean", 3)])
def test_no_rank_reads_the_rows_of_another(shards, metric, size, tmp_path, monkeypatch, capsys):
    folder, edges = shards
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    started = far_start(cluster_command.drawn_centers)
    monkeypatch.setattr(cluster_command, "drawn_centers", started)
    words = arguments(folder, tmp_path / "one", metric)
    assert main([*words, "--out", str(tmp_path / "one/out")]) == 0
    words = arguments(folder, tmp_path / "many", metric)
    codes, rows, files = on_ranks(size, [*words, "--out", str(tmp_path / "many/out")], monkeypatch)
    assert codes == [0] * size, capsys.readouterr().err
    for rank in range(size):
        start, stop = Ranks(rank, size).shard(N, unit=MOST_ROWS)
        assert rows[rank] == set(range(start, stop))
        holds = [i for i in range(PARTS) if edges[i] < stop and edges[i + 1] > start]
        assert {path.name for path in files[rank]} == {f"part-{i}.npy" for i in holds}
        assert len(holds) < PARTS
    assert listing(tmp_path / "many/out") == listing(tmp_path / "one/out")
    for name in ("state", "table.csv"):
        if (tmp_path / "one" / name).exists():
            both = [(tmp_path / run / name).read_bytes() for run in ("one", "many")]
            assert both[0] == both[1]


def test_a_rank_unpacks_its_own_shards_alone(shards, tmp_path, monkeypatch) -> None:
    """Parquet has to be unpacked: each rank copies its share, out of the files that hold it."""
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder, edges = shards
    packed = tmp_path / "X"
    packed.mkdir()
    for i in range(PARTS):
        x = np.load(folder / f"part-{i}.npy").astype(np.float32)
        lists = pa.FixedSizeListArray.from_arrays(x.ravel(), D)
        pq.write_table(pa.table({"x": lists}), packed / f"part-{i}.parquet", row_group_size=1000)
    x, size, here = open_rows(packed).rows(0, N), 3, threading.local()
    unpacked = defaultdict(set)
    batches = copies._batches

    def recorded(part):
        unpacked[here.rank].add(part.name.rpartition("/")[2])
        return batches(part)

    monkeypatch.setattr(copies, "_batches", recorded)
    monkeypatch.setattr(copies, "read_launch", lambda: Launch(here.rank, size, here.rank))

    def work(ranks):
        here.rank = ranks.rank
        rows = open_embeddings(packed)
        start, stop = ranks.shard(N, unit=MOST_ROWS)
        assert rows.n_samples == N
        np.testing.assert_array_equal(rows.rows(start, stop), x[start:stop])
        copy = rows._there().place.fileno()
        assert os.fstat(copy).st_size == copies.START + (stop - start) * D * 4
        some = np.asarray([stop - 1, start, start + 7])
        np.testing.assert_array_equal(rows.take(some), x[some])

    on_threads(size, work)
    for rank in range(size):
        start, stop = Ranks(rank, size).shard(N, unit=MOST_ROWS)
        holds = [i for i in range(PARTS) if edges[i] < stop and edges[i + 1] > start]
        assert unpacked[rank] == {f"part-{i}.parquet" for i in holds}


def test_the_recorder_notices_a_row_of_another_rank(shards, tmp_path, monkeypatch) -> None:
    """Reads that the test above must see: those of a `take` that does not share out its ids."""
    from dualclust.cluster import embeddings

    folder, _ = shards
    monkeypatch.setattr(embeddings, "take_over_ranks", lambda take, group, ids: take(ids))
    words = ["cluster", str(folder), "-k", "9", "--max-iter", "0", "--out", str(tmp_path / "out")]
    _, rows, _ = on_ranks(2, words, monkeypatch)
    start, stop = Ranks(0, 2).shard(N, unit=MOST_ROWS)
    assert not rows[0] <= set(range(start, stop))
