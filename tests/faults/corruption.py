"""Flip single bits of stored files and cut them off, and see whether reading them says so.

    python -m tests.faults.corruption --flips 10000 --cuts 1000 --seed 0

A file is noticed to be damaged if reading it raises one of the library's own errors.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dualclust.algos.core.errors import DualclustError
from dualclust.cluster.checkpoint import load_state, save_state
from dualclust.cluster.model import model_bytes, read_model
from dualclust.cluster.output import Clusters
from dualclust.train.config.run import override
from dualclust.train.loop import train
from dualclust.train.models import load_model
from dualclust.train.state.checkpoint import checkpoint_folder, load_checkpoint, save_checkpoint
from tests.faults.tasks import CHANGES, without_pictures
from tests.train.runs import tiny_recipe
from tests.train.stored import METADATA, everything

__all__ = ["Target", "cut_off", "flipped", "targets", "try_all"]

RUN = {"input": "a1b2", "k": 3, "tol": 1e-5, "rows": [5, 2], "weights": None}


class Target(NamedTuple):
    """A stored file, and what reads it.

    Attributes
    ----------
    path : Path
    read : callable without arguments. Raises a `DualclustError` for a file that is damaged.
    """

    path: Path
    read: Callable[[], Any]


def targets(home: Path) -> dict[str, Target]:
    """Store one file of each kind that the library reads back."""
    found = {}
    folder = save_checkpoint(checkpoint_folder(home, 1), everything(), METADATA)
    for path in sorted(folder.iterdir()):
        found[f"checkpoint, {path.name}"] = Target(path, lambda: load_checkpoint(folder))
    arrays = {"centers": np.arange(6.0).reshape(3, 2), "labels": np.arange(5), "prices": np.ones(3)}
    state = home / "X.state"
    save_state(state, RUN, arrays)
    found["state of cluster"] = Target(state, lambda: load_state(state, RUN))
    rows, run = home / "rows.npy", home / "run"
    np.save(rows, np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32))
    short = ("epochs=1", "optim.warmup_epochs=0", "evaluation.every=1")
    with without_pictures():
        train(override(tiny_recipe("secu_digits", rows), [*CHANGES, *short]), run)
    found["exported model"] = Target(run / "model.safetensors", lambda: load_model(run))
    model = home / "model.npz"
    model.write_bytes(model_bytes(_clusters(), "cosine"))
    found["model.npz"] = Target(model, lambda: read_model(model))
    return found


def _clusters() -> Clusters:
    labels = np.asarray([0, 1, 2, 0, 1])
    counts = np.bincount(labels)
    return Clusters(
        labels, np.eye(3), counts, counts, counts, np.arange(3.0), 1.0, 1.0, 0.0, 3, True
    )


def flipped(content: bytes, rng: random.Random) -> bytes:
    """Return the content with one bit another."""
    damaged = bytearray(content)
    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def cut_off(content: bytes, rng: random.Random) -> bytes:
    """Return the content without its end."""
    return content[: rng.randrange(len(content))]


def try_all(
    every: dict[str, Target], damage: Callable[[bytes, random.Random], bytes], n: int, seed: int
) -> dict[str, Counter[str]]:
    """Damage the files in turn, n times in all, and count what reading them came to."""
    found = {name: Counter[str]() for name in every}
    wholes = {name: target.path.read_bytes() for name, target in every.items()}
    names = list(every)
    for number in range(n):
        name = names[number % len(names)]
        target, rng = every[name], random.Random(f"{seed}/{number}")
        target.path.write_bytes(damage(wholes[name], rng))
        try:
            target.read()
            found[name]["not noticed"] += 1
        except DualclustError:
            found[name]["noticed"] += 1
        except Exception as error:
            found[name][f"{type(error).__name__}"] += 1
        target.path.write_bytes(wholes[name])
    return found


def report(title: str, found: dict[str, Counter[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield title
    for name, counts in found.items():
        yield f"  {name:<32}" + ", ".join(f"{what}: {n}" for what, n in sorted(counts.items()))
    total: Counter[str] = sum(found.values(), Counter())
    yield "  all: " + ", ".join(f"{what}: {n}" for what, n in sorted(total.items()))


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit code: 1 if a damage was not noticed."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--flips", type=int, default=10_000, help="bits (default 10000)")
    parser.add_argument("--cuts", type=int, default=1_000, help="truncations (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default 0)")
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="dualclust-damage-"))
    every = targets(home)
    flips = try_all(every, flipped, options.flips, options.seed)
    cuts = try_all(every, cut_off, options.cuts, options.seed)
    print(*report(f"{options.flips} flipped bits, seed {options.seed}", flips), sep="\n")
    print(*report(f"{options.cuts} truncations, seed {options.seed}", cuts), sep="\n")
    shutil.rmtree(home)
    kinds = {what for found in (flips, cuts) for counts in found.values() for what in counts}
    return int(kinds != {"noticed"})


if __name__ == "__main__":
    sys.exit(main())
