"""Sources of scores: a matrix, or features times centers, one block of rows at a time.

A source gives rows in blocks, on one rank or many, so that no algorithm holds an n x k matrix that
it does not need. Scores have a unit in which sums neither overflow nor vanish.
"""

from .blocks import MOST_ROWS, block_rows, map_blocks, row_blocks
from .deadline import Deadline, agreed, deadline_of, is_over
from .largest import largest_scores
from .nearest import (
    best_clusters,
    best_products,
    best_without_scores,
    nearest_without_scores,
)
from .sources import (
    FeatureSource,
    Group,
    ScoreSource,
    alone,
    check_weights,
    feature_source,
    largest_score,
    product_source,
    score_source,
    subsample,
)
from .statistics import (
    FAR,
    ScoresOutOfRangeError,
    allowed_pairs,
    check_range,
    in_range,
    kept_in_memory,
    largest_accepted,
    map_taken,
    median,
    places_of,
    rescaled,
    score_range,
    source_of_one_rank,
    strided_ids,
)
from .turns import Turn, hand_on, turns_of

__all__ = [
    "FAR",
    "MOST_ROWS",
    "Deadline",
    "FeatureSource",
    "Group",
    "ScoreSource",
    "ScoresOutOfRangeError",
    "Turn",
    "agreed",
    "allowed_pairs",
    "alone",
    "best_clusters",
    "best_products",
    "best_without_scores",
    "block_rows",
    "check_range",
    "check_weights",
    "deadline_of",
    "feature_source",
    "hand_on",
    "in_range",
    "is_over",
    "kept_in_memory",
    "largest_accepted",
    "largest_score",
    "largest_scores",
    "map_blocks",
    "map_taken",
    "median",
    "nearest_without_scores",
    "places_of",
    "product_source",
    "rescaled",
    "row_blocks",
    "score_range",
    "score_source",
    "source_of_one_rank",
    "strided_ids",
    "subsample",
    "turns_of",
]
