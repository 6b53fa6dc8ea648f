"""``dualclust cluster`` with ``--groups`` in each cluster, ``--links``, or rows ``--max-out``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algos.bounds.groups import GroupBounds
from ..algos.clustering import (
    BoundedKMeansResult,
    grouped_kmeans,
    linked_kmeans,
    trimmed_kmeans,
)
from ..algos.core.checks import check_count
from ..algos.core.errors import InvalidValueError, MissingFileError, UsageError
from ..algos.scores.deadline import Deadline
from ..common.array_headers import PARSING, read_header
from ..common.formats import Selection
from ..common.formats.checks import refuse
from ..common.formats.kinds import kind_of
from ..common.tables import csv_text
from .groups import FORMS, Form, Groups, bounds_in_form, check_form, numbered_groups
from .places import on_host, placed
from .values_of_rows import column_of, column_values

__all__ = [
    "GroupCounts",
    "check_groups",
    "cluster_in_groups",
    "groups_csv",
    "link_facts",
    "read_groups",
]

NOT_WITH = ("graph", "checkpoint", "resume", "report", "show", "table", "dry_run")
NOT_WITH_OUT = ("weights", "seeds", "forbidden")
NOT_WITH_LINKS = ("seeds", "forbidden", "max_out")
NOT_WITH_SIZES = ("groups", "links", "max_out", "weights", "seeds", "forbidden", "bounds")

DEFAULT = "0.9:1.1"
"""Shares of a group's mean unless others are asked for."""


class GroupCounts(NamedTuple):
    """Rows of each group in each cluster, their bounds and prices.

    Attributes
    ----------
    names : (G,) array
    counts, lower, upper : (G, k) int64 arrays
    prices : (G, k) float64 array
        Added to those of the clusters for rows of the group.
    """

    names: NDArray[Any]
    counts: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    prices: NDArray[np.float64]

    def facts(self, form: str) -> dict[str, Any]:
        """Return what result.json says of them."""
        outside = np.maximum(self.lower - self.counts, self.counts - self.upper)
        return {
            "groups": len(self.names),
            "rows_in_groups": int(self.counts.sum()),
            "group_bounds": form,
            "group_violation": max(0, int(outside.max(initial=0))),
        }


def check_groups(options: argparse.Namespace, world_size: int) -> None:
    """Refuse options that do not go with groups or with rows that stay out, and fill in the form.

    Raises
    ------
    UsageError, InvalidValueError
    """
    if options.group_bounds is not None and options.groups is None:
        msg = "--group-bounds needs --groups. To fix this, say which group each row belongs to"
        raise UsageError(msg)
    if options.max_out is not None:
        check_count("--max-out", options.max_out, 1)
    others: tuple[str, ...]
    if options.sizes is not None:
        flag, others = "--sizes", (*NOT_WITH_SIZES, *NOT_WITH)
    elif options.groups is not None:
        flag, others = "--groups", ("max_out", "links", *NOT_WITH)
        options.group_bounds = options.group_bounds or DEFAULT
        _form(options.group_bounds)
    elif options.links is not None:
        flag, others = "--links", (*NOT_WITH, *NOT_WITH_LINKS)
    elif options.max_out is not None:
        flag, others = "--max-out", (*NOT_WITH, *NOT_WITH_OUT)
    else:
        return
    given = [name for name in others if getattr(options, name) not in (None, False)]
    if given or world_size > 1:
        what = f"--{given[0].replace('_', '-')}" if given else "several ranks"
        msg = f"{flag} does not go with {what}. To fix this, leave one of them out"
        raise UsageError(msg)


def _form(text: str) -> Form:
    """Read bounds on groups: a name, or two shares with a colon between."""
    if text in FORMS:
        return text
    try:
        low, high = map(float, text.split(":"))
        return check_form("--group-bounds", (low, high))
    except (InvalidValueError, ValueError) as error:
        msg = (
            f"--group-bounds must be LOW:HIGH with 0 <= LOW <= 1 <= HIGH, in units of a group's "
            f"mean n_g/k, or {' or '.join(FORMS)}, got {text}. To fix this, give {DEFAULT}, say"
        )
        raise InvalidValueError(msg) from error


