"""The training loop: epochs, schedules, evaluation, a run folder, exact resume.

Every random number comes from a named stream of the run's seed (`seeding`), and the state is saved
after each epoch, so that a run that was interrupted and resumed ends like one that was not, to the
last bit on the same machine and build.

A run folder holds

=====================  ============================================================================
file                   what it is
=====================  ============================================================================
``config.toml``        the settings; with the code, all that is needed to repeat the run
``metrics.jsonl``      one line per epoch: loss, learning rate, sizes; ACC, NMI, ARI where known
``checkpoints/``       what `resume` reads: the last two epochs, hashed, without pickle
``assignments.csv``    id, cluster, margin of every image; its class where known
``centers.npy``        (k, d) unit centers of the target head
``weights.safetensors``  the network's parameters
``gallery.png``, ``sizes.png``, ``curves.png``  what to look at
=====================  ============================================================================
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..algos.errors import CheckpointError, InvalidValueError, OutputError, UsageError
from ..algos.metrics import churn
from .augment import augment
from .checkpoint import Checkpoint, checkpoint_folder, latest_checkpoint, save_checkpoint
from .config import DataConfig, OptimConfig, RunConfig, dump_config, load_config
from .data import ImageData, load_source, normalize
from .evaluate import evaluate
from .methods import METHODS
from .methods.secu import Prediction
from .networks import build_network
from .packing import pack, unpack
from .report import write_curves
from .results import write_file, write_metrics, write_results
from .seeding import generator, permutation

__all__ = ["Run", "RunResult", "learning_rate", "resume", "train"]

Progress = Callable[[dict[str, Any]], None]

EVALUATION_BATCH = 1024


class RunResult(NamedTuple):
    """What a finished run has.

    Attributes
    ----------
    folder : Path
    metrics : list of dict, one per epoch.
    prediction : Prediction. Labels of the target head and what certifies them.
    lower, upper : int. Smallest and largest size that the bounds allow.
    """

    folder: Path
    metrics: list[dict[str, Any]]
    prediction: Prediction
    lower: int
    upper: int


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    device: str = "cpu",
    progress: Progress | None = None,
) -> RunResult:
    """Train from the start and write the run folder.

    Parameters
    ----------
    config : RunConfig
    folder : path. Must not exist yet, or be empty: a run never overwrites another.
    device : str. "cpu", "cuda", "cuda:1", ...
    progress : callable, optional. Gets the metrics of each epoch as a dict.

    Returns
    -------
    RunResult

    Raises
    ------
    OutputError
        If the folder has content, or cannot be written.
    UsageError, InfeasibleBoundsError, MissingFileError
        If the settings do not fit the data. Nothing is written then.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        started = (folder / "checkpoints").is_dir()
        other = f"continue that run with: dualclust resume {folder}" if started else "remove it"
        msg = f"{folder} exists and is not empty. To fix this, choose another folder, or {other}"
        raise OutputError(msg)
    with _threads(config.threads):
        run = Run(config, device)
        run.init()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"cannot create the run folder {folder}: {error.strerror or error}"
            raise OutputError(msg) from error
        write_file(folder / "config.toml", dump_config(config))
        return run.finish(folder, progress)


def resume(
    folder: str | Path, *, device: str = "cpu", progress: Progress | None = None
) -> RunResult:
    """Continue a run from its last epoch; a finished run only writes its results again.

    Raises
    ------
    MissingFileError
        If the folder, its settings or its checkpoints are not there; never a fresh start.
    CheckpointError
        If no checkpoint is intact, or it does not fit the settings.
    """
    folder = Path(folder)
    checkpoint = latest_checkpoint(folder)
    config = load_config(folder / "config.toml")
    with _threads(config.threads):
        run = Run(config, device)
        _check_fits(run, checkpoint, folder / "config.toml")
        try:
            run.load_state_dict(unpack(checkpoint.tensors, checkpoint.metadata["state"]))
        except (KeyError, RuntimeError, ValueError) as error:
            msg = f"the checkpoint {checkpoint.folder} does not fit this version: {error}"
            raise CheckpointError(msg) from error
        return run.finish(folder, progress)


