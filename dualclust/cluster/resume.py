"""The state of a run of ``dualclust cluster``: what it belongs to, and how it goes on."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..algos.clustering.constrained import KMeansState
from ..algos.core.errors import CheckpointError
from .checkpoint import load_state, save_state
from .places import on_host, placed
from .problem import Problem, digest_of

__all__ = ["again", "how_to_go_on", "identity", "load", "save"]

NUMBERS = ("objective", "gap", "changed", "upper_bound", "rounding")
"""Fields of a state that are float."""


def identity(options: argparse.Namespace, problem: Problem) -> dict[str, Any]:
    """Return all that decides the answer, except the number of iterations: a checkpoint's run."""
    return {
        "version": __version__,
        "input": problem.digest,
        "invalid": options.invalid,
        "rows": [problem.source.group.n_total, problem.source.n_features],
        "weights": digest_of(problem.weights),
        "k": options.k,
        "bounds": digest_of(problem.bounds.lower, problem.bounds.upper),
        "seeds": digest_of(problem.fixed),
        "forbidden": digest_of(problem.forbidden),
        "metric": options.metric,
        "tol": options.tol,
        "gap": options.gap,
        "empty": options.empty,
        "init": options.init if problem.start is None else digest_of(*problem.start),
        "seed": options.seed,
    }


def save(
    options: argparse.Namespace, problem: Problem, state: KMeansState, labels: NDArray[np.int64]
) -> None:
    """Write the state after a center update.

    Parameters
    ----------
    options : argparse.Namespace
    problem : Problem
    state : KMeansState
    labels : (n,) int64 array
        Of the rows of all ranks.
    """
    arrays = {
        "centers": on_host(state.centers),
        "prices": on_host(state.prices),
        "n_iter": np.asarray(state.n_iter, dtype=np.int64),
        "labels": labels,
        "converged": np.asarray(state.converged, dtype=np.int64),
        "drifts": np.zeros(0) if state.drifts is None else on_host(state.drifts),
    }
    arrays |= {name: np.asarray(getattr(state, name), dtype=np.float64) for name in NUMBERS}
    save_state(options.checkpoint, identity(options, problem), arrays)


def load(options: argparse.Namespace, problem: Problem) -> KMeansState:
    """Read the state to continue from, with the labels of this rank's rows.

    Raises
    ------
    MissingFileError, CheckpointError
        As `checkpoint.load_state`, and for the state of an older build, which holds other arrays.
    """
    arrays: dict[str, Any] = load_state(options.checkpoint, identity(options, problem))
    if arrays.keys() != set(KMeansState._fields):
        names = ", ".join(sorted(arrays.keys() ^ set(KMeansState._fields)))
        msg = (
            f"{options.checkpoint} is of an older build, whose states differ in {names}. "
            f"To fix this, start afresh with another --checkpoint"
        )
        raise CheckpointError(msg)
    drifts = arrays["drifts"]
    return KMeansState(
        centers=placed(arrays["centers"], options.device),
        prices=placed(arrays["prices"], options.device),
        n_iter=int(arrays["n_iter"]),
        labels=placed(problem.source.group.own(arrays["labels"]), options.device),
        converged=bool(arrays["converged"]),
        drifts=placed(drifts, options.device) if drifts.size else None,
        **{name: float(arrays[name]) for name in NUMBERS},
    )


def how_to_go_on(options: argparse.Namespace) -> str:
    """Return what someone who stopped the command should know."""
    if options.checkpoint is None:
        return (
            "nothing was written. With --checkpoint FILE, a run that is stopped goes on after its "
            "last center update by --resume"
        )
    if not options.checkpoint.is_file():
        return "no center update was finished, and nothing was written"
    return f"the state is in {options.checkpoint}. To go on, {again(options)}"


def again(options: argparse.Namespace) -> str:
    """Return which command goes on with the work, or begins it again."""
    saved = options.checkpoint is not None and options.checkpoint.is_file()
    more = " and --resume" if saved and not options.resume else ""
    return f"give the same command{more or ('' if saved else ' again')}"
