"""Parquet, Arrow and folders: pandas, polars, Spark, Hugging Face datasets."""

from __future__ import annotations

import json

import numpy as np

from tests.cluster.tried.read import BITS, TEXT, Read, X, file, lines, table

ROWS = X.tolist()
OF = ": columns a, b, c"
NAMES = ["a", "b", "c"]
HOLED = [[None, 1.5, 2.5], *ROWS[1:]]


def floats(array=X, names=NAMES):
    return {name: array[:, j] for j, name in enumerate(names)}


def shards(write, names, **others):
    """A folder with the file X of each part, and other files."""

    def both(folder):
        (folder / "in").mkdir()
        for name in names:
            write(folder / "in", name)
        for name, text in others.items():
            (folder / "in" / name.replace("__", ".")).write_text(text)

    return both


def text_shard(folder, name):
    file(name, lines(rows=[NAMES, *TEXT]), packed=name.endswith(".gz"))(folder)


def list_shard(folder, name):
    table(name, lambda pa: {"emb": pa.array(ROWS, pa.list_(pa.float32()))})(folder)


def pandas_index(pa):
    columns = {"a": X[:, 0], "b": X[:, 1], "__index_level_0__": np.arange(40)}
    meta = json.dumps({"index_columns": ["__index_level_0__"]})
    return pa.table(columns).replace_schema_metadata({"pandas": meta})


def index_table(folder):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pandas_index(pa), folder / "X.parquet")


LISTS = ": column of lists emb"
TWICE = np.concatenate([X, X])
CASES = {
    "parquet": Read("pandas", table("X.parquet", lambda pa: floats()), "X.parquet", OF),
    "parquet-index": Read(
        "pandas", index_table, "X.parquet", ": columns a, b", X[:, :2], ("__index_level_0__",)
    ),
    "parquet-bool": Read(
        "pandas", table("X.parquet", lambda pa: floats(BITS)), "X.parquet", OF, BITS
    ),
    "parquet-mixed": Read(
        "pandas",
        table("X.parquet", lambda pa: {"p": BITS[:, 0], "a": X[:, 0], "n": pa.array([1, 2] * 20)}),
        "X.parquet",
        ": columns p, a, n",
        np.stack([BITS[:, 0], X[:, 0], [1, 2] * 20], axis=1),
    ),
    "parquet-nullable": Read(
        "pandas",
        table(
            "X.parquet", lambda pa: {"a": pa.array([1, None, 3]), "b": pa.array([1.0, 2.0, 3.0])}
        ),
        "X.parquet --invalid drop",
        ": columns a, b",
        [[1, 1], [np.nan, 2], [3, 3]],
    ),
    "parquet-nullable-bool": Read(
        "pandas",
        table("X.parquet", lambda pa: {"a": pa.array([True, None]), "b": pa.array([1.0, 2.0])}),
        "X.parquet --invalid drop",
        ": columns a, b",
        [[1, 1], [np.nan, 2]],
    ),
    "parquet-left-out": Read(
        "pandas",
        table("X.parquet", lambda pa: floats() | {"city": ["x"] * 40, "when": [1.0] * 40}),
        "X.parquet --columns a,b,c",
        OF,
        left_out=("city", "when"),
    ),
    "parquet-lists": Read(
        "polars",
        table("X.parquet", lambda pa: {"emb": pa.array(ROWS, pa.large_list(pa.float32()))}),
        "X.parquet",
        LISTS,
    ),
    "parquet-arrays": Read(
        "polars",
        table("X.parquet", lambda pa: {"emb": pa.array(ROWS, pa.list_(pa.float32(), 3))}),
        "X.parquet",
        LISTS,
    ),
    "parquet-lists-others": Read(
        "polars",
        table("X.parquet", lambda pa: {"id": range(40), "emb": ROWS, "text": ["t"] * 40}),
        "X.parquet --id id",
        LISTS,
        left_out=("text",),
        ids=tuple(map(str, range(40))),
    ),
    "parquet-null-list": Read(
        "polars",
        table("X.parquet", lambda pa: {"emb": pa.array([None, *ROWS[1:]], pa.list_(pa.float32()))}),
        "X.parquet --invalid drop",
        LISTS,
        [[np.nan] * 3, *ROWS[1:]],
    ),
    "parquet-null-array": Read(
        "polars",
        table(
            "X.parquet", lambda pa: {"emb": pa.array([*ROWS[:-1], None], pa.list_(pa.float32(), 3))}
        ),
        "X.parquet --invalid drop",
        LISTS,
        [*ROWS[:-1], [np.nan] * 3],
    ),
    "parquet-null-inside": Read(
        "polars",
        table("X.parquet", lambda pa: {"emb": pa.array(HOLED, pa.list_(pa.float32()))}),
        "X.parquet --invalid drop",
        LISTS,
        [[np.nan, 1.5, 2.5], *ROWS[1:]],
    ),
    "ipc": Read("polars", table("X.arrow", lambda pa: floats()), "X.arrow", OF),
    "ipc-view": Read(
        "polars",
        table(
            "X.arrow",
            lambda pa: floats() | {"k": pa.array(["x"] * 40, pa.string_view())},
            compression="uncompressed",
        ),
        "X.arrow --id k",
        OF,
        ids=("x",) * 40,
    ),
    "ipc-stream": Read("polars", table("X.arrows", lambda pa: floats()), "X.arrows", OF),
    "feather": Read(
        "pandas", table("X.feather", lambda pa: floats(), compression="lz4"), "X.feather", OF
    ),
    "spark-parquet": Read(
        "Spark",
        shards(list_shard, ["part-0.parquet", "part-1.parquet"], _SUCCESS=""),
        "in",
        LISTS,
        TWICE,
    ),
    "spark-csv": Read(
        "Spark", shards(text_shard, ["part-0.csv", "part-1.csv"], _SUCCESS=""), "in", OF, TWICE
    ),
    "spark-csv-gz": Read(
        "Spark", shards(text_shard, ["part-0.csv.gz", "part-1.csv.gz"]), "in", OF, TWICE
    ),
    "datasets": Read(
        "datasets",
        shards(
            list_shard,
            ["data-0.arrows", "data-1.arrows"],
            state__json="{}",
            dataset_info__json="{}",
        ),
        "in",
        LISTS,
        TWICE,
        ("dataset_info.json", "state.json"),
    ),
    "shards-and-notes": Read(
        "numpy",
        shards(lambda f, name: np.save(f / name, X), ["a.npy", "b.npy"], README__md="mine"),
        "in",
        "",
        TWICE,
        ("README.md",),
    ),
}
