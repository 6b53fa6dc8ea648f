"""Tables of the errors that the claims must notice, one module per paper; see `..planting`."""

from __future__ import annotations

from ..planting import PlantedError

__all__ = ["errors_in"]


def errors_in(
    target: str, *changes: tuple[str, str, str], claims: tuple[str, ...] = ()
) -> tuple[PlantedError, ...]:
    """Return the errors in one function, each as its kind, its old text and its new one."""
    return tuple(PlantedError(target, kind, old, new, claims) for kind, old, new in changes)
