"""The page that puts runs side by side: one file, which loads nothing and links to their pages."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from ...common.page.document import SHARED, page_text, read_part, script_of, template_of
from .groups import Group, groups_of
from .matching import Agreements
from .preference import Preference
from .stored import StoredRun
from .table import Row, protocol_note, shown_cells

__all__ = ["GENERATOR", "SCRIPTS", "comparison_page"]

NAV = """\
<a href="#first">Which one first</a> <a href="#figures">Figures</a> <a href="#sizes">Sizes</a>
<a href="#agreement">Agreement</a> <a href="#curves">Curves</a> <a href="#settings">Settings</a>"""
"""Links to the sections of ``comparison.html``."""

GENERATOR = '<meta name="generator" content="dualclust report">'
"""What a page of ours has in its head, and a file of somebody else's has not."""

RUN_PAGE = "dualclust.train.report.page"
SCRIPTS = (
    *((SHARED, name) for name in ("base.js", "charts.js", "curves.js")),
    (__package__, "comparison.js"),
)

NO_CLUSTERS: dict[str, Any] = {
    "counts": [],
    "held": [],
    "rows": {},
    **{name: {"row": []} for name in ("exemplars", "doubtful", "moved")},
}
"""What the shared script reads of one clustering: this page is of none."""

WORDS = ("run", "state", "protocol", "alarms")


def comparison_page(
    runs: Sequence[StoredRun],
    rows: Sequence[Row],
    agreements: Agreements,
    preference: Preference,
    *,
    title: str,
    folder: Path,
) -> str:
    """Return the page.

    Parameters
    ----------
    runs : sequence of StoredRun
    rows : sequence of dict
        From `table.comparison_rows`, of the same runs.
    agreements : Agreements
    preference : Preference
    title : str
    folder : Path
        Where the page will lie: links to the pages of the runs are relative to it.

    Returns
    -------
    str
        Equal for equal runs: no clock is read.
    """
    groups = groups_of(runs)
    fields = {
        "meta": '<meta name="generator" content="dualclust report">',
        "nav": NAV,
        "title": html.escape(title),
        "heading": f"{_counted(len(runs), 'run')} side by side",
        "summary": _summary(runs, groups),
        "preference": _preference(preference),
        "figures": _figures(runs, rows, folder),
        "figures_note": _figures_note(rows),
        "sizes_note": (
            "Bars: sizes of the clusters, the largest first, of labels inside the bounds. "
            "Dashed: bounds. A run that has not ended has no labels yet."
        ),
        "matrix": _matrix(runs, agreements),
        "matrix_note": _matrix_note(agreements),
        "settings": _settings(runs, groups),
    }
    style = "".join(
        read_part(*part)
        for part in ((SHARED, "page.css"), (RUN_PAGE, "run.css"), (__package__, "comparison.css"))
    )
    data = {**NO_CLUSTERS, "sizes": list(_sizes(runs, rows)), "curves": list(_curves(runs, groups))}
    template = template_of(__package__, "comparison.html")
    return page_text(template, fields, style=style, script=script_of(SCRIPTS), data=data)


def _preference(preference: Preference) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in preference.notes)
    verdict = f"<p><strong>{html.escape(preference.verdict)}</strong></p>"
    return verdict + (f'<ul class="plainlist">{notes}</ul>' if notes else "")


def _counted(amount: int, word: str) -> str:
    return f"{amount:,} {word}{'s' * (amount != 1)}"


def _summary(runs: Sequence[StoredRun], groups: Sequence[Group]) -> str:
    ks = sorted({run.n_clusters for run in runs})
    ns = sorted({len(run.found.ids) for run in runs if run.found is not None})
    own = sum(not runs[group.members[0]].baseline for group in groups)
    methods = [_counted(own, "method")] if own else []
    methods += [_counted(len(groups) - own, "baseline")] if own < len(groups) else []
    parts = [" and ".join(methods), f"{' or '.join(map(str, ks))} clusters"]
    if ns:
        parts.append(f"{' or '.join(f'{n:,}' for n in ns)} samples")
    going = sum(run.found is None for run in runs)
    ended = f" {going} of the runs have not ended." if going else " All runs have ended."
    return f"{', '.join(parts)}.{ended}"


