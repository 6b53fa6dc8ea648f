"""The first lines of the report: whether a run ended by itself."""

from __future__ import annotations

import pytest

from dualclust.cluster.output import text

RESULT = {
    "n_clusters": 3,
    "n_samples": 9,
    "passes": 4,
    "smallest_cluster": 2,
    "largest_cluster": 4,
    "min_count": 1,
    "max_count": 5,
    "violation": 0,
    "mean_similarity": 0.5,
    "mean_similarity_bound": 0.5,
    "relative_gap": 0.0,
}


@pytest.mark.parametrize(
    ("converged", "words"), [(True, "converged"), (False, "stopped at the limit")]
)
def test_the_report_says_how_the_run_ended(converged: bool, words: str) -> None:
    first, sizes, *_ = text({**RESULT, "converged": converged}).splitlines()
    assert first == f"clusters            3 of 9 samples, 4 passes, {words}"
    assert sizes == "sizes               2 to 4, bounds 1 to 5"
