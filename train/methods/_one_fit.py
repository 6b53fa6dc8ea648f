"""What methods share that find their labels in one epoch, from features that stay."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from ...algos.clustering.constrained import constrained_kmeans
from ...algos.clustering.lloyd import best_of
from ...algos.clustering.start import start_centers
from ...algos.core.errors import UsageError
from ...algos.scores.sources import FeatureSource
from ...common.ranks import ALONE, Ranks
from ..config.run import RunConfig
from ..networks.network import Network
from .base import Method, ParameterGroup

__all__ = ["OneFit"]

FINAL_GAP = 1e-4
"""Relative gap that k-means proves for its labels; those of the run are the best there are."""


class OneFit(Method):
    """A method without steps: its epoch is `fit`. The parameters are those of `Method`.

    Attributes
    ----------
    why : str. What the method says of the settings that it refuses.
    figure : str. The attribute, a scalar tensor, that the epoch reports and the state keeps.
    centers : (k, d) tensor. Unit rows.
    """

    views = ("plain",)
    by_steps = False
    why: ClassVar[str]
    figure: ClassVar[str]
    centers: Tensor

    @classmethod
    def check(cls, config: RunConfig, n_samples: int | None = None) -> None:
        """Refuse settings of a network that learns, and several heads."""
        wanted = {
            "epochs": (config.epochs, 1),
            "network.layers": (config.network.layers, 0),
            "network.predictor": (config.network.predictor, 0),
            "heads.clusters": (list(config.heads.clusters), [config.heads.target]),
            "starts": (config.starts, None),
        }
        for name, (found, only) in wanted.items():
            if found != only:
                msg = f"{cls.why}: {name} must be {only}, got {found}. To fix this, set it so"
                raise UsageError(msg)
        super().check(config, n_samples)

    def __init__(
        self, config: RunConfig, network: Network, n_samples: int, ranks: Ranks = ALONE
    ) -> None:
        if ranks.world_size > 1:
            msg = (
                f"method={config.method!r} fits in one process, got {ranks.world_size} ranks. To "
                f"fix this, leave out torchrun"
            )
            raise UsageError(msg)
        super().__init__(config, network, n_samples, ranks)

    def best_of_starts(self, source: FeatureSource, n_init: int) -> Any:
        """Return the best k-means of directions, of `n_init` starts that are the seed's alone."""
        bounds, first = self.bounds[self.target], self.config.seed * n_init

        def run(start: int) -> Any:
            centers = start_centers(source, bounds.n_clusters, seed=start, metric="cosine")
            return constrained_kmeans(source, bounds, centers, metric="cosine", gap=FINAL_GAP)

        return best_of(run, range(first, first + n_init))

    def parameter_groups(self) -> list[ParameterGroup]:
        """Nothing learns by steps of the loop."""
        return []

    def report(self) -> dict[str, float]:
        """The figure of the method."""
        return {self.figure: float(getattr(self, self.figure))}

    def target_centers(self, features: Tensor) -> Tensor:
        """Unit centers, (k, d)."""
        return self.centers

    def state_dict(self) -> dict[str, Any]:
        """All that a prediction depends on, as a nested state of tensors."""
        return {"network": dict(self.network.state_dict()), **self._own_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state; every tensor must be there and fit."""
        self.network.load_state_dict(state["network"])
        for name, tensor in self._own_state().items():
            tensor.copy_(state[name])

    def _own_state(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in ("centers", "labels", self.figure)}
