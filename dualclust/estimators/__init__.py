"""What scikit-learn's tools can use: k-means with bounds, of rows or of a graph, and k-medoids."""

from .constrained_kmeans import ConstrainedKMeans
from .constrained_kmedoids import ConstrainedKMedoids
from .spectral_constrained_kmeans import SpectralConstrainedKMeans

__all__ = ["ConstrainedKMeans", "ConstrainedKMedoids", "SpectralConstrainedKMeans"]
