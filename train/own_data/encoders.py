"""Settings for an encoder that has learned before, chosen with the rest for data of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..config.encoder import EncoderConfig
from ..config.run import RunConfig
from ..data.look import Look

__all__ = ["Wanted", "put_encoder"]

RATE = 0.1
"""Factor on the rate of an encoder that goes on learning, lest it forget what it knows."""


class Wanted(NamedTuple):
    """An encoder that the user has named.

    Attributes
    ----------
    name : str. What ``network.name`` becomes.
    side : int. Pixels of the images that it was trained on.
    frozen : bool. Whether only what follows it learns.
    weights : str. See `EncoderConfig`.
    reason : str. Why it is this one.
    fit : str. How a picture becomes the square; see `DataConfig`.
    """

    name: str
    side: int
    frozen: bool = True
    weights: str = ""
    reason: str = "as asked: --encoder"
    fit: str = "crop"


def put_encoder(
    config: RunConfig, look: Look, wanted: Wanted
) -> tuple[RunConfig, Sequence[tuple[str, str]]]:
    """Put an encoder into settings that were chosen for embeddings or, if it learns, for images.

    Parameters
    ----------
    config : RunConfig
    look : Look. At the images.
    wanted : Wanted

    Returns
    -------
    config : RunConfig
    told : settings and their reasons, in place of those of the network and the size of a view.
    """
    network = replace(config.network, name=wanted.name, width=0)
    data, told = config.data, [(f'network.name = "{wanted.name}"', wanted.reason)]
    if look.kind == "files":
        data = replace(data, size=wanted.side, fit=wanted.fit)
        told.append((f"data.size = {wanted.side}", "side of an image, as the encoder was trained"))
    if wanted.frozen:
        # In place of the hidden layer that these two have in front of embeddings.
        layers = {"gatcluster": 1, "mi_margin": 1}.get(config.method, network.layers)
        network = replace(network, layers=layers, last_norm=config.method == "gatcluster")
        encoder = EncoderConfig(weights=wanted.weights, frozen=True)
        told.append(("encoder.frozen = true", "features are computed once; --fine-tune: it learns"))
    else:
        encoder = EncoderConfig(weights=wanted.weights, rate=RATE, mode="eval")
        told += [
            (f"encoder.rate = {RATE}", "of the learning rate: the encoder has learned before"),
            ('encoder.mode = "eval"', "its statistics stay those of what it has seen"),
        ]
    return replace(config, network=network, data=data, encoder=encoder), told
