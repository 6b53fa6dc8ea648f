"""How many threads are fastest here: what is allowed, less what others keep busy.

Threads of PyTorch wait for each other at the end of each operation. Where one of them has to wait
for a core, all do: with two threads on two cores of a load of 7, a training step took 5 to 20 times
as long as with one.
"""

from __future__ import annotations

import math
import os
from typing import NamedTuple

from .ranks import local_world_size

__all__ = ["Cores", "cores_here", "cores_to_use", "cpu_count"]


class Cores(NamedTuple):
    """A number of threads, and why it is less than the number of CPUs; or nothing."""

    threads: int
    reason: str = ""


def cpu_count() -> int:
    """CPUs for this process: those it may use, shared out among the ranks of this machine."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, (allowed or 1) // local_world_size())


def cores_to_use(allowed: int, *, in_all: int, load: float, asked: str = "") -> Cores:
    """Choose a number of threads.

    Parameters
    ----------
    allowed : int
        CPUs that this process may use, at least 1.
    in_all : int
        CPUs of the machine, to which the load belongs.
    load : float
        Processes that ran or waited to run, in the mean of the last minute; those of this process
        are among them.
    asked : str
        ``OMP_NUM_THREADS``. Its first number is taken as it is.

    Examples
    --------
    >>> cores_to_use(4, in_all=8, load=0.3), cores_to_use(4, in_all=8, load=6.2).threads
    (Cores(threads=4, reason=''), 2)
    >>> cores_to_use(2, in_all=2, load=8.0).reason
    '2 CPUs, where 8.0 processes run'
    >>> cores_to_use(2, in_all=2, load=8.0, asked="2")
    Cores(threads=2, reason='OMP_NUM_THREADS')
    """
    first = asked.partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return Cores(int(first), "OMP_NUM_THREADS")
    # Half a CPU that is busy now and then is left to us.
    free = math.floor(in_all - load + 0.5)
    count = min(allowed, max(1, free))
    return Cores(count, f"{in_all} CPUs, where {load:.1f} processes run" if count < allowed else "")


def cores_here() -> Cores:
    """Choose a number of threads for this process, on this machine as it is now."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    in_all = os.cpu_count() or 1
    return cores_to_use(
        cpu_count(), in_all=in_all, load=load, asked=os.environ.get("OMP_NUM_THREADS", "")
    )
