"""What a run of planted errors says: two rates with their bars, and a table per claim."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .runs import Outcome, Run

__all__ = ["BAR_ALL", "BAR_NAMED", "lines", "passes", "rates", "record", "without_errors"]

BAR_NAMED, BAR_ALL = 0.95, 0.80
"""Smallest rates: among errors in functions that a claim names, and among all."""


def rates(run: Run) -> tuple[float, float]:
    """Return the rates of errors that claims notice: those that name the function, and any.

    Errors that are broken count for nothing: `passes` refuses them. NaN of none.
    """
    sound = [o for o in run.outcomes if not o.broken]
    named = [o for o in sound if o.named]
    return (
        sum(o.noticed_by_name for o in named) / len(named) if named else math.nan,
        sum(bool(o.noticed) for o in sound) / len(sound) if sound else math.nan,
    )


def passes(run: Run, everything: bool = True) -> bool:
    """Return whether both bars are met, every error could be planted and each claim stands.

    Parameters
    ----------
    run : Run
    everything : bool
        False for a run of some claims only, whose second rate says nothing.
    """
    named, overall = rates(run)
    met = named >= BAR_NAMED and (not everything or overall >= BAR_ALL)  # a NaN is no rate
    broken = any(o.broken for o in run.outcomes)
    return met and not broken and all(s.stands for s in run.sound.values())


def without_errors(run: Run) -> list[str]:
    """Return the claims about the library that no error was planted for by name, in order."""
    named = {i for o in run.outcomes for i in o.named}
    return [i for i, s in run.sound.items() if s.about == "library" and i not in named]


def lines(run: Run, everything: bool = True) -> Iterator[str]:
    """Report as text, the rates last."""
    yield f"{'id':<6} {'named':>5} {'noticed':>7} {'elsewhere':>9}  kinds noticed"
    for claim_id in run.sound:
        mine = [o for o in run.outcomes if claim_id in o.named and not o.broken]
        seen = [o for o in mine if claim_id in o.noticed]
        other = sum(claim_id in o.noticed and claim_id not in o.named for o in run.outcomes)
        kinds = Counter(o.error.kind for o in seen)
        if mine or other:
            text = ", ".join(k if n == 1 else f"{n} {k}" for k, n in sorted(kinds.items()))
            yield f"{claim_id:<6} {len(mine):>5} {len(seen):>7} {other:>9}  {text}".rstrip()
    for claim_id, sound in run.sound.items():
        if not sound.stands:
            yield f"DOES NOT STAND without an error: {claim_id}, {sound.why}"
    for outcome in run.outcomes:
        if outcome.broken:
            yield f"BROKEN: {outcome.error}: {outcome.broken}"
        elif outcome.named and not outcome.noticed_by_name:
            by = f"only by {', '.join(outcome.noticed)}" if outcome.noticed else "by none"
            yield f"NOT NOTICED by {', '.join(outcome.named)}, {by}: {outcome.error}"
        elif not outcome.noticed:
            yield f"NOT NOTICED, no claim names it: {outcome.error}"
    bare = without_errors(run)
    if bare:
        yield f"no planted error: {', '.join(bare)}"
    named, overall = rates(run)
    sound_ones = [o for o in run.outcomes if not o.broken]
    count = sum(bool(o.named) for o in sound_ones)
    yield (
        f"{len(run.outcomes)} planted errors; of {count} in functions that a claim names, the"
        f" claims that name them notice {_percent(named)} (at least {BAR_NAMED:.0%} wanted)"
    )
    if everything:
        yield f"of all, the claims notice {_percent(overall)} (at least {BAR_ALL:.0%} wanted)"


def _percent(rate: float) -> str:
    return "none" if math.isnan(rate) else f"{100.0 * rate:.1f} %"


def record(run: Run) -> dict[str, Any]:
    """Report as a document for programs."""
    named, overall = (None if math.isnan(r) else r for r in rates(run))
    return {
        "rate_named": named,
        "rate_all": overall,
        "bars": {"named": BAR_NAMED, "all": BAR_ALL},
        "claims": {
            i: {"stands": s.stands, "why": s.why, "seconds": round(s.seconds, 3)}
            for i, s in run.sound.items()
        },
        "without_errors": without_errors(run),
        "errors": [_outcome(o) for o in run.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    return {
        "target": error.target,
        "kind": error.kind,
        "old": error.old,
        "new": error.new,
        "named": list(outcome.named),
        "noticed": list(outcome.noticed),
        "silent": list(outcome.silent),
        "why": outcome.why or {},
        "broken": outcome.broken,
    }
