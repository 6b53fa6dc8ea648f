"""Load batches: which images each has, this rank's shard of them, and the views that it draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from ...algos.clustering.neighbor_graph import nearest_rows
from ...algos.core.errors import InvalidValueError, UsageError
from ...common.ranks import Ranks
from ..augment.crops import NUMBERS
from ..augment.draws import Numbers, draw_numbers
from ..augment.views import augment_by
from ..config.run import AugmentConfig, RunConfig
from ..data.input_scale import as_pixels, rescaled
from ..data.pictures import Decoders, PictureData, Wanted
from ..data.samples import EmbeddingData, Samples, load_source
from ..methods.base import METHODS
from ..networks.network import Network
from ..state.seeding import generator, permutation
from .execution import Execution
from .prefetch import on_host, prefetch, read_ahead

__all__ = ["Loader"]

EVALUATION_BATCH = 1024

# Name of the random numbers of one view of one batch.
Stream: TypeAlias = tuple[int | str, ...]


class Loader:
    """The samples of a run, batch by batch, on the device.

    Every random number is of a stream that epoch, step and view name, drawn for the whole batch:
    it depends neither on ranks nor on threads nor on where a run was resumed.

    Parameters
    ----------
    config : RunConfig
    ranks : Ranks
    execution : Execution. Brings images to the network's precision and memory format.

    Attributes
    ----------
    data : Samples. What is clustered.
    test : Samples or None. Held-out samples, as ``data.test`` asks.
    shown : Samples. What people look at, and a model labels: `data`, but where that are features of
        a frozen encoder.
    frozen : Network or None. The frozen encoder that made them.
    near : (n, m) int64 tensor or None. Nearest samples of each, as `find_neighbors` finds them.
    n : int. Samples of `data`.

    Raises
    ------
    InvalidValueError
        If there are fewer than 2 samples.
    """

    def __init__(self, config: RunConfig, ranks: Ranks, execution: Execution) -> None:
        self.config, self.ranks, self.execution = config, ranks, execution
        self.device = execution.device
        if config.data.decode == "copies" and not ranks.first:
            ranks.wait()  # the first one makes the copies
        self.data, self.test = _load(config, self.device)
        if config.data.decode == "copies" and ranks.first:
            ranks.wait()
        self.shown: Samples = self.data
        self.frozen: Network | None = None
        self.near: Tensor | None = None
        self.n = len(self.data.ids)
        _check_least(config, self.n)

    def take_pixels(self) -> None:
        """Leave images as they are stored, for an encoder that normalizes them itself."""
        name = self.config.network.name
        self.data = self.shown = as_pixels(self.data, name)
        self.test = None if self.test is None else as_pixels(self.test, name)

    def find_neighbors(self) -> None:
        """Find the nearest samples of each, where a view is one of them.

        Raises
        ------
        UsageError
            If the samples are images.
        """
        drawn = (self.config.augment, self.config.second, self.config.small)
        most = max(0 if one is None else one.neighbors for one in drawn)
        if not most:
            return
        if not isinstance(self.data, EmbeddingData):
            msg = (
                f"augment.neighbors={most}: neighbors of images by their pixels say little. To fix "
                f"this, leave it at 0, or look at them with a frozen encoder: --encoder"
            )
            raise UsageError(msg)
        rows = F.normalize(self.apply_to_all(lambda rows: rows), dim=1)
        self.near = nearest_rows(rows, min(most, self.n - 1))

    def in_order(
        self, data: Samples | None = None, batch_size: int = EVALUATION_BATCH
    ) -> list[Tensor]:
        """All ids, in batches for evaluation."""
        n = self.n if data is None else len(data.ids)
        return _split(torch.arange(n, device=self.device), batch_size)

    def batches(self, epoch: int, order: Tensor | None = None) -> list[Tensor]:
        """Ids of each whole batch of an epoch: of an order, or each once, shuffled."""
        if order is None:
            order = permutation(self.n, self.config.seed, epoch, device=self.device)
        return _split(order, self.config.batch_size)

    def own(self, ids: Tensor) -> Tensor:
        """Return this rank's part of the ids of a whole batch."""
        return ids[slice(*self.ranks.shard(len(ids)))]

    def views(
        self,
        batches: Sequence[Tensor],
        stream: int | str,
        names: Sequence[str],
        *,
        number: int = 0,
        data: Samples | None = None,
        first: int = 0,
    ) -> Generator[tuple[Tensor, tuple[Tensor, ...]], None, None]:
        """Ids of each whole batch, with the views of this rank's part of it.

        Parameters
        ----------
        batches : sequence of (b,) int64 tensors. Ids of each whole batch.
        stream : int or str. Names the random numbers, with the batch's place and the view's number.
        names : sequence of str. The views; see `methods.base.Method.views`.
        number : int. Number of the first of them.
        data : Samples, optional. None: those to train on.
        first : int. Place of the first of these batches in its epoch.
        """
        data = self.data if data is None else data
        places = range(first, first + len(batches))
        streams = [[(stream, i, number + v) for v in range(len(names))] for i in places]
        with self._images(data, batches, streams, names) as read:
            for ids, images, of_batch in zip(batches, read, streams, strict=True):
                rows = [
                    self._draw(data, ids, *one) for one in zip(images, names, of_batch, strict=True)
                ]
                yield ids, tuple(rows)

    @torch.no_grad()
    def apply_to_all(
        self,
        function: Callable[[Tensor], Tensor],
        *,
        view: str = "plain",
        stream: str = "plain",
        number: int = 0,
        data: Samples | None = None,
        ids: Tensor | None = None,
        batch_size: int = EVALUATION_BATCH,
    ) -> Tensor:
        """Apply a function to all samples and concatenate its rows, in the order of the ids.

        Parameters
        ----------
        function : callable. Maps a batch of this rank's samples to a row for each.
        view, stream, number, data : as of `views`, for the one view that the function gets.
        ids : (m,) int64 tensor, optional. These samples alone.
        batch_size : int. Samples of a pass, at most.
        """
        rows = []
        batches = self.in_order(data, batch_size) if ids is None else _split(ids, batch_size)
        with closing(self.views(batches, stream, [view], number=number, data=data)) as drawn:
            for ids, (images,) in drawn:
                rows.append(self.ranks.gather(function(images), len(ids)))
        return torch.cat(rows)

    def view(self, ids: Tensor, *stream: int | str, name: str = "first") -> Tensor:
        """One view of this rank's part of a batch of these ids, without reading ahead."""
        with self._images(self.data, [ids], [[stream]], [name]) as read:
            ((images,),) = read
        return self._draw(self.data, ids, images, name, stream)

    @contextmanager
    def _images(
        self,
        data: Samples,
        batches: Sequence[Tensor],
        streams: Sequence[Sequence[Stream]],
        names: Sequence[str],
    ) -> Iterator[Iterator[tuple[Tensor, ...]]]:
        """Normalized images of each batch, one tensor for each view: the same, or cut for it."""
        if not isinstance(data, PictureData):
            # Read once for all views, unless they show different samples.
            some = names if self.near is not None and data is self.data else names[:1]
            wanted = [
                self._shown(ids, *one)
                for ids, of_batch in zip(batches, streams, strict=True)
                for one in zip(some, of_batch, strict=False)
            ]
            with prefetch(data, wanted) as images:
                rows = map(self.execution.convert, images)
                together = zip(*[rows] * len(some), strict=True)
                yield (views * (len(names) // len(some)) for views in together)
            return
        parts = [self.own(ids) for ids in batches]
        decoders = Decoders(data.workers)
        lengths = map(len, batches)
        jobs = [
            partial(self._cut, data, decoders, *one, names)
            for one in zip(on_host(parts), lengths, streams, strict=True)
        ]
        with (
            closing(decoders),
            read_ahead(jobs, data.mean.device, stop=decoders.close) as cut,
        ):
            yield (tuple(self.execution.convert(data.finish(x)) for x in views) for views in cut)

    def _shown(self, ids: Tensor, name: str, stream: Stream) -> Tensor:
        """Which samples a view of this rank's part of a batch shows: themselves, or neighbors."""
        own, options = self.own(ids), self._options(name)
        if self.near is None or options is None or not options.neighbors:
            return own
        draws = generator(self.config.seed, "neighbors", *stream, device=self.device)
        most = min(options.neighbors, self.near.shape[1])
        which = torch.randint(most, (len(ids),), generator=draws, device=self.device)
        return self.near[own, which[slice(*self.ranks.shard(len(ids)))]]

    def _cut(
        self,
        data: PictureData,
        decoders: Decoders,
        ids: Tensor,
        total: int,
        streams: Sequence[Stream],
        names: Sequence[str],
    ) -> tuple[Tensor, ...]:
        """Views of this rank's part of a batch of `total`, cut out of the pictures."""
        wanted = []
        for name, stream in zip(names, streams, strict=True):
            options = self._options(name)
            size = (options.size if options else 0) or data.size
            if options is None or options.crop == (1.0, 1.0):
                wanted.append(Wanted(size))
                continue
            # On the CPU, so that the boxes are the same on every device.
            draws = generator(self.config.seed, "crop", *stream)
            numbers = torch.rand(total, NUMBERS, generator=draws, dtype=torch.float64).numpy()
            own = numbers[slice(*self.ranks.shard(total))]
            wanted.append(Wanted(size, own, options.crop, options.ratio))
        return data.cut(ids.tolist(), wanted, decoders)

    def _options(self, name: str) -> AugmentConfig | None:
        """How a view is drawn; None: it is the image itself."""
        if name == "plain":
            return None
        config = self.config
        options = {
            "first": None,
            "second": config.second,
            "small": config.small,
            "linear": None if config.linear is None else config.linear.view(),
        }[name]
        return options or config.augment

    def _draw(
        self, data: Samples, ids: Tensor, images: Tensor, name: str, stream: Stream
    ) -> Tensor:
        """What is left to draw of a view, on the device."""
        options = self._options(name)
        if options is None:
            return images
        if isinstance(data, PictureData):
            options = _after_crop(options)
        draws = generator(self.config.seed, "augment", *stream, device=self.device)
        start, _ = self.ranks.shard(len(ids))
        numbers = draw_numbers(images, options, draws, (start, len(ids)))
        drawn = [number for number in numbers if number is not None]
        if not drawn:
            return images
        background = [] if data.background is None else [data.background]

        def view(images: Tensor, mean: Tensor, std: Tensor, *rest: Tensor) -> Tensor:
            left = iter(rest)
            given = Numbers(*(None if number is None else next(left) for number in numbers))
            return augment_by(images, options, given, next(left, None), (mean, std))

        given = [images, data.mean, data.std, *drawn, *background]
        if len(ids) > self.config.batch_size:  # of an evaluation: large, and its graph would stay
            return view(*given)
        return self.execution.apply(("view", options), view, given)


@lru_cache
def _after_crop(options: AugmentConfig) -> AugmentConfig:
    """What remains of the options once a view has been cut out of its picture."""
    return replace(options, size=0, crop=(1.0, 1.0))


def _load(config: RunConfig, device: torch.device) -> tuple[Samples, Samples | None]:
    """The samples to train on, and those to test on, where the settings want some."""
    options = config.data
    wanted: dict[str, Any] = {
        name: getattr(options, name)
        for name in (
            *("classes", "folders", "bad", "max_pixels"),
            *("size", "fit", "workers", "standardize", "resident"),
        )
    }
    drawn = (config.augment, config.second, config.small)
    wanted["copy_side"] = copy_side(config)
    crops = any(one is not None and one.crop != (1.0, 1.0) for one in drawn)
    # An encoder that is frozen sees each picture once: there is nothing to keep.
    passes = crops or (config.encoder is not None and config.encoder.frozen)
    wanted["decode"] = "once" if options.decode == "auto" and not passes else options.decode
    data = load_source(
        options.source,
        split=options.split,
        device=device,
        seed=config.seed,
        limit=options.limit,
        imbalance=options.imbalance,
        counted=partial(_check_number, config),
        **wanted,
    )
    data = rescaled(data, options.normalization)
    if options.test == "none":
        return data, None
    test = load_source(options.source, split="test", device=device, **wanted)
    return data, test._replace(mean=data.mean, std=data.std)


def _check_number(config: RunConfig, n: int) -> None:
    """Refuse what a number of samples does not suit, as soon as it is certain."""
    _check_least(config, n)
    METHODS[config.method].check(config, n)


def _check_least(config: RunConfig, n: int) -> None:
    if n < 2:
        msg = (
            f"{config.data.source} must hold at least 2 samples, got {n}. To fix this, give more "
            f"of them, or raise data.limit"
        )
        raise InvalidValueError(msg)


def copy_side(config: RunConfig) -> int:
    """Shorter side of the copies that a run's views are cut from; 0: it has none."""
    drawn = (config.augment, config.second, config.small)
    largest = max(config.data.size, *(0 if one is None else one.size for one in drawn))
    return 2 * largest if config.data.decode == "copies" else 0


def _split(ids: Tensor, batch_size: int) -> list[Tensor]:
    """Batches of lengths that differ by at most one; none of one image, which has no variance."""
    parts = max(1, min(math.ceil(len(ids) / batch_size), len(ids) // 2))
    return list(torch.tensor_split(ids, parts))
