"""Settings for data of one's own: chosen by looking at it, each with its reason, without labels.

`choose_settings` takes what a look at the data has found and returns the settings of a run:
what the recipes METHOD_photos and METHOD_embeddings are. Epochs follow the number of samples
(`epochs`), or a time that they fill (`fit_to_time`), by timing steps of a run that is thrown away.
"""

from .choices import Choice, Chosen, Machine, choose_settings, with_clusters
from .encoders import Wanted
from .epochs_for_time import Pace, epoch_time, fit_to_time, seconds_of
from .graph import GRAPH, ON_FEATURES, method_for

__all__ = [
    "GRAPH",
    "ON_FEATURES",
    "Choice",
    "Chosen",
    "Machine",
    "Pace",
    "Wanted",
    "choose_settings",
    "epoch_time",
    "fit_to_time",
    "method_for",
    "seconds_of",
    "with_clusters",
]
