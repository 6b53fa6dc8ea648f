"""The figures of an epoch: what `evaluate` computes, asked of a run between two epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..methods.base import Prediction, evaluating
from .agreement import Agreement, agreement, evaluate, linear_probe, nearest_neighbors, spread
from .linear_probe import linear_accuracy

if TYPE_CHECKING:
    from .run import Run

__all__ = ["judge"]


def judge(run: Run, *, last: bool = False) -> dict[str, float]:
    """Compare a run's clusters with the classes, where there are some, and look for collapse.

    Parameters
    ----------
    run : Run, between two epochs.
    last : bool. Whether this is the end of the run, where the linear probe is fitted.

    Returns
    -------
    figures : dict. The target head's by their plain names; those of held-out images start with
        ``test_``, those of other heads with ``head0_``, ``head1_``, ...
    """
    method, options = run.method, run.config.evaluation
    figures: dict[str, float] = {}
    for head in range(len(method.bounds)) if options.heads == "all" else [method.target]:
        prediction = run.predict(head)
        found = evaluate(prediction.assignment.labels, run.data)
        figures |= _named("" if head == method.target else f"head{head}_", found)
        if head == method.target:
            figures |= spread(prediction.features, prediction.assignment.counts)._asdict()
            figures |= _held_out(run, prediction)
    probe, linear = options.probe and last, run.config.linear
    figures |= _encoder(run, probe=probe and linear is None)
    if probe and linear is not None:
        accuracy = linear_accuracy(run, linear)
        figures |= {} if accuracy is None else {"probe": accuracy}
    return figures


def _held_out(run: Run, prediction: Prediction) -> dict[str, float]:
    """Score held-out images by the clusters of the training images."""
    if run.test is None or run.test.labels is None:
        return {}
    method = run.method
    with evaluating(method.network):
        rows = run.sweep(method.features, data=run.test)
    scores = method.scores(method.normalize_rows(rows), prediction.centers)
    return _named("test_", agreement(scores.argmax(dim=1), run.test.labels))


def _encoder(run: Run, *, probe: bool) -> dict[str, float]:
    """What the encoder's features are worth, whatever the clusters."""
    options, classes = run.config.evaluation, run.data.labels
    if classes is None or not (options.neighbors or probe):
        return {}
    encoder, figures = run.method.network.encoder, {}
    with evaluating(run.method.network):
        features, test = run.sweep(encoder), None
        if run.test is not None and run.test.labels is not None:
            test = run.sweep(encoder, data=run.test), run.test.labels
    if options.neighbors:
        figures["knn"] = nearest_neighbors(
            features, classes, n_neighbors=options.neighbors, test=test
        )
    if probe:
        figures["probe"] = linear_probe(features, classes, seed=run.config.seed, test=test)
    return figures


def _named(prefix: str, found: Agreement | None) -> dict[str, float]:
    """Figures as entries of a record; none where the data has no classes."""
    return {} if found is None else {f"{prefix}{k}": v for k, v in found._asdict().items()}
