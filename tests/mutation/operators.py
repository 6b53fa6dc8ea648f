"""All errors that can be made in a module: every place of every kind."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence

from tests.mutation.places import Mutant
from tests.mutation.semantic import SEMANTIC, SemanticFinder
from tests.mutation.syntactic import SYNTACTIC, SyntacticFinder

__all__ = ["OPERATORS", "SEMANTIC", "SYNTACTIC", "is_python", "mutants", "operators_of"]

OPERATORS = SYNTACTIC + SEMANTIC


def operators_of(words: Sequence[str]) -> tuple[str, ...]:
    """Operators that "semantic", "syntactic" or their own names choose; all of no word."""
    sets = {"semantic": SEMANTIC, "syntactic": SYNTACTIC, **{name: (name,) for name in OPERATORS}}
    if unknown := [word for word in words if word not in sets]:
        msg = f"operators must be semantic, syntactic or of {OPERATORS}, got {unknown}"
        raise ValueError(msg)
    return tuple(name for word in words for name in sets[word]) or OPERATORS


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of the text; a few may be no Python (`is_python`)."""
    tree, lines, found = ast.parse(source), source.split("\n"), {}
    for finder in (SemanticFinder(source), SyntacticFinder(source)):
        finder.visit(tree)
        for function, operator, start, stop, new in finder.found:
            line = bisect_right(finder.starts, start) - 1
            end = bisect_right(finder.starts, stop) - 1
            tail = lines[end][stop - finder.starts[end] :]
            changed = (lines[line][: start - finder.starts[line]] + new + tail).split("\n")[0]
            found[start, stop, new] = Mutant(
                module, function, operator, start, stop, new, lines[line].strip(), changed.strip()
            )
    return [found[place] for place in sorted(found)]


def is_python(text: str) -> bool:
    """Whether a module's text compiles."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