class Run:
    """A method, its data and its optimizer, at the start of some epoch."""

    def __init__(self, config: RunConfig, device: str) -> None:
        if config.method not in METHODS:
            msg = f"method must be one of {', '.join(METHODS)}, got {config.method!r}"
            raise UsageError(msg)
        self.config = config
        self.device = torch.device(device)
        self.data: ImageData = load_source(config.data.source, device=self.device)
        self.n = len(self.data.images)
        if self.n < 2:
            msg = f"{config.data.source} must hold at least 2 images, got {self.n}"
            raise InvalidValueError(msg)
        _, channels, height, width = self.data.images.shape
        network = build_network(config.network, channels, (height, width), seed=config.seed)
        network.to(self.device).train()
        self.method = METHODS[config.method](config, network, self.n)
        self.optimizer = _optimizer(config.optim, *self.method.parameter_groups())
        self.epoch = 0
        self.metrics: list[dict[str, Any]] = []

    def init(self) -> None:
        """Set the centers from the untrained network, as the settings ask."""
        if self.config.heads.init == "kmeans":
            self.method.init_centers(
                self._view(ids, "init", i) for i, ids in enumerate(self._in_order())
            )

    def finish(self, folder: Path, progress: Progress | None) -> RunResult:
        """Run the epochs that are left, saving each, then write the results."""
        while self.epoch < self.config.epochs:
            record = self.run_epoch()
            tensors, tree = pack(self.state_dict())
            metadata = {"state": tree, **self.identity()}
            save_checkpoint(checkpoint_folder(folder, self.epoch), tensors, metadata)
            write_metrics(folder, self.metrics)
            if progress is not None:
                progress(record)
        prediction = self.predict()
        bounds = self.method.bounds[self.method.target]
        write_metrics(folder, self.metrics)
        write_results(folder, prediction, bounds, self.data, self.method.network)
        write_curves(folder / "curves.png", self.metrics)
        limits = int(bounds.lower.min()), int(bounds.upper.max())
        return RunResult(folder, self.metrics, prediction, *limits)

    def run_epoch(self) -> dict[str, Any]:
        """One pass over the images; returns its metrics and appends them."""
        started = time.perf_counter()
        config, method = self.config, self.method
        method.begin_epoch(self.epoch)
        batches = list(self._batches(self.epoch))
        labels = method.labels[method.target].clone()
        total = torch.zeros((), device=self.device)
        for i, ids in enumerate(batches):
            rate = learning_rate(config.optim, config.epochs, self.epoch + i / len(batches))
            self.optimizer.param_groups[0]["lr"] = rate
            views = self._view(ids, self.epoch, i, 0), self._view(ids, self.epoch, i, 1)
            loss = method.step(ids, views)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            total += loss.detach() * len(ids)
        sizes = method.training_sizes()
        mean_loss = float(total) / self.n
        network, centers = method.parameter_groups()
        healthy = all(bool(torch.isfinite(p).all()) for p in (*network, *centers))
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
            "seconds": round(time.perf_counter() - started, 4),
        }
        if self.epoch % config.evaluation.every == 0 or self.epoch == config.epochs:
            found = evaluate(self.predict().assignment.labels, self.data)
            record |= {} if found is None else found._asdict()
        self.metrics.append(record)
        return record

    @torch.no_grad()
    def predict(self) -> Prediction:
        """Labels of all images by the target head, from the mean feature of a few views."""
        network = self.method.network
        network.eval()
        parts = []
        for i, ids in enumerate(self._in_order()):
            views = [self._view(ids, "predict", i, v) for v in range(self.config.evaluation.views)]
            plain = normalize(self.data.images[ids], self.data.mean, self.data.std)
            features = [self.method.features(view) for view in views or [plain]]
            parts.append(torch.nn.functional.normalize(torch.stack(features).mean(0), dim=1))
        network.train()
        return self.method.predict(torch.cat(parts))

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
        every = max(1, self.n // 4096)  # of a large set, some images say which set it is
        sample = self.data.images[::every].cpu().contiguous().numpy()
        digest = hashlib.sha256(repr((self.n, sample.shape)).encode() + sample.tobytes())
        anywhere = replace(self.config, data=DataConfig())  # the images count, not their place
        return {"config": dump_config(anywhere), "images": digest.hexdigest()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state."""
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.metrics = state["epoch"], state["metrics"]

    def _in_order(self) -> Iterator[Tensor]:
        """All ids, in batches for evaluation."""
        return _split(torch.arange(self.n, device=self.device), EVALUATION_BATCH)

    def _batches(self, epoch: int) -> Iterator[Tensor]:
        order = permutation(self.n, self.config.seed, epoch, device=self.device)
        return _split(order, self.config.batch_size)

    def _view(self, ids: Tensor, *stream: int | str) -> Tensor:
        images = normalize(self.data.images[ids], self.data.mean, self.data.std)
        draws = generator(self.config.seed, "augment", *stream, device=self.device)
        return augment(images, self.config.augment, draws, self.data.background)


def learning_rate(options: OptimConfig, epochs: int, at: float) -> float:
    """Rate of the network after `at` epochs: 0 in the first, linear warm-up, then cosine to 0.

    In the first epoch only the centers learn (SeCu, released scripts).
    """
    if at < 1.0:
        return 0.0
    if at < 1.0 + options.warmup_epochs:
        return options.lr * (at - 1.0) / options.warmup_epochs
    left = max(epochs - 1.0 - options.warmup_epochs, 1e-12)
    return options.lr * 0.5 * (1.0 + math.cos(math.pi * (at - 1.0 - options.warmup_epochs) / left))


def _optimizer(
    options: OptimConfig, network: list[torch.nn.Parameter], centers: list[torch.nn.Parameter]
) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": network}, {"params": centers}]
    groups[1]["lr"] = options.center_lr
    rate, decay = options.lr, options.weight_decay
    if options.name == "sgd":
        return torch.optim.SGD(groups, lr=rate, weight_decay=decay, momentum=options.momentum)
    kind = torch.optim.Adam if options.name == "adam" else torch.optim.AdamW
    return kind(groups, lr=rate, weight_decay=decay)


def _check_fits(run: Run, checkpoint: Checkpoint, where: Path) -> None:
    """Refuse a checkpoint of other settings or images, naming the first difference."""
    for name, ours in run.identity().items():
        theirs = checkpoint.metadata.get(name)
        if theirs == ours:
            continue
        lines = set(str(theirs).splitlines())
        changed = [line for line in ours.splitlines() if line not in lines]
        what = f"{where} has {changed[0]!r}" if name == "config" and changed else f"other {name}"
        msg = (
            f"the checkpoint {checkpoint.folder} does not fit: {what}. "
            f"To fix this, restore what the run was started with"
        )
        raise CheckpointError(msg)


def _split(ids: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Batches of lengths that differ by at most one; none of one image, which has no variance."""
    parts = max(1, min(math.ceil(len(ids) / batch_size), len(ids) // 2))
    yield from torch.tensor_split(ids, parts)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Run with `count` CPU threads, if it is not 0."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
