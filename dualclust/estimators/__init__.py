"""k-means with bounded cluster sizes as a scikit-learn estimator."""

from .constrained_kmeans import ConstrainedKMeans

__all__ = ["ConstrainedKMeans"]
