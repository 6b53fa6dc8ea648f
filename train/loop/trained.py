"""A finished run as a model: the network that predicts, and all that its labels need."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from ..config.methods.gatcluster import GatclusterOptions
from ..config.run import RunConfig
from ..data.samples import EmbeddingData
from ..methods.base import Method, Prediction, evaluating
from ..models.classifier import Classifier
from ..models.files import model_bytes
from ..models.spec import EncoderSpec, GraphSpec, InputSpec, ModelSpec
from ..networks.neighbors import NeighborPlaces
from ..networks.network import Network
from ..networks.pretrained import Pretrained, Standardized
from .loader import Loader, copy_side

__all__ = ["dualclust_version", "trained_model"]

CHECKED = 64
"""Samples whose scores are compared with those of the method."""
CLOSE = 1e-3
ROUNDED = 3e-2
"""Likewise, where the method has features in half precision and the model has not."""


def trained_model(method: Method, loader: Loader, prediction: Prediction) -> bytes:
    """Return the file of the model that a run has trained; `models.files` says what it holds.

    Parameters
    ----------
    method : Method, at the end of its run.
    loader : Loader
    prediction : Prediction. Of all training samples by the target head.

    Raises
    ------
    UsageError
        If the method computes features or scores that its `readout` does not say.
    """
    network, data = _whole(method, loader), loader.shown
    bounds, found = method.bounds[method.target], prediction.assignment
    vectors = {
        "centers": prediction.centers,
        "prices": found.prices,
        "lower": bounds.lower,
        "upper": bounds.upper,
        "counts": found.counts,
        "mean": data.mean,
        "std": data.std,
    }
    # Where the network ends in its predictor, that is part of the model.
    predicted = method.readout in ("label-branch", "neighbors")
    weights = {
        f"network.{name}": tensor
        for name, tensor in network.state_dict().items()
        if predicted or not name.startswith("predictor.")
    }
    _check(method, network, loader, prediction)
    return model_bytes(_spec(method, network, loader), {**vectors, **weights})


def _whole(method: Method, loader: Loader) -> Network:
    """The network from samples to rows, with the encoder in front where that is frozen."""
    if loader.frozen is None:
        return method.network
    whole, data = deepcopy(method.network), loader.data
    whole.encoder = Standardized(loader.frozen.encoder, data.mean, data.std)
    whole.own_encoder = loader.frozen.own_encoder
    return whole


def _encoder(network: Network) -> EncoderSpec | None:
    """What a model says of an encoder that had learned before."""
    inside = network.encoder
    frozen = isinstance(inside, Standardized)
    inside = inside.module if isinstance(inside, Standardized) else inside
    if isinstance(inside, Pretrained):
        return EncoderSpec(frozen, *inside.pixels, inside.architecture)
    return EncoderSpec(frozen) if frozen else None


def _spec(method: Method, network: Network, loader: Loader) -> ModelSpec:
    config = loader.config
    branches = None
    if method.readout == "label-branch":
        branches = config.options(GatclusterOptions)
    return ModelSpec(
        method=config.method,
        readout=method.readout,
        temperature=method.temperature,
        n_clusters=method.bounds[method.target].n_clusters,
        n_samples=loader.n,
        input=InputSpec(loader.shown.shape, _fit(config, loader), copy_side(config)),
        network=replace(config.network, predictor=0),
        own_network=network.own_encoder,
        encoder=_encoder(network),
        branches=branches,
        graph=_graph(network),
        dtype=str(method.dtype).removeprefix("torch."),
        autocast=method.network.autocast is not None,
        dualclust=dualclust_version(),
        torch=str(torch.__version__),
    )


def _graph(network: Network) -> GraphSpec | None:
    """What a model says of a graph of neighbors."""
    places = network.predictor
    if not isinstance(places, NeighborPlaces):
        return None
    rows, vectors = places.vectors.shape
    return GraphSpec(rows, vectors, places.n_neighbors)


def _fit(config: RunConfig, loader: Loader) -> str:
    """How pictures of other sizes become samples; "none" where the settings do not say."""
    square = config.data.size > 0 and loader.shown.shape[1:] == (config.data.size,) * 2
    embeddings = isinstance(loader.shown, EmbeddingData)
    return config.data.fit if square and not embeddings else "none"


def dualclust_version() -> str:
    """Return the version of the installed package; "unknown" in a tree that is not installed."""
    try:
        return version("dualclust")
    except PackageNotFoundError:
        return "unknown"


def _check(method: Method, network: Network, loader: Loader, prediction: Prediction) -> None:
    """Compare the model with the method, which may have features or scores of its own."""
    some: Tensor = torch.arange(min(CHECKED, loader.n), device=loader.device)
    data, shown = loader.data, loader.shown
    mean, std = shown.mean, shown.std
    classifier = Classifier(network, method.readout, prediction.centers, mean, std)
    with evaluating(method.network), evaluating(network):
        rows = method.features(loader.execution.convert(data.take(some)))
        expected = method.scores(method.normalize_rows(rows), prediction.centers)
        scores, _ = classifier(shown.fetch(some).to(mean.device))
    errors = (scores - expected).abs().amax(1)
    # A neighbor that rounding swaps for another moves its own row alone.
    error = float(errors.median() if method.readout == "neighbors" else errors.max())
    kept = loader.config.encoder.features if loader.config.encoder else "float32"
    if not error <= (CLOSE if kept == "float32" else ROUNDED):
        msg = (
            f"method {method.config.method!r} has features or scores of its own, which differ by "
            f"{error:.1e} from those of readout={method.readout!r}. To fix this, set "
            f"{type(method).__name__}.readout, or add one to train/models/classifier.py"
        )
        raise UsageError(msg)
