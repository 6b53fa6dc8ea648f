"""What the offline solver does where memory is short, or no labels exist: smaller regions, errors.

At most `max_entries` candidates are kept, or one of each row where that makes more, and all scores
only up to `last_entries` (`SolverOptions`). A region is first shrunk until its candidates fit.
Where even that leads to no labels, online passes find some in the memory of one block, unless
forbidden pairs prevent it.
"""

from __future__ import annotations

from typing import NoReturn

from ..bounds.forbidden_pairs import check_feasible
from ..bounds.sizes import SizeBounds
from ..core.errors import InvalidValueError
from ..scores.sources import ScoreSource
from ..scores.statistics import allowed_pairs, median, strided_ids
from ._candidates import TrustRegion
from ._options import SolverOptions
from ._region_from_rows import largest_radius

__all__ = ["raise_no_labels", "raise_without_labels", "within_memory"]

DEVIATIONS = 3.0
"""Of the number of candidates, as some rows tell it: a pass that finds too many is lost."""


def within_memory(
    source: ScoreSource, region: TrustRegion, width: int, options: SolverOptions
) -> tuple[TrustRegion, int]:
    """Shrink the region until its candidates fit into memory, or widen rows if most of them tie.

    Parameters
    ----------
    source : ScoreSource
    region : TrustRegion
    width : int
        Candidates of a row.
    options : SolverOptions

    Returns
    -------
    region : TrustRegion
    width : int
    """
    (center, radius), n, most = region, source.group.n_total, options.max_entries
    rows = source.take(strided_ids(n, min(n, options.memory_rows), center))
    wanted = median(radius)  # some, of prices that travel, may be much larger: the shape says so
    limit = largest_radius(
        rows,
        center,
        n_rows=n,
        max_entries=most,
        wanted=wanted,
        shape=None if wanted == 0.0 else radius / wanted,
        deviations=0.0 if rows.shape[0] == n else DEVIATIONS,
        options=options,
    )
    if limit.radius <= options.min_radius_share * wanted:
        return region, 2 * width if 2 * width * n <= most else width
    share = limit.radius / wanted if limit.radius < wanted else 1.0
    return TrustRegion(center, share * radius), limit.width


def raise_no_labels(n_scores: int, options: SolverOptions) -> NoReturn:
    """Say that forbidden pairs leave no labels, or none that this much memory has found.

    Raises
    ------
    InvalidValueError
        Always, and on all ranks alike.
    """
    msg = (
        f"scores must leave labels that can be found within the memory of the options: forbidden "
        f"pairs let neither candidates nor online passes end inside the bounds, and {n_scores} "
        f"scores are more than options.last_entries={options.last_entries}, up to which all of "
        f"them are kept. To fix this, forbid fewer pairs, widen the bounds, or ask for the optimum "
        f"(tol=0), which keeps about {16 * n_scores / 2**30:.2g} GiB of candidates"
    )
    raise InvalidValueError(msg)


def raise_without_labels(source: ScoreSource, bounds: SizeBounds) -> NoReturn:
    """Say why all scores led to no labels: none exist, with the proof, or float64 is too short.

    Raises
    ------
    InfeasibleBoundsError, InvalidValueError
        One of them, on all ranks alike.
    """
    check_feasible(allowed_pairs(source), bounds.lower, bounds.upper)
    msg = (
        "scores differ too much for float64: no labels were found, although some are inside"
        ". To fix this, scale the scores down, or clip the smallest"
    )
    raise InvalidValueError(msg)
