"""Start a run from a finished one: read its network, its settings and its centers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional as F

from ...algos.core.errors import MissingFileError, UsageError
from ..config.run import RunConfig, load_config
from ..networks.network import Network
from ..state.checkpoint import latest_checkpoint
from ..state.packing import unpack

__all__ = ["FinishedRun", "centers_of", "load_network", "read_finished_run"]


class FinishedRun(NamedTuple):
    """Where a run is, its settings, and the state of its method after the last epoch."""

    folder: Path
    config: RunConfig
    state: dict[str, Any]


def read_finished_run(folder: str | Path, key: str, *, methods: Sequence[str]) -> FinishedRun:
    """Read a run that has had all its epochs.

    Parameters
    ----------
    folder : path. The run folder.
    key : str. The setting that names the folder, for messages.
    methods : names of methods that the run may be of.

    Raises
    ------
    MissingFileError
        If the folder is not there, or holds no run.
    UsageError
        If the run is of another method, or has not had all its epochs.
    CheckpointError
        If no checkpoint of it is intact.
    """
    folder = Path(folder)
    if not (folder / "checkpoints").is_dir():
        msg = f"{key} must be the folder of a finished run, got {str(folder)!r}, which holds none"
        raise MissingFileError(msg)
    config = load_config(folder / "config.toml")
    if config.method not in methods:
        known = " or ".join(methods)
        msg = f"{key} must be a run of {known}, got {str(folder)!r} of {config.method}"
        raise UsageError(msg)
    checkpoint = latest_checkpoint(folder)
    state = unpack(checkpoint.tensors, checkpoint.metadata["state"])
    if state["epoch"] < config.epochs:
        msg = (
            f"{key} must be a finished run, and {folder} has had {state['epoch']} of "
            f"{config.epochs} epochs. To fix this, finish it: dualclust resume {folder}"
        )
        raise UsageError(msg)
    return FinishedRun(folder, config, state["method"])


def load_network(run: FinishedRun, network: Network) -> None:
    """Load the parameters of a run into a network.

    Raises
    ------
    UsageError
        If the layers are not the same.
    """
    theirs, ours = run.state["network"], network.state_dict()
    for name in sorted(theirs.keys() | ours.keys()):
        a, b = (tuple(s[name].shape) if name in s else "no such tensor" for s in (theirs, ours))
        if a != b:
            msg = (
                f"the network differs from that of {run.folder}: {name} has {b} here, {a} there. "
                f"To fix this, copy the table [network] of {run.folder / 'config.toml'}"
            )
            raise UsageError(msg)
    network.load_state_dict(theirs)


def centers_of(run: FinishedRun, n_clusters: int) -> Tensor:
    """Unit centers (k, d) of a run's head with `n_clusters` clusters.

    Raises
    ------
    UsageError
        If no head of the run has that many.
    """
    known = run.config.heads.clusters
    if n_clusters not in known:
        msg = (
            f"no head of {run.folder} has {n_clusters} clusters, its heads have {list(known)}. "
            f"To fix this, set heads.clusters and heads.target to one of them"
        )
        raise UsageError(msg)
    centers: Tensor = run.state["centers"][known.index(n_clusters), :n_clusters]
    return F.normalize(centers, dim=1)
