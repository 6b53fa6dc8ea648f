"""A run: a method, its data and its optimizer, one epoch after the other."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...algos.clustering.metrics import churn
from ...algos.core.errors import DivergedError, UsageError
from ...common.ranks import ALONE, Ranks
from ...common.stopping import StoppedError
from ..config.run import DataConfig, RunConfig, dump_config
from ..methods import METHODS
from ..methods.base import Batch, Prediction
from ..networks.network import check_name
from ..networks.normalization import merge_groups, synchronize
from .alarms import Watch
from .encoder import build_with_encoder, check_normalization, with_encoder_rate
from .evaluation import evaluate_method, predict
from .execution import Execution
from .heads import head_of, judge_heads
from .loader import Loader
from .metrics import agreement
from .optim import build_optimizer, learning_rate, set_rates

__all__ = ["Cut", "PartOfEpoch", "Refit", "Run"]

Refit = Callable[[dict[str, Any], int], int]
"""Takes the metrics of an epoch and the number of epochs; returns how many there shall be."""

Cut = Callable[[int, int], bool]
"""Takes how many samples of an epoch have been used, and of how many; whether it ends there."""


class PartOfEpoch(NamedTuple):
    """What has been done of an epoch.

    Attributes
    ----------
    total : () float64 tensor. Sum of the losses of the samples that were used.
    before : (n,) int64 tensor. Labels of the target head at the beginning.
    steps : int. Batches that are over.
    seconds : float. What they took.
    """

    total: Tensor
    before: Tensor
    steps: int = 0
    seconds: float = 0.0


class Run:
    """A method, its data and its optimizer, at the start of some epoch.

    Parameters
    ----------
    config : RunConfig
    device : str
    network : nn.Module, optional. An encoder of the user's own, in place of
        ``config.network.name``: it maps a batch of normalized images (or embeddings) to rows.
    ranks : Ranks. The processes that share the run.
    fresh : bool. Whether an encoder starts from what it has learned; False: a checkpoint has its
        parameters.
    clock : callable. Seconds from any start, for what an epoch took.
    encoding : callable, optional. As of `encoder.build_with_encoder`.

    Attributes
    ----------
    execution : Execution. How steps are computed.
    loader : Loader. The data, and the views of its batches.
    method : Method
    optimizer : torch.optim.Optimizer
    epoch : int. Epochs that are over.
    metrics : list of dict, one for each of them; `add_record` adds one.
    metrics_text : str. The same as lines of JSON, as they are written after each epoch.
    fitted : bool. Whether `set_epochs` has changed the number of epochs.
    refit : callable or None. Gets the metrics of each epoch but the last, before an evaluation, and
        how many epochs the run has; returns how many it shall have.
    cut : callable or None. Asked after each step, with counts as `on_step` has them, of a run
        without other ranks; where it says yes, the epoch ends there and is the run's last, if the
        settings of the method allow that number of epochs. ``part`` in its metrics is the share of
        its samples that were used. Rates stay those of a whole epoch.
    part : PartOfEpoch or None. What has been done of the next epoch, where it was stopped.
    stop : callable or None. Asked after each step of a run without other ranks; where it says yes,
        the run ends there with a StoppedError.
    on_prediction : callable or None. Gets the prediction of an evaluation (`run_page`).
    on_step : callable or None. Called after each step with how many samples of the epoch have been
        used, of how many: counts that the host has, so that nothing waits for the device.
    """

    def __init__(
        self,
        config: RunConfig,
        device: str,
        network: torch.nn.Module | None = None,
        ranks: Ranks = ALONE,
        *,
        fresh: bool = True,
        clock: Callable[[], float] = time.perf_counter,
        encoding: Callable[[int, int], None] | None = None,
    ) -> None:
        if config.method not in METHODS:
            msg = f"method must be one of {', '.join(METHODS)}, got {config.method!r}"
            raise UsageError(msg)
        check_normalization(config)
        METHODS[config.method].check(config)
        if network is None:
            check_name(config.network.name)
        self.config, self.clock = config, clock
        self.ranks = ranks
        self.device = torch.empty(0, device=device).device  # with its number, as tensors have it
        self.execution = Execution(config.execution, self.device)
        self.loader = Loader(config, ranks, self.execution)
        self.execution.choose(
            METHODS[config.method],
            alone=ranks.world_size == 1,
            per_epoch=-(-self.loader.n // config.batch_size),
            epochs=config.epochs,
        )
        built = build_with_encoder(self.loader, network, fresh=fresh, encoding=encoding)
        self.loader.find_neighbors()
        built = self.execution.prepare(built)
        synchronize(built, ranks)
        self.method = METHODS[config.method](config, built, self.loader.n, ranks)
        self.watch = Watch(config, self.method, self.loader.data, self.execution)
        groups = with_encoder_rate(self.method.parameter_groups(), built, config.encoder)
        self.optimizer = build_optimizer(config.optim, groups) if self.method.by_steps else None
        self.epoch = 0
        self.metrics: list[dict[str, Any]] = []
        self.metrics_text = ""
        self.fitted = False
        self.refit: Refit | None = None
        self.cut: Cut | None = None
        self.part: PartOfEpoch | None = None
        self.stop: Callable[[], bool] | None = None
        self.on_step: Callable[[int, int], None] | None = None
        self.on_prediction: Callable[[Prediction], None] | None = None

    def init(self) -> None:
        """Prepare a fresh run, as the method asks."""
        if self.method.wants_labels:
            if self.loader.data.labels is None:
                msg = (
                    f"the settings ask for true labels, and {self.config.data.source} has none. "
                    f"To fix this, switch off weak supervision, or add labels to the data"
                )
                raise UsageError(msg)
            self.method.take_labels(self.loader.data.labels)
        self.method.start(self.loader.apply_to_all)

    def run_epoch(self) -> dict[str, Any]:
        """Train for one pass over the images; returns its metrics and appends them.

        Raises
        ------
        StoppedError
            Where `stop` says yes before the last step; `state_dict` then holds the steps that were
            taken, and a run that takes it over goes on with the next.
        """
        started = self.clock()
        method, data = self.method, self.loader.data
        part = self.part
        if part is None:
            method.begin_epoch(self.epoch, self.loader.apply_to_all)
            part = PartOfEpoch(
                total=torch.zeros((), device=self.device, dtype=torch.float64),
                before=method.labels[method.target].clone(),
            )
        alarms: dict[str, str] = {}
        if self.optimizer is None:
            loss, rate, used = method.fit(self.loader.apply_to_all), 0.0, 1.0
            self.epoch += 1
            alarms = self.watch.end_of_fit()
        else:
            self.execution.begin_epoch(method, self.optimizer)
            self.watch.begin()
            started -= part.seconds
            loss, rate, used = self._train_epoch(part, started, self.optimizer)
            self.part = None
            merge_groups(method.network)
            self._check_finite(loss)
            self.epoch += 1
            last_record = self.metrics[-1] if self.metrics else {}
            alarms = self.watch.end(self.epoch, method.training_sizes(), last_record)
        labels, sizes = method.labels[method.target], method.training_sizes()
        record: dict[str, Any] = {
            "epoch": self.epoch,
            "loss": loss,
            **({"lr": rate} if method.by_steps else {}),
            "size_min": int(sizes.min()),
            "size_max": int(sizes.max()),
            **({"churn": churn(labels, part.before)} if method.by_steps else {}),
            **method.report(),
            "seconds": round(self.clock() - started, 4),
        }
        if told := self.execution.tell():
            record["steps"] = told
        if used < 1.0:
            record["part"] = round(used, 4)
        if alarms:
            record["alarms"] = alarms
        if data.labels is not None and method.stores_labels:
            # Labels of training, of views and a network that moved on: they cost no pass.
            record["stored_acc"] = agreement(labels, data.labels).acc
        self._refit(record)
        last = self.epoch == self.config.epochs
        if last or self.epoch % self.config.evaluation.every == 0:
            if self.config.heads.candidates:
                record["heads"] = judge_heads(method, self.loader)
                if last:  # figures from here on are of the head that is chosen
                    method.target = head_of(self.config, record["heads"]["best"])
            record |= evaluate_method(method, self.loader, last=last, seen=self.on_prediction)
        self.add_record(record)
        return record

    def set_epochs(self, epochs: int) -> None:
        """Go on as a run of another number of epochs, as many as are over at least.

        Schedules of rates and the like follow from the next step on; a warm-up ends with the run.
        Settings of a method that contradict the number keep the one before.
        """
        optim = self.config.optim
        warmup, frozen = (min(n, epochs) for n in (optim.warmup_epochs, optim.frozen_epochs))
        optim = replace(optim, warmup_epochs=warmup, frozen_epochs=frozen)
        try:
            config = replace(self.config, epochs=epochs, optim=optim)
            METHODS[config.method].check(config)
        except UsageError:
            return
        self.config, self.fitted = config, True
        self.method.set_config(config)

    def _refit(self, record: dict[str, Any]) -> None:
        """Ask how many epochs there shall be; what the first rank hears holds for all."""
        if self.refit is None or self.epoch == self.config.epochs:
            return  # a last epoch stays the last: its rates were those of one
        asked = self.refit(record, self.config.epochs) if self.ranks.first else 0
        epochs = max(self.epoch, int(self.ranks.exchange(str(asked).encode())[0]))
        if epochs != self.config.epochs:
            self.set_epochs(epochs)

    def add_record(self, record: dict[str, Any]) -> None:
        """Add the metrics of an epoch; earlier ones are not turned into text again."""
        self.metrics.append(record)
        self.metrics_text += json.dumps(record) + "\n"

    def _train_epoch(
        self, part: PartOfEpoch, started: float, optimizer: torch.optim.Optimizer
    ) -> tuple[float, float, float]:
        """Take the steps that are left.

        Returns the mean loss of an image, the last rate, and the share of the images that were
        used: 1 but where the run was cut.
        """
        config, method, first = self.config, self.method, part.steps
        batches = self.loader.batches(self.epoch, method.order(self.epoch))
        draws = method.draws([len(ids) for ids in batches])
        total = part.total
        done, samples = sum(map(len, batches[:first])), sum(map(len, batches))
        left = self.loader.views(batches[first:], self.epoch, method.views, first=first)
        with closing(left) as drawn, self.execution.searching():
            for i, (ids, views) in enumerate(drawn, first):
                at = self.epoch + i / len(batches)
                rate = learning_rate(config.optim, config.epochs, at, step=1 / len(batches))
                set_rates(optimizer, rate, at / config.epochs)
                batch = Batch(ids, views, draws[i])
                loss = self.execution.train_step(method, optimizer, batch)
                self.watch.step(i, self.loader.own(ids), views[0], loss)
                total += loss * len(ids)
                done += len(ids)
                if self.on_step is not None:
                    self.on_step(done, samples)
                if i + 1 < len(batches) and self._is_cut(done, samples):
                    break
                if i + 1 < len(batches) and self._is_stopped():
                    seconds = self.clock() - started
                    self.part = part._replace(steps=i + 1, total=total, seconds=seconds)
                    steps = f"{i + 1} of {len(batches)} steps"
                    msg = f"stopped in epoch {self.epoch + 1}, after {steps}"
                    raise StoppedError(msg)
        return float(total) / done, rate, done / samples

    def _is_cut(self, done: int, samples: int) -> bool:
        """Whether the epoch ends here, as the last one: ranks would have to agree at each step."""
        if self.cut is None or self.ranks.world_size > 1 or not self.cut(done, samples):
            return False
        if self.epoch + 1 < self.config.epochs:
            self.set_epochs(self.epoch + 1)
        return self.epoch + 1 == self.config.epochs

    def _is_stopped(self) -> bool:
        """Whether the run ends here: with several ranks, only between epochs, where all agree."""
        return self.stop is not None and self.ranks.world_size == 1 and self.stop()

    def _check_finite(self, loss: float) -> None:
        """Refuse to go on from a loss or weights that are no numbers."""
        params = [p for group in self.method.parameter_groups() for p in group.params]
        if math.isfinite(loss) and all(bool(torch.isfinite(p).all()) for p in params):
            return
        what = f"the loss became {loss}"
        if math.isfinite(loss):
            what = "a weight became infinite or NaN"
        where = f" in epoch {self.epoch + 1}{self.watch.where_bad()}"
        msg = (
            f"{what}{where}. To fix this, lower optim.lr or "
            f"optim.center_lr, or raise the temperatures"
        )
        raise DivergedError(msg)

    def predict(self, head: int | None = None) -> Prediction:
        """Label all images by a head, the target's by default (`evaluation.predict`)."""
        return predict(self.method, self.loader, head)

    def state_dict(self) -> dict[str, Any]:
        """All that the remaining steps depend on; the metrics of epochs that are over do not."""
        part: dict[str, Any] = {}
        if self.part is not None:
            part = {"part": {**self.part._asdict(), "method": self.method.epoch_state()}}
        return {
            "epoch": self.epoch,
            "method": self.method.state_dict(),
            **({} if self.optimizer is None else {"optimizer": self.optimizer.state_dict()}),
            **part,
        }

    def identity(self) -> dict[str, str]:
        """The settings and a digest of the images: what a checkpoint belongs to."""
        data = self.config.data
        # The images count, not their place; and what they are divided by.
        kept = DataConfig(normalization=data.normalization, standardize=data.standardize)
        anywhere = replace(self.config, data=kept, log=())
        return {"config": dump_config(anywhere), "images": self.loader.shown.digest()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.method.load_state_dict(state["method"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]
        if "part" in state:
            part = dict(state["part"])
            self.method.resume_epoch(self.epoch, part.pop("method"))
            tensors = {name: part.pop(name).to(self.device) for name in ("total", "before")}
            self.part = PartOfEpoch(**tensors, **part)
