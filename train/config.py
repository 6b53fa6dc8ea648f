"""The settings of a training run: frozen dataclasses in, TOML in and out.

A run is described by one `RunConfig`. It is written beside the results, so that the file alone
repeats the run; it reads as it was written, to the last bit of every float. A typing mistake must
never be answered by a silent default: an unknown key, a wrong type and a value out of range each
raise `UsageError` with the key, the value, the rule and, where one is near, the right spelling.

The rule of a field is part of its type (``lr: Positive``), so the class body is the reference.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from ..algos.bounds import ROUNDING
from ..algos.errors import MissingFileError, UsageError
from ..algos.steps import PUBLISHED
from .records import Checked, Rule, dump_config, from_mapping, override

__all__ = [
    "AssignmentConfig",
    "AugmentConfig",
    "DataConfig",
    "EvaluationConfig",
    "HeadsConfig",
    "LossConfig",
    "NetworkConfig",
    "OptimConfig",
    "RunConfig",
    "dump_config",
    "from_mapping",
    "load_config",
    "override",
]


def _one_of(*names: str) -> Rule:
    return Rule("one of " + ", ".join(map(repr, names)), lambda value: value in names)


# Comparisons are written so that NaN fails them.
Positive = Annotated[float, Rule("a finite number above 0", lambda x: 0 < x < math.inf)]
NonNegative = Annotated[float, Rule("a finite number, 0 or more", lambda x: 0 <= x < math.inf)]
Fraction = Annotated[float, Rule("between 0 and 1", lambda x: 0 <= x <= 1)]
Angle = Annotated[float, Rule("between 0 and 180 degrees", lambda x: 0 <= x <= 180)]
Count = Annotated[int, Rule("an integer, 1 or more", lambda x: x >= 1)]
Cardinal = Annotated[int, Rule("an integer, 0 or more", lambda x: x >= 0)]
Seed = Annotated[int, Rule("an integer in [0, 2**63)", lambda x: 0 <= x < 2**63)]
Name = Annotated[str, Rule("a non-empty string", lambda x: x != "")]


@dataclass(frozen=True, slots=True)
class DataConfig(Checked):
    """What to cluster.

    Attributes
    ----------
    source : str. ``"digits"`` (built in) or the path of an ``.npz`` file; see `data.load_source`.
    """

    source: Name = "digits"


@dataclass(frozen=True, slots=True)
class NetworkConfig(Checked):
    """The network that maps an image to a feature vector; see `networks.build_network`.

    Attributes
    ----------
    name : str. A key of `networks.NETWORKS`.
    width : int, 0 or more. Channels of the first stage; 0 takes the network's own standard.
    hidden : int. Units of the projector's hidden layer.
    out_dim : int. Length of the feature vector.
    """

    name: Name = "digits-cnn"
    width: Cardinal = 0
    hidden: Count = 128
    out_dim: Count = 64


@dataclass(frozen=True, slots=True)
class AugmentConfig(Checked):
    """How far a view may differ from its image; each default is "off". See `augment.augment`.

    Attributes
    ----------
    rotate : float, degrees in [0, 180]. Angle uniform in ±rotate.
    translate : float in [0, 1], share of the side. Shift uniform in ±translate, each axis.
    scale : (float, float), 0 < low <= high. Magnification, log-uniform between the two.
    shear : float, degrees in [0, 60]. Horizontal shear angle uniform in ±shear.
    brightness : float >= 0, in standard deviations of the data. Offset uniform in ±brightness.
    contrast : float in [0, 1]. Factor uniform in 1 ± contrast, about the background.
    noise : float >= 0, in standard deviations of the data. Gaussian noise on each value.
    blur : float in [0, 1]. Probability that a sample is blurred.
    cutout : float in [0, 1], share of the side. Side of a square replaced by background.
    elastic : float in [0, 0.5], share of the side. The control points of a smooth random
        displacement field move uniformly in ±elastic along each axis.
    flip : bool. Mirror left to right with probability one half.
    """

    rotate: Angle = 0.0
    translate: Fraction = 0.0
    scale: tuple[Positive, Positive] = (1.0, 1.0)
    shear: Annotated[float, Rule("between 0 and 60 degrees", lambda x: 0 <= x <= 60)] = 0.0
    brightness: NonNegative = 0.0
    contrast: Fraction = 0.0
    noise: NonNegative = 0.0
    blur: Fraction = 0.0
    cutout: Fraction = 0.0
    elastic: Annotated[float, Rule("between 0 and 0.5", lambda x: 0 <= x <= 0.5)] = 0.0
    flip: bool = False

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.scale[0] > self.scale[1]:
            msg = f"scale must be [low, high] with low <= high, got {list(self.scale)}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class HeadsConfig(Checked):
    """The numbers of clusters learned side by side.

    Attributes
    ----------
    clusters : tuple of int, each 2 or more. One head for each.
    target : int, one of `clusters`. The head that is used for prediction.
    init : ``"kmeans"`` or ``"random"``. Where the centers start: constrained k-means of the
        untrained network's features, or uniform on the sphere as published.
    """

    clusters: Annotated[
        tuple[Annotated[int, Rule("an integer, 2 or more", lambda k: k >= 2)], ...],
        Rule("a non-empty list without repetition", lambda ks: 0 < len(ks) == len(set(ks))),
    ] = (10, 20)
    target: Count = 10
    init: Annotated[str, _one_of("kmeans", "random")] = "kmeans"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.target not in self.clusters:
            msg = (
                f"target must be one of clusters={list(self.clusters)}, got {self.target}. "
                f"To fix: add {self.target} to clusters, or choose another target"
            )
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class AssignmentConfig(Checked):
    """The bounds on cluster sizes, and the pace of the dual prices that hold them.

    Attributes
    ----------
    lower : float in [0, 1]. Smallest size as a ratio of the mean size n/k; 0 switches it off.
    upper : float, 1 or more. Largest size as a ratio of n/k; ``inf`` switches it off.
    kappa : float > 0. How far the price of a starved cluster rises in the first epoch; halved
        with each epoch.
    kappa_floor : float in (0, kappa]. Where the halving stops.
    steps : ``"measured"``, by the rules of `dualclust.algos.steps`, one step for each head; or the
        name of a published setting (``"secu-cifar"``, ``"secu-imagenet"``, ``"coke-cifar"``,
        ``"coke-imagenet"``): its step for all heads, one update for each batch, whatever kappa.
    rounding : ``"inward"``, ``"outward"`` or ``"nearest"``. How a bound that is no whole number
        becomes one.
    """

    lower: Fraction = 0.9
    upper: Annotated[float, Rule("1 or more (inf: no upper bound)", lambda x: x >= 1)] = 1.1
    kappa: Positive = 3.4
    kappa_floor: Positive = 0.3
    steps: Annotated[str, _one_of("measured", *PUBLISHED)] = "measured"
    rounding: Annotated[str, _one_of(*ROUNDING)] = "inward"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.kappa_floor > self.kappa:
            msg = f"kappa_floor must be at most kappa={self.kappa}, got {self.kappa_floor}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class LossConfig(Checked):
    """The temperatures of the loss and the weight of the pseudo-label.

    Attributes
    ----------
    temperature : float > 0. Divides the scores in the loss of the features.
    center_temperature : float > 0. Divides the scores in the loss of the centers.
    tau : float in [0, 1]. Weight of the stored label; 1 - tau goes to the other view's softmax.
    """

    temperature: Positive = 0.05
    center_temperature: Positive = 0.05
    tau: Fraction = 0.2


@dataclass(frozen=True, slots=True)
class OptimConfig(Checked):
    """The optimizer.

    Attributes
    ----------
    name : ``"sgd"``, ``"adam"`` or ``"adamw"``.
    lr : float > 0. Peak step size of the network.
    center_lr : float >= 0. Step size of the centers, constant.
    momentum : float in [0, 1). Of ``"sgd"`` only.
    weight_decay : float >= 0.
    warmup_epochs : int >= 0. Epochs of linear warm-up from 0 to `lr`.
    """

    name: Annotated[str, _one_of("sgd", "adam", "adamw")] = "sgd"
    lr: Positive = 0.1
    center_lr: NonNegative = 0.6
    momentum: Annotated[float, Rule("0 or more and below 1", lambda x: 0 <= x < 1)] = 0.9
    weight_decay: NonNegative = 1e-4
    warmup_epochs: Cardinal = 0


@dataclass(frozen=True, slots=True)
class EvaluationConfig(Checked):
    """When and how the clusters are predicted and compared.

    Attributes
    ----------
    every : int, 1 or more. Epochs between evaluations; the last epoch is always evaluated.
    views : int, 0 or more. Augmented views averaged at prediction; 0: the plain image alone.
    """

    every: Count = 10
    views: Cardinal = 0


@dataclass(frozen=True, slots=True)
class RunConfig(Checked):
    """All settings of one training run.

    Attributes
    ----------
    method : str. The clustering method, such as ``"secu"``.
    seed : int in [0, 2**63). Source of every random number of the run.
    epochs : int, 1 or more. Passes over the data.
    batch_size : int, 2 or more. Images in one step; batch normalization needs at least two.
    threads : int, 0 or more. CPU threads of PyTorch; 0 leaves its own choice. The order of
        additions depends on it, so that it belongs to what repeats a run.

    Raises
    ------
    UsageError
        If a value has the wrong type or breaks its rule.

    Examples
    --------
    >>> config = override(RunConfig(), ["optim.lr=0.05", "heads.clusters=[10, 20, 30]"])
    >>> config.optim.lr, config.heads.clusters
    (0.05, (10, 20, 30))
    >>> from_mapping(RunConfig, {"epoch": 3})
    Traceback (most recent call last):
    ...
    dualclust.algos.errors.UsageError: config.toml: unknown key 'epoch'; did you mean 'epochs'?
    """

    method: Name = "secu"
    seed: Seed = 0
    epochs: Count = 100
    batch_size: Annotated[int, Rule("an integer, 2 or more", lambda x: x >= 2)] = 256
    threads: Cardinal = 0
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    assignment: AssignmentConfig = field(default_factory=AssignmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.optim.warmup_epochs > self.epochs:
            warmup = self.optim.warmup_epochs
            msg = f"optim.warmup_epochs must be at most epochs={self.epochs}, got {warmup}"
            raise UsageError(msg)


def load_config(path: str | Path) -> RunConfig:
    """Read a `RunConfig` from a TOML file.

    Raises
    ------
    MissingFileError
        If `path` is not a file.
    UsageError
        If the file is not TOML, or a key or value is off.
    """
    path = Path(path)
    if not path.is_file():
        msg = f"no configuration file at {path}"
        raise MissingFileError(msg)
    try:
        mapping = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{path}: not a TOML file: {error}"
        raise UsageError(msg) from None
    return from_mapping(RunConfig, mapping, str(path))
