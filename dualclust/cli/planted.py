"""``dualclust proofs --planted``: plant errors in the library, and count which the claims notice.

The exit code is 1 if too few are noticed, or if an error of the tables cannot be planted.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from ..algos.core.errors import MissingExtraError, UsageError

if TYPE_CHECKING:
    from ..proofs.planted.runs import Outcome

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    """Plant the errors of the tables and print the report; return 1 if too few are noticed."""
    if options.jobs < 1:
        msg = f"--jobs must be at least 1, got {options.jobs}"
        raise UsageError(msg)
    if options.plot is not None:
        msg = "--plot draws nothing with --planted. To fix this, leave one of them out"
        raise UsageError(msg)
    try:
        import resource as _  # noqa: F401
    except ImportError as error:
        msg = "--planted needs an operating system that counts a process's CPU time (Linux, macOS)"
        raise MissingExtraError(msg) from error
    from ..proofs.planted import planting, report, runs

    errors = planting.tables()
    done: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        done.append(outcome)
        verdict = "broken" if outcome.broken else ", ".join(outcome.noticed) or "NOBODY"
        text = f"{len(done)} {outcome.error.target} ({outcome.error.kind}): {verdict}"
        print(text, file=sys.stderr, flush=True)

    result = runs.run_planted(
        errors, options.jobs, progress=tell, ids=options.id, slow=options.slow
    )
    everything = options.id is None
    if options.json:
        print(json.dumps(report.record(result), indent=2))
    else:
        for line in report.lines(result, everything):
            print(line)
    return 0 if report.passes(result, everything) else 1
