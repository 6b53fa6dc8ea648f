"""``dualclust proofs``: run the papers' claims as programs, one line each, or some of them in full.

The exit code is 1 if a claim does not stand. The command needs neither torch nor a GPU; ``--plot``
needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..algos.core.errors import MissingExtraError, OutputError, UsageError
from ..common.extras import needs_train
from .claim_text import describe

if TYPE_CHECKING:
    from ..proofs.registry.claims import Result

__all__ = ["register", "run_proofs"]

EXAMPLES = """\
examples:
  dualclust proofs
      every claim but the slow ones, in less than a minute
  dualclust proofs --id S3c M1
      these two in full: statement, hypotheses, reason, margin, program
  dualclust proofs --slow --json
      all of them, for a program to read
  dualclust proofs --planted --jobs 2
      what the claims are worth: how many errors planted in the library they notice
  dualclust proofs --id C15 --plot figures
      and a picture of how regret and violation grow

A line says what became of a claim of a paper: holds; holds+ with a hypothesis that the paper leaves
out; erratum, a slip with an obvious repair; refuted, with a counterexample; not shown, where the
paper's own numbers establish neither it nor the contrary; empirical, where only the arithmetic of
printed numbers is checked; open. "about" is what the check calls: lib, functions
of this library; paper, mathematics that the library has no counterpart of; print, only numbers that
the paper prints, which does not count as verified. "worst" is how far the verdict is from being
right. Where a docstring says docs/claims.md#S4, "dualclust proofs --id S4" checks and shows that
claim; "dualclust docs claims#S4" only shows it.

--planted makes the library wrong, one planted error at a time, and counts which of them the claims
notice. It takes minutes.
"""

SHORT = {
    "HOLDS": "holds",
    "EXTRA": "holds+",
    "REFUTED": "refuted",
    "NOT_ESTABLISHED": "not shown",
    "OPEN": "open",
    "EMPIRICAL": "empirical",
    "ERRATUM": "erratum",
}

ABOUT = {"library": "lib", "paper": "paper", "print": "print"}
PAPERS = {"SeCu supplement": "SeCu", "MI + margin supplement": "MI+margin"}


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``dualclust``."""
    parser = commands.add_parser(
        "proofs",
        help="check the claims of the papers, and show counterexamples",
        description="Run the papers' claims as programs that can fail.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--id",
        nargs="+",
        action="extend",
        metavar="ID",
        help="check only these claims, and show them in full",
    )
    add("--slow", action="store_true", help="check the slow claims too")
    add("--json", action="store_true", help="print JSON instead of a table")
    add("--planted", action="store_true", help="plant errors in the library; count those noticed")
    add("--jobs", type=int, default=1, metavar="N", help="processes of --planted (default 1)")
    add("--plot", type=Path, metavar="DIR", help="draw regret and violation (needs matplotlib)")


def run_proofs(options: argparse.Namespace) -> int:
    """Check the claims and print a line for each; return 1 if one does not stand, else 0.

    Claims that are named by ``--id`` are printed in full.
    """
    from ..proofs.registry import claims

    claims.load()
    for claim_id in options.id or ():
        if claim_id not in claims.REGISTRY:
            known = ", ".join(c.id for c in claims.ordered(claims.REGISTRY.values()))
            msg = f"--id must name claims, got {claim_id!r}. To fix this, use some of {known}"
            raise UsageError(msg)
    if options.planted:
        from . import planted

        return planted.run(options)
    if options.plot is not None:
        _prepare_plot(options.plot)
    show = None if options.json else _show_in_full if options.id else _show
    if show is _show:
        print(_line("id", "source", "statement", "status", "about", "worst", "s"))
    results = claims.run(options.id, options.slow, show)
    if options.json:
        print(json.dumps([_record(r) for r in results], indent=2))
    else:
        print(_summary(results))
    if options.plot is not None:
        from ..proofs import regret_plot

        regret_plot.draw(options.plot, progress=_told)
        if not options.json:
            print(f"drawn in {options.plot}/")
    return 0 if all(r.stands for r in results) else 1


def _told(size: str) -> None:
    """Print the progress of the picture, which takes a minute or more, on standard error."""
    print(f"measured {size}", file=sys.stderr, flush=True)


def _prepare_plot(folder: Path) -> None:
    """Fail before the checks run rather than after."""
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        msg = needs_train("--plot", "matplotlib")
        raise MissingExtraError(msg) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot create {folder}: {error.strerror}. To fix this, name another with --plot"
        raise OutputError(msg) from error


def _show(result: Result) -> None:
    claim = result.claim
    print(
        _line(
            claim.id,
            f"{PAPERS.get(claim.paper, claim.paper)}, {claim.place}",
            claim.statement,
            SHORT[claim.status.name],
            ABOUT[claim.about],
            f"{result.worst:.1e}",
            f"{result.seconds:.2f}",
        ),
        flush=True,
    )
    if not result.stands:
        print(f"       {_why(result)}", flush=True)


def _show_in_full(result: Result) -> None:
    print(describe(result, shutil.get_terminal_size().columns))
    if result.error:
        print(f"\n{_why(result)}")
    print(flush=True)


def _why(result: Result) -> str:
    if result.error.startswith("ModuleNotFoundError"):
        return f"NOT CHECKED: {result.error}. To fix this: pip install 'dualclust[proofs]'"
    beyond = f"worst {result.worst:g} exceeds the tolerance {result.claim.tolerance:g}"
    return f"DOES NOT STAND: {result.error or beyond}"


def _line(
    claim_id: str, source: str, statement: str, status: str, about: str, worst: str, time: str
) -> str:
    text = f"{claim_id:<6} {_cut(source, 26):<26} {_cut(statement, 32):<32} {status:<9} {about:<5}"
    return f"{text} {worst:>7} {time:>5}"


def _cut(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def _summary(results: list[Result]) -> str:
    """Return two lines: the verified claims, then those about printed numbers and the verdict."""
    printed = [r for r in results if r.claim.about == "print"]
    verified = [r for r in results if r.claim.about != "print"]
    count = Counter(SHORT[r.claim.status.name] for r in verified)
    kinds = ", ".join(f"{count[name]} {name}" for name in SHORT.values() if count[name])
    library = sum(r.claim.about == "library" for r in verified)
    fallen = [r.claim.id for r in results if not r.stands]
    verdict = f"{', '.join(fallen)} not standing" if fallen else "all stand"
    seconds = sum(r.seconds for r in results)
    return (
        f"{len(verified)} claims verified in {seconds:.1f} s, {library} about the library and"
        f" {len(verified) - library} about the paper alone ({kinds or 'none'})\n"
        f"{len(printed)} more are arithmetic of the print, not counted: {verdict}"
    )


def _record(result: Result) -> dict[str, Any]:
    claim = result.claim
    return {
        "id": claim.id,
        "paper": claim.paper,
        "place": claim.place,
        "statement": claim.statement,
        "hypotheses": claim.hypotheses,
        "status": claim.status.value,
        "about": claim.about,
        "stands": result.stands,
        # JSON has no infinity.
        "worst": result.worst if math.isfinite(result.worst) else None,
        "tolerance": claim.tolerance,
        "seconds": round(result.seconds, 4),
        "error": result.error,
        "counterexample": claim.counterexample,
        "covers": list(claim.covers),
    }
