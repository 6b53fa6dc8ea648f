"""Every number that steers the offline solver, in one record: its name, its unit and its reason.

None of them can make a result wrong: labels stay inside the bounds and gaps stay proven whatever
their values. They decide how much time and memory the proof takes. The gap to prove, ``tol``, is an
argument of the functions in `assignment`. Tolerances for rounding are not options; they stand
beside the arithmetic whose errors they bound.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ..core.checks import check_count, check_interval

__all__ = ["DEFAULT_OPTIONS", "SolverOptions"]

LEAST_COUNTS = {
    "few_rows": 1,
    "pass_width": 1,
    "large_pass_width": 1,
    "unit_rows": 1,
    "widest_pass": 1,
    "memory_rows": 1,
    "sample_rows_per_cluster": 1,
    "min_sample_rows": 1,
    "sample_part": 1,
    "sample_growth": 2,
    "sample_width": 1,
    "range_rows": 1,
    "attempts": 1,
    "initial_attempts": 1,
    "chunk_rows": 1,
    "device_chunk_rows": 1,
}
"""Whole numbers that are more than 0: what they count, divides or grows."""

LARGEST = 1e9
"""Of numbers that are no counts: times scores of up to ``2**200``, they are finite."""

RANGES = {
    "averaging_loss": (1e-9, LARGEST),
    "sample_temperature": (1e-9, LARGEST),
    "region_growth": (1.0, LARGEST),
    "moving_growth": (1.0, LARGEST),
    "region_shrinkage": (1e-9, 1.0),
    "pass_temperature": (1e-9, LARGEST),
    "window": (1e-9, LARGEST),
    "window_growth": (1.0, LARGEST),
    "learning_floor": (1e-9, 1.0),
    "fallback_floor": (1e-9, 1.0),
}
"""Of other numbers, where it is not from 0 to `LARGEST`: factors that leave something, growth that
is no less than before, steps that move a price at all."""


@dataclass(frozen=True)
class SolverOptions:
    """Numbers that steer `assign_offline`; change one with ``dataclasses.replace``.

    Lengths are in shares of the trust region or in units of temperature, never in units of score,
    so that labels do not depend on the unit of the scores.

    Examples
    --------
    >>> small = SolverOptions(max_entries=2**20, entries_per_row=0.0)
    >>> small.max_entries  # a thirty-second of the memory, however many the rows are
    1048576

    Raises
    ------
    InvalidTypeError, InvalidValueError
        For a number that says nothing, such as samples that do not grow.
    """

    # Passes over all rows (`assignment`).
    full_entries: int = 2**16
    """Scores up to which every cluster is a candidate of every row: no pass is worth it."""
    few_clusters: int = 16
    """Clusters so few that a shortest path costs no more than looking at a row."""
    few_growth: int = 4
    """How many times `full_entries` scores may be, if paths are compiled: above, Newton's method on
    candidates is faster than a path for each row that online passes misplace."""
    few_passes: int = 2
    """Online passes over a first sample that then start the paths."""
    few_rows: int = 2**8
    """Rows on which ranges of scores are then measured."""
    few_window: float = 0.125
    """First lead up to which rows may move, in ranges of scores: a few errors of these prices."""
    pass_width: int = 16
    """Candidates of a row in a pass: few rows have more within a trust region learned well."""
    large_pass_width: int = 3
    """The same for more than `large_pass_rows` rows, whose prices are known better."""
    large_pass_rows: int = 2**22
    """Rows above which a pass keeps `large_pass_width` candidates of a row, and a sample an eighth
    of `sample_width`."""
    max_entries: int = 2**25
    """Candidates of all rows in a pass, or more by the next number: 256 MiB of clusters, scores."""
    entries_per_row: float = 1.0
    """Candidates for each row, where that makes more than `max_entries` in all; up to
    `last_entries`. They take less than a label and its order do. 0 for no more than there."""
    max_passes: int = 48
    """Passes over all scores, after which all clusters become candidates: these take as long as
    hundreds of passes, and some rows of heavy tails end after more than 16."""
    tied_share: float = 0.99
    """Share of the rows with truncated candidates above which nothing is learned from a pass."""
    often_tied_share: float = 0.5
    """The same for passes after the first whose width is near k: all clusters become candidates. Of
    more clusters the region shrinks, if prices stand at its edge or too little is learned."""
    mostly_tied_share: float = 0.97
    """Share of a few rows with truncated candidates above which the search begins with a smaller
    region: the pass would say nearly nothing."""
    rough_after: int = 3
    """Passes after which labels with a gap of `rough_gap` are worth looking for."""
    rough_gap: float = 1e-2
    """Relative; below it labels are returned with their gap rather than none."""
    retry_entries: int = 2**22
    """Scores up to which all are candidates if passes have not proven the gap: seconds."""
    last_entries: int = 2**27
    """Scores up to which all are candidates if passes have found no labels: 1.5 GiB."""
    unit_rows: int = 2**10
    """Rows that decide in which unit of score to compute."""
    widest_pass: int = 64
    """Candidates of a row at most in the first pass of a search that knows the reach of its prices:
    lists that hold them save a search for them on samples."""
    memory_rows: int = 2**12
    """Rows on which the number of candidates of all rows is estimated."""
    min_radius_share: float = 1e-3
    """Share of its radius below which a trust region is not worth it: most rows tie."""

    # Trust region learned on samples (`_trust_region`).
    sample_rows_per_cluster: int = 16
    """Rows of the first sample, per cluster: counts scatter by a quarter."""
    min_sample_rows: int = 2**12
    """Rows of the first sample at least; it costs less than the overhead of the steps."""
    sample_part: int = 4
    """What part of all rows that is at most: looks at a larger one would cost as much as a pass."""
    sample_growth: int = 8
    """Rows of a sample over those of the one before: the error of the prices falls to a third."""
    sample_width: int = 32
    """Candidates of a row of a sample: more than in a pass, because the region is still wide."""
    full_width_rows: int = 2**18
    """Rows of a sample up to which rows have so many; above, a quarter, and see
    `large_pass_rows`."""
    sample_entries: int = 2**25
    """Candidates of a sample at most; a larger sample is not drawn."""
    kept_entries: int = 2**24
    """Scores of a sample up to which they are kept for all looks at it: 64 MiB of float32."""
    averaging_epoch: int = 1
    """Epoch of the steps of a pass whose prices are averaged: larger than the best last ones."""
    averaging_loss: float = 1.25
    """Error of averaged prices over that of Newton's method, 1.0 to 1.3 on unit features: a factor
    of the radius at each sample, which is the safe side after the first."""
    online_passes: int = 4
    """Over the first sample, where no prices are given."""
    initial_clusters: int = 8
    """Clusters of a typical row that the first trust region holds."""
    range_rows: int = 2**10
    """Rows on which ranges and differences of scores are measured."""
    sample_temperature: float = 0.25
    """First temperature on a sample, in mean radii."""
    min_undecided: float = 8.0
    """Undecided rows a cluster keeps at least: with fewer, the curvature is noise."""
    deviations: float = 4.0
    """Radius of the next trust region, in standard deviations of the prices."""
    attempts: int = 2
    """Trust regions tried on one sample."""
    initial_attempts: int = 6
    """The same on the first sample, which is cheap and starts from nowhere."""
    edge_share: float = 0.02
    """Share of the prices at the edge of a trust region up to which the others mean something; so
    many may leave it on a sample after the first, and keep their radius."""
    truncated_often: float = 0.5
    """Share of the rows with truncated candidates above which the region moves, not grows: at a
    tenth, regions of heavy tails move for nothing (benchmarks/results/ablation.md)."""
    max_moves: int = 30
    """Moves of a trust region on one sample of at most `full_width_rows` rows."""
    moving_entries: int = 2**22
    """Candidates of a sample while its trust region moves."""
    min_moving_radius: float = 1e-4
    """Radius below which a region does not move, in ranges of scores: most rows tie."""
    region_growth: float = 4.0
    """Growth of the radius of a price at the edge."""
    moving_growth: float = 2.0
    """The same while the region moves, so that rows keep few candidates."""
    region_shrinkage: float = 0.25
    """Factor of the radius of a price inside."""
    limit_widths: tuple[int, ...] = (4, 8, 16, 32)
    """Candidates per row among which the one that allows the largest radius is chosen."""
    limit_truncated: float = 0.02
    """Share of the rows whose candidates may be truncated at that radius."""

    # Labels from candidates (`_reduced`).
    chunk_rows: int = 2**14
    """Rows that are added up at a time, which threads share out: what is made of them in float64
    stays in a core's cache."""
    device_chunk_rows: int = 2**21
    """The same away from the host, where each time is a read: 128 MiB for eight candidates."""
    pass_temperature: float = 0.03125
    """First temperature in a pass, in mean radii."""
    path_rows: float = 3000.0
    """Undecided rows of all clusters at which augmenting paths begin: of more, one more temperature
    of Newton's method takes less time than their paths. From 1,000 to 10,000 little changes
    (benchmarks/results/ablation.md)."""
    path_undecided: float = 32.0
    """Of them per cluster at most, where clusters are few."""
    least_undecided: float = 0.1
    """And at least: a part of them ties, and stays undecided at any temperature."""
    max_stranded: float = 0.25
    """Rows per cluster that prices at the edge misplace at most: each costs a long path."""
    window: float = 4.0
    """First lead up to which rows may move along a path, in temperatures."""
    window_growth: float = 8.0
    max_windows: int = 4
    """Windows before every row may move."""

    # Online passes (`_online_passes`).
    learning_floor: float = 0.05
    """Rise of the price of a starved cluster in a pass that learns, in ranges of scores."""
    fallback_epoch: int = 8
    """Epoch whose small steps the passes take that label all rows."""
    fallback_floor: float = 0.02
    """As `learning_floor`, in these passes: they hardly leave the prices given."""

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if isinstance(field.default, tuple):
                check_count(f"the number of {name}", len(value), 1)
                for i, width in enumerate(value):
                    check_count(f"{name}[{i}]", width, 1)
            elif isinstance(field.default, int):
                check_count(name, value, LEAST_COUNTS.get(name, 0))
            else:
                check_interval(name, value, *RANGES.get(name, (0.0, LARGEST)))

    def entries_of(self, n: int) -> int:
        """Return how many candidates of n rows a pass may keep, whatever ranks have them.

        Examples
        --------
        >>> [SolverOptions().entries_of(n) for n in (10**6, 10**8, 10**9)]
        [33554432, 100000000, 134217728]
        """
        return max(self.max_entries, min(int(self.entries_per_row * n), self.last_entries))


DEFAULT_OPTIONS = SolverOptions()
"""The options of every function that is given none."""
