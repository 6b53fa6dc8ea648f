"""How a step is computed: precision, memory format, compilation, and the whole step as one graph.

A method says what is computed and this module how. The eager step is the reference that the others
are compared with.

A graph records what the device did in one step, and replays it: the same kernels on the same
memory. A step may be captured where it reads and writes tensors alone, and changes its state in
place (`Method.capturable`). What an epoch fixes on the host is fixed in the graph too: each epoch
captures its own graphs, one for each length of a batch, after `WARM` eager steps of that length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...algos.core.errors import UsageError
from ...common.devices import Captured, kind_of
from ..config.run import ExecutionConfig
from ..methods.base import Batch, Method
from ..networks.network import Network

__all__ = ["Execution"]

WARM = 2


class _Graph(NamedTuple):
    """A captured step, the batch that it reads, and the loss that it writes."""

    step: Captured
    batch: Batch
    loss: Tensor


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
        capture: Callable[[Callable[[], Tensor]], tuple[Captured, Tensor]] | None = None,
    ) -> None:
        if options.step == "graph" and not kind_of(device).graphs and capture is None:
            msg = (
                f"execution.step='graph' needs a CUDA device, got {device.type!r}. "
                f"To fix this, set execution.step='eager', or train with --device cuda"
            )
            raise UsageError(msg)
        self.options, self.device = options, device
        self.dtype = torch.float64 if options.precision == "float64" else torch.float32
        self._capture = capture or kind_of(device).capture
        self._seen: dict[Any, int] = {}
        self._graphs: dict[Any, _Graph] = {}

    def prepare(self, network: Network) -> Network:
        """Bring a fresh network to its device, precision and memory format."""
        network = network.to(self.device, self.dtype)
        if self.options.precision == "bfloat16":
            network.autocast = torch.bfloat16
        if self.options.channels_last:
            network.one_pass = False
            network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if self.options.step == "compile":
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
        self._seen, self._graphs = {}, {}
        if self.options.step != "graph":
            return
        if not method.capturable or method.ranks.world_size > 1:
            why = "its step decides on the host" if method.ranks.world_size == 1 else "it has ranks"
            msg = (
                f"execution.step='graph' cannot hold this run of {method.config.method!r}: {why}. "
                f"To fix this, set execution.step='eager'"
            )
            raise UsageError(msg)
        method.may_read = False
        for group in optimizer.param_groups:
            # A rate on the host would be the graph's for good.
            group["lr"] = torch.as_tensor(group["lr"], dtype=self.dtype, device=self.device)
            group["capturable"] = True

    def train_step(self, method: Method, optimizer: torch.optim.Optimizer, batch: Batch) -> Tensor:
        """Take the steps of one batch; returns the mean of their losses, on the device."""
        if self.options.step != "graph":
            return _eager(method, optimizer, batch)
        key = tuple(tuple(view.shape) for view in batch.views)
        if key in self._graphs:
            graph = self._graphs[key]
            torch._foreach_copy_(_parts(graph.batch), _parts(batch))
            graph.step.replay()
            return graph.loss.clone()
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] <= WARM:
            return _eager(method, optimizer, batch)
        fixed = Batch(
            batch.ids.clone(),
            tuple(view.clone() for view in batch.views),
            tuple(drawn.clone() for drawn in batch.draws),
        )
        step, loss = self._capture(lambda: _eager(method, optimizer, fixed))
        self._graphs[key] = _Graph(step, fixed, loss)
        step.replay()
        return loss.clone()


def _parts(batch: Batch) -> list[Tensor]:
    return [batch.ids, *batch.views, *batch.draws]


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
