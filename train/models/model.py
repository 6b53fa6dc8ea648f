"""A trained model: labels, probabilities and embeddings of new samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...algos.core.checks import choice_fix
from ...algos.core.errors import InvalidValueError, UsageError
from .arrays import BATCH, Inputs
from .classifier import Classifier
from .inputs import inputs_of
from .spec import ModelSpec

__all__ = ["LAYERS", "Labels", "Model"]

LAYERS = ("features", "encoder")
"""What may be embedded: the rows that scores are made of, or the rows in front of the projector."""


class Labels(NamedTuple):
    """Labels of samples, and how sure they are.

    Attributes
    ----------
    labels : (n,) int64 array
    probability : (n,) float64 array. Of the label; see `Model.predict_proba`.
    margin : (n,) float64 array. By how much the score of the label (plus its price, if priced)
        exceeds the runner-up's.
    runner_up : (n,) int64 array. The second best cluster.
    """

    labels: NDArray[np.int64]
    probability: NDArray[np.float64]
    margin: NDArray[np.float64]
    runner_up: NDArray[np.int64]


class Model:
    """A trained network with its normalization, its centers and its prices.

    Samples may be images as uint8 arrays or tensors, (n, h, w, c), (n, c, h, w) or (n, h, w);
    embeddings as (n, d) floats; a path or several paths of pictures; or the path of a data set, as
    ``dualclust train --data`` takes it. Images have the size that the network was trained on,
    pictures in files any size where the run had a ``data.size``.

    Parameters
    ----------
    spec : ModelSpec
    classifier : Classifier
    prices, lower, upper, counts : (k,) arrays. Of the labels that the run wrote.

    Attributes
    ----------
    classifier : Classifier. A `torch.nn.Module`: samples to scores and features.

    Notes
    -----
    A label is the cluster of the largest score, of the plain image, in evaluation mode: the papers'
    protocol for images that training has not seen. Results do not depend on `batch_size`, but for
    rounding. Memory: the results and one batch.

    Examples
    --------
    >>> model = load_model("runs/secu-digits-seed0")  # doctest: +SKIP
    >>> model.predict("photos/")  # doctest: +SKIP
    array([3, 1, 4])
    """

    def __init__(
        self,
        spec: ModelSpec,
        classifier: Classifier,
        *,
        prices: NDArray[np.float64],
        lower: NDArray[np.int64],
        upper: NDArray[np.int64],
        counts: NDArray[np.int64],
    ) -> None:
        self.spec, self.classifier = spec, classifier
        self.prices, self.lower, self.upper, self.counts = prices, lower, upper, counts

    def __repr__(self) -> str:
        return (
            f"Model({self.spec.method}, {self.n_clusters} clusters, "
            f"{self.spec.own_network or self.spec.network.name}, samples {self.spec.input.shape})"
        )

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return self.spec.n_clusters

    @property
    def centers(self) -> NDArray[Any]:
        """The (k, d) centers."""
        found: NDArray[Any] = self.classifier.centers.cpu().numpy()
        return found

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self.classifier.centers.device

    def to(self, device: str | torch.device) -> Model:
        """Move the network to a device; returns itself."""
        self.classifier.to(device)
        return self

    def predict(
        self, data: Any, *, priced: bool = False, batch_size: int = BATCH
    ) -> NDArray[np.int64]:
        """Label samples: the cluster of the largest score.

        Parameters
        ----------
        data : samples; see the class.
        priced : bool. Add the prices of the bounds to the scores: what repeats, ties aside, the
            bounded labels of the training samples, and keeps sizes near the bounds on samples like
            those. Nothing is guaranteed of the sizes of other samples.
        batch_size : int, 1 or more.

        Returns
        -------
        labels : (n,) int64 array

        Raises
        ------
        InvalidTypeError, InvalidValueError, UsageError, MissingFileError
            If the samples are not what the model was made for, such as rows with NaN or infinity.
        """
        return self.label(data, priced=priced, batch_size=batch_size).labels

    def predict_proba(self, data: Any, *, batch_size: int = BATCH) -> NDArray[Any]:
        """Probabilities of the clusters, (n, k): the softmax of the loss that the run learned.

        Of ProPos, which has no softmax of its own, that of cosines over its temperature. They are
        not calibrated.
        """
        return self._collect(data, batch_size, self.n_clusters, self._probabilities)

    def scores(self, data: Any, *, batch_size: int = BATCH) -> NDArray[Any]:
        """Scores (n, k): cosines, log-probabilities or probabilities; see `ModelSpec.readout`."""
        return self._collect(
            data, batch_size, self.n_clusters, lambda batch: self.classifier(batch)[0]
        )

    def embed(self, data: Any, *, layer: str = "features", batch_size: int = BATCH) -> NDArray[Any]:
        """Embed samples.

        Parameters
        ----------
        data : samples; see the class.
        layer : ``"features"``: what scores are made of, rows of unit length, or probabilities where
            the method clusters by those; ``"encoder"``: the encoder's rows, which transfer best.
        batch_size : int, 1 or more.

        Returns
        -------
        rows : (n, d) float array
        """
        return self._collect(data, batch_size, 0, self.embedder(layer))

    def embedder(self, layer: str = "features") -> Callable[[Tensor], Tensor]:
        """Return the function that embeds a batch of samples on the device; see `embed`."""
        if layer not in LAYERS:
            msg = (
                f"layer must be one of {', '.join(map(repr, LAYERS))}, got {layer!r}"
                f". To fix this, {choice_fix(layer, LAYERS)}"
            )
            raise UsageError(msg)
        if layer == "encoder":
            return self.classifier.encoded
        return lambda batch: self.classifier(batch)[1]

    def label(self, data: Any, *, priced: bool = False, batch_size: int = BATCH) -> Labels:
        """Label samples, with probability, margin and runner-up; parameters as of `predict`."""
        parts = list(self.labels_of(self.inputs(data), priced=priced, batch_size=batch_size))
        if not parts:
            none, nowhere = np.zeros(0), np.zeros(0, np.int64)
            return Labels(nowhere, none, none, nowhere)
        return Labels(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def inputs(self, data: Any, *, split: str = "auto", bad: str = "stop") -> Inputs:
        """Take data as samples of this model, without reading more than it must.

        With ``bad="skip"`` each file of a folder is decoded once to find those that cannot be read;
        `Inputs.skipped` names them, and they are no samples.
        """
        if isinstance(data, Inputs):
            return data
        return inputs_of(data, self.spec.input, split=split, bad=bad)

    def labels_of(self, samples: Inputs, *, priced: bool, batch_size: int) -> Iterator[Labels]:
        """Yield the labels of one batch after the other."""
        prices = torch.from_numpy(self.prices * priced)
        for batch in self.passes(samples, batch_size, lambda batch: self.classifier(batch)[0]):
            scores = batch.double()
            chances = self.classifier.probabilities(scores, self.spec.temperature)
            total = scores + prices
            first = total.argmax(dim=1, keepdim=True)
            best = total.gather(1, first)
            second, runner_up = total.scatter(1, first, -torch.inf).max(dim=1)
            found = first[:, 0], chances.gather(1, first)[:, 0], best[:, 0] - second, runner_up
            yield Labels(*(x.numpy() for x in found))

    def passes(
        self, samples: Inputs, batch_size: int, function: Callable[[Tensor], Tensor]
    ) -> Iterator[Tensor]:
        """Yield a function's rows of one batch after the other, on the CPU."""
        if batch_size < 1:
            msg = f"batch_size must be 1 or more, got {batch_size}"
            raise InvalidValueError(msg)
        done = 0
        for batch in samples.batches(batch_size):
            with torch.inference_mode():
                rows = function(batch.to(self.device)).cpu()
            finite = rows.isfinite().all(dim=1)
            if not bool(finite.all()):
                where = samples.where(done + int(finite.int().argmin()))
                msg = (
                    f"the network makes NaN or infinity of {where}. To fix this, give samples of "
                    f"the size of those that the model was trained on"
                )
                raise InvalidValueError(msg)
            done += len(rows)
            yield rows

    def _probabilities(self, batch: Tensor) -> Tensor:
        scores, _ = self.classifier(batch)
        return self.classifier.probabilities(scores, self.spec.temperature)

    def _collect(
        self, data: Any, batch_size: int, width: int, function: Callable[[Tensor], Tensor]
    ) -> NDArray[Any]:
        parts = list(self.passes(self.inputs(data), batch_size, function))
        found: NDArray[Any] = torch.cat(parts).numpy() if parts else np.zeros((0, width))
        return found
