"""The errors of the tables: each can be planted, and a fixed sample is noticed in every run.

All of them are planted by ``dualclust proofs --planted`` and by the slow test below.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.proofs.planted import planting, report, worker
from dualclust.proofs.planted.planting import PlantedError
from dualclust.proofs.planted.runs import named_by, run_planted
from dualclust.proofs.planted.source_edits import edit
from dualclust.proofs.registry import claims

claims.load()
ERRORS = planting.tables()
QUICK = [c for c in claims.ordered(claims.REGISTRY.values()) if not c.slow]
SAMPLE = 6
"""Errors that every test run plants."""
LONG = ("C4", "S7", "M6", "G1")
"""Claims whose checks take seconds: they are asked last."""


def _sample() -> list[PlantedError]:
    """Errors in functions that a claim names, drawn by their text: stable while tables grow.

    Compiled functions are left to the slow test: it takes seconds to compile one anew. So is what
    only the claims of `LONG` name.
    """
    named = [e for e in ERRORS if e.target.startswith("algos.") and {*named_by(e, QUICK)} - {*LONG}]
    return sorted(named, key=lambda e: hashlib.sha256(str(e).encode()).hexdigest())[:SAMPLE]


def test_every_module_of_tables_is_read() -> None:
    folder = Path(planting.__file__).parent / "tables"
    assert {p.stem for p in folder.glob("*.py")} == {*planting.TABLES, "__init__"}


def test_no_error_is_planted_twice() -> None:
    times = Counter((e.target, e.old, e.new) for e in ERRORS)
    assert [place for place, n in times.items() if n > 1] == []


@pytest.mark.parametrize("table", planting.TABLES)
def test_every_error_of_a_table_fits_the_library(table: str) -> None:
    """Texts that have changed since show here, not only when somebody plants them."""
    wrong = []
    for error in planting.table(table):
        try:
            changed = edit(error.target, error.old, error.new)
            compile(changed.new_source, str(changed.place.path), "exec")
        except (InvalidValueError, SyntaxError) as misfit:
            wrong.append(f"{error}: {misfit}")
        unknown = set(error.claims) - set(claims.REGISTRY)
        wrong += [f"{error}: no claim {claim_id}" for claim_id in sorted(unknown)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("error", _sample(), ids=lambda e: f"{e.target}-{e.kind}")
def test_a_planted_error_is_noticed(error: PlantedError) -> None:
    silent = []
    with planting.plant(error):
        for claim_id in sorted(named_by(error, QUICK), key=lambda i: i in LONG):
            outcome, why = worker.judge(claim_id)
            if outcome == "noticed":
                return
            silent.append(f"{claim_id} {outcome}: {why}")
    pytest.fail(f"nobody notices {error}; {'; '.join(silent)}")


@pytest.mark.slow
@pytest.mark.timeout(0)  # a check that does not end is ended by its CPU time
def test_the_claims_notice_what_is_planted() -> None:
    found = run_planted(ERRORS, jobs=2)
    assert report.passes(found), "\n".join(report.lines(found))