def _figures(runs: Sequence[StoredRun], rows: Sequence[Row], folder: Path) -> str:
    heads, lines = shown_cells(rows)
    kinds = [' class="left"' if head in WORDS else "" for head in heads]
    top = "".join(
        f"<th scope=col{kind}>{html.escape(head)}</th>"
        for head, kind in zip(heads, kinds, strict=True)
    )
    body = []
    for run, line in zip(runs, lines, strict=True):
        cells = [html.escape(cell) for cell in line]
        name = _link(run, folder) or cells[0]
        rest = "".join(
            f"<td{kind}>{cell}</td>" for cell, kind in zip(cells[1:], kinds[1:], strict=True)
        )
        body.append(f"<tr><th scope=row>{name}</th>{rest}</tr>")
    head = f"<thead><tr>{top}</tr></thead>"
    return f'<table class="runs">{head}<tbody>{"".join(body)}</tbody></table>'


def _link(run: StoredRun, folder: Path) -> str:
    """The name of a run as a link to its page, where it has one."""
    page = run.folder / "report.html"
    if not page.is_file():
        return ""
    place = Path(os.path.relpath(page.absolute(), folder.absolute())).as_posix()
    return f'<a href="{html.escape(quote(place))}">{html.escape(run.name)}</a>'


def _figures_note(rows: Sequence[Row]) -> str:
    note = protocol_note(rows)
    parts = [f"{html.escape(note)}. No step reads a class."] if note else []
    parts.append(
        "Sizes: of the labels inside the bounds, before the end of those of training. Moved: "
        "samples that only the bounds put elsewhere. Repeats: mean ARI of a method's runs with "
        "each other; found by others: with the runs of all other methods. Seconds: by the clock, "
        "of the epochs alone; evaluation and pages are extra."
    )
    return " ".join(parts)


def _matrix(runs: Sequence[StoredRun], agreements: Agreements) -> str:
    top = "".join(
        f'<th scope=col title="{html.escape(run.name)}">{i}</th>' for i, run in enumerate(runs, 1)
    )
    body = []
    for i, run in enumerate(runs):
        cells = "".join(_cell(agreements, i, j) for j in range(len(runs)))
        body.append(f"<tr><th scope=row>{i + 1} {html.escape(run.name)}</th>{cells}</tr>")
    head = f"<thead><tr><td></td>{top}</tr></thead>"
    return f'<table class="cells">{head}<tbody>{"".join(body)}</tbody></table>'


def _cell(agreements: Agreements, i: int, j: int) -> str:
    if i == j:
        return '<td class="same">–</td>'
    value = float((agreements.nmi if i < j else agreements.ari)[i, j])
    if math.isnan(value):
        return '<td title="not compared"></td>'
    return f'<td data-share="{max(0.0, value):.3f}">{value:.2f}</td>'


def _matrix_note(agreements: Agreements) -> str:
    parts = []
    if agreements.fewest:
        parts.append(
            "Above the diagonal NMI, below it ARI, of the labels inside the bounds; 1 for equal "
            "clusters. Samples are matched by their ids; each two runs share "
            f"{agreements.fewest:,} or more."
        )
    parts += [html.escape(f"{reason}.") for reason in agreements.reasons]
    return "".join(f'<p class="small">{part}</p>' for part in parts)


