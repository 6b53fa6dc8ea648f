"""The process in which errors are planted: tasks come in as lines of JSON, verdicts go out.

Started by `runs` as ``python -m dualclust.proofs.planted.worker``. An error may never end,
or take the process down; whoever reads the lines knows from the last "began" which check it was in.
A check's limit is a count of CPU seconds, kept by the operating system, which also ends a loop in
compiled code.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...algos.core.errors import DualclustError
from ..registry import claims
from .live_code import forget_results
from .planting import PlantedError, plant

__all__ = ["entered", "judge", "main"]

PACKAGE = Path(str(claims.__file__)).parents[2]
# A replacement that is no working Python, not a check that noticed. numba's own errors are the same
# for compiled text.
BUGS = (TypeError, NameError, AttributeError, ImportError, SyntaxError)

Reply = dict[str, Any]


def judge(claim_id: str) -> tuple[str, str]:
    """Run a check; return "noticed", "silent" or "broken" and why."""
    claim = claims.REGISTRY[claim_id]
    try:
        worst = float(claim.check())
    except Exception as error:
        ours = isinstance(error, DualclustError)
        bug = isinstance(error, BUGS) or type(error).__module__.startswith("numba.")
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        return ("broken" if bug and not ours else "noticed"), why
    return ("silent" if worst <= claim.tolerance else "noticed"), f"worst {worst:g}"


def entered(check: Callable[[], float]) -> tuple[float, list[str]]:
    """Run a check; return its worst violation and the functions of the package that it entered.

    Names are dotted, below the package: "algos.online.duals.update_duals", "algos.x.outer.inner".
    """
    codes: set[types.CodeType] = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    sys.setprofile(note)
    try:
        worst = float(check())
    finally:
        sys.setprofile(None)
    roots = {str(PACKAGE) + os.sep, str(PACKAGE.resolve()) + os.sep}
    names = set()
    for code in codes:
        for root in roots:
            if code.co_filename.startswith(root):
                module = code.co_filename.removeprefix(root).removesuffix(".py").split(os.sep)
                names.add(".".join(module) + "." + code.co_qualname.replace(".<locals>", ""))
    return worst, sorted(names)


def _sound(task: Reply, answer: Callable[[Reply], None]) -> None:
    """Check a claim in the library as it is, and say what it runs."""
    forget_results()
    claim, began = claims.REGISTRY[task["claim"]], _cpu_seconds()
    try:
        worst, names = entered(claim.check)
    except Exception as error:
        answer({"stands": False, "why": f"{type(error).__name__}: {error}", "entered": []})
        return
    seconds = _cpu_seconds() - began
    stands = worst <= claim.tolerance
    answer({"stands": stands, "why": f"worst {worst:g}", "entered": names, "seconds": seconds})


def _planted(task: Reply, answer: Callable[[Reply], None]) -> None:
    """Check claims with an error planted, to the first that notices where that is enough."""
    record = task["error"]
    error = PlantedError(**{**record, "claims": tuple(record["claims"])})
    try:
        with plant(error):
            for claim_id in task["claims"]:
                answer({"began": claim_id})
                _limit(task["limit"])
                outcome, why = judge(claim_id)
                answer({"claim": claim_id, "outcome": outcome, "why": why})
                if outcome == "noticed" and task["first"]:
                    break
    except Exception as raised:  # the table is wrong, not the library
        answer({"unplanted": f"{type(raised).__name__}: {raised}"})
        return
    answer({"done": True})


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _limit(seconds: float) -> None:
    """Let the operating system end this process once it has used so many more CPU seconds."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(_cpu_seconds() + seconds) + 1
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def main(extra: list[str]) -> int:
    """Serve tasks until the input ends; `extra` are functions that register further claims."""
    # What checks print must not mix with the answers.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(reply: Reply) -> None:
        print(json.dumps(reply), file=channel, flush=True)

    claims.load()
    for name in extra:
        claims.load_from(name)
    for line in sys.stdin:
        task = json.loads(line)
        (_sound if task["do"] == "sound" else _planted)(task, answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
