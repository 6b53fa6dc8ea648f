"""Options of ``dualclust cluster`` about groups and sizes of rows, and rows that stay out."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_group_options"]


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add bounds on groups in clusters, and how many rows may stay out."""
    about = "Labels have a proven gap for the centers: docs/guides/constraints.md"
    add = parser.add_argument_group(
        "groups, sizes, linked rows, and rows that stay out", about
    ).add_argument
    add(
        "--groups",
        type=Path,
        metavar="WHAT",
        help="the group of each row, which every cluster keeps inside --group-bounds: a column of "
        "the input, or n numbers or texts (.npy); -1 or empty: none",
    )
    add(
        "--group-bounds",
        metavar="HOW",
        help="of each group in each cluster: LOW:HIGH in units of its mean n_g/k (default "
        "0.9:1.1), at-most-one, or at-least-one",
    )
    add(
        "--sizes",
        type=Path,
        metavar="WHAT",
        help="what each row counts in the bounds, in place of 1: a column of the input, or n "
        "numbers (.npy). --lower and --upper are then in units of the mean load, --min-count and "
        "--max-count loads. Weights count in the distances instead",
    )
    add(
        "--links",
        type=Path,
        metavar="FILE",
        help="pairs of rows: a table (.csv, .parquet) with the columns row, or the column that "
        "--id names, other, and link: must (be together) or cannot",
    )
    add(
        "--max-out",
        type=int,
        metavar="N",
        help="at most N rows stay out of all clusters, with the label -1: those that cost most",
    )
