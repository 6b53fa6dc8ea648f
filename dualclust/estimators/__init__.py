"""What scikit-learn's tools can use: `ConstrainedKMeans`, with `fit`, `predict` and `transform`."""

from .constrained_kmeans import ConstrainedKMeans

__all__ = ["ConstrainedKMeans"]
