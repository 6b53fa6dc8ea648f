"""Memory that the system refuses, as one typed error that says what takes less of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..algos.core.errors import DualclustError

__all__ = ["OutOfMemoryError", "memory_error", "memory_errors"]

ALLOCATORS = ("DefaultCPUAllocator", "CUDA out of memory", "not enough memory")
"""How errors of PyTorch about memory begin or what they hold: most are plain RuntimeErrors."""


class OutOfMemoryError(DualclustError, MemoryError):
    """The system, or a limit of this process, has refused memory."""

    exit_code = 71


def memory_error(error: Exception, fix: str) -> OutOfMemoryError | None:
    """Return what an error says about memory that NumPy, Python or PyTorch did not get.

    Parameters
    ----------
    error : Exception
    fix : str
        What takes less memory, after "To fix this, ".

    Returns
    -------
    OutOfMemoryError, or None for an error about something else

    Examples
    --------
    >>> str(memory_error(MemoryError("Unable to allocate 9 GiB"), "lower batch_size"))
    'out of memory (Unable to allocate 9 GiB). To fix this, lower batch_size'
    >>> memory_error(ValueError("shapes"), "lower batch_size") is None
    True
    """
    if isinstance(error, OutOfMemoryError):
        return error
    torch = isinstance(error, RuntimeError) and any(a in str(error) for a in ALLOCATORS)
    if not torch and not isinstance(error, MemoryError):
        return None
    text = next(iter(str(error).splitlines()), "")
    said = f" ({text})" if text else ""
    return OutOfMemoryError(f"out of memory{said}. To fix this, {fix}")


@contextmanager
def memory_errors(fix: str) -> Iterator[None]:
    """Raise `OutOfMemoryError` in place of what `memory_error` tells to be one.

    Raises
    ------
    OutOfMemoryError
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        refused = memory_error(error, fix)
        if refused is None or refused is error:
            raise
        raise refused from error
