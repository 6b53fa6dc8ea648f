"""A run: a method, its data and its optimizer, one epoch after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...algos.clustering.metrics import churn
from ...algos.core.errors import UsageError
from ..config.run import DataConfig, RunConfig, dump_config
from ..data.samples import Samples
from ..methods import METHODS
from ..methods.base import Batch, Prediction, evaluating
from ..networks.network import build_network
from ..networks.normalization import settle, synchronize
from ..state.ranks import ALONE, Ranks
from .agreement import agreement
from .evaluation import judge
from .execution import Engine
from .loader import Feed
from .optim import build_optimizer, learning_rate, set_rates

__all__ = ["Run"]


class Run:
    """A method, its data and its optimizer, at the start of some epoch.

    Parameters
    ----------
    config : RunConfig
    device : str
    network : nn.Module, optional. An encoder of the user's own, in place of
        ``config.network.name``: it maps a batch of normalized images (or embeddings) to rows.
    ranks : Ranks. The processes that share the run.
    """

    def __init__(
        self,
        config: RunConfig,
        device: str,
        network: torch.nn.Module | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        if config.method not in METHODS:
            msg = f"method must be one of {', '.join(METHODS)}, got {config.method!r}"
            raise UsageError(msg)
        self.config = config
        self.ranks = ranks
        self.device = torch.device(device)
        self.engine = Engine(config.engine, self.device)
        self.feed = Feed(config, ranks, self.engine)
        self.data, self.test, self.n = self.feed.data, self.feed.test, self.feed.n
        built = build_network(config.network, self.data.shape, seed=config.seed, encoder=network)
        built = self.engine.prepare(built)
        synchronize(built, ranks.world > 1)
        self.method = METHODS[config.method](config, built, self.n, ranks)
        self.optimizer = build_optimizer(config.optim, self.method.parameter_groups())
        self.epoch = 0
        self.metrics: list[dict[str, Any]] = []

    def init(self) -> None:
        """Prepare a fresh run, as the method asks."""
        if self.method.wants_labels:
            if self.data.labels is None:
                msg = (
                    f"the settings ask for true labels, and {self.config.data.source} has none. "
                    f"To fix this, switch off weak supervision, or add labels to the data"
                )
                raise UsageError(msg)
            self.method.take_labels(self.data.labels)
        self.method.start(self.sweep)

    def run_epoch(self) -> dict[str, Any]:
        """One pass over the images; returns its metrics and appends them."""
        started = time.perf_counter()
        config, method = self.config, self.method
        method.begin_epoch(self.epoch, self.sweep)
        self.engine.begin_epoch(method, self.optimizer)
        batches = self.feed.batches(self.epoch, method.order(self.epoch))
        labels = method.labels[method.target].clone()
        total = torch.zeros((), device=self.device, dtype=torch.float64)
        with closing(self.feed.views(batches, self.epoch, method.views)) as fed:
            for i, (ids, views) in enumerate(fed):
                at = self.epoch + i / len(batches)
                rate = learning_rate(config.optim, config.epochs, at, step=1 / len(batches))
                set_rates(self.optimizer, rate, at / config.epochs)
                batch = Batch(ids, views)
                total += self.engine.train_step(method, self.optimizer, batch) * len(ids)
        settle(method.network)
        sizes = method.training_sizes()
        mean_loss = float(total) / sum(map(len, batches))
        params = [p for group in method.parameter_groups() for p in group.params]
        healthy = all(bool(torch.isfinite(p).all()) for p in params)
        if not (healthy and math.isfinite(mean_loss)):
            finite = math.isfinite(mean_loss)
            what = "a weight became infinite or NaN" if finite else f"the loss became {mean_loss}"
            msg = (
                f"{what} in epoch {self.epoch + 1}. To fix this, lower optim.lr or "
                f"optim.center_lr, or raise the temperatures"
            )
            raise UsageError(msg)
        self.epoch += 1
        record: dict[str, Any] = {
            "epoch": self.epoch,
            "loss": mean_loss,
            "lr": rate,
            "size_min": int(sizes.min()),
            "size_max": int(sizes.max()),
            "churn": churn(method.labels[method.target], labels),
            **method.report(),
            "seconds": round(time.perf_counter() - started, 4),
        }
        if self.data.labels is not None and method.stores_labels:
            # Labels of training, of views and a network that moved on: they cost no pass.
            stored = agreement(method.labels[method.target], self.data.labels)
            record["stored_acc"] = stored.acc
        if self.epoch % config.evaluation.every == 0 or self.epoch == config.epochs:
            record |= judge(self, last=self.epoch == config.epochs)
        self.metrics.append(record)
        return record

    @torch.no_grad()
    def predict(self, head: int | None = None) -> Prediction:
        """Labels of all images by a head, the target's, from the mean feature of a few views."""
        views, target = self.config.evaluation.views, self.method.target
        with evaluating(self.method.network):
            rows = [
                self.sweep(self.method.features, view="first", stream="predict", number=v)
                for v in range(views)
            ] or [self.sweep(self.method.features)]
            try:
                self.method.target = target if head is None else head
                return self.method.predict(torch.stack(rows).mean(0))
            finally:
                self.method.target = target

    @torch.no_grad()
    def sweep(
        self,
        function: Callable[[Tensor], Tensor],
        *,
        view: str = "plain",
        stream: str = "sweep",
        number: int = 0,
        data: Samples | None = None,
    ) -> Tensor:
        """Apply a function to all images, in the order of their ids (`methods.base.Sweep`)."""
        parts = []
        batches = self.feed.in_order(data)
        with closing(self.feed.views(batches, stream, [view], number=number, data=data)) as fed:
            for ids, (images,) in fed:
                parts.append(self.ranks.gather(function(images), len(ids)))
        return torch.cat(parts)

    def state_dict(self) -> dict[str, Any]:
        """All that the remaining epochs depend on."""
        return {
            "epoch": self.epoch,
            "metrics": self.metrics,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def identity(self) -> dict[str, str]:
        """The settings and a digest of the images: what a checkpoint belongs to."""
        data = self.config.data
        # The images count, not their place; and what they are divided by.
        kept = DataConfig(normalization=data.normalization, standardize=data.standardize)
        anywhere = replace(self.config, data=kept)
        return {"config": dump_config(anywhere), "images": self.data.digest()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.metrics = state["epoch"], state["metrics"]
