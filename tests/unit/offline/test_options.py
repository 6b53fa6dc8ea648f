"""The numbers that steer the solver: each as it was chosen, and in an order that makes sense.

Each was measured, or reasoned about where it stands. Another number is a decision, which changes
this table too; labels stay inside the bounds whatever the numbers are.
"""

from dataclasses import FrozenInstanceError, asdict

import pytest

from dualclust.algos.offline import DEFAULT_OPTIONS, SolverOptions

CHOSEN = {
    # Passes over all rows.
    "full_entries": 65_536,
    "few_clusters": 16,
    "few_growth": 4,
    "few_passes": 2,
    "few_rows": 256,
    "few_window": 0.125,
    "pass_width": 16,
    "large_pass_width": 3,
    "large_pass_rows": 4_194_304,
    "max_entries": 33_554_432,
    "entries_per_row": 1.0,
    "max_passes": 48,
    "tied_share": 0.99,
    "often_tied_share": 0.5,
    "mostly_tied_share": 0.97,
    "rough_after": 3,
    "rough_gap": 0.01,
    "retry_entries": 4_194_304,
    "last_entries": 134_217_728,
    "unit_rows": 1024,
    "widest_pass": 64,
    "memory_rows": 4096,
    "min_radius_share": 0.001,
    # Trust region learned on samples.
    "sample_rows_per_cluster": 16,
    "min_sample_rows": 4096,
    "sample_part": 4,
    "sample_growth": 8,
    "sample_width": 32,
    "full_width_rows": 262_144,
    "sample_entries": 33_554_432,
    "kept_entries": 16_777_216,
    "averaging_epoch": 1,
    "averaging_loss": 1.25,
    "online_passes": 4,
    "initial_clusters": 8,
    "range_rows": 1024,
    "sample_temperature": 0.25,
    "min_undecided": 8.0,
    "deviations": 4.0,
    "attempts": 2,
    "initial_attempts": 6,
    "edge_share": 0.02,
    "truncated_often": 0.5,
    "max_moves": 30,
    "moving_entries": 4_194_304,
    "min_moving_radius": 1e-4,
    "region_growth": 4.0,
    "moving_growth": 2.0,
    "region_shrinkage": 0.25,
    "limit_widths": (4, 8, 16, 32),
    "limit_truncated": 0.02,
    # Labels from candidates.
    "chunk_rows": 16_384,
    "device_chunk_rows": 2_097_152,
    "pass_temperature": 0.03125,
    "path_rows": 3000.0,
    "path_undecided": 32.0,
    "least_undecided": 0.1,
    "max_stranded": 0.25,
    "window": 4.0,
    "window_growth": 8.0,
    "max_windows": 4,
    # Online passes.
    "learning_floor": 0.05,
    "fallback_epoch": 8,
    "fallback_floor": 0.02,
}


def test_the_defaults_are_the_chosen_ones():
    assert asdict(SolverOptions()) == CHOSEN
    assert DEFAULT_OPTIONS == SolverOptions()


def test_the_defaults_are_not_changed_by_accident():
    with pytest.raises(FrozenInstanceError):
        DEFAULT_OPTIONS.tol = 0.0


def test_limits_stand_in_their_order():
    """Small problems in full; then passes; all scores as a last resort; memory above them all."""
    own = DEFAULT_OPTIONS
    assert own.full_entries < own.retry_entries < own.max_entries < own.last_entries
    assert own.moving_entries <= own.max_entries
    assert own.rough_after < own.max_passes
    assert own.often_tied_share < own.mostly_tied_share < own.tied_share < 1.0
    assert own.region_shrinkage < 1.0 < own.moving_growth < own.region_growth
    assert own.fallback_floor < own.learning_floor
    assert own.attempts < own.initial_attempts
    assert own.limit_widths == tuple(sorted(own.limit_widths))
