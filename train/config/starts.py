"""How often a run begins before one beginning is continued."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .constraints import Count
from .schema import Checked, Rule

__all__ = ["StartsConfig"]


@dataclass(frozen=True, slots=True)
class StartsConfig(Checked):
    """Several beginnings of a run, of which the one with the least loss is continued.

    A method that gets stuck in its first epochs, at a loss that shows it, is worth beginning more
    than once. No label is read: the choice is by the loss of training alone.

    Attributes
    ----------
    count : int, 2 or more. Beginnings, each a run with random numbers of its own.
    epochs : int, 1 or more. Epochs of each; they belong to the epochs of the whole run.
    """

    count: Annotated[int, Rule("an integer, 2 or more", lambda x: x >= 2)] = 4
    epochs: Count = 8
