"""The page of all claims, docs/claims.md, written from the register.

Run it in the repository as ``python -m dualclust.proofs.page docs/claims.md``. Who cites a claim is
read off the docstrings of `algos`, and measured slopes come from the stored runs of `regret_plot`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from . import regret_plot
from .planted.planting import PlantedError, tables
from .planted.runs import named_by
from .registry import citations
from .registry.claims import ABOUT, PAPERS, REGISTRY, Claim, Status, load, ordered

__all__ = ["GROWTH", "RUNS", "main", "render"]

RUNS = Path(__file__).resolve().parents[1] / "docs" / "images" / "regret.csv"
GROWTH = ("C15", "R3", "R5")
"""Claims about growth with n, whose measured slopes stand in a section of their own."""

HEAD = """\
# Claims

Every claim of the papers behind this library that we could find, whether it is true, why, and the
program that checks it. This page is written by `python -m dualclust.proofs.page docs/claims.md`;
`dualclust proofs` runs the checks.

A *violation* is how far our verdict is from being right: that a statement holds, or, for a refuted
one, that the counterexample stands. The verdict stands while it is at most the tolerance. "Planted
errors" names what is made wrong to see whether the check notices: functions of the library, with
how many errors of which kinds (`dualclust proofs --planted` plants them all and prints how many are
noticed); for claims that are not about the library, parts of the check itself. "Covers" names
public functions that rest on a claim, "Cited by" the docstrings that link to it.

A check is about one of three things. Only the first says something of this library, and the third
says nothing but that printed numbers fit together: it is not counted as verified.

| about | meaning |
| --- | --- |
@ABOUT@

| status | meaning |
| --- | --- |
| holds | as stated |
| holds with an extra hypothesis | true with what the paper leaves out, given under "Hypotheses" |
| refuted | false as stated; a counterexample is stored and checked |
| erratum (repaired) | a slip with an obvious repair, which is what is checked |
| not established | the numbers that the paper prints do not show it, nor the contrary |
| open | neither proven nor refuted by us |
| empirical | a result of training runs; only the arithmetic of the printed numbers is checked |
""".replace("@ABOUT@", "\n".join(f"| {name} | {what} |" for name, what in ABOUT.items()))

MEASURED = """\
## Measured growth

<a id="growth"></a>

