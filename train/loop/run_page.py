"""``report.html`` of a run folder: written anew after each epoch, with samples of the last pass.

An epoch adds its figures, sizes and prices, which the host has or reads once; images are made only
where an evaluation has passed over all samples anyway, and few of them while the run goes on.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ...common.files import write_file
from ..config.run import dump_config
from ..data.samples import EmbeddingData
from ..methods.base import Prediction
from ..report.page import Found, Pictures, RunState, found_parts, run_page
from .run import Run

__all__ = ["ALL", "PAGE", "RunPage"]

PAGE = "report.html"

MEANWHILE, ALL = 600, 20_000
"""Most images on the page while the run goes on, and at its end."""


class RunPage:
    """Writes the page of a run.

    Parameters
    ----------
    run : Run
    folder : Path. The run folder, whose name is the page's title.
    """

    def __init__(self, run: Run, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.parts: dict[str, Any] | None = None
        self.text = dump_config(run.config)

    def see(self, prediction: Prediction, *, most: int = MEANWHILE) -> None:
        """Take labels of all samples, and make what the page shows of them."""
        run, method = self.run, self.run.method
        data, found = run.loader.shown, prediction.assignment
        scores = method.scores(prediction.features, prediction.centers)
        own = scores.gather(1, found.labels[:, None])[:, 0]
        pictures = self._pictures(most)
        alike = None if pictures is None else method.alike()
        parts = Found(
            epoch=max(1, run.epoch),
            labels=_host(found.labels),
            nearest=_host(prediction.nearest),
            runner_up=_host(prediction.runner_up),
            margins=_host(prediction.margins.double()),
            near=_host(own.double()),
            loss=_host((scores.amax(1) - own).double()),
            features=_host(prediction.features.float()),
            prices=_host(found.prices.double()),
            lower=_host(method.bounds[method.target].lower),
            upper=_host(method.bounds[method.target].upper),
            gap=float(found.gap),
            ids=_host(data.ids),
            names=data.names,
            classes=None if data.labels is None else _host(data.labels),
            class_names=data.class_names,
            alike=None if alike is None else (_host(alike[0]), _host(alike[1].double())),
        )
        self.parts = found_parts(parts, pictures)

    def write(
        self, *, done: bool = False, stopped: str = "", more: Sequence[dict[str, Any]] = ()
    ) -> None:
        """Write the page of the run as it is, with more records than those of whole epochs."""
        method, run = self.run.method, self.run
        bounds, prices = method.bounds[method.target], method.training_prices()
        followed = method.bounds[method.followed]
        state = RunState(
            title=self.folder.absolute().name,
            method=run.config.method,
            settings=self.text,
            versions=_versions(run.device),
            epochs=run.config.epochs,
            done=done,
            records=[*run.metrics, *more],
            n_samples=run.loader.n,
            lower=_host(bounds.lower),
            upper=_host(bounds.upper),
            trained=_host(method.training_sizes()),
            prices=None if prices is None else _host(prices),
            stopped=stopped,
            followed=(
                followed.n_clusters,
                int(followed.lower.min()),
                int(followed.upper.max()),
            ),
        )
        write_file(self.folder / PAGE, run_page(state, self.parts))

    def _pictures(self, most: int) -> Pictures | None:
        data, method = self.run.loader.shown, self.run.method
        if isinstance(data, EmbeddingData):
            return None
        images = data

        def stored(positions: list[int]) -> Any:
            return _host(images.fetch(torch.tensor(positions)))

        def attended(positions: list[int]) -> Any:
            return method.attended(images, torch.tensor(positions))

        return Pictures(stored, attended, most)


def _host(tensor: torch.Tensor) -> Any:
    return tensor.detach().cpu().numpy()


def _versions(device: torch.device) -> dict[str, str]:
    names = ("dualclust", "torch", "numpy", "safetensors", "pillow")
    found = {"Python": platform.python_version(), **{name: _version(name) for name in names}}
    return {**found, "device": str(device)}


@cache  # the page is written after each epoch; what is loaded stays what it is
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
