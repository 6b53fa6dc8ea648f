"""Pictures of a clustering, as PNG files: what is in each cluster, and how training went.

`figures` draws the gallery of the clusters, their sizes and the curves of a run, `attention` the
images with GATCluster's windows. Both draw with `common.plotting`.
"""

from .attention import write_overlays
from .figures import write_curves, write_gallery, write_sizes

__all__ = ["write_curves", "write_gallery", "write_overlays", "write_sizes"]
