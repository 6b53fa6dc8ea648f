"""The interface between the loop and the methods, and what methods share.

A method is a state, losses to take steps on, and a prediction. The loop (`train.loop`)
draws the batches and views, runs the optimizer, saves and evaluates; it knows no method. With
several ranks, each sees its part of every batch; `Method.encode` gives all ranks the features of
the whole batch, so that labels, prices and losses are those of one process for any world size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.bounds.sizes import SizeBounds
from ...algos.core.errors import UsageError
from ...algos.core.segments import segment_sum
from ...algos.offline.assignment import OfflineAssignment, assign_exact
from ...algos.online.certificates import margins
from ...common.ranks import ALONE, Ranks
from ..config.methods import METHOD_OPTIONS
from ..config.run import RunConfig
from ..data.pictures import PictureData
from ..data.samples import ImageData
from ..networks.network import Network, run_views
from ..networks.normalization import full_precision, group_statistics, load_group_statistics
from ._head_bounds import check_candidates, head_bounds

__all__ = [
    "METHODS",
    "ApplyToAll",
    "Batch",
    "Method",
    "ParameterGroup",
    "Prediction",
    "evaluating",
    "register_method",
]


Array = np.ndarray[Any, Any]
Kind = TypeVar("Kind", bound="Method")

METHODS: dict[str, type[Method]] = {}
"""The methods by their names, which are those of their settings in `METHOD_OPTIONS`."""


def register_method(name: str) -> Callable[[type[Kind]], type[Kind]]:
    """Make a class the method `name`, whose settings are ``METHOD_OPTIONS[name]``.

    The module must be ``train/methods/NAME.py``, or the package ``train/methods/NAME``.
    """
    if name not in METHOD_OPTIONS:
        msg = f"method {name!r} has no settings. To fix this, add train/config/methods/{name}.py"
        raise UsageError(msg)

    def enter(method: type[Kind]) -> type[Kind]:
        METHODS[name] = method
        return method

    return enter


class Batch(NamedTuple):
    """One batch of a training epoch.

    Attributes
    ----------
    ids : (b,) int64 tensor. Which images these are; of the whole batch, on every rank.
    views : tuple of float tensors, in the order of `Method.views`. Normalized images of this rank's
        part of the batch: ``ids[slice(*ranks.shard(b))]``.
    draws : tuple of tensors. What `Method.draws` gave for this batch.
    """

    ids: Tensor
    views: tuple[Tensor, ...]
    draws: tuple[Tensor, ...] = ()


class ParameterGroup(NamedTuple):
    """Parameters with a learning rate of their own.

    Attributes
    ----------
    params : list of parameters.
    lr : float, or None to follow the schedule of the network.
    scale : float. Factor on the schedule, where `lr` is None.
    local : bool. Whether each rank's gradient is that of its part of the batch, to be summed over
        ranks; False for parameters that act on what `Method.encode` has gathered.
    ramp : bool. Whether `lr` is reached at the end only, from 0 along half a cosine.
    stacked : bool. Whether each entry along the first axis is a tensor of its own to an optimizer
        that looks at norms: heads that share one tensor.
    """

    params: list[nn.Parameter]
    lr: float | None = None
    scale: float = 1.0
    local: bool = True
    ramp: bool = False
    stacked: bool = False


class Prediction(NamedTuple):
    """Labels of the target head inside their bounds, with what certifies them.

    Attributes
    ----------
    features : (n, d) float32 tensor. What the labels were made of; unit rows where the method
        compares directions.
    centers : (k, d) float32 tensor.
    assignment : OfflineAssignment. Labels, sizes, and the bound on what is possible.
    margins : (n,) float64 tensor. How clear each label is, in units of score.
    nearest : (n,) int64 tensor. Labels without bounds: the cluster of the largest score.
    runner_up : (n,) int64 tensor. The cluster that is best after the label, at the prices.
    """

    features: Tensor
    centers: Tensor
    assignment: OfflineAssignment
    margins: Tensor
    nearest: Tensor
    runner_up: Tensor


class ApplyToAll(Protocol):
    """Applies a function to all images, in the order of their ids, and concatenates the rows."""

    def __call__(
        self, function: Callable[[Tensor], Tensor], *, view: str = "plain", stream: str = "plain"
    ) -> Tensor:
        """Return ``cat(function(images))``, the images as `view` says ("plain", "first", ...)."""


class Method(ABC):
    """Base of the methods: heads with bounds, stored labels, gathered features.

    Parameters
    ----------
    config : RunConfig
    network : Network. On the device of the run.
    n_samples : int. Images of one epoch; ids run from 0 to n_samples - 1.
    ranks : Ranks. The processes that share each batch.

    Attributes
    ----------
    views : tuple of str. What `Batch.views` holds: "plain" (the image itself), "first", "second"
        and "small" (drawn by `RunConfig.augment`, `second`, `small`).
    wants_labels : bool. Whether the settings ask for true labels, as weak supervision does; where
        they do not, none reach the method.
    labels : (h, n) int64 tensor. Labels stored in training, a row for each head.
    readout : str. How `features` and `scores` follow from the network's rows, as `models.spec`
        names it: a trained model has no method any more.
    stores_labels : bool. Whether `labels` is what the method trains on.
    capturable : bool. Whether a step acts on tensors alone and changes them in place, so that it
        can be captured as a graph (`train.loop.execution`).
    may_read : bool. Whether a step may bring values to the host, unless it is captured. A small
        problem of many operations is solved there: on a device each would cost a launch.
    by_steps : bool. Whether it learns by steps on batches; otherwise its one epoch is `fit`.
    bounds : list of SizeBounds, one for each head.
    target : int. Row of the head that is used for prediction.
    followed : int. Row of the head that the sizes and churn of the epochs are of.

    Raises
    ------
    InfeasibleBoundsError
        If a head's bounds admit no assignment of n_samples images.
    """

    views: tuple[str, ...] = ("first", "second")
    readout: str = "directions"
    stores_labels: bool = True
    capturable: bool = False
    wants_labels: bool = False
    by_steps: bool = True

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse settings that contradict each other, or that a number of samples does not suit.

        It is called before samples are read, and again as soon as their number is certain.

        Raises
        ------
        UsageError, InfeasibleBoundsError
        """
        if n_samples is not None:
            check_candidates(config, n_samples)
            for k in config.heads.clusters:
                head_bounds(config, k, n_samples, torch.device("cpu"))

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        self.check(config)
        self.config = config
        self.network = network
        self.ranks = ranks
        self.n_samples = n_samples
        parameter = next(network.parameters(), None if self.by_steps else network.place)
        if parameter is None:
            msg = (
                f"network.name={config.network.name!r} with network.layers={config.network.layers} "
                f"has nothing to learn. To fix this, set network.layers to 1 or more"
            )
            raise UsageError(msg)
        self.check(config, n_samples)
        self.device, self.dtype = parameter.device, parameter.dtype
        self.may_read = True
        self.target = self.followed = config.heads.clusters.index(config.heads.target)
        self.bounds: list[SizeBounds] = [
            head_bounds(config, k, n_samples, self.device) for k in config.heads.clusters
        ]
        self.labels = torch.zeros(
            len(self.bounds), n_samples, dtype=torch.int64, device=self.device
        )
        self.epoch = 0

    def set_config(self, config: RunConfig) -> None:
        """Go on with other settings: those of a run whose number of epochs has changed."""
        self.config = config

    # What the loop calls, in this order ---------------------------------------------------------

    @abstractmethod
    def parameter_groups(self) -> list[ParameterGroup]:
        """Return what the optimizer moves."""

    def take_labels(self, labels: Tensor) -> None:
        """Take the (n,) int64 classes of the images, before `start`, where `wants_labels` holds."""
        raise NotImplementedError

    def start(self, apply_to_all: ApplyToAll) -> None:  # noqa: B027 - most methods need no start
        """Prepare a fresh run, once, before the first epoch; a resumed run does not call it."""

    def begin_epoch(self, epoch: int, apply_to_all: ApplyToAll | None = None) -> None:
        """Prepare an epoch. `apply_to_all` is there whenever the loop calls."""
        self.epoch = epoch

    def order(self, epoch: int) -> Tensor | None:
        """Return the order in which an epoch visits the images; None: each once, shuffled."""
        return None

    def draws(self, lengths: Sequence[int]) -> list[tuple[Tensor, ...]]:
        """Draw what chance decides in the steps of an epoch, on the device, before the first step.

        Parameters
        ----------
        lengths : ints. Images of each batch of the epoch.

        Returns
        -------
        One tuple for each batch: `Batch.draws`. Views are no part of it.
        """
        return [()] * len(lengths)

    def losses(self, batch: Batch) -> Iterator[Tensor]:
        """Yield the losses of a batch, with an optimizer step on each; most methods have one."""
        yield self.step(batch.ids, batch.views)

    def step(self, ids: Tensor, views: tuple[Tensor, ...]) -> Tensor:
        """Return the loss of one batch, a scalar to call ``backward`` on; the state moves on."""
        raise NotImplementedError

    def fit(self, apply_to_all: ApplyToAll) -> float:
        """Learn in one go, where not `by_steps`, and return the loss."""
        raise NotImplementedError

    def after_step(self) -> None:  # noqa: B027 - most methods need nothing
        """Do what follows an optimizer step, such as moving an average of the parameters."""

    def report(self) -> dict[str, float]:
        """Return further metrics of an epoch, at its end."""
        return {}

    def features(self, images: Tensor) -> Tensor:
        """Unit features of one batch of one view, (b, d), at least float32."""
        unit: Tensor = F.normalize(full_precision(self.network(images)), dim=-1)
        return unit

    @torch.no_grad()
    def predict(self, rows: Tensor) -> Prediction:
        """Label all images by the target head: the best labels inside the bounds.

        Parameters
        ----------
        rows : (n, d) tensor. `features` of each image, or their mean over views.
        """
        features = self.normalize_rows(rows)
        centers = self.target_centers(features)
        scores = self.scores(features, centers)
        found = assign_exact(scores, self.bounds[self.target])
        clear = margins(scores, found.prices)
        return Prediction(
            features, centers, found, clear, scores.argmax(dim=1), _runner_up(scores, found)
        )

    @abstractmethod
    def target_centers(self, features: Tensor) -> Tensor:
        """Return the (k, d) centers of the target head; `features` are those of all images."""

    def normalize_rows(self, rows: Tensor) -> Tensor:
        """Bring the mean of features over views back to the unit sphere, where features lie."""
        return F.normalize(rows, dim=1)

    def scores(self, features: Tensor, centers: Tensor) -> Tensor:
        """Scores (n, k) of features for given centers; the label is the largest."""
        return features @ centers.T

    @property
    def temperature(self) -> float:
        """What divides the scores in the softmax of the loss."""
        return self.config.loss.temperature

    def write_pictures(  # noqa: B027 - most methods have none of their own
        self, folder: Path, data: ImageData | PictureData, prediction: Prediction
    ) -> None:
        """Write pictures of the method's own into a finished run's folder; first rank alone."""

    def probe_logits(self, features: Tensor) -> Tensor | None:
        """Scores over the temperature, (m, k); None where all samples are clustered instead."""
        rows = self.normalize_rows(features)
        return self.scores(rows, self.target_centers(rows)) / self.temperature

    def training_prices(self) -> Tensor | None:
        """Prices of the target head's clusters now, (k,) float64; None where none are learned."""
        return None

    def attended(self, data: ImageData | PictureData, ids: Tensor) -> Array | None:
        """Images of these ids under what the network looks at, (m, h, w, 3) uint8, if known."""
        return None

    def alike(self) -> tuple[Tensor, Tensor] | None:
        """Nearest other sample of each and their cosine, (n,) each; None where it is not known."""
        return None

    # State --------------------------------------------------------------------------------------

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all that the next epoch depends on, as a nested state of tensors."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""

    def epoch_state(self) -> dict[str, Any]:
        """Return what the rest of the present epoch depends on, beside `state_dict`.

        It is asked for before `state_dict`, which merges the statistics of the views.
        """
        return {"groups": group_statistics(self.network)}

    def resume_epoch(self, epoch: int, state: dict[str, Any]) -> None:
        """Go on within an epoch, in place of `begin_epoch` and after `load_state_dict`."""
        self.epoch = epoch
        load_group_statistics(self.network, state["groups"])

    # What methods use ---------------------------------------------------------------------------

    def encode(self, views: Sequence[Tensor], total: int) -> Tensor:
        """Features (v, total, d) of views over the whole batch of all ranks; gradients flow."""
        return self.ranks.gather(run_views(self.network, self.features, views), total, dim=1)

    def training_sizes(self) -> Tensor:
        """Sizes of the target head's clusters by the labels stored in training, (k,) int64."""
        labels = self.labels[self.target]
        k = self.bounds[self.target].n_clusters
        sizes: Tensor = segment_sum(torch.ones_like(labels)[:, None], labels, n_segments=k)
        return sizes.flatten()


def _runner_up(scores: Tensor, found: OfflineAssignment) -> Tensor:
    """Best cluster of each row at the prices, but for its label; some rows at a time."""
    rows = max(1, 2**22 // scores.shape[1])
    parts = zip(torch.split(scores, rows), torch.split(found.labels, rows), strict=True)
    others = ((x + found.prices).scatter(1, own[:, None], -torch.inf) for x, own in parts)
    return torch.cat([x.argmax(dim=1) for x in others])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Run with a module in evaluation mode and without gradients; its mode is put back."""
    before = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(before)
