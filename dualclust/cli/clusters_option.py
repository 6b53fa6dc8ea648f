"""The option ``-k``: one number of clusters, or several as ``dualclust cluster --k-range``."""

from __future__ import annotations

from ..algos.core.errors import UsageError
from ..cluster.choice import k_range

__all__ = ["clusters_of", "one_of_clusters"]


def clusters_of(text: str | int | None) -> tuple[int, ...]:
    """Read what -k says; nothing where it is not given.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> clusters_of("10"), clusters_of("5:20:5,8"), clusters_of(None)
    ((10,), (5, 8, 10, 15, 20), ())
    """
    if text is None:
        return ()
    words = str(text)
    if "," in words or ":" in words:
        return tuple(k_range(words, "-k"))
    try:
        number = int(words)
    except ValueError:
        number = 0
    if number < 2:
        more = "" if words.lstrip("-").isdecimal() else ". To fix this, write 10, 5,10,20 or 5:20:5"
        msg = f"-k must be an integer, 2 or more, got {words}{more}"
        raise UsageError(msg)
    return (number,)


def one_of_clusters(text: str | int | None, why: str) -> int | None:
    """Read -k of a command that takes one number alone.

    Raises
    ------
    UsageError
        For several, with the reason `why`.
    """
    found = clusters_of(text)
    if len(found) > 1:
        msg = (
            f"-k must be one number here, since {why}, got {text}. To fix this, choose one first: "
            f"dualclust train secu -k {text}"
        )
        raise UsageError(msg)
    return found[0] if found else None
