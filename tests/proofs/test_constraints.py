"""The claims of groups and pairs: what their checks build, and what errors they notice."""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.proofs.constraints import groups_and_pairs
from dualclust.proofs.planted import planting
from dualclust.proofs.registry import claims

ERRORS = planting.table("constraints")


@pytest.mark.parametrize("apart", [False, True])
def test_problems_of_pairs_have_room_and_a_best_value(apart: bool) -> None:
    for problem in groups_and_pairs._problems(apart=apart):
        assert (problem.low < problem.high).all()
        assert problem.best <= np.max(problem.scores, axis=1).sum()
        assert len(problem.cannot) == 3 * apart


@pytest.mark.parametrize(
    "error",
    [pytest.param(e, marks=[pytest.mark.slow] * (i % 3 > 0)) for i, e in enumerate(ERRORS)],
    ids=lambda e: f"{e.target.rpartition('.')[2]}-{e.kind}",
)
def test_a_planted_error_is_noticed(error: planting.PlantedError) -> None:
    claims.load()
    with planting.plant(error):
        [result] = claims.run(error.claims)
    assert not result.stands
