"""Memory that the system refuses, as one typed error that says what takes less of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..algos.core.errors import DualclustError

__all__ = ["OutOfMemoryError", "memory_errors"]

ALLOCATORS = ("DefaultCPUAllocator", "CUDA out of memory", "not enough memory")
"""How errors of PyTorch about memory begin or what they hold: most are plain RuntimeErrors."""


class OutOfMemoryError(DualclustError, MemoryError):
    """The system, or a limit of this process, has refused memory."""

    exit_code = 71


@contextmanager
def memory_errors(fix: str) -> Iterator[None]:
    """Raise `OutOfMemoryError` for memory that NumPy, Python or PyTorch did not get.

    Parameters
    ----------
    fix : str
        What takes less memory, after "To fix this, ".

    Raises
    ------
    OutOfMemoryError

    Examples
    --------
    >>> with memory_errors("lower batch_size"):
    ...     raise MemoryError("Unable to allocate 9 GiB")
    Traceback (most recent call last):
    dualclust.common.memory.OutOfMemoryError: out of memory (Unable to allocate 9 GiB). To fix \
this, lower batch_size
    """
    try:
        yield
    except OutOfMemoryError:
        raise
    except (MemoryError, RuntimeError) as error:
        text = next(iter(str(error).splitlines()), "")
        if not isinstance(error, MemoryError) and not any(a in str(error) for a in ALLOCATORS):
            raise
        said = f" ({text})" if text else ""
        msg = f"out of memory{said}. To fix this, {fix}"
        raise OutOfMemoryError(msg) from error
