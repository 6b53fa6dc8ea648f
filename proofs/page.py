"""The page of all claims, docs/claims.md, written from the register.

Run it as ``python -m dualclust.proofs.page docs/claims.md``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from .registry import PAPERS, REGISTRY, Claim, Status, load, ordered

__all__ = ["main", "render"]

HEAD = """\
# Claims

Every claim of the papers behind this library that we could find, whether it is true, why, and the
program that checks it. This page is written by `python -m dualclust.proofs.page docs/claims.md`;
`dualclust proofs` runs the checks.

A *violation* is how far our verdict is from being right: that a statement holds, or, for a refuted
one, that the counterexample stands. The verdict stands while it is at most the tolerance. For each
check, errors were planted in the functions named under "Planted errors", and it noticed them.

| status | meaning |
| --- | --- |
| holds | as stated |
| holds with an extra hypothesis | true with what the paper leaves out, given under "Hypotheses" |
| refuted | false as stated; a counterexample is stored and checked |
| erratum (repaired) | a slip with an obvious repair, which is what is checked |
| open | neither proven nor refuted by us |
| empirical | a result of training runs; only the arithmetic of the printed numbers is checked |
"""


def render(claims: Iterable[Claim] | None = None) -> str:
    """Markdown of the page.

    Parameters
    ----------
    claims : iterable of Claim, optional
        All registered ones by default.
    """
    if claims is None:
        load()
        claims = REGISTRY.values()
    chosen = ordered(claims)
    parts = [HEAD, _tally(chosen)]
    for paper in PAPERS:
        mine = [c for c in chosen if c.paper == paper]
        if mine:
            parts += [f"## {paper}\n", _contents(mine), *map(_section, mine)]
    return "\n".join(parts)


def _tally(claims: Sequence[Claim]) -> str:
    count = Counter(c.status for c in claims)
    by_status = ", ".join(f"{count[s]} {s.value}" for s in Status if count[s])
    return f"{len(claims)} claims: {by_status}.\n"


def _contents(claims: Sequence[Claim]) -> str:
    rows = [f"| [{c.id}](#{c.id}) | {_cell(c.place)} | {c.status.value} |" for c in claims]
    return "\n".join(["| claim | place | status |", "| --- | --- | --- |", *rows, ""])


def _section(claim: Claim) -> str:
    check = f"`{claim.check.__module__}.{claim.check.__qualname__}`"
    speed = ", slow" if claim.slow else ""
    lines = [
        f'<a id="{claim.id}"></a>\n',
        f"### {claim.id}: {claim.place}\n",
        f"**Statement.** {claim.statement}\n",
        f"**Hypotheses.** {claim.hypotheses}\n",
        f"**Status: {claim.status.value}.**\n",
        f"{claim.derivation}\n",
    ]
    if claim.counterexample:
        lines.append(f"**Counterexample.** {claim.counterexample}\n")
    lines.append(f"**Program.** {check}, tolerance {claim.tolerance:g}{speed}.\n")
    if claim.covers:
        names = [f"algos.{name.removeprefix('dualclust.algos.')}" for name in claim.covers]
        lines.append(f"**Covers.** {_code(names)}\n")
    if claim.mutations:
        lines.append(f"**Planted errors.** {_code(claim.mutations)}\n")
    return "\n".join(lines)


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
