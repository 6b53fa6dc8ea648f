"""The register of claims: what a paper states, what is true of it, and a program that can fail.

Each module of this package states the claims of one paper. A claim has a status of ours, a
derivation that a reader can follow, and a check: a function without arguments that returns the
worst violation of what *we* assert. Where a paper is right, that is its statement; where it is
wrong, it is that the stored counterexample stands. Checks are deterministic and look the functions
of `algos` up when they are called, so that an error planted there is seen (`tests/proofs`).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from inspect import cleandoc
from typing import NamedTuple

from ...algos.core.errors import InvalidValueError

__all__ = [
    "ABOUT",
    "MODULES",
    "PAPERS",
    "REGISTRY",
    "Claim",
    "Result",
    "Status",
    "claim",
    "load",
    "load_from",
    "ordered",
    "run",
]

MODULES = (
    "secu",
    "mi_margin",
    "propos",
    "coke",
    "gatcluster",
    "theorem_r",
    "constraints",
)
"""Modules of `proofs` that state claims, in the order of the papers."""
PAPERS = (
    "SeCu supplement",
    "MI + margin supplement",
    "ProPos",
    "CoKe",
    "GATCluster",
    "dualclust",
)
"""What a claim can be of; "dualclust" is what we state: Theorem R, and of groups and pairs."""

ABOUT = {
    "library": "the check calls the library's functions",
    "paper": "about the paper alone: mathematics without a counterpart in the library",
    "print": "arithmetic of the print: numbers of the paper against each other",
}
"""What a claim's check can be about. Only the first two verify anything but the typesetting."""

Check = Callable[[], float]


class Status(Enum):
    """What became of a claim; the values are the words of the page of claims."""

    HOLDS = "holds"
    EXTRA = "holds with an extra hypothesis"
    REFUTED = "refuted"
    NOT_ESTABLISHED = "not established"
    OPEN = "open"
    EMPIRICAL = "empirical"
    ERRATUM = "erratum (repaired)"


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, our verdict and the program behind it.

    Parameters
    ----------
    id : str
        Letter of the paper and number, as docstrings cite it: "S3c".
    paper : str
        One of `PAPERS`.
    place : str
        Section, equation or table.
    statement : str
        The claim, in our words.
    hypotheses : str
        What it needs, with what the paper leaves out.
    status : Status
    derivation : str
        Proof or refutation, Markdown with plain-text formulas.
    check : callable
        Returns the worst violation of what we assert; for a refuted claim, how far the printed
        statement is from failing on the stored counterexample.
    tolerance : float >= 0
        The claim's status stands while ``check() <= tolerance``.
    covers : tuple of str
        Public functions of ``dualclust.algos`` that rest on it.
    counterexample : str
        Of a refuted claim.
    mutations : tuple of str
        Dotted names of a check's own parts in which a planted error is noticed; for claims about
        "paper" and "print". Errors in the library are listed in `planted`.
    slow : bool
        Left out unless asked for.
    about : str
        One of `ABOUT`: "library", "paper" or "print".
    """

    id: str
    paper: str
    place: str
    statement: str
    hypotheses: str
    status: Status
    derivation: str
    check: Check
    tolerance: float = 0.0
    covers: tuple[str, ...] = ()
    counterexample: str = ""
    mutations: tuple[str, ...] = ()
    slow: bool = False
    about: str = "library"

    def __post_init__(self) -> None:
        if self.about not in ABOUT:
            msg = f"about must be one of {', '.join(ABOUT)}, got {self.about!r} for {self.id}"
            raise InvalidValueError(msg)
        if self.paper not in PAPERS:
            msg = f"paper must be one of {', '.join(PAPERS)}, got {self.paper!r} for {self.id}"
            raise InvalidValueError(msg)
        if not re.fullmatch(r"[A-Z][\w-]*", self.id):
            msg = f"id must begin with a capital letter, got {self.id!r}"
            raise InvalidValueError(msg)


class Result(NamedTuple):
    """Outcome of one check.

    Attributes
    ----------
    claim : Claim
    worst : float
        Worst violation; inf where the check raised.
    seconds : float
    stands : bool
        Whether ``worst <= claim.tolerance``; a NaN does not stand.
    error : str
        What the check raised, if it did.
    """

    claim: Claim
    worst: float
    seconds: float
    stands: bool
    error: str = ""


REGISTRY: dict[str, Claim] = {}
"""The claims by their ids: empty until `load` imports the modules that state them."""


def claim(
    *,
    id: str,
    paper: str,
    place: str,
    statement: str,
    hypotheses: str,
    status: Status,
    derivation: str,
    tolerance: float = 0.0,
    covers: tuple[str, ...] = (),
    counterexample: str = "",
    mutations: tuple[str, ...] = (),
    slow: bool = False,
    about: str = "library",
) -> Callable[[Check], Check]:
    """Register the decorated check under a claim; the parameters are those of `Claim`.

    Raises
    ------
    InvalidValueError
        If the id is taken.
    """

    def register(check: Check) -> Check:
        if id in REGISTRY:
            msg = f"claim id must be unique, got {id!r} twice"
            raise InvalidValueError(msg)
        REGISTRY[id] = Claim(
            id,
            paper,
            place,
            cleandoc(statement),
            cleandoc(hypotheses),
            status,
            cleandoc(derivation),
            check,
            tolerance,
            covers,
            cleandoc(counterexample),
            mutations,
            slow,
            about,
        )
        return check

    return register


def load() -> None:
    """Import the modules of all papers, which registers their claims."""
    for module in MODULES:
        import_module(f"..{module}", __package__)


def load_from(name: str) -> None:
    """Call "module:function", which registers further claims."""
    module, _, function = name.partition(":")
    getattr(import_module(module), function)()


def ordered(claims: Iterable[Claim]) -> list[Claim]:
    """Return the claims by paper, then by number and letter."""

    def key(item: Claim) -> tuple[int, str, int, str]:
        letter, number, rest = re.match(r"([A-Z])(\d*)(.*)", item.id).groups()  # type: ignore[union-attr]
        return PAPERS.index(item.paper), letter, int(number or 0), rest

    return sorted(claims, key=key)


def run(
    ids: Iterable[str] | None = None,
    slow: bool = False,
    progress: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Run checks, all claims that are not slow by default.

    Parameters
    ----------
    ids : iterable of str, optional
        Claims to check, slow or not.
    slow : bool
        Without `ids`: the slow ones too.
    progress : callable, optional
        Called with each result as it comes.

    Returns
    -------
    list of Result
        By paper and number.

    Raises
    ------
    InvalidValueError
        For an id that is not registered.
    """
    load()
    if ids is None:
        chosen = [c for c in REGISTRY.values() if slow or not c.slow]
    else:
        ids = list(ids)
        unknown = [i for i in ids if i not in REGISTRY]
        if unknown:
            known = ", ".join(c.id for c in ordered(REGISTRY.values()))
            msg = f"no claim has the id {unknown[0]!r}. To fix this, use one of {known}"
            raise InvalidValueError(msg)
        chosen = [REGISTRY[i] for i in dict.fromkeys(ids)]
    results = []
    for item in ordered(chosen):
        result = _run_one(item)
        results.append(result)
        if progress is not None:
            progress(result)
    return results


def _run_one(item: Claim) -> Result:
    start, error = time.perf_counter(), ""
    try:
        worst = float(item.check())
    except Exception as raised:  # a check that cannot run is a claim that does not stand
        worst, error = math.inf, f"{type(raised).__name__}: {raised}"
    return Result(item, worst, time.perf_counter() - start, worst <= item.tolerance, error)
