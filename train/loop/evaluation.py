"""What a run has reached between two epochs: predicted labels, and the figures of its metrics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..methods.base import Method, Prediction, evaluating
from .linear_probe import linear_accuracy
from .loader import Loader
from .metrics import Agreement, agreement, evaluate, logistic_probe, nearest_neighbors, spread

__all__ = ["evaluate_method", "mean_features", "predict"]


@torch.no_grad()
def predict(method: Method, loader: Loader, head: int | None = None) -> Prediction:
    """Label all images by a head, from the mean feature of ``evaluation.views`` views.

    Parameters
    ----------
    method : Method
    loader : Loader
    head : int, optional. Row of ``heads.clusters``; by default the target's.
    """
    target = method.target
    rows = mean_features(method, loader)
    try:
        method.target = target if head is None else head
        with evaluating(method.network):
            return method.predict(rows)
    finally:
        method.target = target


@torch.no_grad()
def mean_features(method: Method, loader: Loader) -> Tensor:
    """Return the mean features of all samples over ``evaluation.views`` views, (n, d)."""
    with evaluating(method.network):
        rows = [
            loader.apply_to_all(method.features, view="first", stream="predict", number=v)
            for v in range(loader.config.evaluation.views)
        ] or [loader.apply_to_all(method.features)]
        return torch.stack(rows).mean(0)


def evaluate_method(
    method: Method,
    loader: Loader,
    *,
    last: bool = False,
    seen: Callable[[Prediction], None] | None = None,
) -> dict[str, float]:
    """Compare clusters with the classes, where there are some, and look for collapse.

    Parameters
    ----------
    method : Method, between two epochs.
    loader : Loader
    last : bool. Whether this is the end of the run, where the linear probe is fitted.
    seen : function, optional. Gets the prediction of the target head.

    Returns
    -------
    figures : dict. Those of the target head's labels inside the bounds by their plain names, of
        its labels without bounds (argmax) with ``argmax_``; those of held-out images, by argmax,
        start with ``test_``, those of other heads with ``head0_``, ``head1_``, ...
    """
    options = loader.config.evaluation
    figures: dict[str, float] = {}
    for head in range(len(method.bounds)) if options.heads == "all" else [method.target]:
        prediction = predict(method, loader, head)
        found = evaluate(prediction.assignment.labels, loader.data)
        figures |= _named("" if head == method.target else f"head{head}_", found)
        if head == method.target:
            if seen is not None:
                seen(prediction)
            figures |= _unbounded(method, loader, prediction, found)
            figures |= spread(prediction.features, prediction.assignment.counts)._asdict()
            figures |= _held_out(method, loader, prediction)
    probe, linear = options.probe and last, loader.config.linear
    figures |= _encoder(method, loader, probe=probe and linear is None)
    if probe and linear is not None:
        accuracy = linear_accuracy(method, loader, linear)
        figures |= {} if accuracy is None else {"probe": accuracy}
    return figures


def _unbounded(
    method: Method, loader: Loader, prediction: Prediction, bounded: Agreement | None
) -> dict[str, float]:
    """Sizes and figures of the labels without bounds, which the papers' protocol scores."""
    labels = prediction.nearest
    sizes = torch.bincount(labels, minlength=method.bounds[method.target].n_clusters)
    same = torch.equal(labels, prediction.assignment.labels)
    found = bounded if same else evaluate(labels, loader.data)
    limits = {"argmax_size_min": int(sizes.min()), "argmax_size_max": int(sizes.max())}
    return {**limits, **_named("argmax_", found)}


def _held_out(method: Method, loader: Loader, prediction: Prediction) -> dict[str, float]:
    """Score held-out images by the clusters of the training images."""
    test = loader.test
    if test is None or test.labels is None:
        return {}
    with evaluating(method.network):
        rows = loader.apply_to_all(method.features, data=test)
    scores = method.scores(method.normalize_rows(rows), prediction.centers)
    return _named("test_", agreement(scores.argmax(dim=1), test.labels))


def _encoder(method: Method, loader: Loader, *, probe: bool) -> dict[str, float]:
    """Score the encoder's features, whatever the clusters."""
    options, classes = loader.config.evaluation, loader.data.labels
    if classes is None or not (options.neighbors or probe):
        return {}
    encoder, figures = method.network.encoder, {}
    with evaluating(method.network):
        features, test = loader.apply_to_all(encoder), None
        if loader.test is not None and loader.test.labels is not None:
            test = loader.apply_to_all(encoder, data=loader.test), loader.test.labels
    if options.neighbors:
        figures["knn"] = nearest_neighbors(
            features, classes, n_neighbors=options.neighbors, test=test
        )
    if probe:
        figures["probe"] = logistic_probe(features, classes, seed=loader.config.seed, test=test)
    return figures


def _named(prefix: str, found: Agreement | None) -> dict[str, float]:
    """Figures as entries of a record; none where the data has no classes."""
    return {} if found is None else {f"{prefix}{k}": v for k, v in found._asdict().items()}
