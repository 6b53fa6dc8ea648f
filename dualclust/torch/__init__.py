"""Modules for a PyTorch loop of your own: prices and bounds are buffers, and nothing is read back.

`PricedLabels` stands where SwAV, DINO or SeLa call Sinkhorn, `PricedRouter` where a mixture of
experts picks its experts. Both are `SizePrices`: they go along with ``.to``, ``state_dict``,
`DistributedDataParallel`, autocast and a captured graph. `lightning_callback` shows and saves
sizes, prices and violations of a Lightning run.
"""

from ..algos.core.errors import MissingExtraError
from ..common.extras import needs_train

try:
    from .labels import PricedLabels
    from .lightning import PriceLog, lightning_callback
    from .prices import PriceFigures, SizePrices, price_figures
    from .routing import PricedRouter, Routing
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    msg = needs_train("dualclust.torch", "torch")
    raise MissingExtraError(msg, name="torch") from error

__all__ = [
    "PriceFigures",
    "PriceLog",
    "PricedLabels",
    "PricedRouter",
    "Routing",
    "SizePrices",
    "lightning_callback",
    "price_figures",
]
