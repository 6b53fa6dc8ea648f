"""Errors planted in the library's own code, to see whether the claims notice them.

What a claim is worth is what its check would say of a wrong library. The modules of `planted` list
errors as somebody might make them: a sign, a factor, an axis, a dropped projection. `plant` puts
one into the running program and takes it back; `runs.run_planted` plants them all, in processes
of their own, and says which claims noticed (``dualclust proofs --planted``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

from ...algos.core.errors import InvalidValueError
from .live_code import exchanged
from .source_edits import edit

__all__ = ["KINDS", "TABLES", "PlantedError", "plant", "table", "tables"]

TABLES = (
    "secu",
    "coke",
    "theorem",
    "constraints",
    "propos",
    "propos_densities",
    "gatcluster",
    "label_features",
    "mi_margin",
    "pseudo_labels",
)
KINDS = (
    "sign",
    "factor",
    "axis",
    "off by one",
    "dropped",
    "swapped bounds",
    "ignored argument",
    "wrong argument",
    "wrong constant",
    "wrong branch",
    "wrong operator",
    "wrong reduction",
    "wrong index",
    "wrong formula",
    "wrong order",
    "inequality",
    "rounding",
    "gradient",
)


@dataclass(frozen=True)
class PlantedError:
    """One error in library code.

    Parameters
    ----------
    target : str
        What is changed, dotted, below the package: "algos.online.duals.update_duals",
        "algos.offline._proof.OfflineAssignment.gap", "algos.online.step_sizes.MAX_STEP".
    kind : str
        One of `KINDS`.
    old : str
        Occurs exactly once in the source of the target.
    new : str
        What replaces it.
    claims : tuple of str
        Claims that must notice, in addition to those whose `covers` names the target.

    Raises
    ------
    InvalidValueError
        If `kind` is none of `KINDS`.
    """

    target: str
    kind: str
    old: str
    new: str
    claims: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            msg = f"kind must be one of {', '.join(KINDS)}, got {self.kind!r} for {self.target}"
            raise InvalidValueError(msg)
        if isinstance(self.claims, str):
            msg = f"claims must be a tuple of ids, got the text {self.claims!r} for {self.target}"
            raise InvalidValueError(msg)

    def __str__(self) -> str:
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.target} ({self.kind}): {old or 'nothing'} -> {new or 'nothing'}"


@contextmanager
def plant(error: PlantedError) -> Iterator[None]:
    """Run the block with an error in the library, and take it back.

    Seen by every holder of the function: names imported elsewhere, decorated kernels, methods,
    properties, closures, functions compiled by numba (which are compiled anew: seconds). An error
    in the readable text of a kernel is seen only where that text runs, one in an engine only where
    the engine runs. Not seen: what a module computed from the function when it was imported, and a
    class's fields that have a constant as their default.

    Raises
    ------
    InvalidValueError
        If `old` does not occur exactly once in the target, or nothing changes.
    SyntaxError
        If the changed text is no Python.

    Examples
    --------
    >>> from dualclust.algos.online.step_sizes import theorem_steps
    >>> target = "algos.online.step_sizes.theorem_steps"
    >>> error = PlantedError(target, "factor", "sqrt(2 * n", "sqrt(1 * n")
    >>> with plant(error):
    ...     theorem_steps(10_000, tau=2.0).step_size
    0.02
    >>> round(theorem_steps(10_000, tau=2.0).step_size, 4)
    0.0141
    """
    with exchanged(edit(error.target, error.old, error.new)):
        yield


def table(name: str) -> tuple[PlantedError, ...]:
    """Return the errors of one paper, by the name of its module in `TABLES`."""
    found: tuple[PlantedError, ...] = import_module(f"{__package__}.tables.{name}").PLANTED
    return found


def tables() -> tuple[PlantedError, ...]:
    """Return all planted errors, paper by paper."""
    return tuple(error for name in TABLES for error in table(name))
