"""Options of the offline solver: how much memory and time a proof may take.

None of them can make a result wrong: labels stay inside the bounds and gaps stay proven whatever
their values. The gap to prove, ``tol``, is an argument of the functions in `assignment`. Numbers
that nobody has a reason to change are constants beside their use.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..core.checks import check_count, check_interval

__all__ = ["DEFAULT_OPTIONS", "SolverOptions"]

POSITIVE = {
    "chunk_rows",
    "pass_width",
    "typical_rows",
    "min_sample_rows",
    "sample_rows_per_cluster",
    "sample_width",
}
"""Whole numbers that are more than 0: what they count, divides or grows."""

LARGEST = 1e9
"""Of numbers that are no counts: times scores of up to ``2**200``, they are finite."""


@dataclass(frozen=True)
class SolverOptions:
    """Numbers that steer `assign_offline`; change one with ``dataclasses.replace``.

    Where a range is given, work changes little within it (benchmarks/results/ablation.md).

    Examples
    --------
    >>> small = SolverOptions(max_entries=2**20, entries_per_row=0.0)
    >>> small.max_entries  # a thirty-second of the memory, however many the rows are
    1048576

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For a number that says nothing, such as samples without rows.
    """

    # Memory, in candidates or scores: 8 bytes each.
    full_entries: int = 2**16
    """Scores up to which every cluster is a candidate of every row: no pass is worth it."""
    few_clusters: int = 16
    """Clusters so few that a shortest path costs no more than reading a row; 0 for never."""
    max_entries: int = 2**25
    """Candidates of all rows in a pass, or more by the next number: 256 MiB. So many scores may
    also be solved in full, where passes take long."""
    entries_per_row: float = 1.0
    """Candidates for each row, where that makes more than `max_entries` in all; up to
    `last_entries`. They take less than a label and its order do. 0 for no more than there."""
    last_entries: int = 2**27
    """Scores up to which all are candidates if passes have found no labels: 1.5 GiB."""
    chunk_rows: int = 2**14
    """Rows that are added up at a time, which threads share out: what is made of them in float64
    stays in a core's cache."""

    # Passes over all rows.
    pass_width: int = 16
    """Candidates of a row in the first pass, from 8: few rows have more in a region learned well.
    At 32, mixtures take up to five times as long."""
    max_passes: int = 48
    """Passes over all scores at most; some problems with heavy tails need more than 16."""
    edge_share: float = 0.02
    """Share of the prices that may be clamped on a sample after the first, or when paths begin,
    from 0.005 to 0.05."""
    max_stranded: float = 0.25
    """Rows per cluster that prices at the bounds misplace at most: each costs a long path."""

    # Samples.
    typical_rows: int = 2**10
    """Rows on which ranges of scores and numbers of candidates are measured, from 256 to 4,096."""
    min_sample_rows: int = 2**12
    """Rows of the first sample at least, from 4,096 to 8,192; of 2,048, normal rows and heavy tails
    take 1.3 to 1.9 times as long."""
    sample_rows_per_cluster: int = 16
    """Rows of the first sample, per cluster: counts scatter by a quarter. With 32, crowded rows
    took 12 times as long, with 8 heavy tails in little memory twice as long."""
    sample_width: int = 32
    """Candidates of a row of a sample, from 16 to 64: more than in a pass, because the region is
    still wide."""
    sample_entries: int = 2**24
    """Candidates of a sample at most; a larger sample is not drawn. With 2^25, ten million rows in
    1,000 clusters take 1.5 GB, not 0.9."""
    deviations: float = 4.0
    """Radius of the next trust region, in standard deviations of the prices, from 3; at 6, a
    mixture takes twice as long."""

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if isinstance(field.default, int):
                check_count(name, value, int(name in POSITIVE))
            else:
                check_interval(name, value, 0.0, LARGEST)

    def entries_of(self, n: int) -> int:
        """Return how many candidates of n rows a pass may keep, whatever ranks have them.

        Examples
        --------
        >>> options = SolverOptions(entries_per_row=0.5)
        >>> [options.entries_of(n) for n in (10**6, 10**8, 10**9)]
        [33554432, 50000000, 134217728]
        """
        return max(self.max_entries, min(int(self.entries_per_row * n), self.last_entries))


DEFAULT_OPTIONS = SolverOptions()
"""The options of every function that is given none."""
