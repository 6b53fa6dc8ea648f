"""Several processes on one file: the same bytes as one, one message for an error, no hanging."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dualclust.algos.scores.blocks import MOST_ROWS
from dualclust.cli.main import main
from tests.cli.cluster_files import listing
from tests.cluster.rank_plans import BUSY, FAIL, HUNG, KILLED, LOST, STRANGER
from tests.forked import run_program
from tests.problems import unit_rows

pytest.importorskip("torch")

# Loads the compiled kernels once and forks, one call after the other: an interpreter for each rank
# would take nearly all of the test's time.
FORK = """
import json, os, socket, sys, time
import torch.distributed
from dualclust.cluster import command as cluster_command
from dualclust.cli.main import main
from tests import judged

def fork(rank, size, port, folder, plan, arguments):
    child = os.fork()
    if child:
        return child
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.chdir(folder)
    sys.stdout, sys.stderr = open(f"out{rank}", "w"), open(f"err{rank}", "w")
    code = 99
    try:
        exec(plan, {"rank": rank, "cluster_command": cluster_command, "os": os, "time": time})
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        with open(f"judged{rank}", "w") as file:
            json.dump(judged.lines(), file)
        os._exit(code)

codes, (warm, calls) = [], json.loads(sys.argv[1])
sys.stdout, stdout = open(os.devnull, "w"), sys.stdout
assert main(warm) == 0
sys.stdout = stdout
judged.TALLY.clear()
for size, folder, plan, *arguments in calls:
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
    children = [fork(rank, size, port, folder, plan, arguments) for rank in range(size)]
    codes.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
