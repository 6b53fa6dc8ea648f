"""Batch normalization over groups of a batch, and over all ranks.

Two views of a batch that go through a network in one pass must not share their statistics, or the
pass is another one than two passes. `BatchNorm` takes the statistics of each of g groups. They are
interleaved (image i of view v is row ``i * g + v``): seen as a batch of b rows with g times the
channels, that is one call of the plain kernel and no copy. With channels last in memory it would be
two copies, and groups lie one after the other (`groups` with blocks): a call of the kernel each.

With several ranks the statistics are those of the whole batch, on any device:
`torch.nn.SyncBatchNorm` refuses CPU tensors.

The running statistics are kept for each group, with the momentum that g passes in a row would
have, and averaged at the end of an epoch (`merge_groups`); the average is what is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...common.ranks import ALONE, Ranks

__all__ = [
    "BatchNorm",
    "begin_groups",
    "full_precision",
    "group_statistics",
    "groups",
    "load_group_statistics",
    "merge_groups",
    "synchronize",
]


class BatchNorm(nn.Module):
    """Batch normalization of (b, c) or (b, c, h, w), with the names of `torch.nn.BatchNorm2d`.

    Parameters
    ----------
    channels : int
    eps, momentum : float. As in PyTorch.
    affine : bool. Whether there are a weight and a bias.

    Attributes
    ----------
    groups, blocks : int, bool. Groups of the present pass, and whether they lie one after the
        other; set by `groups`.
    ranks : Ranks. The processes whose rows the statistics are of; set by `synchronize`.
    """

    running_mean: Tensor
    running_var: Tensor
    group_mean: Tensor
    group_var: Tensor

    def __init__(
        self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True
    ) -> None:
        super().__init__()
        self.channels, self.eps, self.momentum = channels, eps, momentum
        self.groups, self.blocks = 1, False
        self.ranks = ALONE
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        # One row for each group that a pass has had; they start from the running statistics.
        self.register_buffer("group_mean", torch.zeros(0, channels), persistent=False)
        self.register_buffer("group_var", torch.zeros(0, channels), persistent=False)
        self._held: dict[int, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        """Normalize by the statistics of each group in training, by the running ones otherwise."""
        if not self.training:
            self.merge_groups()
            return F.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        g = self.groups
        self.begin()
        momentum = 1.0 - (1.0 - self.momentum) ** g
        if self.blocks and g > 1:
            parts = zip(x.chunk(g), self.group_mean, self.group_var, strict=True)
            own = self.weight, self.bias
            return torch.cat([self._normalized(p, *own, m, v, momentum) for p, m, v in parts])
        wide = x.reshape(x.shape[0] // g, g * x.shape[1], *x.shape[2:])
        weight: Tensor | None = self.weight
        bias: Tensor | None = self.bias
        if g > 1 and weight is not None and bias is not None:
            weight, bias = weight.repeat(g), bias.repeat(g)
        mean, var = self.group_mean.view(-1), self.group_var.view(-1)
        return self._normalized(wide, weight, bias, mean, var, momentum).reshape(x.shape)

    def _normalized(
        self,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        momentum: float,
    ) -> Tensor:
        if self.ranks.world_size > 1:
            return _synchronized(x, weight, bias, mean, var, momentum, self.eps, self.ranks)
        return F.batch_norm(x, mean, var, weight, bias, True, momentum, self.eps)

    def begin(self) -> None:
        """Let the groups of the present pass start, where there were others before."""
        if len(self.group_mean) != self.groups:
            self._begin_groups(self.groups)

    @torch.no_grad()
    def _begin_groups(self, g: int) -> None:
        """Let g groups start from the running statistics.

        They lie where g groups lay before: a captured step that ends with other groups than it
        begins with finds those that the step before it has left.
        """
        self.merge_groups()
        like, held = self.running_mean, self._held.get(g)
        if held is None or held.device != like.device or held.dtype != like.dtype:
            held = self._held[g] = like.new_empty(2, g, len(like))
        self.group_mean, self.group_var = held
        self.group_mean.copy_(self.running_mean.expand(g, -1))
        self.group_var.copy_(self.running_var.expand(g, -1))

    @torch.no_grad()
    def merge_groups(self) -> None:
        """Average the running statistics of the groups, which end."""
        if len(self.group_mean):
            self.running_mean.copy_(self.group_mean.mean(0))
            self.running_var.copy_(self.group_var.mean(0))
            self.group_mean = self.group_mean[:0]
            self.group_var = self.group_var[:0]

    def _save_to_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.merge_groups()
        super()._save_to_state_dict(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: Any, *args: Any, **kwargs: Any
    ) -> None:
        # Weights of PyTorch's own layer carry a count that nothing here reads.
        state_dict.pop(f"{prefix}num_batches_tracked", None)
        self.group_mean, self.group_var = self.group_mean[:0], self.group_var[:0]
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        """Say what differs from the defaults."""
        return f"{self.channels}, eps={self.eps}, momentum={self.momentum}"


@contextmanager
def groups(module: nn.Module, count: int, *, blocks: bool = False) -> Iterator[None]:
    """Run a module whose batch consists of `count` groups, interleaved or one after the other."""
    layers = [layer for layer in module.modules() if isinstance(layer, BatchNorm)]
    before = [(layer.groups, layer.blocks) for layer in layers]
    for layer in layers:
        layer.groups, layer.blocks = count, blocks
    try:
        yield
    finally:
        for layer, old in zip(layers, before, strict=True):
            layer.groups, layer.blocks = old


def begin_groups(module: nn.Module) -> None:
    """Let the groups of all layers start before a pass that is compiled, whose code it is not."""
    for layer in module.modules():
        if isinstance(layer, BatchNorm) and layer.training:
            layer.begin()


def merge_groups(module: nn.Module) -> None:
    """Average the groups' running statistics in all layers, so that a saved state is complete."""
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            layer.merge_groups()


