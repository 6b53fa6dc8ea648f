"""A choice of k as rows of a table: for CSV, JSON, standard output, or a page."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from ..algos.selection import ChoiceOfK, shares_text

__all__ = ["COLUMNS", "choice_csv", "choice_of", "choice_rows", "choice_text"]

Row = dict[str, Any]

COLUMNS = (
    "k",
    "lower",
    "upper",
    "objective",
    "gap",
    "silhouette",
    "reference_silhouette",
    "stability",
    "stability_error",
    "price_percent",
    "price_proven_percent",
    "smallest",
    "largest",
    "all_objective",
    "all_silhouette",
    "all_price_proven_percent",
)
"""Names of the columns; those that begin with ``all_`` are of all rows, the others of the sample.
``reference_silhouette`` is that of rows without clusters. An infinite bound is "inf"."""


def choice_rows(found: ChoiceOfK) -> list[Row]:
    """Return a row for each k and bounds, first without bounds, with the names of `COLUMNS`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualclust.algos.selection import choose_k
    >>> found = choose_k(np.asarray([[0.0], [0.1], [5.0], [5.1]]), [2], metric="euclidean")
    >>> row = choice_rows(found)[0]
    >>> row["k"], row["upper"], row["smallest"], round(row["silhouette"], 2)
    (2, 'inf', 2, 0.99)
    """
    rows = []
    for i in range(found.ks.shape[0]):
        for j in range(found.shares.shape[0]):
            low, high = (float(found.shares[j, side]) for side in (0, 1))
            rows.append(
                {
                    "k": int(found.ks[i]),
                    "lower": low,
                    "upper": "inf" if math.isinf(high) else high,
                    "objective": float(found.objective[i, j]),
                    "gap": float(found.gap[i, j]),
                    "silhouette": float(found.silhouette[i, j]),
                    "reference_silhouette": float(found.reference[i]),
                    "stability": float(found.stability[i, j]),
                    "stability_error": float(found.stability_error[i, j]),
                    "price_percent": 100.0 * float(found.price[i, j]),
                    "price_proven_percent": 100.0 * float(found.price_proven[i, j]),
                    "smallest": int(found.smallest[i, j]),
                    "largest": int(found.largest[i, j]),
                    "all_objective": float(found.all_objective[i, j]),
                    "all_silhouette": float(found.all_silhouette[i, j]),
                    "all_price_proven_percent": 100.0 * float(found.all_price_proven[i, j]),
                }
            )
    return rows


def choice_of(found: ChoiceOfK, metric: str, seed: int) -> dict[str, Any]:
    """Return the contents of choice.json."""
    shares = found.recommended_shares
    return {
        "n_samples": found.n_samples,
        "n_drawn": found.n_drawn,
        "metric": metric,
        "seed": seed,
        "recommended_k": found.recommended,
        "reason": found.reason,
        "recommended_bounds": None
        if shares is None
        else ["inf" if math.isinf(share) else share for share in shares],
        "bounds_reason": found.shares_reason,
        "rows": choice_rows(found),
    }


def choice_csv(found: ChoiceOfK) -> str:
    """Return a CSV table with one line for each k and bounds."""
    content = io.StringIO()
    table = csv.DictWriter(content, COLUMNS, lineterminator="\n")
    table.writeheader()
    for row in choice_rows(found):
        table.writerow({n: f"{v:.6g}" if isinstance(v, float) else v for n, v in row.items()})
    return content.getvalue()


def choice_text(found: ChoiceOfK) -> str:
    """Return the report for standard output."""
    sample = "all of them" if found.n_drawn == found.n_samples else f"a sample of {found.n_drawn:,}"
    heads = ("k", "sizes", "objective", "silhouette", "(none)", "stability", "price", "proven")
    lines = [heads]
    for row in choice_rows(found):
        pair = (row["lower"], math.inf if row["upper"] == "inf" else row["upper"])
        is_free = pair == (0.0, math.inf)
        lines.append(
            (
                str(row["k"]),
                shares_text(pair).removesuffix(" times n/k"),
                f"{row['objective']:.4g}",
                f"{row['silhouette']:.3f}",
                f"{row['reference_silhouette']:.3f}",
                f"{row['stability']:.2f} +- {row['stability_error']:.2f}",
                "" if is_free else f"{row['price_percent']:.2f} %",
                "" if is_free else f"{row['all_price_proven_percent']:.2f} %",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = [
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    notes = [
        f"{found.n_samples:,} rows, figures of {sample}; sizes in units of n/k; (none): silhouette "
        f"of data without clusters;",
        "price: share of the objective without bounds that is lost; proven: of all rows, for these "
        "centers and any labels",
    ]
    reasons = [found.reason] + ([found.shares_reason] if found.shares_reason else [])
    return "\n".join([*table, *notes, *reasons])
