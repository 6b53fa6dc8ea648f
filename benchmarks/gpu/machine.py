"""What the stages ask of a device, and what says on which tree, card and versions they ran."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .needs import OPTIONAL, REQUIRED, compat_version, versions

__all__ = ["ROOT", "Machine", "Profile", "Quiet", "environment", "sources_digest"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("algos", "backends", "train", "dualclust", "benchmarks/gpu")


class Profile(NamedTuple):
    """What a profiler saw: kernels a step, and the share of the time in which none ran."""

    kernels: float
    idle: float | None


class Quiet(NamedTuple):
    """What a block did that makes the host wait, by line: reads, and copies from the host."""

    reads: dict[str, int]
    uploads: dict[str, int]


class Machine(ABC):
    """A device to run on.

    Attributes
    ----------
    device : torch.device
    name : str. What it calls itself.
    toy : bool. Whether sizes are those of a rehearsal, and times mean nothing.
    cache : int. Bytes of its largest cache: inputs that are timed should exceed it.
    compiler : str. Backend of `torch.compile`.
    """

    device: torch.device
    name: str
    toy: bool
    cache: int
    compiler: str

    @abstractmethod
    def active(self) -> AbstractContextManager[object]:
        """Make the device usable within a block."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Card, driver, and the versions that belong to it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all work is done."""

    @abstractmethod
    def seconds(self, function: Callable[[], object]) -> float:
        """Time the device's work of one call."""

    @abstractmethod
    def quiet(self, function: Callable[[], object]) -> Quiet:
        """Run a function twice, noting what makes the host wait for the device."""

    @abstractmethod
    def profile(self, function: Callable[[], object], steps: int) -> Profile:
        """Run a function so many times under a profiler."""

    @abstractmethod
    def capture(self) -> Callable[..., Any] | None:
        """Return what captures a step as a graph; None for CUDA's own."""

    def size(self, full: Any, toy: Any) -> Any:
        """Choose a size: the full one on a card, the small one in a rehearsal."""
        return toy if self.toy else full

    def free(self) -> None:  # noqa: B027 - only a card's allocator keeps any
        """Give memory back that is no longer used."""

    def adapt(self, optimizer: torch.optim.Optimizer) -> None:  # noqa: B027 - on CUDA it is
        """Make an optimizer's step one that a graph can hold."""


def environment(machine: Machine) -> dict[str, Any]:
    """All that a reader needs to know about where numbers come from."""
    return {
        **machine.describe(),
        "commit": commit(),
        "sources": sources_digest(),
        "python": platform.python_version(),
        "versions": {k: v for k, v in versions([*REQUIRED, *OPTIONAL]).items() if v}
        | {"array-api-compat": compat_version()},
        "host": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
    }


def commit() -> str:
    """The commit of the tree, marked where it was changed; from a variable where git is not."""
    try:
        head = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("DUALCLUST_COMMIT", "unknown")
    return head + (" with changes" if changed else "")


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def sources_digest() -> str:
    """A digest of the library's text: results belong to it, with or without git."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".toml") and path.is_file():
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
