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
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from ...common.devices import Captured, kind_of
from ..config.run import ExecutionConfig
from ..methods.base import Batch, Method
from ..networks.network import Network

__all__ = ["Execution"]

WARM = 2


Capture: TypeAlias = Callable[[Callable[[], Tensor]], tuple[Captured, Tensor]]
"""Records a function of no arguments; returns what replays it, and its result."""


class _Graph(NamedTuple):
    """A captured function, the tensors that it reads, and the one that it writes."""

    captured: Captured
    given: list[Tensor]
    result: Tensor


class _Graphs:
    """Functions of tensors, captured once for each name, shapes and dtypes, and then replayed."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
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
            captured, result = self.capture(lambda: function(*fixed))
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
        self.captured = options.step in ("graph", "compiled-graph")
        if self.captured and not kind_of(device).graphs and capture is None:
            msg = (
                f"execution.step={options.step!r} needs a CUDA device, got {device.type!r}. "
                f"To fix this, set execution.step='eager', or train with --device cuda"
            )
            raise UsageError(msg)
        self.options, self.device = options, device
        self.dtype = torch.float64 if options.precision == "float64" else torch.float32
        capture = capture or kind_of(device).capture
        self.steps, self.others = _Graphs(capture), _Graphs(capture)

    def prepare(self, network: Network) -> Network:
        """Bring a fresh network to its device, precision and memory format."""
        network = network.to(self.device, self.dtype)
        if self.options.precision == "bfloat16":
            network.autocast = torch.bfloat16
        if self.options.channels_last:
            network.one_pass = False
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.options.step in ("compile", "compiled-graph"):
            network.compile_with(self.backend)
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
        if not self.captured:
            return
        if not method.capturable or method.ranks.world_size > 1:
            why = "its step decides on the host" if method.ranks.world_size == 1 else "it has ranks"
            msg = (
                f"execution.step={self.options.step!r} cannot hold this run of "
                f"{method.config.method!r}: {why}. "
                f"To fix this, set execution.step='eager'"
            )
            raise UsageError(msg)
        method.may_read = False
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
