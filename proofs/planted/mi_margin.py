"""Errors planted in the library for the claims of MI + margin."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = ()
