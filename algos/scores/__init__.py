"""Where scores come from: a matrix, or features times centers, one block of rows at a time.

A source gives rows in blocks, on one rank or many, so that no algorithm holds an n x k matrix that
it does not need. Scores are taken in a unit in which sums neither overflow nor vanish.
"""

from .sources import (
    FeatureSource,
    Group,
    ScoreSource,
    alone,
    block_rows,
    check_weights,
    feature_source,
    largest_score,
    product_source,
    score_source,
    subsample,
    times_power_of_two,
)
from .units import (
    FAR,
    ScoresOutOfRangeError,
    check_range,
    in_range,
    rescaled,
)

__all__ = [
    "FAR",
    "FeatureSource",
    "Group",
    "ScoreSource",
    "ScoresOutOfRangeError",
    "alone",
    "block_rows",
    "check_range",
    "check_weights",
    "feature_source",
    "in_range",
    "largest_score",
    "product_source",
    "rescaled",
    "score_source",
    "subsample",
    "times_power_of_two",
]
