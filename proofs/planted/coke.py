"""Errors planted in the library for the claims of CoKe."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = ()
