"""The encoder of a run: one that learns, or one that is frozen and whose features are kept.

With a frozen encoder a run is one on embeddings: the features of all samples are computed once, in
evaluation mode and without views, kept on disk (`data.features`), and what follows the encoder
learns from them. It equals, to the bit, a run on a file of the same features.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ...algos.core.errors import InvalidValueError, UsageError
from ...common.devices import kind_of
from ..config.encoder import RANDOM, EncoderConfig
from ..config.run import RunConfig
from ..data.features import (
    check_room,
    feature_file,
    read_features,
    samples_digest,
    write_features,
)
from ..data.pictures import PictureData
from ..data.samples import Samples, feature_data
from ..methods.base import ParameterGroup
from ..networks.libraries import library_of
from ..networks.network import OWN, Network, build_network, own_name
from ..networks.pretrained import (
    Pretrained,
    check_digest,
    load_start,
    open_encoder,
    read_start,
    start_digest,
)
from .loader import Loader
from .run_folder import RunWarning

__all__ = ["BATCH", "build_with_encoder", "check_normalization", "with_encoder_rate"]

Encoding = Callable[[int, int], None]

BATCH = 64
"""Samples of a pass through a frozen encoder, whose activations are those of large images."""

PROBES = 8
"""Samples whose features are computed anew before those on disk are believed."""


def build_with_encoder(
    loader: Loader, network: nn.Module | None, *, fresh: bool, encoding: Encoding | None = None
) -> Network:
    """Build the network of a run, with what its encoder has learned.

    Where the encoder is frozen, `loader` gets its features in place of the samples, and the network
    is what follows it.

    Parameters
    ----------
    loader : Loader
    network : nn.Module or None. The user's own encoder.
    fresh : bool. Whether the run begins; False: a checkpoint has the parameters that learn.
    encoding : callable, optional. Gets, after each batch, how many samples a frozen encoder has
        seen, and of how many; not called where their features are on disk.

    Raises
    ------
    UsageError, MissingFileError, MissingExtraError
        If the encoder cannot be opened, or has learned nothing and is to be frozen.
    CheckpointError
        If its weights are not those that the run was started with.
    InvalidValueError
        If a feature is not finite.
    OutputError
        If features cannot be written to the cache.
    """
    config = loader.config
    options = config.encoder or EncoderConfig()
    learned = fresh or options.frozen
    if network is None:
        network = open_encoder(config.network, options, seed=config.seed, learned=learned)
    _check_options(config, network)
    if isinstance(network, Pretrained):
        loader.take_pixels()
    wanted = config.network
    if options.frozen:
        wanted = replace(wanted, layers=0, predictor=0)
    built = build_network(wanted, loader.data.shape, seed=config.seed, encoder=network)
    if isinstance(network, Pretrained):
        built.own_encoder = ""
    digest = start_digest(config, network) if learned else ""
    if learned:
        check_digest(options, digest)
        if network is None and options.weights not in ("", RANDOM):
            load_start(built.encoder, read_start(options.weights), options.weights)
    if not options.frozen:
        built.encoder_mode = options.mode
        return built
    _freeze(loader, built, digest, encoding)
    heads = replace(config.network, name="none", width=0)
    return build_network(heads, loader.data.shape, seed=config.seed)


def check_normalization(config: RunConfig) -> None:
    """Refuse constants to divide images by, where an encoder of a library has its own.

    Raises
    ------
    UsageError
    """
    name, asked = config.network.name, config.data.normalization
    if library_of(name) is not None and asked != "own":
        msg = (
            f"network.name={name!r} normalizes images itself, as it was trained, got "
            f"data.normalization={asked!r}. To fix this, leave it at 'own'"
        )
        raise UsageError(msg)


def with_encoder_rate(
    groups: Iterable[ParameterGroup], network: Network, options: EncoderConfig | None
) -> Iterator[ParameterGroup]:
    """Yield a method's groups, those of the encoder with the factor on their rate.

    Parameters
    ----------
    groups : of `Method.parameter_groups`.
    network : Network. The one that learns.
    options : EncoderConfig or None
    """
    rate = 1.0 if options is None or options.frozen else options.rate
    inside = {id(p) for p in network.encoder.parameters()} if rate != 1.0 else set()
    for group in groups:
        slow = [p for p in group.params if id(p) in inside]
        if not slow or group.lr is not None:
            yield group
            continue
        yield group._replace(params=slow, scale=group.scale * rate)
        rest = [p for p in group.params if id(p) not in inside]
        if rest:
            yield group._replace(params=rest)


def _check_options(config: RunConfig, network: nn.Module | None) -> None:
    """Refuse settings of an encoder that say nothing of this one."""
    options, name = config.encoder or EncoderConfig(), config.network.name
    if network is not None and not isinstance(network, Pretrained) and options.weights:
        msg = (
            f"encoder.weights={options.weights!r} is for a network that network.name builds, and "
            f"{own_name(network)} was passed. To fix this, load the weights into the module"
        )
        raise UsageError(msg)
    learned = network is not None or options.weights not in ("", RANDOM)
    if options.frozen and not learned and not name.startswith(OWN):
        msg = (
            f"encoder.frozen keeps what an encoder has learned, and network.name={name!r} starts "
            f"from random numbers. To fix this, name its encoder.weights, or an encoder timm/... "
            f"or hf/..., or pass a module of your own"
        )
        raise UsageError(msg)


def _freeze(loader: Loader, built: Network, digest: str, encoding: Encoding | None) -> None:
    """Put features in the place of the samples."""
    encoder = loader.execution.prepare(built).eval()
    config, data = loader.config, loader.data
    rows = _features(loader, encoder, data, digest, encoding)
    common: dict[str, Any] = {"device": loader.device, "resident": config.data.resident}
    found = feature_data(data, rows, standardize=config.data.standardize, **common)
    if loader.test is not None:
        held_out = _features(loader, encoder, loader.test, digest, encoding)
        test = feature_data(loader.test, held_out, **common)
        loader.test = test._replace(mean=found.mean, std=found.std)
    loader.frozen, loader.data = encoder, found


def _features(
    loader: Loader, encoder: Network, data: Samples, digest: str, encoding: Encoding | None
) -> Tensor:
    """Features (n, d) of all samples on the CPU, out of the cache where they are there."""
    made_of = _made_of(loader, encoder, data, digest)
    path = feature_file(made_of)
    kept = read_features(path, made_of)
    if kept is not None and not _agree(loader, encoder, data, kept):
        msg = (
            f"the features in {path} are not what the frozen encoder computes now, with the same "
            f"weights: they are computed anew"
        )
        warnings.warn(msg, RunWarning, stacklevel=2)
        kept = None
    # All ranks read theirs, or all compute: they may have other disks.
    if not loader.ranks.any(kept is None) and kept is not None:
        return kept
    kind = _kind(loader)
    check_room(path, len(data.ids) * encoder.encoder_dim * kind.itemsize)
    told = _told(encoder, len(data.ids), encoding)
    rows = loader.apply_to_all(told, data=data, batch_size=BATCH).to("cpu", kind)
    finite = rows.isfinite().all(dim=1)
    if not bool(finite.all()):
        i = int(finite.int().argmin())
        where = f"sample {i}" if data.names is None else data.names[i]
        msg = (
            f"the frozen encoder makes NaN or infinity of {where}, or a number too large for "
            f"{str(kind).removeprefix('torch.')}. To fix this, look at that sample, at the "
            f"encoder, and at encoder.features"
        )
        raise InvalidValueError(msg)
    if loader.ranks.first:
        write_features(path, rows, made_of)
    return rows


def _told(encoder: Network, total: int, encoding: Encoding | None) -> Callable[[Tensor], Tensor]:
    """Return the encoder, or what also tells how many samples it has seen."""
    if encoding is None:
        return encoder
    done = 0

    def told(images: Tensor) -> Tensor:
        nonlocal done
        rows: Tensor = encoder(images)
        done = min(total, done + len(images))
        encoding(done, total)
        return rows

    return told


def _agree(loader: Loader, encoder: Network, data: Samples, rows: Tensor) -> bool:
    """Whether some of the features are what the encoder computes: its code has no digest."""
    n = len(data.ids)
    if rows.shape != (n, encoder.encoder_dim):
        return False
    some = torch.arange(min(n, PROBES)) * n // min(n, PROBES)
    with torch.no_grad():
        images = loader.execution.convert(data.take(some.to(loader.device)))
        found = encoder(images).to("cpu", torch.float32)
    kept = rows[some].to(torch.float32)
    inside = encoder.encoder.module if isinstance(encoder.encoder, Pretrained) else None
    lower = getattr(inside, "precision", None) == torch.bfloat16
    rough = encoder.autocast is not None or lower
    close = (2e-2 if rough else 2e-3) * float(kept.abs().max())
    return bool(((found - kept).abs() <= close).all())


def _kind(loader: Loader) -> torch.dtype:
    options = loader.config.encoder or EncoderConfig()
    return torch.float16 if options.features == "float16" else torch.float32


def _made_of(loader: Loader, encoder: Network, data: Samples, digest: str) -> dict[str, str]:
    """Return all that features depend on, as `data.features` keeps it."""
    network, inside = loader.config.network, encoder.encoder
    name = encoder.own_encoder or f"{network.name} of width {network.width}"
    shape: tuple[object, ...] = data.shape
    if isinstance(inside, Pretrained):
        shape = (*shape, *inside.pixels, inside.architecture)
    if isinstance(data, PictureData):
        shape = (*shape, data.fit)
    return {
        "encoder": f"{name}, {digest}",
        "samples": samples_digest(data),
        "input": repr((shape, data.mean.tolist(), data.std.tolist())),
        "computed": repr(
            (
                loader.device.type,
                kind_of(loader.device).processor(loader.device),
                torch.get_num_threads(),
                loader.config.execution.precision,
                loader.config.execution.channels_last,
                str(_kind(loader)),
                loader.ranks.world_size,
                str(torch.__version__),
            )
        ),
    }
