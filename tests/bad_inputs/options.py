"""Options of the command: values against their rules, files that are not there, wrong pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dualclust.cli.main import main
from tests.bad_inputs.judge import Bad

__all__ = ["option_cases"]

CLUSTER = """
-k 0|-k -1|-k 9|-k 99999999999|-k 2 --lower -1|-k 2 --lower nan|-k 2 --lower inf|-k 2 --lower 1.5
-k 2 --upper nan|-k 2 --upper 0|-k 2 --upper -1|-k 2 --upper 0.5|-k 2 --lower 2 --upper 1
-k 2 --min-count -1|-k 2 --min-count 5|-k 2 --max-count 3|-k 2 --max-count 0|-k 2 --max-count -4
-k 2 --min-count 5 --max-count 4|-k 2 --min-count 1 --lower 0.5|-k 2 --max-count 9 --upper 2
-k 2 --bounds gone.csv|-k 2 --bounds X.npy|-k 2 --bounds .|-k 2 --bounds bad.csv
-k 2 --tol -1|-k 2 --tol nan|-k 2 --tol inf|-k 2 --tol 2|-k 2 --gap -1|-k 2 --gap nan|-k 2 --gap inf
-k 2 --max-iter -1|-k 2 --seed -1|-k 2 --threads 0|-k 2 --threads -1
-k 2 --timeout 0|-k 2 --timeout -1|-k 2 --timeout nan|-k 2 --device gone|-k 2 --device cuda:99
-k 2 --device cuda:-1|-k 2 --weights gone.npy|-k 2 --weights X.npy|-k 2 --weights bad.csv
-k 2 --weights negative.npy|-k 2 --weights nan.npy|-k 2 --weights zero.npy|-k 2 --weights .
-k 2 --seeds gone.npy|-k 2 --seeds X.npy|-k 2 --seeds bad.csv|-k 2 --seeds labels9.npy
-k 2 --forbidden gone.npy|-k 2 --forbidden X.npy|-k 2 --forbidden bad.csv|-k 2 --forbidden all.npy
-k 2 --seeds .|-k 2 --init gone|-k 2 --init X.npy|-k 2 --init bad.csv|-k 2 --start gone
-k 2 --start X.npy
-k 2 --start .|-k 2 --start X.npy --init random|-k 2 --resume|-k 2 --resume --checkpoint gone.state
-k 2 --resume --checkpoint bad.csv|-k 2 --resume --checkpoint X.npy|-k 2 --checkpoint .
-k 2 --array x|-k 2 --columns a|-k 2 --id a|-k 2 --dtype float32|-k 2 --dim 3|-k 2 --out X.npy
-k 2 --out .|-k 2 --out X.npy/y|-k 2 --table X.npy|-k 2 --table t.txt
-k 2 --show caption|-k 2 --report --show gone|-k 2 --sample 4|-k 2 --bounds-range 0.5:2
--k-range 0:3:1|--k-range 3:1:1|--k-range x|--k-range 2:|--k-range 2:4:0|--k-range 2:4:-1
--k-range 2,x|--k-range 99|--k-range 2,3 --sample 0|--k-range 2,3 --sample -1
--k-range 2,3 --bounds-range x|--k-range 2,3 --bounds-range 2:1|--k-range 2,3 --bounds-range 0.5
--k-range 2,3 --bounds-range nan:1|--k-range 2,3 --bounds-range=-1:2|--k-range 2,3 --seeds X.npy
--k-range 2,3 --start .|--k-range 2,3 --checkpoint s|--k-range 2,3 --table t.csv
"""
INPUTS = ("gone.npy", ".", "", "gone/*.npy", "X.npy:x", "labels9.npy", "nan.npy", "\0")
TRAIN = (
    "--data gone", "--data X.npy --set epochs=0", "--data .", "--recipe gone", "--recipe X.npy",
    "--recipe bad.csv", "--set x", "--set x=1", "--set optim.lr=-1", "--set optim.lr=nan",
    "--set epochs=x", "--set seed=-1", "--set method=coke", "--set coke.x=1", "--set =1",
    "--set optim=3", "--seed -1", "--device gone", "--device cuda:99", "--out X.npy",
    "--set heads.clusters=[0]", "--set data.split=gone", "--set data.size=-1",
)  # fmt: skip
OTHERS = (
    "resume gone", "resume .", "resume X.npy", "predict gone X.npy", "predict X.npy X.npy",
    "predict . X.npy", "export gone", "export .", "export X.npy", "assign gone X.npy",
    "assign . X.npy", "assign X.npy X.npy", "assign bad.csv X.npy",
)  # fmt: skip


def write(folder: Path) -> None:
    """Write the files that the options name."""
    np.save(folder / "X.npy", np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))
    np.save(folder / "labels9.npy", np.arange(9))
    np.save(folder / "negative.npy", -np.ones(8))
    np.save(folder / "zero.npy", np.zeros(8))
    np.save(folder / "nan.npy", np.full(8, np.nan))
    pairs = [(row, cluster) for row in range(8) for cluster in range(2)]
    np.save(folder / "all.npy", np.asarray(pairs))
    (folder / "bad.csv").write_text("cluster,row\n1,99\nx,0\n")


def of(name: str, arguments: list[str], about: str) -> Bad:
    """The command with these arguments; files are those of the folder."""

    def call(folder: Path) -> int:
        named = {path.name for path in folder.iterdir()} | {".", "gone"}
        own = [
            str(folder / text) if text.partition("/")[0].partition(":")[0] in named
            or text.partition(".")[0] in ("gone", "s", "t") else text for text in arguments
        ]  # fmt: skip
        return main(["--debug", *own])

    return Bad(name, call, about, write)


def option_cases() -> Iterator[Bad]:
    """All of them."""
    for line in CLUSTER.split("\n"):
        for text in filter(None, line.split("|")):
            yield of(f"option-cluster {text}", ["cluster", "X.npy", *text.split(" ")], "")
    for text in INPUTS:
        yield of(f"option-cluster of {text!r}", ["cluster", text, "-k", "2"], "")
    for text in TRAIN:
        yield of(f"option-train {text}", ["train", "secu", *text.split(" ")], "")
    for text in OTHERS:
        yield of(f"option-{text}", text.split(" "), "")
