"""A wrong row is named by its number in the input: past the first block, batch, shard and rank."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dualclust.algos.core.errors import DualclustError
from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cluster.embeddings import check_embeddings
from dualclust.cluster.pairs import read_forbidden, read_seeds
from dualclust.common.formats import open_rows
from dualclust.common.formats.delimited import BLOCK_BYTES
from dualclust.common.formats.rows import BATCH_BYTES, Selection
from tests.cluster.written_formats import arrow_table, write_arrow, write_parquet
from tests.refusals import message_of
from tests.thread_ranks import groups_on_threads

D = 64
N = 3 * (BATCH_BYTES // (8 * D)) + 100
PLACES = [0, N // 2, N - 1]


def error_of(path, selection=None):
    """What is said of a file whose rows are read."""

    def read():
        rows = open_rows(path, selection)
        return rows.rows(0, rows.n_samples)

    return message_of(DualclustError, read)


# Text --------------------------------------------------------------------------------------------

LINES = [f"id {i},{i}.5,{i % 7}.25" for i in range(60_000)]
BLOCKS = BLOCK_BYTES * 2 < sum(map(len, LINES))


def text_of(path, row, line):
    """A table in three blocks of text, whose line of one row is another."""
    pytest.importorskip("pyarrow")
    assert BLOCKS
    lines = LINES.copy()
    lines[row] = line
    path.write_text("name,a,b\n" + "\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("row", [3, 25_000, 59_999])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x,,1.5", "has a missing value in column 'a', row {row}."),
        ("x,1.5,NA", "has a missing value in column 'b', row {row}."),
        (",1.5,2.5", "has a missing value in column 'name', row {row}."),
        ("x,1.5,red", "has no number in column 'b', line {line}: 'red'"),
        ("x,1.5", "has 2 fields in line {line}, and 3 in the first"),
    ],
)
def test_rows_and_lines_of_text(tmp_path, row, line, words):
    path = text_of(tmp_path / "X.csv", row, line)
    found = error_of(path, Selection(id="name"))
    assert words.format(row=row, line=row + 2) in found


# Tables of Arrow ---------------------------------------------------------------------------------


@pytest.mark.parametrize("row", PLACES)
@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
@pytest.mark.parametrize("what", ["a list", "a number in a list", "a column", "an id", "a length"])
def test_rows_of_tables(tmp_path, what, kind, row):
    pa = pytest.importorskip("pyarrow")
    if what == "a column":
        column = [None if i == row else i % 7 + 0.5 for i in range(N)]
        table = pa.table({"x": column} | {f"y{j}": np.ones(N) for j in range(D - 1)})
        selection, words = None, "in column 'x', row {}."
    elif what == "an id":
        table = arrow_table(np.ones((N, D)))
        names = pa.array([None if i == row else str(i) for i in range(N)])
        table = table.set_column(0, "url", names)
        selection, words = Selection(id="url", columns=("emb",)), "in column 'url', row {}."
    else:
        lists = [[1.0] * D for _ in range(N)]
        if what == "a list":
            lists[row] = None
        elif what == "a number in a list":
            lists[row][D // 2] = None
        else:
            lists[row].append(2.0)
        table = pa.table({"emb": pa.array(lists)})
        selection, words = None, "in column 'emb', row {}."
        if what == "a length":
            # The first list says how long all of them are.
            words = f"{D} numbers in one row, {D + 1} in row {{}}."
            words = f"{D + 1} numbers in one row, {D} in row 1." if row == 0 else words
    path = tmp_path / ("X.parquet" if kind == "parquet" else "X.arrow")
    if kind == "parquet":
        write_parquet(path, table, row_group_size=1000)
    else:
        write_arrow(path, stream=kind == "stream", table=table)
    assert words.format(row) in error_of(path, selection)


# Values of any format ----------------------------------------------------------------------------

LONG = 3 * MOST_ROWS + 50
ROWS = [0, MOST_ROWS - 1, MOST_ROWS, 2 * MOST_ROWS + 7, LONG - 1]


@pytest.mark.parametrize("edges", [[0, LONG], [0, MOST_ROWS, 3 * MOST_ROWS, LONG]])
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    ("value", "metric", "words"),
    [
        (np.nan, "cosine", "holds NaN or infinity"),
        (np.inf, "euclidean", "holds NaN or infinity"),
        (0.0, "cosine", "holds only zeros"),
    ],
)
def test_values_on_any_rank(tmp_path, edges, row, value, metric, words):
    x = np.ones((LONG, 3), np.float32)
    x[row] = value
    np.save(tmp_path / "X.npy", x)
    rows = open_rows(tmp_path / "X.npy")

    def said(group):
        return message_of(DualclustError, check_embeddings, rows, metric, group)

    wanted = f"{words} in row {row}."
    assert all(wanted in found for found in groups_on_threads(edges, said))
    later = x.copy()
    later[[row, LONG - 1]] = value
    np.save(tmp_path / "X.npy", later)
    rows = open_rows(tmp_path / "X.npy")
    count = len({row, LONG - 1})
    wanted = f"{words} in {count} rows, the first of them row {row}" if count > 1 else wanted
    assert all(wanted in found for found in groups_on_threads(edges, said))


def test_values_of_shards_are_named_by_row_and_file(tmp_path):
    folder = tmp_path / "X"
    folder.mkdir()
    edges = [0, 5000, 12_000, 20_000]
    x = np.ones((edges[-1], 2))
    x[12_003, 1] = np.nan
    for i, (start, stop) in enumerate(itertools.pairwise(edges)):
        np.save(folder / f"part-{i}.npy", x[start:stop])
    with pytest.raises(DualclustError, match=r"in row 12003 \(row 3 of .*part-2\.npy\)"):
        check_embeddings(open_rows(folder), "cosine")


# Rows by their ids -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [0, 25_000, 59_999])
def test_rows_by_ids_past_the_first_block(tmp_path, row):
    path = text_of(tmp_path / "X.csv", row, "wanted,1.5,2.5")
    (tmp_path / "s.csv").write_text("name,cluster\nwanted,2\n")
    rows = open_rows(path, Selection(id="name"))
    seeds = read_seeds(tmp_path / "s.csv", rows, 3, "name")
    assert np.flatnonzero(seeds >= 0).tolist() == [row]
    assert seeds[row] == 2
    pairs = read_forbidden(tmp_path / "s.csv", rows, 3, "name")
    assert pairs.tolist() == [[row, 2]]


def test_an_id_of_two_rows_past_the_first_block(tmp_path):
    path = text_of(tmp_path / "X.csv", 55_000, "id 30000,1.5,2.5")
    (tmp_path / "s.csv").write_text("name,cluster\nid 30000,2\n")
    rows = open_rows(path, Selection(id="name"))
    with pytest.raises(DualclustError, match=r"'id 30000', which rows 30000 and 55000 of"):
        read_seeds(tmp_path / "s.csv", rows, 3, "name")
