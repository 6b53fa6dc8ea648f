"""What all modules share: bounds as buffers, which stay float64 in a model of lower precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..algos.bounds.sizes import SizeBounds
from ..algos.core.checks import check_real, check_same_place, check_shape, check_values
from ..algos.core.errors import InvalidTypeError, InvalidValueError
from .operations import entered_group

__all__ = ["Bounded"]

BOUNDS = ("lower_share", "upper_share", "group_lower_share", "group_upper_share")


class Bounded(nn.Module):
    """A module with bounds on the shares of k clusters.

    Parameters
    ----------
    n_clusters : int
        k >= 1.
    lower, upper : float or sequence of k floats
        Smallest and largest size in units of the mean size n / k, as in `SizeBounds.from_ratios`.
    process_group : torch.distributed.ProcessGroup, optional
        Ranks that share a batch; all ranks by default, where there are several.
    device : torch.device or str, optional

    Attributes
    ----------
    lower_share, upper_share : (k,) float64 buffers
    """

    lower_share: Tensor
    upper_share: Tensor

    def __init__(
        self,
        n_clusters: int,
        *,
        lower: Any,
        upper: Any,
        process_group: Any,
        device: torch.device | str | None,
    ) -> None:
        super().__init__()
        self.bounds = SizeBounds.for_stream(
            n_clusters, lower=lower, upper=upper, xp=torch, device="cpu"
        )
        self.n_clusters, self.group = n_clusters, entered_group(process_group)
        self.register_buffer("lower_share", self.bounds.lower_share.to(device))
        self.register_buffer("upper_share", self.bounds.upper_share.to(device))

    def check_scores(self, scores: Tensor, weights: Tensor | None) -> None:
        """Check the arguments of ``forward`` without reading a value; a compiler does without."""
        if torch.compiler.is_compiling():
            return
        check_real("scores", scores)
        check_values("scores", scores)
        if scores.ndim < 2 or scores.shape[-1] != self.n_clusters:
            msg = (
                f"scores must have shape (..., {self.n_clusters}), got {tuple(scores.shape)}. "
                f"To fix this, give a column for each cluster"
            )
            raise InvalidValueError(msg)
        check_same_place(prices=self.lower_share, scores=scores, weights=weights)
        for name, buffer in self.named_buffers(recurse=False):
            if buffer.is_floating_point() and buffer.dtype != torch.float64:
                msg = (
                    f"prices must be float64, got {buffer.dtype} for {name}: something cast the "
                    f"buffers. To fix this, leave this module out of the conversion"
                )
                raise InvalidTypeError(msg)
        if weights is not None:
            check_shape("weights", weights, tuple(scores.shape[:-1]))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move to another device; buffers stay float64 in a model of lower precision."""

        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        self._move(moved)
        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def _move(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Move tensors that are no buffers."""

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *lists: Any
    ) -> None:
        """Take over a saved state of the same bounds; prices of others would mean nothing."""
        for name in BOUNDS:
            saved, own = state_dict.get(prefix + name), getattr(self, name, None)
            if (
                saved is None
                or own is None
                or saved.shape != own.shape
                or torch.equal(saved.to(own), own)
            ):
                continue
            error_msgs: list[str] = lists[-1]
            error_msgs.append(
                f"{prefix}{name} differs: the state was saved under other bounds. To fix this, "
                f"build the module with the bounds of the state, or leave out its keys"
            )
            return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)
