"""Modules for a PyTorch loop of your own: prices and bounds are buffers, and nothing is read back.

`BalancedLabels` makes the targets of a batch, inside bounds in that batch, where SwAV, DINO, SeLa
or DeepCluster code makes its own. `PricedLabels` keeps sizes over a stream whose scores move
slowly, and `PricedRouter` picks the experts of a mixture; both are `SizePrices`. All go along with
``.to``, ``state_dict``, `DistributedDataParallel`, autocast and compilers. `lightning_callback`
shows and saves sizes, prices and violations of a Lightning run.
"""

from ..algos.core.errors import MissingExtraError
from ..common.extras import needs_train

try:
    from .balanced import BalancedLabels
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
    "BalancedLabels",
    "PriceFigures",
    "PriceLog",
    "PricedLabels",
    "PricedRouter",
    "Routing",
    "SizePrices",
    "lightning_callback",
    "price_figures",
]