print(json.dumps(codes))
"""


class Call(NamedTuple):
    """Several ranks with one command.

    `plan` is run by each rank before the command, with `rank` and `cluster_command` at hand.
    """

    size: int
    arguments: tuple[object, ...]
    plan: str = ""
    timeout: float = 1200


class Done(NamedTuple):
    """Exit codes of the ranks, and what each wrote on standard output and standard error."""

    codes: list[int]
    outs: list[str]
    errs: list[str]
    folder: Path


def run(folder: Path, calls: dict[str, Call]) -> dict[str, Done]:
    """Make the calls in order, each in a folder of its own."""
    np.save(folder / "warm.npy", np.random.default_rng(0).normal(size=(9000, 8)))
    warm = ["cluster", str(folder / "warm.npy"), "-k", "9", "--max-iter", "1"]
    given: list[list[object]] = []
    for name, call in calls.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        arguments = [*map(str, call.arguments), "--timeout", str(call.timeout)]
        given.append([call.size, str(folder / name), call.plan, "cluster", *arguments])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    done = run_program(FORK, json.dumps([warm, given]), env=environment)
    assert done.returncode == 0, done.stderr
    results = {}
    for (name, call), codes in zip(calls.items(), json.loads(done.stdout), strict=True):
        here, ranks = folder / name, range(call.size)
        outs, errs = ([(here / f"{f}{i}").read_text() for i in ranks] for f in ("out", "err"))
        results[name] = Done(codes, outs, errs, here)
    return results


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows for five blocks, the last one short, and their weights."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    n, k, d = 4 * MOST_ROWS + 777, 12, 8
    centers = unit_rows(rng.normal(size=(k, d)))
    member = rng.integers(k, size=n) ** 2 // k
    x = centers[member] + 0.4 * rng.normal(size=(n, d))
    np.save(folder / "X.npy", x.astype(np.float16))
    np.save(folder / "w.npy", rng.uniform(0.5, 2.0, size=n))
    np.savez_compressed(folder / "Z.npz", x.astype(np.float16))
    np.save(folder / "small.npy", x[: MOST_ROWS + 5])
    x[3 * MOST_ROWS + 1] = np.nan
    np.save(folder / "bad.npy", x)
    return folder


# Answers -----------------------------------------------------------------------------------------

METRICS = {
    "cosine": ("--metric", "cosine", "--report"),
    "euclidean": ("--metric", "euclidean", "--weights", "w.npy", "--gap", "0"),
}


SIZES = [("cosine", 2), ("euclidean", 4)]


def command(rows, metric, *options):
    """Arguments, with the path of the weights."""
    words = [rows / word if word == "w.npy" else word for word in METRICS[metric]]
    return (rows / "X.npy", "-k", 12, "--max-iter", 2, "--tol", 0, *words, *options)


@pytest.fixture(scope="module")
def answers(rows, tmp_path_factory):
    calls = {
        f"{metric}-{size}": Call(
            size, command(rows, metric, "--checkpoint", "state", "--out", "out")
        )
        for metric, size in SIZES
    }
    calls["tensors"] = Call(2, command(rows, "cosine", "--device", "cpu:0", "--out", "out"))
    table = ("--table", "table.csv")
    calls["packed"] = Call(
        2, (rows / "Z.npz", *command(rows, "cosine")[1:], "--out", "out", *table)
    )
    small = (rows / "small.npy", "-k", 9, "--tol", 0, "--checkpoint", "../state")
    calls["stopped"] = Call(3, (*small, "--max-iter", 1, "--out", "out"))
    calls["resumed"] = Call(2, (*small, "--max-iter", 2, "--resume", "--out", "out"))
    return run(tmp_path_factory.mktemp("answers"), calls)


@pytest.mark.parametrize(("metric", "size"), SIZES)
def test_the_bytes_of_one_process(rows, answers, tmp_path, monkeypatch, metric, size) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    state = tmp_path / "state"
    options = ("--checkpoint", state, "--out", tmp_path / "out")
    assert main(["cluster", *map(str, command(rows, metric, *options))]) == 0
    codes, outs, errs, folder = answers[f"{metric}-{size}"]
    assert codes == [0] * size, errs
    assert errs == [""] * size
    assert listing(folder / "out") == listing(tmp_path / "out")
    assert (folder / "state").read_bytes() == state.read_bytes()
    assert "violation           0" in outs[0]
    assert outs[1:] == [""] * (size - 1)
    ways = [json.loads((folder / f"judged{rank}").read_text()) for rank in range(size)]
    assert ways == [[["run_cluster", "interval", 1]], *[[["run_cluster", "part", 1]]] * (size - 1)]


def test_ranks_of_a_packed_file_and_their_table(rows, answers, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = ("--out", tmp_path / "out", "--table", tmp_path / "table.csv")
    assert main(["cluster", *map(str, command(rows, "cosine", *options))]) == 0
    codes, _, errs, folder = answers["packed"]
    assert codes == [0, 0], errs
    assert (folder / "table.csv").read_bytes() == (tmp_path / "table.csv").read_bytes()
    ours, theirs = listing(folder / "out"), listing(tmp_path / "out")
    assert ours.pop("report.html") != theirs.pop("report.html")  # the name of the file
    results = [json.loads(files.pop("result.json")) for files in (ours, theirs)]
    assert [result.pop("input")["what"] for result in results] == ["array", ""]
    assert results[0] == results[1]
    assert ours == theirs


def test_tensors_of_two_ranks(answers) -> None:
    codes, _, errs, folder = answers["tensors"]
    assert codes == [0, 0], errs
    ours, arrays = (np.load(f / "out" / "labels.npy") for f in (folder, answers["cosine-2"].folder))
    assert (ours == arrays).mean() > 0.999


def test_more_ranks_than_blocks_and_another_number_after_a_stop(rows, answers, tmp_path) -> None:
    small = ["cluster", str(rows / "small.npy"), "-k", "9", "--tol", "0", "--max-iter", "2"]
    assert main([*small, "--out", str(tmp_path / "out")]) == 0
    assert answers["stopped"].codes == [0] * 3, answers["stopped"].errs
    assert answers["resumed"].codes == [0] * 2, answers["resumed"].errs
    assert listing(answers["resumed"].folder / "out") == listing(tmp_path / "out")


# Errors ------------------------------------------------------------------------------------------

REFUSED = {
    "missing": (("gone.npy", "-k", 3), 66, "no file at"),
    "not finite": (("bad.npy", "-k", 3), 65, f"in row {3 * MOST_ROWS + 1}."),
    "infeasible": (("X.npy", "-k", 3, "--min-count", 10**9), 65, "asks for 3000000000 rows"),
}
FAILED = {
    "replace_folder": (0, "OutputError('disk full')", 73, "disk full"),
    "save": (0, "OutputError('disk full')", 73, "disk full"),
    "open_problem": (1, "OutputError('not mounted')", 73, "not mounted"),
    "drawn_centers": (2, "ZeroDivisionError('a bug')", 70, "ZeroDivisionError: a bug"),
    "_collect": (1, "MemoryError()", 71, "out of memory. To fix this"),
}
SEEDS = (11, 12, 13, 14)
LATEST = 60
"""All the work of the killed run takes more exchanges and reads than that."""


@pytest.fixture(scope="module")
def errors(rows, tmp_path_factory):
    calls = {}
    for name, ((path, *rest), _, _) in REFUSED.items():
        calls[name] = Call(3, (rows / path, *rest, "--out", "out"))
    once = (rows / "small.npy", "-k", 3, "--max-iter", 1, "--out", "out")
    for where, (rank, error, _, _) in FAILED.items():
        plan = FAIL.format(error=error, rank=rank, where=where)
        calls[where] = Call(3, (*once, "--checkpoint", "state"), plan)
    calls["killed"] = Call(3, once, LOST.format(what="os.kill(os.getpid(), 9)"))
    calls["hung"] = Call(2, once, HUNG)
    calls["busy"] = Call(3, once, BUSY)
    calls["stranger"] = Call(2, once, STRANGER, timeout=1)
    more = (rows / "X.npy", "-k", 9, "--tol", 0, "--checkpoint", "../state")
    calls["begun"] = Call(2, (*more, "--max-iter", 1, "--out", "out"))
    for seed in SEEDS:
        at = int(np.random.default_rng(seed).integers(1, LATEST))
        print(f"seed {seed}: rank 1 of {2 + seed % 2} dies at step {at}")
        state = ("--checkpoint", f"../state-{seed}", "--max-iter", 3, "--resume", "--out", "out")
        copied = f"import shutil\nif rank == 0: shutil.copy('../state', '../state-{seed}')\n"
        wait = f"while not os.path.exists('../state-{seed}'): time.sleep(0.01)\ntime.sleep(0.1)\n"
        plan = copied + wait + KILLED.format(at=at)
        calls[f"killed {seed}"] = Call(2 + seed % 2, (*more[:-2], *state), plan)
        calls[f"resumed {seed}"] = Call(3 - seed % 2, (*more[:-2], *state))
    return run(tmp_path_factory.mktemp("errors"), calls)


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_is_one_message_and_one_code(errors, name) -> None:
    _, code, words = REFUSED[name]
    codes, outs, errs, folder = errors[name]
    assert codes == [code] * 3
    assert outs == [""] * 3
    assert errs[1:] == ["", ""]
    assert words in errs[0]
    assert errs[0].count("\n") == 1
    assert not (folder / "out").exists()


@pytest.mark.parametrize("where", FAILED)
def test_one_rank_that_fails_ends_all(errors, where) -> None:
    rank, _, code, words = FAILED[where]
    codes, outs, errs, folder = errors[where]
    assert codes == [code] * 3, errs
    assert outs == [""] * 3
    assert words in errs[rank]
    assert [err for i, err in enumerate(errs) if i != rank] == ["", ""]
    assert not (folder / "out").exists()


LOST_ONE = "dualclust: error: lost rank 1: its process or its machine has ended"


def test_a_rank_that_is_killed_ends_all(errors) -> None:
    codes, _, errs, folder = errors["killed"]
    assert codes == [70, -9, 70]
    for err in (errs[0], errs[2]):
        assert err.startswith(LOST_ONE)
        assert "give the same command again" in err  # nothing was saved yet
        assert err.count("\n") == 1
    assert not (folder / "out").exists()


def test_a_rank_far_from_its_next_exchange_ends_too(errors) -> None:
    codes, _, errs, _ = errors["busy"]
    assert codes == [70, -9, 70]
    for err in (errs[0], errs[2]):
        assert err.startswith(LOST_ONE)
        assert err.count("\n") == 1


def test_ranks_that_meet_a_stranger_end(errors) -> None:
    codes, _, errs, _ = errors["stranger"]
    assert codes == [70, 70]
    assert all(err.count("\n") == 1 and "found no others" in err for err in errs), errs
    assert "does not answer" in errs[1]


@pytest.fixture(scope="module")
def uninterrupted(rows, tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "out"
    words = (rows / "X.npy", "-k", 9, "--tol", 0, "--max-iter", 3, "--out", out)
    assert main(["cluster", *map(str, words)]) == 0
    return listing(out)


@pytest.mark.parametrize("seed", SEEDS)
def test_killed_anywhere_and_continued_by_other_ranks(errors, uninterrupted, seed) -> None:
    codes, outs, errs, folder = errors[f"killed {seed}"]
    assert codes == [-9 if rank == 1 else 70 for rank in range(2 + seed % 2)]
    assert all(err.startswith(LOST_ONE) for rank, err in enumerate(errs) if rank != 1), errs
    assert not any(outs)
    assert not (folder / "out").exists()
    codes, _, errs, folder = errors[f"resumed {seed}"]
    assert codes == [0] * (3 - seed % 2), errs
    assert listing(folder / "out") == uninterrupted


def test_a_rank_that_hangs_ends_all_in_time(errors) -> None:
    codes, _, errs, folder = errors["hung"]
    assert codes == [70, 70]
    assert "lost a rank" in errs[0]
    assert not (folder / "out").exists()
