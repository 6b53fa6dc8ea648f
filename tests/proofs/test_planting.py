"""Errors planted in the library: every holder sees them, and they are taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualclust import backends
from dualclust.algos import bounds
from dualclust.algos.core.errors import InvalidValueError
from dualclust.algos.core.projections import project_l1_ball
from dualclust.algos.core.segments import segment_sum
from dualclust.algos.online import assignment, duals, step_sizes
from dualclust.algos.theory import von_mises_fisher
from dualclust.proofs.planted.planting import KINDS, PlantedError, plant

VALUES, SEGMENTS = np.asarray([[1], [2], [3]]), np.asarray([1, 0, 1])


def _error(target: str, old: str, new: str, kind: str = "factor") -> PlantedError:
    return PlantedError(target, kind, old, new)


def _sums() -> list[int]:
    return [int(v) for v in segment_sum(VALUES, SEGMENTS, n_segments=2)[:, 0]]


def _updated() -> float:
    prices = duals.init_duals((2,), xp=np)
    sizes = np.asarray([2, 0])
    share = {"lower_share": np.asarray([0.5, 0.5]), "upper_share": np.asarray([np.inf, np.inf])}
    return float(
        duals.update_duals(prices, sizes, 2, duals.DualRule(**share, step_size=1.0)).lower[1]
    )


def test_a_function_and_a_name_imported_elsewhere() -> None:
    x = np.asarray([3.0, -1.0])
    before = project_l1_ball(x, 9.0)  # this module's own name for it
    with plant(
        _error("algos.core.projections.project_l1_ball", "clipped, project", "0 * x, project")
    ):
        assert project_l1_ball(x, 9.0).tolist() == [0.0, 0.0]
    assert project_l1_ball(x, 9.0).tolist() == before.tolist() == [3.0, 0.0]


def test_it_is_taken_back_after_an_exception() -> None:
    error = _error(
        "algos.online.duals.update_duals", "n_samples * rule.lower_share - c", "-c", "dropped"
    )
    assert _updated() == 1.0

    def fail() -> None:
        with plant(error):
            assert _updated() == 0.0
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert _updated() == 1.0


def test_the_text_of_a_decorated_kernel_is_seen_where_it_runs() -> None:
    error = _error(
        "algos.core.segments.segment_sum", "at_ends[1:, :] -", "at_ends[1:, :] +", "sign"
    )
    with plant(error):
        assert _sums() == [2, 4]  # the engine
        with backends.engine("reference"):
            assert _sums() == [2, 8]
    with backends.engine("reference"):
        assert _sums() == [2, 4]


def test_an_engine_and_the_compiled_function_below_it() -> None:
    before = assignment.assign_stream
    error = _error("backends.numba_engine._segment_sum", "+=", "-=", "sign")
    with plant(error):
        assert _sums() == [-2, -4]
        with backends.engine("reference"):
            assert _sums() == [2, 4]
    assert _sums() == [2, 4]
    assert assignment.assign_stream is before


def test_a_property_and_a_method() -> None:
    limits = bounds.SizeBounds.from_counts([1, 2], [5, 5], n_samples=6)
    with plant(_error("algos.bounds.sizes.SizeBounds.n_clusters", "shape[0])", "shape[0]) + 1")):
        assert limits.n_clusters == 3
    assert limits.n_clusters == 2


def test_a_constant_and_its_readers() -> None:
    limits = bounds.SizeBounds.from_ratios(1000, n_samples=1000, lower=0.9)
    before = step_sizes.measured_steps(limits).step_size
    with plant(_error("algos.online.step_sizes.MAX_STEP", "0.02", "0.01")):
        assert step_sizes.measured_steps(limits).step_size == before / 2 == step_sizes.MAX_STEP
    assert step_sizes.measured_steps(limits).step_size == before == step_sizes.MAX_STEP


def test_a_default_of_an_argument() -> None:
    limits = bounds.SizeBounds.from_ratios(10, n_samples=100_000, lower=0.9)
    before = step_sizes.measured_steps(limits).step_size
    with plant(
        _error("algos.online.step_sizes.measured_steps", "kappa: float = 3.4", "kappa: float = 1.7")
    ):
        assert step_sizes.measured_steps(limits).step_size == before / 2
    assert step_sizes.measured_steps(limits).step_size == before


def test_a_default_of_a_record() -> None:
    with plant(
        _error(
            "algos.online.step_sizes.StepRule",
            "mean_over_chunk: bool = False",
            "mean_over_chunk: bool = True",
        )
    ):
        assert step_sizes.StepRule(0.1, 2).mean_over_chunk
    assert not step_sizes.StepRule(0.1, 2).mean_over_chunk


def test_results_that_were_stored_are_forgotten() -> None:
    def first() -> Any:
        return von_mises_fisher.debye_polynomials(1)[0][1]

    before = first()
    error = _error(
        "algos.theory.von_mises_fisher.debye_polynomials", "Fraction(1, 8 *", "Fraction(1, 4 *"
    )
    with plant(error):
        assert first() == 2 * before
    assert first() == before


def test_a_closure_made_before() -> None:
    """What `kernel` made long ago: its inner function is exchanged in every kernel."""
    old = "select(name, args[0]) or reference"
    error = _error("backends.kernel", old, "name and reference", "dropped")
    target = _error(
        "algos.core.segments.segment_sum", "at_ends[1:, :] -", "at_ends[1:, :] +", "sign"
    )
    with plant(target):
        assert _sums() == [2, 4]
        with plant(error):
            assert _sums() == [2, 8]
        assert _sums() == [2, 4]


@pytest.mark.parametrize(
    ("target", "old", "new", "text"),
    [
        ("algos.online.duals.update_duals", "no such text", "", "occurs 0 times"),
        ("algos.online.duals.update_duals", "", "x", "occurs 0 times"),
        ("algos.online.duals.update_duals", "xp.clip(", "xp.abs(", "occurs 2 times"),
        ("algos.online.duals.update_duals", "CoKe Eq. 11", "CoKe Eq. 12", "must change what"),
        ("algos.online.duals.update_duals", "def update_duals", "def f", "keep its name"),
        ("algos.online.duals.no_such_function", "x", "y", "defines no no_such_function"),
        ("algos.online.duals", "x", "y", "must name a function"),
        ("algos.no_such_module.f", "x", "y", "defines no no_such_module.f"),
        ("algos.core.segments.segment_sum", "@kernel", "", "cannot be exchanged"),
        ("backends.kernel", "select(name, args[0]) or ", "", "outer variables"),
    ],
)
def test_a_wrong_entry_is_an_error(target: str, old: str, new: str, text: str) -> None:
    with pytest.raises(InvalidValueError, match=text), plant(_error(target, old, new)):
        pass
    assert _updated() == 1.0


def test_a_replacement_that_is_no_python_is_an_error() -> None:
    with (
        pytest.raises(SyntaxError),
        plant(_error("algos.online.duals.update_duals", "c = xp", "c = = xp")),
    ):
        pass


def test_a_kind_is_one_of_a_list() -> None:
    assert len(set(KINDS)) == len(KINDS)
    with pytest.raises(InvalidValueError, match="kind must be one of sign, factor"):
        _error("algos.online.duals.update_duals", "a", "b", "bad luck")
    with pytest.raises(InvalidValueError, match="claims must be a tuple"):
        PlantedError("algos.online.duals.update_duals", "sign", "a", "b", "C1")  # type: ignore[arg-type]
