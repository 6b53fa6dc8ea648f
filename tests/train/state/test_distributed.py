"""Several ranks train what one process trains: labels, prices, counts, order, parameters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.common.ranks import ALONE, Ranks, join_ranks
from dualclust.train.config.run import RunConfig, dump_config
from tests.forked import run_program
from tests.train.runs import tiny_recipe, write_images

# Forks for all calls: what each rank would import would take nearly all of the time.
FORK = """
import json, os, socket, sys
import numpy as np
import torch.distributed
from dualclust.common.ranks import join_ranks, run_token
from dualclust.train.config.run import from_mapping, RunConfig
from dualclust.train.loop import Run
import sklearn.metrics.cluster
import tomllib

torch.set_num_threads(1)
calls = json.loads(sys.argv[1])

def flat(state, name=""):
    if isinstance(state, dict):
        for key, value in state.items():
            yield from flat(value, f"{name}.{key}")
    elif isinstance(state, (list, tuple)):
        for key, value in enumerate(state):
            yield from flat(value, f"{name}.{key}")
    elif isinstance(state, torch.Tensor):
        yield name, state.detach().numpy()

def work(rank, world, text, out):
    ranks = join_ranks("cpu", timeout=600)
    assert (ranks.rank, ranks.world_size) == (rank, world)
    config = from_mapping(RunConfig, tomllib.loads(text))
    run = Run(config, ranks.device, ranks=ranks)
    seen, whole = [], run.method.losses
    def losses(batch):
        seen.append(batch.ids.clone())
        assert len(batch.views[0]) == len(range(*ranks.shard(len(batch.ids))))
        yield from whole(batch)
    run.method.losses = losses
    run.init()
    records = [run.run_epoch() for _ in range(config.epochs)]
    arrays = dict(flat(run.method.state_dict()))
    labels = run.predict().assignment.labels.numpy()
    loss = np.array([record["loss"] for record in records])
    arrays |= {"order": torch.cat(seen).numpy(), "final": labels, "loss": loss}
    np.savez(f"{out}.{rank}.npz", token=np.array(run_token()), **arrays)

# Kernels that the parent has loaded need not be loaded by each child. No gradient: PyTorch's
# engine for them does not survive a fork.
warm = Run(from_mapping(RunConfig, tomllib.loads(calls[0][1])), "cpu")
warm.init()
with torch.no_grad():
    warm.predict()

codes = []
for world, text, out in calls:
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
    children = []
    for rank in range(world):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        code = 1
        try:
            work(rank, world, text, out)
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    codes.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
print(json.dumps(codes))
"""

N_IMAGES = 61
METHODS = {
    "secu": ["heads.clusters=[10, 20]"],
    "coke": ["heads.clusters=[10]"],
    "propos": [],
    "gatcluster": ["gatcluster.repeats=2"],
    "mi_margin": [],
}
# The first epoch of three learns centers alone; the second the networks; the third shows it.
SETTINGS = (
    "epochs=3",
    "batch_size=16",
    "network.width=2",
    "execution.precision=float64",
    "assignment.rounding=outward",
)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=N_IMAGES)


class Ended(NamedTuple):
    """What the ranks of each number of ranks left, the codes they ended with, what they said."""

    files: dict[tuple[int, int], Path]
    codes: list[int]
    said: str

    def arrays(self) -> dict[tuple[int, int], dict[str, Any]]:
        """The arrays by number of ranks and rank; a rank that failed fails the test."""
        assert not any(self.codes), self.said
        found = {key: dict(np.load(path)) for key, path in self.files.items()}
        return {
            key: {n: a for n, a in arrays.items() if n != "token"} for key, arrays in found.items()
        }

    def tokens(self) -> dict[tuple[int, int], str]:
        """The token of the run that each rank has."""
        return {key: str(np.load(path)["token"]) for key, path in self.files.items()}


def run_ranks(folder: Path, runs: dict[str, tuple[RunConfig, tuple[int, ...]]]) -> dict[str, Ended]:
    """Train by each number of ranks, one run after the other."""
    calls = [
        (world, dump_config(config), str(folder / f"{number}-{world}"))
        for number, (config, worlds) in enumerate(runs.values())
        for world in worlds
    ]
    done = run_program(FORK, json.dumps(calls))
    assert done.returncode == 0, done.stderr
    codes = iter(json.loads(done.stdout))
    return {
        name: Ended(
            {
                (world, rank): folder / f"{number}-{world}.{rank}.npz"
                for world in worlds
                for rank in range(world)
            },
            [code for _ in worlds for code in next(codes)],
            done.stderr,
        )
        for number, (name, (_, worlds)) in enumerate(runs.items())
    }


def by_first_member(labels):
    """Labels of the same partition, clusters numbered as they are met."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


