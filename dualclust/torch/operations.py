"""The mathematics of the modules as operations of PyTorch, which compilers take as they are.

A compiler would follow the checks and the dispatch of `dualclust.algos` line by line, and give up.
While it traces, a function here is one operation of its graph (`torch.library.custom_op`), which
runs the same Python later; otherwise it is called directly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from ..algos.batches import (
    Ranks,
    balance_hard,
    balance_soft,
    capped_choices,
    plan_gradient,
    whole_bounds,
)
from ..algos.bounds.sizes import SizeBounds
from ..algos.core.errors import UsageError
from ..algos.offline.assignment import assign_exact
from ..algos.online.duals import DualRule, Duals, update_duals
from ..common.devices import kind_of

__all__ = [
    "attached_plan",
    "capped_indices",
    "entered_group",
    "exact_labels",
    "hard_labels",
    "is_traced",
    "moved_prices",
    "ranks_of",
    "soft_labels",
    "soft_labels_gradient",
]

P = ParamSpec("P")
R = TypeVar("R")

_GROUPS: list[Any] = [None]


def is_traced() -> bool:
    """Whether a compiler, or a transform such as vmap, follows what is computed."""
    level = torch._C._functorch.maybe_current_level()
    return torch.compiler.is_compiling() or level is not None


def entered_group(process_group: Any) -> int:
    """Return a number for a group of ranks, since an operation takes numbers and tensors alone."""
    if process_group is None:
        return 0
    _GROUPS.append(process_group)
    return len(_GROUPS) - 1


def ranks_of(group: int) -> Ranks | None:
    """How the ranks of a group exchange numbers; None for one process."""
    if not (dist.is_available() and dist.is_initialized()):
        return None
    members = _GROUPS[group]
    n_ranks = dist.get_world_size(members)
    if n_ranks == 1:
        return None

    def total(values: Tensor) -> Tensor:
        added = values.clone()
        dist.all_reduce(added, group=members)
        return added

    def gather(values: Tensor) -> Tensor:
        parts = [torch.empty_like(values) for _ in range(n_ranks)]
        dist.all_gather(parts, values.contiguous(), group=members)
        return torch.stack(parts)

    return Ranks(dist.get_rank(members), total, gather)


def _operation(fake: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function an operation of a compiler's graph; `fake` makes results of its shapes."""

    def made(function: Callable[P, R]) -> Callable[P, R]:
        name = f"dualclust::{function.__name__}"
        operation = torch.library.custom_op(name, function, mutates_args=())
        operation.register_fake(fake)

        def each(info: Any, in_dims: Any, *arguments: Any) -> Any:
            found = []
            for i in range(info.batch_size):
                pairs = zip(arguments, in_dims, strict=True)
                found.append(operation(*(x if d is None else x.select(d, i) for x, d in pairs)))
            if isinstance(found[0], Tensor):
                return torch.stack(found), 0
            columns = tuple(torch.stack(column) for column in zip(*found, strict=True))
            return columns, (0,) * len(columns)

        operation.register_vmap(each)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_traced():
                return cast("R", operation(*args, **kwargs))
            return function(*args, **kwargs)

        return call

    return made


def _plan_and_prices(rows: Tensor, lower: Any, upper: Any, prices: Tensor, *_: Any) -> Any:
    dtype = torch.promote_types(rows.dtype, torch.float32)
    return torch.empty_like(rows, dtype=dtype), torch.empty_like(prices)


def _labels_and_prices(rows: Tensor, lower: Any, upper: Any, prices: Tensor, *_: Any) -> Any:
    return rows.new_empty(rows.shape[:1], dtype=torch.int64), torch.empty_like(prices)


@_operation(_plan_and_prices)
def soft_labels(
    rows: Tensor,
    lower: Tensor,
    upper: Tensor,
    prices: Tensor,
    weights: Tensor | None,
    epsilon: float,
    n_iter: int,
    group: int,
) -> tuple[Tensor, Tensor]:
    """Return the plan and the prices of `balance_soft`."""
    with kind_of(rows.device).autocast(rows.device, None):
        found = balance_soft(
            rows,
            lower,
            upper,
            epsilon=epsilon,
            prices=prices,
            weights=weights,
            n_iter=n_iter,
            ranks=ranks_of(group),
        )
    return found.plan, found.prices


