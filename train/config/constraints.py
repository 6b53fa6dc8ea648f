"""The rules that settings are held to, as types: ``lr: Positive`` is a float and its rule."""

from __future__ import annotations

import math
from typing import Annotated

from .schema import Rule

__all__ = [
    "Angle",
    "Cardinal",
    "Count",
    "Fraction",
    "Name",
    "NonNegative",
    "Positive",
    "Ratio",
    "Seed",
    "Share",
    "Turn",
    "one_of",
]


def one_of(*names: str) -> Rule:
    """Rule of a string with a fixed set of values."""
    return Rule("one of " + ", ".join(map(repr, names)), lambda value: value in names)


# Comparisons are written so that NaN fails them.
Positive = Annotated[float, Rule("a finite number above 0", lambda x: 0 < x < math.inf)]
NonNegative = Annotated[float, Rule("a finite number, 0 or more", lambda x: 0 <= x < math.inf)]
Fraction = Annotated[float, Rule("between 0 and 1", lambda x: 0 <= x <= 1)]
Share = Annotated[float, Rule("0 or more and below 1", lambda x: 0 <= x < 1)]
Turn = Annotated[float, Rule("between 0 and 0.5 turns", lambda x: 0 <= x <= 0.5)]
Angle = Annotated[float, Rule("between 0 and 180 degrees", lambda x: 0 <= x <= 180)]
Ratio = Annotated[float, Rule("a finite number, 1 or more", lambda x: 1 <= x < math.inf)]
Count = Annotated[int, Rule("an integer, 1 or more", lambda x: x >= 1)]
Cardinal = Annotated[int, Rule("an integer, 0 or more", lambda x: x >= 0)]
Seed = Annotated[int, Rule("an integer in [0, 2**63)", lambda x: 0 <= x < 2**63)]
Name = Annotated[str, Rule("a non-empty string", lambda x: x != "")]
