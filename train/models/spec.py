"""What a model was made for: its input, its network, and how features become scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

from ...algos.core.errors import UsageError
from ..config.constraints import Cardinal, Name, Positive, one_of
from ..config.methods.gatcluster import GatclusterOptions
from ..config.run import FITS, NetworkConfig
from ..config.schema import Checked, Rule, from_mapping

__all__ = ["READOUTS", "EncoderSpec", "GraphSpec", "InputSpec", "ModelSpec"]

READOUTS = ("directions", "log-probabilities", "label-branch", "neighbors")
"""How the rows of a network become features and scores; see `ModelSpec`."""

_Side = Annotated[int, Rule("an integer, 1 or more", lambda side: side >= 1)]


@dataclass(frozen=True, slots=True)
class InputSpec(Checked):
    """One sample, and how a picture becomes one.

    Attributes
    ----------
    shape : (c, h, w) of an image, with values from 0 to 255; (d,) of an embedding.
    fit : ``"crop"``, ``"crop-bilinear"``, ``"imagenet"`` or ``"squash"``: how a whole picture
        becomes the square; see `config.DataConfig`. ``"none"``: pictures must have this size
        already.
    copy_side : int, 0 or more. Shorter side of the copy that a picture is cut from, as in training
        (``data.decode = "copies"``); 0: it is cut from the picture itself.
    """

    shape: Annotated[
        tuple[_Side, ...], Rule("(c, h, w) or (d,)", lambda shape: len(shape) in (1, 3))
    ]
    fit: Annotated[str, one_of(*FITS, "none")] = "none"
    copy_side: Cardinal = 0

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.fit != "none" and not (self.is_image and self.shape[1] == self.shape[2]):
            msg = f"fit={self.fit!r} is for square images, got samples of shape {self.shape}"
            raise UsageError(msg)

    @property
    def is_image(self) -> bool:
        """Whether a sample is an image."""
        return len(self.shape) == 3


@dataclass(frozen=True, slots=True)
class EncoderSpec(Checked):
    """An encoder that had learned before, as far as ``network.name`` does not say it.

    Attributes
    ----------
    frozen : bool. Whether its features are divided by a deviation of their own.
    size, mean, std : of an encoder of a library: what its pixels are; see `networks.libraries`.
    architecture : str. What builds it again, besides its name: JSON, or nothing.
    """

    frozen: bool = False
    size: tuple[_Side, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[Positive, ...] = ()
    architecture: str = ""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if len(self.size) not in (0, 2) or len(self.mean) != len(self.std):
            msg = (
                f"an encoder has height and width, and a mean for each deviation, got "
                f"size={self.size}, mean={self.mean}, std={self.std}"
            )
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class GraphSpec(Checked):
    """A graph of neighbors: what its tensors are, and how many of its rows place another one.

    Attributes
    ----------
    rows, vectors, neighbors : int, 1 or more. Its rows, their coordinates, and the neighbors of a
        row besides itself, which are fewer than the rows.
    """

    rows: _Side
    vectors: _Side
    neighbors: _Side

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.neighbors >= self.rows:
            msg = f"a graph has fewer neighbors than rows, got {self.neighbors} of {self.rows}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class ModelSpec(Checked):
    """All of a model but its numbers.

    Attributes
    ----------
    method : str. Which method trained it.
    readout : ``"directions"``: features are the network's rows at unit length, scores their cosines
        with the centers; ``"log-probabilities"``: features are the softmax of the rows, scores its
        logarithm; ``"label-branch"``: features and scores are the softmax of GATCluster's label
        branch; ``"neighbors"``: features are the coordinates of the network's rows in a graph of
        neighbors, at unit length, scores their cosines with the centers.
    temperature : float > 0. Divides the scores in the softmax of ``"directions"``.
    n_clusters : int, 2 or more.
    n_samples : int. Samples that it was trained on, whose sizes the bounds are.
    input : InputSpec
    network : NetworkConfig. The encoder and the projector; without a predictor.
    own_network : str. Class of an encoder of the user's own; empty where ``network.name`` says all.
    encoder : EncoderSpec or None. Of an encoder that was frozen, or is of timm or transformers.
    branches : GatclusterOptions or None. Of the readout ``"label-branch"``.
    graph : GraphSpec or None. Of the readout ``"neighbors"``.
    dtype : ``"float32"`` or ``"float64"``. Of the network.
    autocast : bool. Whether the network runs under autocast to bfloat16.
    dualclust, torch : str. Versions that wrote the file.
    """

    method: Name
    readout: Annotated[str, one_of(*READOUTS)]
    temperature: Positive
    n_clusters: Annotated[int, Rule("an integer, 2 or more", lambda k: k >= 2)]
    n_samples: Cardinal
    input: InputSpec
    network: NetworkConfig = field(default_factory=NetworkConfig)
    own_network: str = ""
    encoder: EncoderSpec | None = None
    branches: GatclusterOptions | None = None
    graph: GraphSpec | None = None
    dtype: Annotated[str, one_of("float32", "float64")] = "float32"
    autocast: bool = False
    dualclust: str = ""
    torch: str = ""

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if (self.branches is not None) != (self.readout == "label-branch"):
            msg = f"branches belong to readout='label-branch', got readout={self.readout!r}"
            raise UsageError(msg)
        if (self.graph is not None) != (self.readout == "neighbors"):
            msg = f"a graph belongs to readout='neighbors', got readout={self.readout!r}"
            raise UsageError(msg)

    def as_mapping(self) -> dict[str, Any]:
        """Return what JSON can keep; `from_json` gives an equal record."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, mapping: Mapping[str, Any], where: str) -> ModelSpec:
        """Check what a file says.

        Raises
        ------
        UsageError
            At the first key that is unknown or missing, or breaks its rule.
        """
        return from_mapping(cls, mapping, where)
