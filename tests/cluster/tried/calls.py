"""Calls that are refused for their options, and what each message tells its user to do instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dualclust.cli.main import main

X = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)


class Call(NamedTuple):
    """A call, words of its message, and calls that follow what the message says."""

    call: str
    says: str
    follow: tuple[str | Callable[[Path], str], ...]


def prepare(folder: Path) -> None:
    """Write what the calls name."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    np.save(folder / "X.npy", X)
    np.save(folder / "wide.npy", np.tile(X, 2))
    np.save(folder / "four.npy", X[:4])
    np.save(folder / "zero.npy", np.concatenate([X[:2], np.zeros((1, 3))]))
    np.save(folder / "hole.npy", np.concatenate([X[:2], np.full((1, 3), np.nan)]))
    np.save(folder / "w.npy", np.arange(1, 41))
    np.save(folder / "short.npy", np.arange(1, 9))
    np.save(folder / "negative.npy", np.arange(40) - 1.0)
    np.save(folder / "nothing.npy", np.zeros(40))
    np.save(folder / "odd.npy", np.where(np.arange(40) == 3, np.nan, 1.0))
    np.save(folder / "known.npy", np.full(40, 7))
    np.savez(folder / "X.npz", a=X, b=X)
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    columns |= {"url": [f"u{i}" for i in range(40)], "cost": np.arange(1, 41)}
    columns |= {"team": [None, 0, 1, 2] * 10, "rank": np.arange(40) % 5, "cluster": range(40)}
    parquet.write_table(pa.table(columns), folder / "X.parquet")
    (folder / "known.csv").write_text("url,cluster\nu3,1\nu4,2\n")
    (folder / "twice.csv").write_text("row,cluster\n3,1\n3,2\n")
    (folder / "captions.txt").write_text("one\n")
    sizes = "".join(f"{i},5,30\n" for i in range(3))
    (folder / "bounds.csv").write_text(f"cluster,min_count,max_count\n{sizes}")
    (folder / "old.csv").write_text(f"cluster,lower,upper\n{sizes}")
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    run("cluster X.npy -k 3 --out model")
    run("cluster X.npy -k 3 --out ended --checkpoint state")


def run(call: str) -> int:
    """Run a command in the working directory."""
    return main(call.split())


def rewrite(name: str, make: Callable[[], np.ndarray], call: str) -> Callable[[Path], str]:
    """Save another array, and give the call again."""

    def follow(folder: Path) -> str:
        np.save(folder / name, make())
        return call

    return follow


def write(name: str, text: str, call: str) -> Callable[[Path], str]:
    """Write a text, and give the call again."""

    def follow(folder: Path) -> str:
        (folder / name).write_text(text)
        return call

    return follow


