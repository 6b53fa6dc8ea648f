"""Errors planted in the library for the claims of GATCluster."""

from __future__ import annotations

from ..planting import PlantedError

PLANTED: tuple[PlantedError, ...] = ()
