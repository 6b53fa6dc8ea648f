"""A callback for Lightning: sizes, prices and violation of every epoch, on the bar and in a file.

Lightning is optional and is loaded on the first call. Prices need no callback to be saved: they are
buffers, and so in every checkpoint.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from ..algos.core.errors import MissingExtraError, OutputError, UsageError
from .prices import SizePrices, price_figures

__all__ = ["PriceLog", "lightning_callback"]

PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""Names under which Lightning is installed; what has been imported comes first."""


class PriceLog:
    """The hooks of the callback: counts begin anew with an epoch, and its end shows and saves.

    Any loop may call them; `trainer` needs ``current_epoch``, ``global_step`` and
    ``is_global_zero``, and the model ``log_dict``, as Lightning's have.

    Parameters
    ----------
    path : str or path, optional
        A file to which each epoch adds one line of JSON, by the first rank: ``epoch``, ``step``,
        and for each module its `PriceFigures`. None saves nothing.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Refuse a model without prices, which would be watched in vain."""
        if not any(isinstance(part, SizePrices) for part in pl_module.modules()):
            msg = (
                f"{type(pl_module).__name__} must hold a PricedLabels or a PricedRouter, got none. "
                f"To fix this, make it an attribute of the module"
            )
            raise UsageError(msg)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Count the labels of this epoch alone."""
        for part in pl_module.modules():
            if isinstance(part, SizePrices):
                part.reset_counts()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the figures of the epoch by ``log_dict``, those of sizes on the progress bar."""
        figures = price_figures(pl_module)
        for name, found in figures.items():
            head = f"{name}/" if name else ""
            sizes = {f"{head}smallest": found.smallest, f"{head}largest": found.largest}
            pl_module.log_dict(sizes, prog_bar=True)
            spread = max(found.prices) - min(found.prices)
            rest = {f"{head}violation": found.violation, f"{head}price_range": spread}
            pl_module.log_dict(rest)
        if self.path is not None and trainer.is_global_zero:
            where = {"epoch": trainer.current_epoch, "step": trainer.global_step}
            modules = {name: found._asdict() for name, found in figures.items()}
            self._save({**where, "modules": modules})

    def _save(self, row: dict[str, Any]) -> None:
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            msg = f"{self.path} cannot be written: {error.strerror}. To fix this, pass another path"
            raise OutputError(msg) from error


def lightning_callback(path: str | Path | None = None) -> Any:
    """Return a Lightning callback that shows and saves sizes, prices and violations.

    After each epoch it logs, for every `PricedLabels` and `PricedRouter` of the model, the smallest
    and the largest size in units of the mean size (also on the progress bar), the violation in
    labels and the range of the prices.

    Parameters
    ----------
    path : str or path, optional
        As in `PriceLog`: one line of JSON for each epoch, with all sizes and prices.

    Returns
    -------
    lightning.pytorch.Callback
        Of the package that has been imported, ``lightning`` or ``pytorch_lightning``.

    Raises
    ------
    MissingExtraError
        If Lightning is not installed.

    Notes
    -----
    ``Trainer(callbacks=[lightning_callback("prices.jsonl")])``. One read from the device for each
    module and epoch, none in a step. The counts are those of all ranks.
    """
    base = _callback_class()
    kind = type("PricesCallback", (PriceLog, base), {"__doc__": PriceLog.__doc__})
    return kind(path)


def _callback_class() -> type:
    """Return the base class of callbacks, of the Lightning that the caller uses."""
    for name in sorted(PACKAGES, key=lambda package: package not in sys.modules):
        try:
            found: type = import_module(name).Callback
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise  # Lightning is there, and a part of it is missing
            continue
        return found
    msg = "the callback needs Lightning. To fix this: pip install lightning"
    raise MissingExtraError(msg)
