"""``dualclust report``: the page of one run again, or one page for several."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..algos.core.errors import OutputError, UsageError
from ..common.files import write_file
from ..common.memory import memory_errors
from ..train.comparison import (
    StoredRun,
    agreements_of,
    comparison_csv,
    comparison_markdown,
    comparison_page,
    comparison_rows,
    comparison_text,
    find_runs,
    prefer,
)
from ..train.comparison.document import GENERATOR
from ..train.loop.train_and_resume import write_page
from .train import check_device, plain_warnings

__all__ = ["check_page", "run_report", "write_comparison"]


def run_report(options: argparse.Namespace) -> int:
    """Write the page and return the exit code."""
    check_device(options.device)
    runs = find_runs(options.runs)
    if len(runs) > 1:
        out = options.out or _common_folder(runs) / "comparison.html"
        check_page(out)
        write_comparison(runs, out, as_json=options.json)
        return 0
    for flag, given in (("--out", options.out), ("--json", options.json)):
        if given:
            msg = f"{flag} is for several runs, and there is one. To fix this, leave it out"
            raise UsageError(msg)
    if runs[0].baseline:
        msg = (
            f"{runs[0].folder} is of k-means, which has no page of its own. To fix this, name "
            f"another run beside it"
        )
        raise UsageError(msg)
    with plain_warnings(), memory_errors("leave the page that the run has written"):
        page = write_page(runs[0].folder, device=options.device)
    print(f"written to    {page}")
    return 0


def _common_folder(runs: Sequence[StoredRun]) -> Path:
    """The folder that holds all runs, as seen from here."""
    return Path(os.path.relpath(os.path.commonpath([run.folder.absolute().parent for run in runs])))


def check_page(out: Path) -> None:
    """Refuse a page that would take the place of somebody else's file.

    Raises
    ------
    UsageError
        If its name does not end in ``.html``.
    OutputError
        If it, or a table beside it, stands there and is not ours.
    """
    if out.suffix.lower() != ".html":
        msg = f"--out must end in .html, got {str(out)!r}. To fix this, name such a file"
        raise UsageError(msg)
    standing = [path for path in _files(out) if path.exists()]
    if not standing:
        return
    try:
        ours = GENERATOR in out.read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:
        ours = False
    if not ours:
        msg = (
            f"{standing[0]} exists, and is not of an earlier report. To fix this, name another "
            f"file with --out"
        )
        raise OutputError(msg)


def _files(out: Path) -> tuple[Path, Path, Path]:
    """The page, and the tables beside it."""
    return out, out.with_suffix(".csv"), out.with_suffix(".md")


def write_comparison(runs: Sequence[StoredRun], out: Path, *, as_json: bool) -> None:
    """Write the page and the tables of several runs, and print what they say."""
    agreements = agreements_of(runs)
    preference = prefer(runs, agreements)
    rows = comparison_rows(runs, preference)
    title = out.absolute().parent.name
    text = comparison_page(runs, rows, agreements, preference, title=title, folder=out.parent)
    page, table, markdown = _files(out)
    # The page is last: where it stands, the tables beside it are ours.
    write_file(markdown, comparison_markdown(rows, preference), parents=True)
    write_file(table, comparison_csv(rows))
    write_file(page, text)
    if as_json:
        found: dict[str, Any] = {
            "rows": rows,
            "agreement": {
                "runs": [run.name for run in runs],
                "nmi": _matrix(agreements.nmi),
                "ari": _matrix(agreements.ari),
                "not_compared": list(agreements.reasons),
            },
            "preferred": preference.method,
            "preferred_run": preference.run,
            "reason": preference.reason,
            "files": [str(path) for path in (page, table, markdown)],
        }
        print(json.dumps(found, indent=2))
        return
    print(comparison_text(rows, preference, [f"{reason}" for reason in agreements.reasons]))
    print(f"written to {page}, {table.name}, {markdown.name}")


def _matrix(values: np.ndarray[Any, Any]) -> list[list[float | None]]:
    """A matrix for JSON, which knows no NaN."""
    return [[None if np.isnan(v) else float(v) for v in line] for line in values]
