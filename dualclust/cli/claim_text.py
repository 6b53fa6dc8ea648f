"""One claim in full, wrapped to the terminal: what ``dualclust proofs --id`` prints.

It holds what the claim's section of docs/claims.md holds, with the margin of this run. Names of
programs and functions are printed as Python imports them.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..proofs.registry.claims import Claim, Result

__all__ = ["MOST", "describe", "wrap"]

MOST = 100
"""Columns that text takes on a wide terminal: longer lines are hard to read."""

INDENT = "  "
ITEM = re.compile(r"\s*(?:- |\d+\. )")


def describe(result: Result, width: int) -> str:
    """Return a claim with its statement, hypotheses, reason, margin and program.

    Parameters
    ----------
    result : Result
        The claim, and what came of its check.
    width : int
        Columns of the terminal; text takes at most `MOST`.

    Returns
    -------
    str
        No line is longer than `width`, unless a single word is.
    """
    claim, columns = result.claim, min(width, MOST)
    status = f"{claim.status.value}; about: {claim.about}."
    parts = [
        _fill(f"{claim.id}: {claim.paper}, {claim.place}", columns, ""),
        _part("Statement", claim.statement, columns),
        _part("Hypotheses", claim.hypotheses, columns),
        _part("Status", status, columns),
        _part("Reason", claim.derivation, columns),
    ]
    if claim.counterexample:
        parts.append(_part("Counterexample", claim.counterexample, columns))
    parts.append(_part("Margin", _margin(result), columns))
    parts.append(_part("Program", _program(claim), columns))
    if claim.covers:
        parts.append(_part("Covers", "\n".join(f"- {name}" for name in _covered(claim)), columns))
    return "\n\n".join(parts)


def wrap(text: str, width: int, indent: str = INDENT) -> str:
    r"""Return Markdown of paragraphs and lists, each wrapped to a width.

    Parameters
    ----------
    text : str
        Lines of one paragraph or item are joined; an empty line ends a paragraph.
    width : int
    indent : str
        What every line begins with.

    Examples
    --------
    >>> print(wrap("one two\nthree:\n\n- four five\n  six", 14, ""))
    one two three:
    <BLANKLINE>
    - four five
      six
    """
    return "\n\n".join(
        "\n".join(_fill(item, width, indent) for item in _items(paragraph))
        for paragraph in re.split(r"\n\s*\n", text.strip())
    )


def _part(name: str, text: str, width: int) -> str:
    return f"{name}\n{wrap(text, width)}"


def _items(paragraph: str) -> list[str]:
    """Return the paragraph as one piece, or the items of its list, each as one piece."""
    items: list[str] = []
    for line in paragraph.splitlines():
        if items and not ITEM.match(line):
            items[-1] += f" {line.strip()}"
        else:
            items.append(line.strip())
    return items


def _fill(text: str, width: int, indent: str) -> str:
    mark = ITEM.match(text)
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + " " * len(mark.group() if mark else ""),
        break_long_words=False,  # names and formulas stay whole
        break_on_hyphens=False,
    )


def _margin(result: Result) -> str:
    claim = result.claim
    if result.error:
        return "None: the check did not run to its end."
    verdict = "the verdict stands" if result.stands else "the verdict DOES NOT STAND"
    found = f"The worst violation of the verdict is {result.worst:.3g}"
    return f"{found}, the tolerance {claim.tolerance:g}: {verdict}."


def _program(claim: Claim) -> str:
    return f"{claim.check.__module__}.{claim.check.__qualname__}"


def _covered(claim: Claim) -> list[str]:
    return [f"dualclust.algos.{name.removeprefix('dualclust.algos.')}" for name in claim.covers]
