"""How a step is computed: precision, memory format, compilation, and the whole step as one graph.

A method says what is computed and this module how. The eager step is the reference that the others
are compared with.

A graph records what the device did in one step, and replays it: the same kernels on the same
memory. A step may be captured where it reads and writes tensors alone, and changes its state in
place (`Method.capturable`). What an epoch fixes on the host is fixed in the graph too: each epoch
captures its own graphs, one for each length of a batch, after `WARM` eager steps of that length.
Views are hundreds of small operations on a few images, which take a host longer than the device:
they are captured as well, once for each kind of view and length up to that of a batch
(`Execution.apply`).

On CUDA convolutions search for their fastest kernel, wherever a step is more than eager.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from ...common.devices import Captured, kind_of
from ..config.run import ExecutionConfig
from ..methods.base import Batch, Method
from ..networks.network import Network
from .run_folder import RunWarning

__all__ = ["Execution", "StepChoice", "choose_step"]

WARM = 2
SHORT = 10
"""Steps of an epoch from which on a graph is worth its capture, which takes some eager steps."""
COMPILED_FROM = 15_000
"""Steps of a run that repay a minute of compiling: each saves 4 ms (SeCu on an H200)."""


class StepChoice(NamedTuple):
    """How steps run, as ``execution.step`` names it, and why."""

    step: str
    why: str

    def __str__(self) -> str:
        """One sentence."""
        return f"steps run as {self.step!r}, since {self.why}"


def choose_step(
    options: ExecutionConfig,
    method: type[Method],
    *,
    graphs: bool,
    alone: bool,
    per_epoch: int,
    epochs: int,
) -> StepChoice:
    """Choose how steps run, where the settings leave it open.

    Parameters
    ----------
    options : ExecutionConfig
    method : subclass of Method
    graphs : bool. Whether the device has graphs.
    alone : bool. Whether the run has one rank.
    per_epoch, epochs : int. Steps of an epoch, and epochs of the run.

    Examples
    --------
    >>> from dualclust.train.methods import METHODS
    >>> size = {"alone": True, "per_epoch": 391, "epochs": 401}
    >>> print(choose_step(ExecutionConfig(), METHODS["secu"], graphs=False, **size))
    steps run as 'eager', since the device has no graphs
    >>> print(choose_step(ExecutionConfig(), METHODS["secu"], graphs=True, **size))
    steps run as 'compiled-graph', since 156,791 of them repay a minute of compiling
    """
    if options.step != "auto":
        return StepChoice(options.step, "the settings say so")
    reasons = {
        "the device has no graphs": not graphs,
        "the method fits at once": not method.by_steps,
        "a step decides on the host": not method.capturable,
        "ranks add up their gradients within each": not alone,
        f"an epoch, which captures its own graph, has {per_epoch}": per_epoch < SHORT,
    }
    for why, holds in reasons.items():
        if holds:
            return StepChoice("eager", why)
    total = per_epoch * epochs
    if total < COMPILED_FROM:
        why = f"the device has graphs, and {total:,} do not repay a minute of compiling"
        return StepChoice("graph", why)
    return StepChoice("compiled-graph", f"{total:,} of them repay a minute of compiling")


Capture: TypeAlias = Callable[[Callable[[], Tensor]], tuple[Captured, Tensor]]
"""Records a function of no arguments; returns what replays it, and its result."""


class _Graph(NamedTuple):
    """A captured function, the tensors that it reads, and the one that it writes."""

    captured: Captured
    given: list[Tensor]
    result: Tensor


class _Graphs:
    """Functions of tensors, captured once for each name, shapes and dtypes, and then replayed."""

    def __init__(self, capture: Capture, failed: Callable[[Exception], None] | None) -> None:
        self.capture, self.failed = capture, failed
        self.seen: dict[Hashable, int] = {}
        self.known: dict[Hashable, _Graph] = {}

    def clear(self) -> None:
        """Forget all graphs."""
        self.seen, self.known = {}, {}

    def run(
        self, name: Hashable, function: Callable[..., Tensor], given: Sequence[Tensor]
    ) -> Tensor:
        """Apply a function to tensors; the name stands for all else that it depends on."""
        key = name, *((tensor.shape, tensor.dtype) for tensor in given)
        graph = self.known.get(key)
        if graph is not None:
            torch._foreach_copy_(graph.given, list(given))
        else:
            self.seen[key] = self.seen.get(key, 0) + 1
            if self.seen[key] <= WARM:
                return function(*given)
            fixed = [tensor.clone() for tensor in given]
            try:
                captured, result = self.capture(lambda: function(*fixed))
            except RuntimeError as error:
                if self.failed is None:
                    raise
                self.failed(error)  # nothing has run: a capture only records
                return function(*given)
            graph = self.known[key] = _Graph(captured, fixed, result)
        graph.captured.replay()
        return graph.result.clone()


class Execution:
    """Runs training steps as `ExecutionConfig` says.

    Parameters
    ----------
    options : ExecutionConfig
    device : torch.device
    capture : callable, optional. Runs a function of no arguments while recording it, and returns
        what replays it and what it returned; by default CUDA's own.

    Raises
    ------
    UsageError
        If the settings ask for a graph on a device that has none.
    """

    backend = "inductor"

    def __init__(
        self,
        options: ExecutionConfig,
        device: torch.device,
        capture: Capture | None = None,
    ) -> None:
        self.options, self.device = options, device
        self.has_graphs = kind_of(device).graphs or capture is not None
        if options.step in ("graph", "compiled-graph") and not self.has_graphs:
            msg = (
                f"execution.step={options.step!r} needs a CUDA device, got {device.type!r}. "
                f"To fix this, set execution.step='auto', or train with --device cuda"
            )
            raise UsageError(msg)
        self.auto = options.step == "auto"
        self.choice = StepChoice("eager" if self.auto else options.step, "")
        self.told = ""
        self.network: Network | None = None
        self.dtype = torch.float64 if options.precision == "float64" else torch.float32
        capture = capture or kind_of(device).capture
        failed = self._fail_graph if self.auto else None
        self.steps, self.others = _Graphs(capture, failed), _Graphs(capture, failed)

    @property
    def captured(self) -> bool:
        """Whether steps and views are captured."""
        return self.choice.step in ("graph", "compiled-graph")

    def choose(self, method: type[Method], *, alone: bool, per_epoch: int, epochs: int) -> None:
        """Settle how steps run (`choose_step`); before that they are eager where that is open."""
        size = {"per_epoch": per_epoch, "epochs": epochs}
        graphs = self.has_graphs
        self.choice = choose_step(self.options, method, graphs=graphs, alone=alone, **size)
        if self.auto and graphs:
            self.told = str(self.choice)

    def _fall_back(self, step: str, why: str) -> None:
        """Go on in another way, and say why."""
        self.choice = StepChoice(step, why)
        self.told = str(self.choice)
        warnings.warn(f"{self.told}. The run goes on", RunWarning, stacklevel=2)

    def _fail_graph(self, error: Exception) -> None:
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        compiled = self.network is not None and self.network.compiler is not None
        self._fall_back("compile" if compiled else "eager", f"a graph of one failed: {said}")

    def tell(self) -> str:
        """Return how steps run, in a sentence, where that is news; else an empty string."""
        told, self.told = self.told, ""
        return told

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Let convolutions of CUDA search for their fastest kernel, in a block of fixed shapes.

        Not with eager steps, and not where PyTorch is told to be deterministic: which kernel wins
        may differ from run to run, in the last bit of its results.
        """
        cudnn, before = torch.backends.cudnn, torch.backends.cudnn.benchmark
        exact = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
        if kind_of(self.device).searches and self.choice.step != "eager" and not exact:
            cudnn.benchmark = True
        try:
            yield
        finally:
            cudnn.benchmark = before

    def prepare(self, network: Network) -> Network:
        """Bring a fresh network to its device, precision and memory format."""
        network = network.to(self.device, self.dtype)
        if self.options.precision == "bfloat16":
            network.autocast = torch.bfloat16
        if self.options.channels_last:
            network.blocks = True
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.choice.step in ("compile", "compiled-graph"):
            network.compile_with(self.backend, or_plain=self.auto)
            self.network = network
        return network.train()

    def convert(self, images: Tensor) -> Tensor:
        """Bring a batch of float32 images to the precision and memory format of the network."""
        images = images.to(self.dtype)
        if self.options.channels_last and images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        return images

    def begin_epoch(self, method: Method, optimizer: torch.optim.Optimizer) -> None:
        """Forget the graphs of the epoch before; call it after the method's own beginning.

        Raises
        ------
        UsageError
            If the settings ask for a graph and the method's step cannot be one.
        """
        self.steps.clear()
        method.may_read = not self.captured
        if not self.captured:
            return
        if not method.capturable or method.ranks.world_size > 1:
            why = "its step decides on the host" if method.ranks.world_size == 1 else "it has ranks"
            msg = (
                f"execution.step={self.options.step!r} cannot hold this run of "
                f"{method.config.method!r}: {why}. "
                f"To fix this, set execution.step='auto'"
            )
            raise UsageError(msg)
        self.keep_rates(optimizer)

    def keep_rates(self, optimizer: torch.optim.Optimizer) -> None:
        """Keep an optimizer's rates on the device: one on the host would be a graph's for good.

        Optimizers that step in one kernel read it as float32, whatever the precision.
        """
        for group in optimizer.param_groups:
            dtype = torch.float32 if group.get("fused") else self.dtype
            group["lr"] = torch.as_tensor(group["lr"], dtype=dtype, device=self.device)
            group["capturable"] = True

    def train_step(self, method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        """Take the steps of one batch; returns the mean of their losses, on the device."""
        loss = self._train_step(method, optimizer, batch)
        if self.network is not None and self.network.compile_error:
            step = "graph" if self.captured else "eager"
            self._fall_back(step, f"compiling the network failed: {self.network.compile_error}")
            self.network = None
        return loss

    def _train_step(self, method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        if not self.captured:
            return _eager(method, optimizer, batch)
        count = len(batch.views)

        def step(ids: Tensor, *rest: Tensor) -> Tensor:
            return _eager(method, optimizer, Batch(ids, rest[:count], rest[count:]))

        return self.steps.run("step", step, [batch.ids, *batch.views, *batch.draws])

    def apply(
        self,
        name: Hashable,
        function: Callable[..., Tensor],
        given: Sequence[Tensor],
    ) -> Tensor:
        """Apply a function to tensors, captured where steps are.

        Parameters
        ----------
        name : hashable. Stands for all that the function depends on beside the tensors.
        function : callable. Reads tensors alone, those that it is given and others that stay where
            they are, and no value on the host.
        given : sequence of tensors without gradients.
        """
        if not self.captured:
            return function(*given)
        return self.others.run(name, function, given)


def _eager(method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
    losses = []
    for loss in method.losses(batch):
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        method.ranks.sum_gradients(
            p for group in method.parameter_groups() if group.local for p in group.params
        )
        optimizer.step()
        method.after_step()
        losses.append(loss.detach().double())
    return torch.stack(losses).mean()