@_operation(lambda plan, gradient, *_: torch.empty_like(plan))
def soft_labels_gradient(
    plan: Tensor,
    gradient: Tensor,
    held: Tensor,
    weights: Tensor | None,
    epsilon: float,
    max_iter: int,
    group: int,
) -> Tensor:
    """Return the gradient of `plan_gradient`."""
    with kind_of(plan.device).autocast(plan.device, None):
        found: Tensor = plan_gradient(
            plan,
            gradient,
            held,
            epsilon=epsilon,
            weights=weights,
            max_iter=max_iter,
            ranks=ranks_of(group),
        )
    return found


@torch.library.custom_op("dualclust::attached_plan", mutates_args=())
def attached_plan(
    rows: Tensor,
    plan: Tensor,
    held: Tensor,
    weights: Tensor | None,
    epsilon: float,
    max_iter: int,
    group: int,
) -> Tensor:
    """Return a plan found without a graph, as a function of its scores."""
    return plan.clone()


@attached_plan.register_fake
def _(rows: Tensor, plan: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(plan)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rows, plan, held, weights, *ctx.settings = inputs
    ctx.save_for_backward(plan, held, weights)
    ctx.dtype = rows.dtype


def _through(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    plan, held, weights = ctx.saved_tensors
    found = soft_labels_gradient(plan, gradient.to(plan.dtype), held, weights, *ctx.settings)
    return found.to(ctx.dtype), None, None, None, None, None, None


attached_plan.register_autograd(_through, setup_context=_keep)


@_operation(_labels_and_prices)
def hard_labels(
    rows: Tensor,
    lower: Tensor,
    upper: Tensor,
    prices: Tensor,
    counted: Tensor | None,
    epsilon: float,
    n_iter: int,
    group: int,
) -> tuple[Tensor, Tensor]:
    """Return the labels and the prices of `balance_hard`."""
    with kind_of(rows.device).autocast(rows.device, None):
        found = balance_hard(
            rows,
            lower,
            upper,
            epsilon=epsilon,
            prices=prices,
            counted=counted,
            n_iter=n_iter,
            ranks=ranks_of(group),
        )
    return found.labels, found.prices


@_operation(_labels_and_prices)
def exact_labels(
    rows: Tensor,
    lower: Tensor,
    upper: Tensor,
    prices: Tensor,
    counted: Tensor | None,
    group: int,
) -> tuple[Tensor, Tensor]:
    """Return the best labels inside bounds rounded outward, and their prices; reads values.

    Rows that do not count get the label of their largest score.
    """
    if ranks_of(group) is not None:
        msg = (
            "kind='exact' needs all rows of a batch in one process, got several ranks. "
            "To fix this, pass kind='hard', or a process_group of one rank"
        )
        raise UsageError(msg)
    counts = torch.isfinite(rows.amax(dim=1))
    counts = counts if counted is None else counts & counted
    labels, chosen = rows.argmax(dim=1), counts.nonzero()[:, 0]
    if len(chosen) == 0:
        return labels, prices.clone()
    low, high = whole_bounds(lower, upper, float(len(chosen)))
    bounds = SizeBounds.from_counts(
        low.to(torch.int64).tolist(),
        high.to(torch.int64).tolist(),
        n_samples=len(chosen),
        xp=torch,
        device=rows.device,
    )
    found = assign_exact(rows[chosen], bounds, prices=prices)
    labels[chosen] = found.labels
    return labels, found.prices.clone()


def _indices_and_counts(priced: Tensor, capacity: Any, counted: Any, top_k: int, *_: Any) -> Any:
    n, k = priced.shape
    return priced.new_empty((n, top_k), dtype=torch.int64), priced.new_empty(k, dtype=torch.int64)


@_operation(_indices_and_counts)
def capped_indices(
    priced: Tensor, capacity: Tensor, counted: Tensor, top_k: int, n_rounds: int
) -> tuple[Tensor, Tensor]:
    """Return what `capped_choices` does."""
    found: tuple[Tensor, Tensor] = capped_choices(
        priced, capacity, top_k=top_k, counted=counted, n_rounds=n_rounds
    )
    return found


@_operation(lambda lower, upper, *_: (torch.empty_like(lower), torch.empty_like(upper)))
def moved_prices(
    lower: Tensor,
    upper: Tensor,
    lower_target: Tensor,
    upper_target: Tensor,
    step_size: Tensor,
    sizes: Tensor,
    free_sign: bool,
    l1_radius: float,
) -> tuple[Tensor, Tensor]:
    """Return the prices of `update_duals` after one step whose targets are in labels."""
    rule = DualRule(lower_target, upper_target, step_size, free_sign=free_sign, l1_radius=l1_radius)
    moved = update_duals(Duals(lower, upper), sizes, 1, rule)
    return moved.lower.clone(), moved.upper.clone()
