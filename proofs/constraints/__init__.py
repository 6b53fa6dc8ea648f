"""Labels under further constraints than sizes: bounds on groups (L1), pairs of rows (L2, L3)."""

from . import groups_and_pairs

__all__ = ["groups_and_pairs"]
