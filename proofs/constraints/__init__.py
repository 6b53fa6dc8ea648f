"""Labels under further constraints than sizes: groups (L1, in streams L4), pairs of rows (L2, L3)."""

from . import groups_and_pairs, streams

__all__ = ["groups_and_pairs", "streams"]
