"""What methods refuse that find their labels in one epoch, from features that stay."""

from __future__ import annotations

from ...algos.core.errors import UsageError
from ..config.run import RunConfig

__all__ = ["check_one_fit"]


def check_one_fit(config: RunConfig, what: str) -> None:
    """Refuse settings of a network that learns, and several heads.

    Parameters
    ----------
    config : RunConfig
    what : str. What the message says of the method.

    Raises
    ------
    UsageError
        For the first setting that is not the one which such a method has.
    """
    wanted = {
        "epochs": (config.epochs, 1),
        "network.layers": (config.network.layers, 0),
        "network.predictor": (config.network.predictor, 0),
        "heads.clusters": (list(config.heads.clusters), [config.heads.target]),
        "starts": (config.starts, None),
    }
    for name, (found, only) in wanted.items():
        if found != only:
            msg = f"{what}: {name} must be {only}, got {found}. To fix this, set it so"
            raise UsageError(msg)