Slopes of log regret and log violation on log n, with 95 % intervals over 8 problems of each size,
for the plain update with `h = c / sqrt(n)`. CoKe's Theorem 1 ([C15](#C15)) promises sqrt(n) for
both. Theorem R proves bounds of slope 1/2: for the violation in every order ([R3](#R3)), for the
regret in random order ([R5](#R5)); another order may cost regret like n. Every value lies below its
bound; a slope above 1/2, as for K = 100 and 1000, is of short streams and cannot go on. Regret is
charged for missing samples at their price. The runs are stored in
[images/regret.csv](images/regret.csv); [regret.md](regret.md) has the problems, the figure and how
to read the numbers.

| K | n | order | regret | its bound | violation | its bound |
| --- | --- | --- | --- | --- | --- | --- |
"""


def render(claims: Iterable[Claim] | None = None) -> str:
    """Return the Markdown of the page.

    Parameters
    ----------
    claims : iterable of Claim, optional
        All registered ones by default.

    Raises
    ------
    MissingFileError
        If the stored runs are not there: the package is installed without docs/.
    """
    if claims is None:
        load()
        claims = REGISTRY.values()
    chosen, citing, planted = ordered(claims), citations.citing(), tables()
    parts = [HEAD, _tally(chosen)]
    for paper in PAPERS:
        mine = [c for c in chosen if c.paper == paper]
        if mine:
            sections = [_section(c, citing.get(c.id, []), planted) for c in mine]
            parts += [f"## {paper}\n", _contents(mine), *sections]
    if any(c.id in GROWTH for c in chosen):
        parts.append(_growth(regret_plot.read(RUNS)))
    return "\n".join(parts)


def _tally(claims: Sequence[Claim]) -> str:
    count = Counter(c.about for c in claims)
    lines = [
        f"{len(claims)} claims: {count['library']} about the library, {count['paper']} about the"
        f" paper alone, {count['print']} arithmetic of the print, which verifies nothing else.\n"
    ]
    for about in ABOUT:
        mine = [c for c in claims if c.about == about]
        if mine:
            statuses = Counter(c.status for c in mine)
            by_status = ", ".join(f"{statuses[s]} {s.value}" for s in Status if statuses[s])
            # Links are in the tables below, once each.
            ids = f": {', '.join(c.id for c in mine)}" if about != "library" else ""
            lines.append(f"- {about}: {by_status}{ids}.")
    return "\n".join(lines) + "\n"


def _contents(claims: Sequence[Claim]) -> str:
    rows = [
        f"| [{c.id}](#{c.id}) | {_cell(c.place)} | {c.status.value} | {c.about} |" for c in claims
    ]
    head = ["| claim | place | status | about |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, ""])


def _section(claim: Claim, citing: Sequence[str], planted: Sequence[PlantedError]) -> str:
    check = f"`{claim.check.__module__}.{claim.check.__qualname__}`"
    speed = ", slow" if claim.slow else ""
    lines = [
        f'<a id="{claim.id}"></a>\n',
        f"### {claim.id}: {claim.place}\n",
        f"**Statement.** {claim.statement}\n",
        f"**Hypotheses.** {claim.hypotheses}\n",
        f"**Status: {claim.status.value}.** About: {claim.about}.\n",
        f"{claim.derivation}\n",
    ]
    if claim.counterexample:
        lines.append(f"**Counterexample.** {claim.counterexample}\n")
    lines.append(f"**Program.** {check}, tolerance {claim.tolerance:g}{speed}.\n")
    if claim.covers:
        names = [f"algos.{name.removeprefix('dualclust.algos.')}" for name in claim.covers]
        lines.append(f"**Covers.** {_code(names)}\n")
    if citing:
        lines.append(f"**Cited by.** {_code(citing)}\n")
    if claim.id in GROWTH:
        lines.append("**Measured.** Slopes with intervals: [measured growth](#growth).\n")
    errors = _planted([e for e in planted if named_by(e, [claim])])
    own = [_code([name]) for name in claim.mutations]
    if errors or own:
        lines.append(f"**Planted errors.** {', '.join([*errors, *own])}\n")
    return "\n".join(lines)


def _planted(errors: Sequence[PlantedError]) -> list[str]:
    """Return each target with how many errors of which kinds are planted there."""
    kinds: dict[str, Counter[str]] = {}
    for error in errors:
        kinds.setdefault(error.target, Counter())[error.kind] += 1
    return [
        f"`{target}` ({', '.join(k if n == 1 else f'{n} {k}' for k, n in count.items())})"
        for target, count in sorted(kinds.items())
    ]


def _growth(rows: list[regret_plot.Row]) -> str:
    """Return the table of slopes of the plain update, from stored runs."""
    clusters = sorted({row.n_clusters for row in rows})
    plain = regret_plot.METHODS[0]
    slopes = {
        (s.n_clusters, s.order, s.quantity): f"{s.slope:.2f} [{s.low:.2f}, {s.high:.2f}]"
        for s in regret_plot.slopes(rows, clusters)
        if s.method == plain
    }
    lines = []
    for k in clusters:
        sizes = [row.n for row in rows if row.n_clusters == k]
        for order in regret_plot.ORDERS:
            regret, violation = (slopes[k, order, q] for q in ("charged", "violation"))
            proved = "1/2" if order == "random" else "none"
            lines.append(
                f"| {k} | {min(sizes):,} to {max(sizes):,} | {order} | {regret} | {proved}"
                f" | {violation} | 1/2 |"
            )
    return MEASURED + "\n".join(lines) + "\n"


def _code(names: Sequence[str]) -> str:
    return ", ".join(f"`{name.removeprefix('dualclust.')}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: Sequence[str]) -> int:
    """Write the page to the path given, or to standard output; returns the exit code."""
    text = render()
    if arguments:
        Path(arguments[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
