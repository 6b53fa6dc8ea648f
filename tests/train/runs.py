"""A training run of a second: images of plain kinds, few of them, and what a run folder holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch

from dualclust.cli.train import read_recipe
from dualclust.train.config.run import RunConfig, override
from dualclust.train.state.checkpoint import latest_checkpoint

N = 241  # a prime: no batch size divides it
EPOCHS = 4
PICTURES = {"gallery.png", "sizes.png", "curves.png"}
FILES = PICTURES | {
    "config.toml",
    "metrics.jsonl",
    "assignments.csv",
    "centers.npy",
    "weights.safetensors",
    "model.safetensors",
    "report.html",
    "checkpoints",
}


def write_images(path: Path, n: int = N, classes: int = 10, labels: bool = True) -> Path:
    """Save images that are noisy copies of a few random ones."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 256, size=(classes, 8, 8))
    member = np.arange(n) % classes
    images = np.clip(kinds[member] + 30 * rng.normal(size=(n, 8, 8)), 0, 255).astype(np.uint8)
    np.savez(path, images=images, **({"labels": member} if labels else {}))
    return path


def tiny(source: Path | str, *changes: str) -> RunConfig:
    """The recipe of the digits, cut down."""
    return override(
        read_recipe("secu_digits"),
        [
            f"data.source={source}",
            f"epochs={EPOCHS}",
            "batch_size=32",
            "heads.clusters=[10, 20]",
            "optim.warmup_epochs=1",
            "evaluation.every=2",
            "evaluation.views=1",
            "network.width=2",
            "network.hidden=16",
            "network.out_dim=8",
            *changes,
        ],
    )


def tiny_recipe(recipe: str, source: Path | str, *changes: str) -> RunConfig:
    """Any recipe of the digits, cut down to seconds."""
    config = read_recipe(recipe)
    warmup = min(1, config.optim.warmup_epochs)
    return override(
        config,
        [
            f"data.source={source}",
            f"epochs={EPOCHS}",
            "batch_size=32",
            f"optim.warmup_epochs={warmup}",
            "evaluation.every=2",
            *changes,
        ],
    )


class Interrupted(BaseException):
    """Like a KeyboardInterrupt: no handler for errors catches it."""


def interrupt_after(epoch: int) -> Callable[[dict[str, Any]], None]:
    """A progress callback that stops the run there, as a user would."""

    def progress(record: dict[str, Any]) -> None:
        if record["epoch"] == epoch:
            raise Interrupted

    return progress


def without_time(metrics: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in metrics]


def contents(folder: Path) -> dict[str, Any]:
    """All that a run has left, to the bit, but how long it took, and the page, which names it."""
    checkpoint = latest_checkpoint(folder)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    found: dict[str, Any] = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and path.name not in ("metrics.jsonl", "report.html")
    }
    found["metrics.jsonl"] = without_time(map(json.loads, lines))
    found["checkpoints"] = sorted(path.name for path in (folder / "checkpoints").iterdir())
    # Parameters, buffers, centers, labels, prices, momentum.
    found["state"] = {k: (str(v.dtype), v.numpy().tobytes()) for k, v in checkpoint.tensors.items()}
    return found


def model_parts(content: bytes) -> tuple[Any, Any]:
    """What a model says, and its tensors to the bit, but for its prices.

    Best prices are not unique: another engine solves for the same labels with prices of its own.
    """
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    model = json.loads(header["__metadata__"]["dualclust"])["model"]
    tensors = safetensors.torch.load(content)
    assert bool(tensors.pop("prices").isfinite().all())
    return model, {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def assert_same_run(actual: Path, expected: Path, *, other_engine: bool = False) -> None:
    """Fail unless both runs left the same, naming what differs."""
    a, b = contents(actual), contents(expected)
    if other_engine:
        for found in (a, b):
            found["model.safetensors"] = model_parts(found["model.safetensors"])
    assert a.keys() == b.keys()
    differ = [name for name in a if a[name] != b[name]]
    for name in list(differ):
        if isinstance(a[name], dict):
            keys = a[name].keys() | b[name].keys()
            differ += [key for key in sorted(keys) if a[name].get(key) != b[name].get(key)]
    assert not differ, f"different: {', '.join(differ)}"


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every path under a folder with the bytes of files, to see that nothing was touched."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }
