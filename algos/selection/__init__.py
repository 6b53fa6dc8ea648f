"""Choosing k and bounds: what clusterings for several k are worth, and whether one stands out.

`choose_k` clusters a sample for each k, with and without bounds, and judges the results on all rows
in one pass; the other modules are its parts. `choose_clustering` judges clusterings that are given,
such as the heads of a network, and `cosine_silhouette` tells of one what its labels are worth.
"""

from .agreement import adjusted_rand_index
from .choice import choose_k, sample_rows
from .given import ChoiceOfClustering, JudgedClustering, choose_clustering
from .recommendation import (
    LEAST_EXCESS,
    LEAST_STABILITY,
    MOST_PRICE,
    RecommendedBounds,
    RecommendedK,
    recommend_bounds,
    recommend_k,
    shares_text,
)
from .reference import reference_rows
from .result import ChoiceOfK
from .silhouette import cosine_silhouette
from .survey import Candidate, Survey, survey

__all__ = [
    "LEAST_EXCESS",
    "LEAST_STABILITY",
    "MOST_PRICE",
    "Candidate",
    "ChoiceOfClustering",
    "ChoiceOfK",
    "JudgedClustering",
    "RecommendedBounds",
    "RecommendedK",
    "Survey",
    "adjusted_rand_index",
    "choose_clustering",
    "choose_k",
    "cosine_silhouette",
    "recommend_bounds",
    "recommend_k",
    "reference_rows",
    "sample_rows",
    "shares_text",
    "survey",
]
