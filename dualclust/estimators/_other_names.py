"""Arguments of other libraries' k-means, and what they are called here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec

from ..algos.core.errors import InvalidTypeError

__all__ = ["with_names_of_others"]

P = ParamSpec("P")

NAMES = {
    # k-means-constrained
    "size_min": "min_count",
    "size_max": "max_count",
    # faiss.Kmeans
    "k": "n_clusters",
    "niter": "max_iter",
    "nredo": "n_init",
    "seed": "random_state",
    "spherical": "metric='cosine'",
    "gpu": "a PyTorch tensor on the card as X",
    "min_points_per_centroid": "min_count, a bound that is kept",
    "max_points_per_centroid": "max_count, a bound that is kept",
    # scipy.cluster.vq.kmeans2
    "minit": "init",
    "iter": "max_iter",
}


def with_names_of_others(init: Callable[P, None]) -> Callable[P, None]:
    """Let a constructor name its own argument for one that another library has.

    Its signature stays as it is, for scikit-learn and for `help`.

    Examples
    --------
    >>> from dualclust import ConstrainedKMeans
    >>> try:
    ...     ConstrainedKMeans(4, size_min=20)
    ... except TypeError as error:
    ...     print(error)
    ConstrainedKMeans has no argument size_min. To fix this, use min_count, which it is here
    """
    known = signature(init).parameters

    @wraps(init)
    def checked(*arguments: P.args, **options: P.kwargs) -> None:
        for name in options:
            if name not in known:
                fix = f"use {NAMES[name]}, which it is here" if name in NAMES else "see its help"
                msg = f"ConstrainedKMeans has no argument {name}. To fix this, {fix}"
                raise InvalidTypeError(msg)
        init(*arguments, **options)

    return checked