def _settings(runs: Sequence[StoredRun], groups: Sequence[Group]) -> str:
    """A row for each setting that differs, a column for each group of runs."""
    shown = [group for group in groups if runs[group.members[0]].settings]
    firsts = [runs[group.members[0]].settings for group in shown]
    names = list(dict.fromkeys(name for settings in firsts for name in settings))
    differing = [
        name
        for name in names
        if name not in ("method", "seed") and len({str(s.get(name)) for s in firsts}) > 1
    ]
    if not differing:
        return "<p>The runs differ in their seeds alone.</p>"
    top = "".join(
        f"<th scope=col>{html.escape(group.name)} "
        f'<span class="small">{_counted(len(group.members), "run")}</span></th>'
        for group in shown
    )
    shared = [name for name in differing if all(name in settings for settings in firsts)]
    own = [name for name in differing if name not in shared]
    parts = []
    for some, what, is_open in ((shared, "", " open"), (own, " that not all methods have", "")):
        if some:
            title = f"{_counted(len(some), 'setting')}{what}"
            parts.append(_settings_table(title, is_open, top, some, firsts))
    return "".join(parts)


def _settings_table(
    title: str, is_open: str, top: str, names: Sequence[str], columns: Sequence[Mapping[str, Any]]
) -> str:
    body = "".join(
        f"<tr><th scope=row>{html.escape(name)}</th>"
        + "".join(f"<td>{html.escape(_value(settings, name))}</td>" for settings in columns)
        + "</tr>"
        for name in names
    )
    return (
        f'<details{is_open}><summary>{title}</summary><div class="scroll sticky" tabindex="0" '
        f'role="region" aria-label="{title}"><table class="settings"><thead><tr><td></td>{top}'
        f"</tr></thead><tbody>{body}</tbody></table></div></details>"
    )


def _value(settings: Mapping[str, Any], name: str) -> str:
    if name not in settings:
        return "–"
    value = settings[name]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sizes(runs: Sequence[StoredRun], rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    heads, lines = shown_cells(rows)
    for run, line in zip(runs, lines, strict=True):
        if run.found is None:
            continue
        assert run.lower is not None
        assert run.upper is not None
        counts = np.bincount(run.found.labels, minlength=run.n_clusters)
        low, high = int(run.lower.min()), int(run.upper.max())
        yield {
            "name": run.name,
            "counts": sorted(counts.tolist(), reverse=True),
            "lower": low if low > 0 else None,
            "upper": high if high < len(run.found.ids) else None,
            "bounds": line[heads.index("bounds")],
        }


def _curves(runs: Sequence[StoredRun], groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    """Charts of the epochs: losses by method, all else with runs in the color of their method."""
    kind = {i: number for number, group in enumerate(groups) for i in group.members}
    for group in groups:
        lines = [_line(runs[i], ("loss",), number) for number, i in enumerate(group.members)]
        if any(lines):
            yield {"title": f"Loss of {group.name}", "lines": [line for line in lines if line]}
    charts: tuple[tuple[str, tuple[str, ...], dict[str, Any]], ...] = (
        ("Churn: share of samples that changed cluster", ("churn",), {"low": 0}),
        ("ACC by the papers' protocol", ("test_acc", "argmax_acc"), {"low": 0, "high": 1}),
        ("Smallest cluster, labels of training", ("size_min",), {"low": 0}),
        ("Largest cluster, labels of training", ("size_max",), {"low": 0}),
    )
    for title, keys, options in charts:
        lines = [_line(run, keys, kind[i]) for i, run in enumerate(runs) if not run.baseline]
        if any(lines):
            yield {"title": title, "lines": [line for line in lines if line], **options}


def _line(run: StoredRun, keys: tuple[str, ...], kind: int) -> dict[str, Any] | None:
    """The first figure of these names that a run has, over its epochs."""
    for key in keys:
        points = [
            (int(record["epoch"]), float(f"{record[key]:.5g}"))
            for record in run.records
            if isinstance(record.get(key), int | float) and math.isfinite(record[key])
        ]
        if points and not run.baseline:
            x, y = zip(*points, strict=True)
            return {"name": run.name, "kind": kind, "x": list(x), "y": list(y)}
    return None
