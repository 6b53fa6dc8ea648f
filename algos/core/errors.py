"""Every error the library raises on purpose, under one root.

Each class is also a subclass of the built-in exception that a caller would expect, so that
``except ValueError`` keeps working. It carries the exit code of the command (the numbers of
``sysexits.h``, which shells and schedulers know).

========================  ==================  =========  ========================================
class                     built-in            exit code  raised when
========================  ==================  =========  ========================================
`InvalidValueError`       ValueError          65         a value or a shape breaks a rule
`InvalidTypeError`        TypeError           65         an argument has the wrong type or dtype
`InfeasibleBoundsError`   ValueError          65         no assignment satisfies the size bounds
`DeviceMismatchError`     ValueError          65         arrays live on different devices
`UsageError`              ValueError          2          an option or a setting is wrong
`DivergedError`           ValueError          2          training arrived at infinite values or NaN
`MissingFileError`        FileNotFoundError   66         an input path does not exist
`OutputError`             OSError             73         an output cannot be created
`CheckpointError`         RuntimeError        65         a checkpoint is damaged or does not fit
`MissingExtraError`       ImportError         69         an optional dependency is not installed
========================  ==================  =========  ========================================
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "CheckpointError",
    "DeviceMismatchError",
    "DivergedError",
    "DualclustError",
    "InfeasibleBoundsError",
    "InvalidTypeError",
    "InvalidValueError",
    "MissingExtraError",
    "MissingFileError",
    "OutputError",
    "UsageError",
]


class DualclustError(Exception):
    """Root of all errors raised on purpose; the command prints each as one line."""

    exit_code: ClassVar[int] = 70


class InvalidValueError(DualclustError, ValueError):
    """An argument's value or shape breaks a stated rule."""

    exit_code = 65


class InvalidTypeError(DualclustError, TypeError):
    """An argument has the wrong type or dtype."""

    exit_code = 65


class InfeasibleBoundsError(InvalidValueError):
    """No assignment of the samples keeps every cluster size inside its bounds.

    Attributes
    ----------
    clusters : tuple of int
        The clusters whose bounds together prove the infeasibility.
    excess : int
        By how many samples the proof's inequality fails; always positive.
    vector : FarkasVector or None
        The whole proof, which `farkas.verify_infeasibility` checks. None for shares that exclude
        all sizes where no whole numbers do: of a stream, or rounded.
    """

    # Defaults, because a copy or a worker process rebuilds an exception from its message only.
    def __init__(
        self,
        message: str,
        *,
        clusters: tuple[int, ...] = (),
        excess: int = 0,
        vector: Any = None,
    ) -> None:
        super().__init__(message)
        self.clusters = clusters
        self.excess = excess
        self.vector = vector


class DeviceMismatchError(InvalidValueError):
    """Arrays that must share a device, or a library, do not."""


class UsageError(InvalidValueError):
    """A command-line option or a configuration key is unknown or malformed."""

    exit_code = 2


class DivergedError(UsageError):
    """Training arrived at a loss or weights that are infinite or NaN: a setting is too large."""


class MissingFileError(DualclustError, FileNotFoundError):
    """An input path does not exist. The command never starts afresh instead."""

    exit_code = 66


class OutputError(DualclustError, OSError):
    """An output file or folder cannot be created or written."""

    exit_code = 73


class CheckpointError(DualclustError, RuntimeError):
    """A checkpoint is incomplete, damaged, or does not fit the run that asks for it."""

    exit_code = 65


class MissingExtraError(DualclustError, ImportError):
    """An optional dependency is needed but not installed."""

    exit_code = 69
