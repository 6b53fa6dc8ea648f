"""Labels under further constraints: groups (L1), in streams (L4), and pairs of rows (L2, L3)."""

from . import groups_and_pairs, streams

__all__ = ["groups_and_pairs", "streams"]