C, P = "cluster X.npy -k 3", "cluster X.parquet -k 3 --columns a,b,c"
A = "assign model X.npy"
CALLS = {
    "two lower bounds": Call(
        f"{C} --lower .5 --min-count 3",
        "leave one of them out",
        (f"{C} --lower .5", f"{C} --min-count 3"),
    ),
    "bounds and a share": Call(
        f"{C} --lower .5 --bounds bounds.csv", "leave out --lower", (f"{C} --bounds bounds.csv",)
    ),
    "rows as a share": Call(
        f"{C} --lower 5", "give a number of rows with --min-count", (f"{C} --min-count 5",)
    ),
    "rows as an upper share": Call(
        f"{C} --upper .5", "give a number of rows with --max-count", (f"{C} --max-count 20",)
    ),
    "rounding of rows": Call(
        f"{C} --min-count 5 --max-count 30 --rounding inward",
        "leave out --rounding",
        (f"{C} --min-count 5 --max-count 30",),
    ),
    "rounding of a file": Call(
        f"{C} --bounds bounds.csv --rounding inward",
        "leave out --rounding",
        (f"{C} --bounds bounds.csv",),
    ),
    "rounding inward": Call(
        f"{C} --lower 1 --upper 1 --rounding inward",
        "leave out --rounding",
        (f"{C} --lower 1 --upper 1",),
    ),
    "too many at least": Call(f"{C} --min-count 20", "give at most 13", (f"{C} --min-count 13",)),
    "too few at most": Call(f"{C} --max-count 3", "give at least 14", (f"{C} --max-count 14",)),
    "old names of bounds": Call(
        f"{C} --bounds old.csv",
        "rename them (lower to min_count, upper to max_count)",
        (f"{C} --bounds bounds.csv",),
    ),
    "two starts": Call(
        f"{C} --init random --start model",
        "leave one of them out",
        (f"{C} --init random", f"{C} --start model"),
    ),
    "show without a report": Call(
        f"{P} --show url", "add --report", (f"{P} --show url --report", P)
    ),
    "resume without a state": Call(
        f"{C} --resume", "give --checkpoint FILE as well", (f"{C} --resume --checkpoint state",)
    ),
    "no state": Call(
        f"{C} --resume --checkpoint none", "leave out --resume", (f"{C} --checkpoint none",)
    ),
    "a state is there": Call(
        f"{C} --checkpoint state",
        "continue with --resume",
        (f"{C} --checkpoint state --resume", f"{C} --checkpoint another"),
    ),
    "a state of other settings": Call(
        "cluster X.npy -k 4 --checkpoint state --resume",
        "use its settings, or another --checkpoint",
        (f"{C} --checkpoint state --resume", "cluster X.npy -k 4 --checkpoint another"),
    ),
    "no state at all": Call(
        f"{C} --checkpoint w.npy --resume",
        "name the file that --checkpoint wrote",
        (f"{C} --checkpoint state --resume",),
    ),
    "more clusters than rows": Call(
        "cluster X.npy -k 41", "ask for fewer clusters", ("cluster X.npy -k 40",)
    ),
    "centers of another k": Call(
        f"{C} --init four.npy",
        "give a row for each cluster",
        ("cluster X.npy -k 4 --init four.npy",),
    ),
    "centers that are not finite": Call(
        f"{C} --init hole.npy",
        "give finite numbers",
        (rewrite("hole.npy", lambda: X[:3], f"{C} --init hole.npy"),),
    ),
    "centers of zeros": Call(
        f"{C} --init zero.npy",
        "give directions for --metric cosine",
        (rewrite("zero.npy", lambda: X[:3], f"{C} --init zero.npy"),),
    ),
    "a model of another k": Call(
        "cluster X.npy -k 4 --start model",
        "give these options, or start afresh",
        (f"{C} --start model", "cluster X.npy -k 4"),
    ),
    "seeds out of range": Call(
        f"{C} --seeds known.npy",
        "number rows and clusters from 0",
        (rewrite("known.npy", lambda: np.arange(40) % 3, f"{C} --seeds known.npy"),),
    ),
    "seeds of other rows": Call(
        f"{C} --seeds short.npy",
        "save whole numbers for these very rows",
        (rewrite("short.npy", lambda: np.arange(40) % 3, f"{C} --seeds short.npy"),),
    ),
    "seeds by ids": Call(
        f"{P} --seeds known.csv",
        "name the column of ids with --id",
        (f"{P} --seeds known.csv --id url",),
    ),
    "seeds twice": Call(
        f"{C} --seeds twice.csv",
        "drop one of these lines",
        (write("twice.csv", "row,cluster\n3,1\n", f"{C} --seeds twice.csv"),),
    ),
    "seeds in a column": Call(
        f"{P} --seeds rank",
        "number clusters from 0",
        (f"{P} --seeds team", f"{P.replace('3', '5', 1)} --seeds rank"),
    ),
    "seeds in no column": Call(
        f"{P} --seeds crew", "name one of these with --seeds", (f"{P} --seeds team",)
    ),
    "weights below 0": Call(
        f"{C} --weights negative.npy",
        "drop the rows of a weight below 0, or set it to 0",
        (rewrite("negative.npy", lambda: np.ones(40), f"{C} --weights negative.npy"),),
    ),
    "weights of 0": Call(
        f"{C} --weights nothing.npy",
        "leave the weights out",
        (C,),
    ),
    "weights that are not finite": Call(
        f"{C} --weights odd.npy",
        "drop or impute the entries that are not finite",
        (rewrite("odd.npy", lambda: np.ones(40), f"{C} --weights odd.npy"),),
    ),
    "weights of other rows": Call(
        f"{C} --weights short.npy", "give the weights of these very rows", (f"{C} --weights w.npy",)
    ),
    "weights in no file": Call(
        f"{P} --weights none.npy", "or name a column of the input", (f"{P} --weights cost",)
    ),
    "weights in no column": Call(
        f"{P} --weights price", "name one of these with --weights", (f"{P} --weights cost",)
    ),
    "weights of words": Call(f"{P} --weights url", "name another column", (f"{P} --weights cost",)),
    "weights of an array": Call(
        f"{C} --weights cost", "leave out --weights", (C, f"{P} --weights cost")
    ),
    "weights of centers": Call(
        f"{C} --weights four.npy", "give the weights of these very rows", (f"{C} --weights w.npy",)
    ),
    "weights of a wide file": Call(
        f"{C} --weights X.npz", "name one: X.npz:a", (f"{C} --weights w.npy",)
    ),
    "show in no column": Call(
        f"{P} --report --show title", "name one of these with --show", (f"{P} --report --show url",)
    ),
    "show no file": Call(
        f"{P} --report --show none.txt",
        "or name a column of the input",
        (f"{P} --report --show url",),
    ),
    "show too few lines": Call(
        f"{C} --report --show captions.txt",
        "write one line for each row",
        (write("captions.txt", "one\n" * 40, f"{C} --report --show captions.txt"),),
    ),
    "a table of another kind": Call(
        f"{C} --table t.npy", ".csv, .parquet", (f"{C} --table t.csv", f"{C} --table t.parquet")
    ),
    "ids named as a column": Call(
        f"{P} --id cluster --table t.csv",
        "rename the column of ids",
        (f"{P} --id url --table t.csv",),
    ),
    "the folder is there": Call(
        f"{C} --out model",
        "name another folder with --out, or replace it with --overwrite",
        (f"{C} --out other", f"{C} --out model --overwrite"),
    ),
    "the folder is mine": Call(
        f"{C} --out mine", "name another folder with --out", (f"{C} --out other",)
    ),
    "not just ours": Call(
        f"{C} --out mine --overwrite",
        "name another folder with --out, or move it away",
        (f"{C} --out other",),
    ),
    "the table inside": Call(
        f"{C} --out other --table other/t.csv",
        "name another --out",
        (f"{C} --out some --table other/t.csv",),
    ),
    "two arrays": Call("cluster X.npz:a -k 3 --array b", "name one", ("cluster X.npz:a -k 3",)),
    "threads": Call(f"{C} --threads 0", "--threads must be at least 1", (f"{C} --threads 1",)),
    "device": Call(f"{C} --device meta", "name cpu or cuda", (f"{C} --device cpu",)),
    "a range with -k": Call(
        f"{C} --bounds-range .5:2",
        "replace -k by --k-range, or leave it out",
        ("cluster X.npy --k-range 2:3 --bounds-range .5:2", C),
    ),
    "one clustering's option": Call(
        "cluster X.npy --k-range 2:3 --weights w.npy",
        "leave it out here, and give it with -k",
        ("cluster X.npy --k-range 2:3", f"{C} --weights w.npy"),
    ),
    "a range of what": Call(
        "cluster X.npy --k-range 3-5",
        "write for example 5:50:5 or 5,10,20",
        ("cluster X.npy --k-range 2:4:2",),
    ),
    "too many k": Call(
        "cluster X.npy --k-range 2:20000",
        "give a step: FIRST:LAST:STEP",
        ("cluster X.npy --k-range 2:5:3",),
    ),
    "bounds of what": Call(
        "cluster X.npy --k-range 2:3 --bounds-range 2:3",
        "write for example 0.5:2,0.9:1.1",
        ("cluster X.npy --k-range 2:3 --bounds-range 0.5:2,0.9:1.1",),
    ),
    "two bounds of a range": Call(
        "cluster X.npy --k-range 2:3 --bounds-range .5:2 --lower .5",
        "leave out --lower",
        ("cluster X.npy --k-range 2:3 --bounds-range .5:2",),
    ),
    "a gap without bounds": Call(
        f"{A} --gap 0", "add --bounded, or leave out --gap", (f"{A} --gap 0 --bounded", A)
    ),
    "prices and bounds": Call(
        f"{A} --prices --bounded", "leave one of them out", (f"{A} --prices", f"{A} --bounded")
    ),
    "another metric": Call(
        f"{A} --metric euclidean", "leave out --metric, or cluster with --metric euclidean", (A,)
    ),
    "another width": Call(
        "assign model wide.npy", "give rows of the same embedding, or another model", (A,)
    ),
    "the labels are there": Call(
        f"{A} --out w.npy", "name another file with --out", (f"{A} --out labels.npy",)
    ),
    "no model": Call("assign mine X.npy", "name an output folder of 'dualclust cluster'", (A,)),
}