def read_groups(options: argparse.Namespace, selection: Selection, n: int) -> Groups | None:
    """Read the group of each row: a column of the input, or an .npy file.

    Raises
    ------
    MissingFileError, InvalidValueError, InvalidTypeError, UsageError
    """
    if options.groups is None:
        return None
    column = column_of(options.groups)
    if column is None:
        return numbered_groups("--groups", _values_of_file(options.groups, n))
    parts = [
        part if isinstance(part, np.ndarray) else part.to_numpy(zero_copy_only=False)
        for part in column_values("--groups", column, options.input, selection)()
    ]
    values = np.concatenate(parts) if parts else np.empty(0)
    if len(values) != n:
        msg = (
            f"--groups {column} has {len(values)} values, and the input has {n} rows. To fix this, "
            f"let nobody write to it while it is read"
        )
        raise InvalidValueError(msg)
    return numbered_groups(f"--groups {column}", values)


def _values_of_file(path: Path, n: int) -> NDArray[Any]:
    if not path.is_file():
        msg = f"no file at {path}. To fix this, look at the path, or name a column of the input"
        raise MissingFileError(msg)
    rule = f"Groups are a whole number or a text for each of the {n} rows, saved by np.save"
    if (kind := kind_of(path)).key != "npy":
        refuse(path, f"is {kind.what}", rule, "save them so, or name a column of the input")
    with path.open("rb") as file:
        header = read_header(file, path)
    if header.dtype.kind not in "iubSU" or header.shape != (n,):
        fix = "give the groups of these very rows"
        refuse(path, f"holds {header.dtype} of shape {header.shape}", rule, fix)
    if path.stat().st_size < header.n_bytes:
        refuse(path, "is cut off", rule, "write or copy it again")
    with PARSING:
        values: NDArray[Any] = np.load(path, allow_pickle=False)
    return values


def cluster_in_groups(
    options: argparse.Namespace, problem: Any, centers: Any, deadline: Deadline | None
) -> tuple[BoundedKMeansResult[Any], GroupCounts | None]:
    """Cluster with bounds on groups, linked rows, or rows that stay out, from given centers."""
    how: dict[str, Any] = {"metric": options.metric, "max_iter": options.max_iter}
    how |= {"tol": options.tol, "time_limit": deadline}
    if problem.links is not None:
        must, cannot = (placed(pairs, options.device) for pairs in problem.links)
        pairs = {"must_link": must, "cannot_link": cannot, "weights": problem.weights}
        of_links = linked_kmeans(
            problem.source, problem.bounds, centers, **pairs, gap=options.gap, **how
        )
        return of_links, None
    if problem.groups is None:
        sizes = {
            "min_count": on_host(problem.bounds.lower).tolist(),
            "max_count": on_host(problem.bounds.upper).tolist(),
        }
        return trimmed_kmeans(
            problem.source, centers, max_out=options.max_out, **sizes, **how
        ), None
    numbers = placed(problem.groups.numbers, options.device)
    bounds: GroupBounds = bounds_in_form(_form(options.group_bounds), numbers, options.k)
    found = grouped_kmeans(
        problem.source,
        problem.bounds,
        bounds,
        centers,
        weights=problem.weights,
        fixed=problem.fixed,
        forbidden=problem.forbidden,
        **how,
    )
    counts = GroupCounts(
        problem.groups.names,
        on_host(found.assignment.group_counts),
        on_host(bounds.lower),
        on_host(bounds.upper),
        on_host(found.assignment.group_prices),
    )
    return found, counts


def link_facts(links: tuple[NDArray[np.int64], NDArray[np.int64]]) -> dict[str, Any]:
    """Return what result.json says of pairs, which the labels keep."""
    return {"must_link_pairs": len(links[0]), "cannot_link_pairs": len(links[1])}


def groups_csv(groups: GroupCounts) -> str:
    """Return a CSV table with a line for each group and cluster: size, bounds, price."""
    names, sizes, lower, upper, prices = groups
    n_groups, k = sizes.shape
    columns: dict[str, Any] = {
        "group": [str(name) for name in names for _ in range(k)],
        "cluster": np.tile(np.arange(k), n_groups),
        "size": sizes.reshape(-1),
        "min_count": lower.reshape(-1),
        "max_count": upper.reshape(-1),
        "price": prices.reshape(-1),
    }
    return csv_text(columns, ".6f")
