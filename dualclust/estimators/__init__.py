"""What scikit-learn's tools can use: k-means with bounds, of rows or of a graph of neighbors."""

from .constrained_kmeans import ConstrainedKMeans
from .spectral_constrained_kmeans import SpectralConstrainedKMeans

__all__ = ["ConstrainedKMeans", "SpectralConstrainedKMeans"]