def test_names_of_clusters_do_not_count():
    np.testing.assert_array_equal(by_first_member(np.array([[5, 2, 5, 0]])), [0, 1, 0, 2])
    assert (by_first_member(np.array([1, 1, 0])) != by_first_member(np.array([1, 0, 0]))).any()


def settings(method, source):
    return tiny_recipe(f"{method}_digits", source, *SETTINGS, *METHODS[method])


@pytest.fixture(scope="module")
def ended(source, tmp_path_factory):
    """Every method by one process and by two; by four where ranks divide more than batches."""
    worlds = {m: (1, 2, 4) if m in ("secu", "propos") else (1, 2) for m in METHODS}
    runs = {m: (settings(m, source), worlds[m]) for m in METHODS}
    return run_ranks(tmp_path_factory.mktemp("ranks"), runs)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_are_one_process(method, ended):
    check_ranks(method, ended[method].arrays())


def test_all_ranks_of_a_run_have_its_token(ended):
    found = {(run, *key): token for run, e in ended.items() for key, token in e.tokens().items()}
    of_runs = {(run, world): token for (run, world, _), token in found.items()}
    assert all(of_runs[run, world] == token for (run, world, _), token in found.items())
    assert {token for (_, world), token in of_runs.items() if world == 1} == {""}
    several = [token for (_, world), token in of_runs.items() if world > 1]
    assert len({*several}) == len(several)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_four_ranks_are_one_process(method, source, tmp_path):
    runs = {method: (settings(method, source), (1, 4))}
    check_ranks(method, run_ranks(tmp_path, runs)[method].arrays())


def check_ranks(method, found):
    """In float64, with batches of 15 and 16 that neither 2 nor 4 ranks share evenly.

    Equal to rounding, since a rank multiplies fewer rows. Labels and counts follow scores that are
    1e-10 and more from a tie: such a score would have to be met by chance, and the seed is fixed.
    """
    one = found[1, 0]
    for (world, rank), arrays in found.items():
        for name, expected in one.items():
            where = f"{name} of rank {rank} of {world}"
            if name.endswith("sums.sums"):
                # Of features rounded to whole units: another last bit can move each by one.
                apart = np.abs(arrays[name] - expected).max()
                assert apart <= N_IMAGES, f"{where}: {apart} units, one for each image at most"
            elif np.issubdtype(expected.dtype, np.integer):
                actual = arrays[name]
                if method == "propos" and name.endswith(("final", "labels")):
                    # k-means finds the same clusters from another start under other names.
                    actual, expected = by_first_member(actual), by_first_member(expected)
                np.testing.assert_array_equal(actual, expected, err_msg=where)
            else:
                np.testing.assert_allclose(
                    arrays[name], expected, rtol=1e-6, atol=1e-8, err_msg=where
                )


@pytest.mark.parametrize("n", [0, 1, 5, 16, 61])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_shards_cover_every_row_once(n, world):
    parts = [Ranks(rank, world).shard(n) for rank in range(world)]
    assert [row for part in parts for row in range(*part)] == list(range(n))
    sizes = [stop - start for start, stop in parts]
    assert max(sizes) - min(sizes) <= 1


def test_a_launcher_that_says_half_is_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UsageError, match="MASTER_ADDR"):
        join_ranks("cpu")
    monkeypatch.delenv("WORLD_SIZE")
    alone = join_ranks("cpu")
    assert (alone.rank, alone.world_size, alone.device) == (0, 1, "cpu")
    x = torch.ones(3)
    assert ALONE.gather(x, 3) is x
