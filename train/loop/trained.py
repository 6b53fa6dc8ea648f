"""A finished run as a model: the network that predicts, and all that its labels need."""

from __future__ import annotations

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
from ..models.spec import InputSpec, ModelSpec
from .loader import Loader, copy_side

__all__ = ["dualclust_version", "trained_model"]

CHECKED = 64
"""Samples whose scores are compared with those of the method."""
CLOSE = 1e-3


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
    network, data = method.network, loader.data
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
    label_branch = method.readout == "label-branch"
    weights = {
        f"network.{name}": tensor
        for name, tensor in network.state_dict().items()
        if label_branch or not name.startswith("predictor.")
    }
    _check(method, loader, prediction)
    return model_bytes(_spec(method, loader), {**vectors, **weights})


def _spec(method: Method, loader: Loader) -> ModelSpec:
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
        input=InputSpec(loader.data.shape, _fit(config, loader), copy_side(config)),
        network=replace(config.network, predictor=0),
        own_network=method.network.own_encoder,
        branches=branches,
        dtype=str(method.dtype).removeprefix("torch."),
        autocast=method.network.autocast is not None,
        dualclust=dualclust_version(),
        torch=str(torch.__version__),
    )


def _fit(config: RunConfig, loader: Loader) -> str:
    """How pictures of other sizes become samples; "none" where the settings do not say."""
    square = config.data.size > 0 and loader.data.shape[1:] == (config.data.size,) * 2
    embeddings = isinstance(loader.data, EmbeddingData)
    return config.data.fit if square and not embeddings else "none"


def dualclust_version() -> str:
    """Return the version of the installed package; "unknown" in a tree that is not installed."""
    try:
        return version("dualclust")
    except PackageNotFoundError:
        return "unknown"


def _check(method: Method, loader: Loader, prediction: Prediction) -> None:
    """Compare the model with the method, which may have features or scores of its own."""
    some: Tensor = torch.arange(min(CHECKED, loader.n), device=loader.device)
    data = loader.data
    mean, std = data.mean, data.std
    classifier = Classifier(method.network, method.readout, prediction.centers, mean, std)
    with evaluating(method.network):
        rows = method.features(loader.execution.convert(data.take(some)))
        expected = method.scores(method.normalize_rows(rows), prediction.centers)
        scores, _ = classifier(data.fetch(some).to(data.mean.device))
    error = float((scores - expected).abs().max())
    if not error <= CLOSE:
        msg = (
            f"method {method.config.method!r} has features or scores of its own, which differ by "
            f"{error:.1e} from those of readout={method.readout!r}. To fix this, set "
            f"{type(method).__name__}.readout, or add one to train/models/classifier.py"
        )
        raise UsageError(msg)