def group_statistics(module: nn.Module) -> dict[str, list[Tensor]]:
    """Return copies of the groups' running statistics of each layer that has some, by its name.

    A saved state holds their average: within an epoch that is not all.
    """
    return {
        name: [layer.group_mean.clone(), layer.group_var.clone()]
        for name, layer in module.named_modules()
        if isinstance(layer, BatchNorm) and len(layer.group_mean)
    }


def load_group_statistics(module: nn.Module, state: Mapping[str, list[Tensor]]) -> None:
    """Take over what `group_statistics` returned, after the state of the module."""
    for name, layer in module.named_modules():
        if isinstance(layer, BatchNorm) and name in state:
            mean, var = state[name]
            layer.group_mean = mean.to(layer.running_mean).clone()
            layer.group_var = var.to(layer.running_var).clone()


def synchronize(module: nn.Module, ranks: Ranks) -> None:
    """Take the statistics of a module's layers over the rows of these ranks."""
    for layer in module.modules():
        if isinstance(layer, BatchNorm):
            layer.ranks = ranks


def _synchronized(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    ranks: Ranks,
) -> Tensor:
    axes = [0, *range(2, x.ndim)]
    wide = full_precision(x)
    out: Tensor
    out, mean, var, n = _WholeBatch.apply(wide, axes, eps, ranks)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        running_var.lerp_((var * (n / (n - 1).clamp(min=1))).to(running_var.dtype), momentum)
    if weight is not None and bias is not None:
        shape = [1, -1] + [1] * (x.ndim - 2)
        out = out * weight.view(shape) + bias.view(shape)
    return out.to(x.dtype)


def full_precision(x: Tensor) -> Tensor:
    """Bring half precision to float32, and leave what is wider as it is."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class _WholeBatch(torch.autograd.Function):
    """(x - mean) / std with the mean and the variance over the rows of all ranks.

    Forward: one sum of counts, sums and squares about this rank's mean (Chan's formula, so that
    large means cost no digits). Backward: with g the gradient and z the output,
    ``dx = (g - mean(g) - z mean(g z)) / std``, the means again over all ranks.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, axes: list[int], eps: float, ranks: Ranks
    ) -> tuple[Tensor, ...]:
        shape = [1, -1] + [1] * (x.ndim - 2)
        own = x.mean(axes, dtype=torch.float64)
        rows = own.new_full((1,), x.numel() // x.shape[1])
        square = (x - own.view(shape).to(x.dtype)).double().square().sum(axes)
        table = torch.cat([rows, own, square])[None]
        every = ranks.join(table, [1] * ranks.world_size)
        counts, means, squares = every[:, :1], *every[:, 1:].chunk(2, dim=1)
        n = counts.sum()
        mean = (counts * means).sum(0) / n
        var = (squares + counts * (means - mean) ** 2).sum(0) / n
        scale = torch.rsqrt(var + eps).to(x.dtype)
        z = (x - mean.view(shape).to(x.dtype)) * scale.view(shape)
        ctx.save_for_backward(z, scale, n)
        ctx.axes, ctx.shape, ctx.ranks = axes, shape, ranks
        ctx.mark_non_differentiable(mean, var, n)
        return z, mean, var, n

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        z, scale, n = ctx.saved_tensors
        g = grads[0]
        sums = torch.cat([g.double().sum(ctx.axes), (g * z).double().sum(ctx.axes)])
        ctx.ranks.sum_([sums])
        first, second = (part.view(ctx.shape).to(g.dtype) for part in (sums / n).chunk(2))
        return (g - first - z * second) * scale.view(ctx.shape), None, None, None
