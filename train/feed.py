"""From ids to views: which images a batch has, this rank's part of them, and how they are drawn."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..algos.errors import InvalidValueError
from .augment import augment
from .config import RunConfig
from .data import Samples, load_source
from .distributed import Ranks
from .engine import Engine
from .input_scale import rescaled
from .prefetch import prefetch
from .seeding import generator, permutation

__all__ = ["Feed"]

EVALUATION_BATCH = 1024


class Feed:
    """The samples of a run, batch by batch, on the device.

    Every random number is of a stream that epoch, step and view name, drawn for the whole batch.

    Parameters
    ----------
    config : RunConfig
    ranks : Ranks
    engine : Engine. Brings images to the network's precision and memory format.

    Attributes
    ----------
    data : Samples. What is clustered.
    test : Samples or None. Held-out samples, as ``data.test`` asks.
    n : int. Samples of `data`.

    Raises
    ------
    InvalidValueError
        If there are fewer than 2 samples.
    """

    def __init__(self, config: RunConfig, ranks: Ranks, engine: Engine) -> None:
        self.config, self.ranks, self.engine = config, ranks, engine
        self.device = engine.device
        self.data, self.test = _load(config, self.device)
        self.n = len(self.data.ids)
        if self.n < 2:
            msg = f"{config.data.source} must hold at least 2 images, got {self.n}"
            raise InvalidValueError(msg)

    def in_order(self, data: Samples | None = None) -> list[Tensor]:
        """All ids, in batches for evaluation."""
        n = self.n if data is None else len(data.ids)
        return _split(torch.arange(n, device=self.device), EVALUATION_BATCH)

    def batches(self, epoch: int, order: Tensor | None = None) -> list[Tensor]:
        """Ids of each whole batch of an epoch: of an order, or each once, shuffled."""
        if order is None:
            order = permutation(self.n, self.config.seed, epoch, device=self.device)
        return _split(order, self.config.batch_size)

    def own(self, ids: Tensor) -> Tensor:
        """Return this rank's part of the ids of a whole batch."""
        return ids[slice(*self.ranks.part(len(ids)))]

    def images(
        self, batches: Sequence[Tensor], data: Samples | None = None
    ) -> Generator[tuple[Tensor, Tensor], None, None]:
        """Ids of each whole batch, with the images of this rank's part of it."""
        parts = [self.own(ids) for ids in batches]
        with prefetch(self.data if data is None else data, parts) as images:
            yield from zip(batches, map(self.engine.convert, images), strict=True)

    def view(
        self, ids: Tensor, *stream: int | str, name: str = "first", images: Tensor | None = None
    ) -> Tensor:
        """Views of this rank's part of a batch of these ids; of `images`, where they are there."""
        if images is None:
            images = self.engine.convert(self.data.take(self.own(ids)))
        if name == "plain":
            return images
        config = self.config
        options = {
            "first": None,
            "second": config.second,
            "small": config.small,
            "linear": None if config.linear is None else config.linear.view(),
        }[name]
        draws = generator(config.seed, "augment", *stream, device=self.device)
        start, _ = self.ranks.part(len(ids))
        return augment(
            images,
            options or config.augment,
            draws,
            self.data.background,
            part=(start, len(ids)),
            scale=(self.data.mean, self.data.std),
        )


def _load(config: RunConfig, device: torch.device) -> tuple[Samples, Samples | None]:
    """The samples to train on, and those to test on, where the settings want some."""
    options = config.data
    wanted: dict[str, Any] = {
        name: getattr(options, name) for name in ("classes", "size", "standardize", "resident")
    }
    data = load_source(
        options.source,
        split=options.split,
        device=device,
        seed=config.seed,
        limit=options.limit,
        imbalance=options.imbalance,
        **wanted,
    )
    data = rescaled(data, options.normalization)
    if options.test == "none":
        return data, None
    test = load_source(options.source, split="test", device=device, **wanted)
    return data, test._replace(mean=data.mean, std=data.std)


def _split(ids: Tensor, batch_size: int) -> list[Tensor]:
    """Batches of lengths that differ by at most one; none of one image, which has no variance."""
    parts = max(1, min(math.ceil(len(ids) / batch_size), len(ids) // 2))
    return list(torch.tensor_split(ids, parts))
