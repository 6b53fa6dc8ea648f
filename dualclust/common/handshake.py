"""Ranks compare what they are about to do, before the first step.

Each sends its settings, digests of its inputs and its versions, as text. All see all of them, so
that all end with the same message, and none waits for another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from ..algos.core.errors import UsageError

__all__ = ["check_same"]

Exchange = Callable[[bytes], list[bytes]]


def check_same(facts: Mapping[str, str], exchange: Exchange) -> None:
    """Refuse ranks whose facts differ.

    Parameters
    ----------
    facts : mapping from name to text
        What must be the same on all ranks.
    exchange : callable
        ``exchange(content)``: what each rank has sent, in the order of the ranks.

    Raises
    ------
    UsageError
        The same on every rank: what differs, and between which ranks.

    Examples
    --------
    >>> other = b'{"seed": "1", "k": "3"}'
    >>> check_same({"k": "3", "seed": "0"}, lambda content: [content, other])
    Traceback (most recent call last):
    dualclust.algos.core.errors.UsageError: the ranks must do the same, got seed = 0 on rank 0 and \
1 on rank 1. To fix this, start all ranks with the same options, inputs and versions
    """
    contents = exchange(json.dumps(dict(facts), sort_keys=True).encode())
    every = [json.loads(content) for content in contents]
    first = every[0]
    for rank, other in enumerate(every):
        names = [n for n in {**first, **other} if first.get(n) != other.get(n)]
        if not names:
            continue
        apart = [(n, first.get(n, "nothing"), other.get(n, "nothing")) for n in sorted(names)]
        shown = "; ".join(f"{n} = {a} on rank 0 and {b} on rank {rank}" for n, a, b in apart[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        msg = (
            f"the ranks must do the same, got {shown}{more}. To fix this, start all ranks with "
            f"the same options, inputs and versions"
        )
        raise UsageError(msg)
