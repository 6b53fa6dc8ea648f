"""How many examples a property is shown: some in each run of the suite, many in `make slow`."""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["PROFILE", "examples"]

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")


def examples(count: int) -> settings:
    """Show a property a third of `count` examples in the suite, and twice as many in long runs.

    Parameters
    ----------
    count : int, 20 or more. Larger where errors hide in rare inputs.
    """
    return settings(max_examples=count // 3 if PROFILE == "ci" else 2 * count)
