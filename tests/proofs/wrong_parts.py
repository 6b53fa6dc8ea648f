"""Errors in the own parts of checks that have no counterpart in the library, one row each.

A row is a claim, a dotted name that the claim lists in its `mutations`, and what makes a wrong part
of the right one. Errors in the library itself are in `dualclust.proofs.planted.tables`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dualclust.proofs.gatcluster import targets
from dualclust.proofs.propos import tables as propos_tables

__all__ = ["WRONG_PARTS"]

Change = Callable[[Any], Any]


def instead(wrong: Any) -> Change:
    """Whatever the part is, take `wrong`."""
    return lambda _: wrong


def rows(wrong: dict[Any, Any]) -> Change:
    """Replace rows of a table."""
    return lambda table: table | wrong


def scaled(factor: float) -> Change:
    """Multiply a function's result."""
    return lambda f: lambda *args, **options: factor * f(*args, **options)


def shifted(offset: float) -> Change:
    """Add to a function's result."""
    return lambda f: lambda *args, **options: f(*args, **options) + offset


def in_one_part(x: Any, first: Any, second: Any, size: int, training: bool = False) -> Any:
    """Give all images to GATCluster's network at once."""
    return targets._network(x, first, second, training)


SECU = "dualclust.proofs.secu."
PROPOS = "dualclust.proofs.propos."
COKE = "dualclust.proofs.coke."
GATCLUSTER = "dualclust.proofs.gatcluster."
MI_MARGIN = "dualclust.proofs.mi_margin.objective."

WRONG_PARTS: list[tuple[str, str, Change]] = [
    ("S2", SECU + "supplement._ratio_of_variances", instead(lambda k, a2: 1 / (1 - a2))),
    (
        "S2",
        SECU + "supplement._ratio_of_variances",  # right for the simplex, not for free means
        instead(lambda k, a2: (1 - a2 / (k - 1) ** 2) / (1 - a2)),
    ),
    ("S2", SECU + "supplement._variance", scaled(1.01)),
    ("S10", SECU + "tables._TABLE_1", rows({512: 88.0})),
    ("S10", SECU + "tables._TABLE_1", rows({128: 88.2, 256: 88.1})),
    ("M8", MI_MARGIN + "_side_after", instead(lambda n, k, s, p: -((k - n - 2 * p) // s) + 1)),
    ("M8", MI_MARGIN + "_VGG4", lambda table: table | {"grey": (32, *table["grey"][1:])}),
    (
        "P15",
        PROPOS + "mixture._moving_objective",
        lambda f: lambda sympy, theta, fixed: f(sympy, theta, theta),
    ),
    (
        "P22",
        PROPOS + "tables.STL_10",
        instead(dict.fromkeys(("CC", "TCL", "ProPos"), (75.0, 86.0, 73.0))),
    ),
    ("P22", PROPOS + "tables.IMAGENET_10", instead(dict.fromkeys(("IDFD", "ProPos"), (9, 9, 9)))),
    (
        "P23",
        PROPOS + "tables.IMAGENET_DOGS",
        rows({"TCL": (57.7, 62.1, 52.3)}),  # for a gain of 20 percent
    ),
    ("P24", PROPOS + "tables.HOURS_BYOL", instead((9.0, 9.0, 14.7, 1.7, 2.6, 12.0))),
    ("P26", PROPOS + "tables.WITHOUT_ALIGNMENT", instead(propos_tables.FULL)),
    ("P26", PROPOS + "tables.FULL", instead(((85.1, 0.01), (91.6, 0.01), (83.5, 0.01)))),
    (
        "P27",
        PROPOS + "tables.FURTHER",
        instead({"ImageNet-50": ((82.8, 69.1), (82.2, 66.1), (0.6, 2.0))}),
    ),
    ("C1", COKE + "clustering._proxy_objective", shifted(1.0)),
    (
        "C25",
        COKE + "clustering.ALGORITHM_2",
        instead({"labels": (10, 10), "centers": (13, 11), "duals": (11, 14)}),
    ),
    ("C26", COKE + "tables._shortfall", lambda f: lambda bound, least: f(least, bound)),
    ("G14", GATCLUSTER + "tables.STL10", rows({"GATCluster": (0.58, 0.45, 0.36)})),
    ("G14", GATCLUSTER + "tables.IMAGENET_10", rows({"GATCluster": (0.762, 0.609, 0.572)})),
    (
        "G15",
        GATCLUSTER + "tables.ABLATION",
        rows({"No TI": (0.576, 0.536, 0.016)}),  # the full setting ahead
    ),
    ("G15", GATCLUSTER + "tables._welch", instead(lambda a, b, n: 0.01)),
    ("G16", GATCLUSTER + "targets._in_parts", instead(in_one_part)),
    ("G17", GATCLUSTER + "tables.IMAGE_SIZE", rows({96: (0.678, 0.02)})),
    ("G17", GATCLUSTER + "tables._welch", instead(lambda a, b, n: 0.049)),
    (
        "G18",
        GATCLUSTER + "tables.RESOLUTION",
        rows({8: ((0.742, 0.719, 0.018), (0.608, 0.584))}),
    ),
    ("G18", GATCLUSTER + "tables._welch", instead(lambda a, b, n: 0.04)),
]
