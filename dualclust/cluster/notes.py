"""What the screen and `result.json` say beside the numbers: what was clustered, and what is odd."""

from __future__ import annotations

import argparse
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..common.formats import Rows
from ..common.formats.checks import listed
from .output import Clusters
from .valid_rows import KeptRows

__all__ = ["input_facts", "input_lines", "note_lines", "notes_on_input", "notes_on_result"]

LISTED_ROWS = 10_000
"""Most numbers of dropped rows in result.json; labels.npy has all of them."""

FEW = 3
"""Numbers a row up to which points are likelier than directions."""

SAME = 1e-6
"""Distance between equal centers, in units of the largest number of a center."""


def input_facts(rows: Rows) -> dict[str, Any]:
    """Return what was clustered, for result.json."""
    part = rows.part
    dropped = rows.dropped if isinstance(rows, KeptRows) else np.empty(0, np.int64)
    return {
        "rows": rows.n_samples,
        "numbers_per_row": rows.n_features,
        "what": part.kind,
        "names": list(part.names),
        "left_out": list(part.left_out),
        "dropped_rows": len(dropped),
        "dropped": dropped[:LISTED_ROWS].tolist(),
    }


def input_lines(facts: dict[str, Any]) -> list[str]:
    """Return `input_facts` for the screen."""
    f = facts
    names = ", ".join(f["names"]) if len(f["names"]) <= FEW + 5 else listed(f["names"])
    plural = f["what"] if len(f["names"]) != 1 or f["what"] != "columns" else "column"
    what = f"{': ' if f['what'] else ''}{plural}{' ' if names else ''}{names}"
    lines = [f"input               {f['rows']} rows of {f['numbers_per_row']} numbers{what}"]
    if f["left_out"]:
        lines.append(f"left out            {listed(f['left_out'])}")
    if f["dropped_rows"]:
        some = ", ".join(map(str, f["dropped"][:8])) + ", ..." * (f["dropped_rows"] > 8)
        lines.append(
            f"dropped             {f['dropped_rows']} rows that are not finite, or zero where "
            f"directions are compared: {some}"
        )
    return lines


def notes_on_input(options: argparse.Namespace, rows: Rows, upper: NDArray[np.int64]) -> list[str]:
    """Return what a user may not have meant, as far as options and rows tell."""
    notes = []
    part, d = rows.part, rows.n_features
    named = part.kind == "columns" and not _numbered(part.names)
    if options.metric == "cosine" and not options.metric_given and (named or 1 < d <= FEW):
        notes.append(
            "rows are compared by their directions from the origin (--metric cosine, the default); "
            "--metric euclidean compares points"
        )
    if getattr(options, "weights", None) is not None and (upper < rows.n_samples).any():
        notes.append("sizes and their bounds count rows, not weights")
    return notes


def notes_on_result(found: Clusters) -> list[str]:
    """Return in which ways a result has fewer clusters than were asked for."""
    notes, k = [], len(found.counts)
    if empty := int((found.counts == 0).sum()):
        notes.append(f"{empty} of {k} clusters are empty")
    centers = found.centers[found.counts > 0].astype(np.float64)
    largest = float(np.abs(centers).max())
    steps = np.round(centers / (SAME * largest)) if largest > 0.0 else centers
    different = len(np.unique(steps, axis=0))
    if different < len(centers):
        notes.append(
            f"{len(centers)} clusters have {different} different centers: rows are equal, or there "
            f"are fewer groups than clusters"
        )
    return notes


def note_lines(notes: list[str]) -> list[str]:
    """Return notes for the screen."""
    return [f"note                {note}" for note in notes]


def _numbered(names: tuple[str, ...]) -> bool:
    """Return whether names are one word with numbers, as those of the parts of an embedding."""
    return len({re.sub(r"\d+$", "", name) for name in names}) == 1 and len(names) > 1
