"""Learning rates and optimizers: PyTorch's own, and LARS, which PyTorch does not have."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...common.devices import kind_of
from ..config.run import OptimConfig
from ..methods.base import ParameterGroup

__all__ = ["build_optimizer", "learning_rate", "set_rates"]


def learning_rate(options: OptimConfig, epochs: int, at: float, *, step: float = 0.0) -> float:
    """Rate of the network after `at` epochs: frozen, then linear warm-up, then its schedule.

    In the frozen epochs the network does not learn; with one of them only the centers learn first
    (SeCu, released scripts).

    Parameters
    ----------
    options : OptimConfig
    epochs : int. Of the whole run.
    at : float in [0, epochs). Epochs that are over.
    step : float >= 0. Epochs that one step takes; ``options.first_step`` says what it is for.
    """
    frozen = float(options.frozen_epochs)
    if at < frozen:
        return 0.0
    since = at - frozen
    if options.first_step == "shifted":
        since += step
    warmup = options.warmup_epochs
    if since < warmup:
        if options.first_step == "repeated":
            since = max(since, step)
        return options.lr * min(since / warmup, 1.0)
    if options.schedule == "constant":
        return options.lr
    length = epochs if options.cosine_over == "epochs" else epochs - frozen - warmup
    done = min((since - warmup) / max(length, 1e-12), 1.0)
    return options.lr * 0.5 * (1.0 + math.cos(math.pi * done))


def build_optimizer(
    options: OptimConfig, groups: Iterable[ParameterGroup]
) -> torch.optim.Optimizer:
    """Make the optimizer of a method's groups; each keeps what `set_rates` needs to know.

    Where the device has them, PyTorch's own optimizers take their step in one kernel for many
    tensors.
    """
    tables: list[dict[str, Any]] = [
        {
            "params": group.params,
            "lr": options.lr * group.scale if group.lr is None else group.lr,
            "scale": group.scale if group.lr is None else None,
            "peak": group.lr if group.ramp else None,
            "stacked": group.stacked,
        }
        for group in groups
    ]
    rate, decay, momentum = options.lr, options.weight_decay, options.momentum
    if options.name == "lars":
        inside = options.lars_rate == "inside"
        return LARS(tables, lr=rate, weight_decay=decay, momentum=momentum, rate_inside=inside)
    fused = all(kind_of(p.device).fused for table in tables for p in table["params"]) or None
    if options.name == "sgd":
        return torch.optim.SGD(tables, lr=rate, weight_decay=decay, momentum=momentum, fused=fused)
    kind = torch.optim.Adam if options.name == "adam" else torch.optim.AdamW
    return kind(tables, lr=rate, weight_decay=decay, fused=fused)


def set_rates(optimizer: torch.optim.Optimizer, rate: float, done: float = 0.0) -> None:
    """Set the rate of every group that follows a schedule; in place where it is a tensor.

    Parameters
    ----------
    optimizer : from `build_optimizer`.
    rate : float. Rate of the network now.
    done : float in [0, 1]. Share of the run that lies behind. Groups that ramp have
        ``peak (1 - cos(pi done)) / 2``, as SeCu's centers on ImageNet under the entropy constraint
        (released script; the paper does not say it).
    """
    for group in optimizer.param_groups:
        if group["peak"] is not None:
            now = group["peak"] * 0.5 * (1.0 - math.cos(math.pi * done))
        elif group["scale"] is not None:
            now = rate * group["scale"]
        else:
            continue
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(now)
        else:
            group["lr"] = now


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose step is scaled by the norms of each tensor (You et al. 2017).

    ``v <- m v + c * |w| / |g + d w| * (g + d w)``; ``w <- w - lr * v``, as SeCu and CoKe have it.
    You et al., and ProPos, put the rate inside: ``v <- m v + lr * c * ...``; ``w <- w - v``. Both
    are one as long as the rate is. Tensors of one dimension (biases, normalization) get neither
    decay `d` nor the scale, as in BYOL, SeCu and CoKe. A tensor whose norm or gradient is zero
    moves at the plain rate.

    Parameters
    ----------
    params : as of any optimizer. A group with ``stacked = True`` holds several tensors in one,
        along its first axis, each with norms of its own.
    lr, momentum, weight_decay : float
    trust : float. The coefficient c.
    rate_inside : bool. Whether the momentum buffer holds steps, rate included, or directions.

    Notes
    -----
    No value is read back from the device, and all tensors of a group are updated by a few calls.
    """

    def __init__(
        self,
        params: Any,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
        *,
        rate_inside: bool = False,
    ) -> None:
        self.rate_inside = rate_inside
        defaults = {"momentum": momentum, "weight_decay": weight_decay, "trust": trust}
        super().__init__(params, {"lr": lr, "stacked": False, **defaults})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step; returns what `closure` does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            w, g, v = self._tensors(group)
            if not w:
                continue
            update = list(torch._foreach_mul(g, 1.0))
            scaled = [i for i, tensor in enumerate(w) if tensor.ndim > 1]
            if scaled:
                own, moved = [w[i] for i in scaled], [update[i] for i in scaled]
                torch._foreach_add_(moved, own, alpha=group["weight_decay"])
                size = torch.stack(torch._foreach_norm(own))
                length = torch.stack(torch._foreach_norm(moved))
                scale = group["trust"] * size / length
                scale = torch.where((size > 0) & (length > 0), scale, 1.0)
                torch._foreach_mul_(moved, list(scale.unbind()))
            if self.rate_inside:
                torch._foreach_mul_(update, group["lr"])
            torch._foreach_mul_(v, group["momentum"])
            torch._foreach_add_(v, update)
            torch._foreach_sub_(w, v if self.rate_inside else torch._foreach_mul(v, group["lr"]))
        return loss

    def _tensors(self, group: dict[str, Any]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Tensors to move, their gradients and momentum buffers; what is stacked, one by one."""
        found: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            three = (parameter.detach(), parameter.grad, state["momentum_buffer"])
            for tensors, one in zip(found, three, strict=True):
                tensors.extend(one.unbind() if group["stacked"] else [one])
        return found
