"""Several numbers of clusters in one run: a head for each, and one is chosen without labels.

Finer heads stand beside the candidates as beside a single k, at multiples of the largest one. The
loss is the mean over heads, and a step's cost grows with their number times the largest k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral

from ...algos.core.errors import UsageError
from ..config.run import HeadsConfig
from .bases import FINER_HEADS

__all__ = ["MOST_CANDIDATES", "as_numbers", "check_candidates", "with_candidates"]

MOST_CANDIDATES = 20
"""Most heads that are judged: each has its part of every step, and of the loss."""


def as_numbers(clusters: int | Sequence[int]) -> tuple[int, ...]:
    """Return one number of clusters, or several, as a rising tuple without repetition.

    Raises
    ------
    UsageError
        If there is none.

    Examples
    --------
    >>> as_numbers(10), as_numbers([20, 5, 20])
    ((10,), (5, 20))
    """
    given = (clusters,) if isinstance(clusters, (int, Integral)) else tuple(clusters)
    if not given:
        msg = (
            f"clusters must be a number of clusters, or several, got {clusters!r}. To fix this, "
            f"name at least one, such as 10"
        )
        raise UsageError(msg)
    # Whole numbers of numpy become those of Python, which settings are made of.
    return tuple(sorted({int(k) if isinstance(k, Integral) else k for k in given}))


def check_candidates(method: str, numbers: Sequence[int]) -> None:
    """Refuse several numbers of clusters for a method with one head, and too many for any.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> check_candidates("propos", (10,))
    >>> check_candidates("secu", (5, 10, 20))
    """
    told = ",".join(map(str, numbers))
    if len(numbers) > 1 and method not in FINER_HEADS:
        msg = (
            f"{method} has one head and learns one number of clusters, got -k {told}. To fix this, "
            f"name one; or train {' or '.join(FINER_HEADS)}, which have a head for each; or "
            f"compare several on the embeddings of a run: dualclust embed RUN DATA --out X.npy, "
            f"and dualclust cluster X.npy --k-range {told}"
        )
        raise UsageError(msg)
    if len(numbers) > MOST_CANDIDATES:
        msg = (
            f"-k must name at most {MOST_CANDIDATES} numbers of clusters for a run, since each is "
            f"a head that takes part in every step, got {len(numbers)}. To fix this, give a step: "
            f"FIRST:LAST:STEP"
        )
        raise UsageError(msg)


def with_candidates(
    heads: HeadsConfig, numbers: Sequence[int], finer: Sequence[int]
) -> HeadsConfig:
    """Copy the settings of heads for these numbers of clusters, and finer ones beside them.

    Examples
    --------
    >>> found = with_candidates(HeadsConfig(), (5, 10, 20), (40,))
    >>> found.clusters, found.candidates, found.target
    ((5, 10, 20, 40), (5, 10, 20), 10)
    """
    several = len(numbers) > 1
    return replace(
        heads,
        clusters=(*numbers, *finer),
        candidates=tuple(numbers) if several else (),
        target=numbers[len(numbers) // 2],
    )
