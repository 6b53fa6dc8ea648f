"""Arguments of the public functions: a call that works, with one argument of another value.

The calls are those of `tests/unit/test_wrong_kinds.py`, which replaces an argument by values of
another kind. Here it is replaced by others as well: of its kind, and against its rule.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.bad_inputs.judge import Bad
from tests.bounded_calls import BOUNDED_CALLS, RIGHT_THERE
from tests.unit.test_wrong_kinds import CALLS, WRONG, fits

__all__ = ["argument_cases"]

HUGE = 10**30
NUMBERS: dict[str, Any] = {
    "nan": math.nan, "infinite": math.inf, "minus infinite": -math.inf, "negative": -1,
    "huge negative": -HUGE, "truth": True, "text": "3", "half": 0.5, "complex": 1j, "empty": [],
}  # fmt: skip
TAKEN = {
    ("half", name) for name in ("lower", "upper", "temperature", "tol", "gap", "tau", "scale",
                                "fairness_weight", "radius")
}  # fmt: skip
"""Values that are right ones there."""


def arrays_like(value: Any) -> dict[str, Any]:
    """Arrays of another shape, or with a value that none may have."""
    if value.dtype.kind in "iu":
        return {
            "as floats": value.astype(float), "negative": value - 10**6,
            "one more axis": value[None],
            "one entry": value[:1], "too long": np.concatenate([value, value]),
            "huge": value + 2**40, "no entry": value[:0],
        }  # fmt: skip
    found = {
        "one axis less": value[0], "one more axis": value[None], "no row": value[:0],
        "no column": value[..., :0], "one row": value[:1], "one column": value[..., :1],
        "as integers": value.astype(int),
    }  # fmt: skip
    for name, number in (("nan", np.nan), ("infinite", np.inf), ("minus infinite", -np.inf)):
        own = value.copy()
        own.reshape(-1)[-1] = number
        found[name] = own
    return found


def wrong_values(argument: str, value: Any) -> dict[str, Any]:
    """Values that break the rule of an argument."""
    if isinstance(value, np.ndarray):
        return arrays_like(value)
    if isinstance(value, bool) or value is None or callable(value):
        return {}
    if isinstance(value, int | float):
        return {name: number for name, number in NUMBERS.items() if (name, argument) not in TAKEN}
    if isinstance(value, str):
        return {"unknown": "gone", "empty": "", "bytes": value.encode(), "upper": value.upper()}
    if isinstance(value, list):
        return {"empty": [], "longer": [*value, *value], "nan": [math.nan] * len(value)}
    return {}


def argument_cases() -> Iterator[Bad]:
    """All of them, by the names of function, argument and value."""
    for call, (function, arguments) in (CALLS | BOUNDED_CALLS).items():
        for argument, value in arguments.items():
            own = {kind: wrong for kind, wrong in WRONG.items() if not fits(call, argument, kind)}
            for how, wrong in (own | wrong_values(argument, value)).items():
                if (call, argument, how) not in RIGHT | RIGHT_THERE:
                    name = f"argument-{call}-{argument}-{how}"
                    changed = functools.partial(function, **arguments | {argument: wrong})
                    yield Bad(name, functools.partial(_without_folder, changed), "")


def _without_folder(call: Any, folder: Path) -> Any:
    return call()


RIGHT = {
    ("assign", "scores", "no row"), ("assign", "scores", "one row"),
    ("margins", "scores", "no row"), ("assign_batch", "scores", "no row"),
    ("assign_batch", "scores", "one row"),
    ("margins", "scores", "one row"), ("sinkhorn", "scores", "one row"),
    ("pseudo_labels", "sigma", "one row"), ("pseudo_labels", "sigma", "one column"),
    ("compare_assignments", "names", "empty"), ("compare_assignments", "names", "longer"),
    ("kmeans", "centers", "one row"), ("kmeans_plus_plus", "features", "one column"),
    ("kmeans_plus_plus", "uniforms", "one more axis"), ("kmeans_plus_plus", "uniforms", "one row"),
    ("kmeans_plus_plus", "uniforms", "one column"), ("init_minibatch", "centers", "one column"),
    ("minibatch_step", "features", "no row"), ("from_ratios", "upper", "infinite"),
    ("for_stream", "upper", "infinite"), ("violation", "counts", "huge"),
    ("update_duals", "sizes", "negative"), ("update_duals", "sizes", "huge"),
    ("constrained_medoids", "prices", "as integers"),
    ("pairwise_dissimilarities", "rows", "one row"),
    *(("great_circle_distances", argument, how) for argument in ("rows", "centers")
      for how in ("no row", "one row")),
    *((call, argument, how) for how in ("nan", "infinite", "minus infinite")
      for call, argument in (("assign_batch", "scores"), ("objective", "scores"),
                             ("dual_value", "scores"), ("dual_value", "prices"),
                             ("margins", "scores"), ("margins", "prices"),
                             ("mean_centers", "previous"))),
}  # fmt: skip
"""What no rule forbids: fewer rows, and numbers that a step does not read from a device.

What is made of NaN by a function that reads no values is NaN; `docs/reliability_files.md` says so.
"""
