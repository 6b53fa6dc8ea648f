"""Settings for data of one's own: chosen by looking at it, each with its reason, without labels.

`choose_settings` takes what a look at the data has found and returns the settings of a run:
what the recipes METHOD_photos and METHOD_embeddings are. `fit_budget` fits them to a time, by
timing steps of a run that is thrown away.
"""

from .budget import epoch_time, fit_budget, seconds_of
from .choices import Choice, Chosen, Machine, choose_settings, with_clusters
from .encoders import Wanted

__all__ = [
    "Choice",
    "Chosen",
    "Machine",
    "Wanted",
    "choose_settings",
    "epoch_time",
    "fit_budget",
    "seconds_of",
    "with_clusters",
]
