"""Errors planted in the library for the claims of Theorem R and its two-sided form."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = ()
