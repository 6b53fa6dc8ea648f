"""The settings of a training run: frozen dataclasses in, TOML in and out.

One `RunConfig` describes a run. The run folder keeps it as ``config.toml``, and this file alone
repeats the run: what is read back equals what was written, to the last bit of every float. No
typing mistake is answered by a silent default: an unknown key, a wrong type and a value out of
range each raise `UsageError` with the key, the value, the rule and, where one is near, the right
spelling.

The rule of a field is part of its type (``lr: Positive``), so the class body is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar

from ...algos.bounds.sizes import ROUNDING
from ...algos.core.checks import choice_fix
from ...algos.core.errors import MissingFileError, UsageError
from ...algos.online.step_sizes import PUBLISHED
from ...common.untrusted import read_toml
from .augment import AugmentConfig
from .constraints import Cardinal, Count, Fraction, Name, Positive, Seed, one_of
from .data import FITS, MOST_PIXELS, DataConfig
from .encoder import EncoderConfig
from .linear import LinearConfig
from .methods import METHOD_OPTIONS, with_method_tables
from .optim import OptimConfig
from .schema import Checked, Rule, dump_config, from_mapping, override
from .starts import StartsConfig

__all__ = [
    "FITS",
    "LOGS",
    "MOST_PIXELS",
    "AssignmentConfig",
    "AugmentConfig",
    "DataConfig",
    "EncoderConfig",
    "EvaluationConfig",
    "ExecutionConfig",
    "HeadsConfig",
    "LinearConfig",
    "LossConfig",
    "NetworkConfig",
    "OptimConfig",
    "RunConfig",
    "dump_config",
    "from_mapping",
    "load_config",
    "override",
]

Options = TypeVar("Options", bound=Checked)

LOGS = ("tensorboard", "wandb", "mlflow")
"""What figures may be given to besides ``metrics.jsonl``; see `loop.trackers`."""


@dataclass(frozen=True, slots=True)
class NetworkConfig(Checked):
    """The network that maps an image to a feature vector; see `networks.build_network`.

    Attributes
    ----------
    name : str. A key of `networks.NETWORKS`; ``"timm/NAME"`` or ``"hf/NAME"``, an encoder of that
        library. ``"own:CLASS"`` in the settings of a run whose encoder is a module of the user's
        own; `train` writes it, and `resume` wants such a module.
    width : int, 0 or more. Channels of the first stage, or units of the hidden layer of ``"mlp"``;
        0 takes the network's own standard.
    hidden : int. Units of the projector's hidden layers.
    out_dim : int. Length of the feature vector.
    layers : int, 0 or more. Linear layers of the projector: 2 as SeCu on CIFAR, 3 on ImageNet; 1 is
        linear; 0 leaves the encoder's output as it is, whatever `out_dim`.
    last_norm : bool. Batch normalization after the projector's last layer.
    predictor : int, 0 or more. Units of the hidden layer of a predictor behind the projector; 0:
        there is none.
    """

    name: Name = "digits-cnn"
    width: Cardinal = 0
    hidden: Count = 128
    out_dim: Count = 64
    layers: Cardinal = 2
    last_norm: bool = False
    predictor: Cardinal = 0


@dataclass(frozen=True, slots=True)
class HeadsConfig(Checked):
    """The numbers of clusters learned side by side.

    Attributes
    ----------
    clusters : tuple of int, each 2 or more. One head for each.
    target : int, one of `clusters`. The head that is used for prediction; with `candidates` the one
        that the figures of the epochs are of, until one of them is chosen.
    candidates : tuple of int, rising, some of `clusters`; empty: there is no choice. Heads that
        are judged without classes at each evaluation, and of which one is chosen at the end.
    init : ``"kmeans"`` or ``"random"``. Where the centers start: constrained k-means of the
        untrained network's features, or uniform on the sphere as published.
    """

    clusters: Annotated[
        tuple[Annotated[int, Rule("an integer, 2 or more", lambda k: k >= 2)], ...],
        Rule("a non-empty list without repetition", lambda ks: 0 < len(ks) == len(set(ks))),
    ] = (10, 20)
    target: Count = 10
    init: Annotated[str, one_of("kmeans", "random")] = "kmeans"
    candidates: Annotated[
        tuple[int, ...],
        Rule(
            "a rising list of two or more, or empty",
            lambda ks: len(ks) != 1 and list(ks) == sorted(set(ks)),
        ),
    ] = ()

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.target not in self.clusters:
            msg = (
                f"target must be one of clusters={list(self.clusters)}, got {self.target}. "
                f"To fix: add {self.target} to clusters, or choose another target"
            )
            raise UsageError(msg)
        if self.candidates and (
            self.target not in self.candidates or not set(self.candidates) <= set(self.clusters)
        ):
            msg = (
                f"candidates must be some of clusters={list(self.clusters)}, with "
                f"target={self.target} among them, got {list(self.candidates)}. To fix: add what "
                f"is missing to clusters, and choose one of the candidates as target"
            )
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class AssignmentConfig(Checked):
    """The bounds on cluster sizes, and the pace of the dual prices that hold them.

    Attributes
    ----------
    lower : float in [0, 1]. Smallest size as a ratio of the mean size n/k; 0 switches it off.
    upper : float, 1 or more. Largest size as a ratio of n/k; ``inf`` switches it off.
    kappa : float > 0. How far the price of a starved cluster rises in the first epoch, in units of
        score; halved with each epoch.
    kappa_floor : float in (0, kappa]. Where the halving stops.
    steps : ``"measured"``, by the rules of `dualclust.algos.online.step_sizes`, one step for each
        head; or the name of a published setting (``"secu-cifar"``, ``"secu-imagenet"``,
        ``"coke-cifar"``, ``"coke-imagenet"``): its step for all heads, one update for each batch,
        whatever kappa.
    rounding : ``"inward"``, ``"outward"`` or ``"nearest"``. How a bound that is no whole number
        becomes one.
    """

    lower: Fraction = 0.9
    upper: Annotated[float, Rule("1 or more (inf: no upper bound)", lambda x: x >= 1)] = 1.1
    kappa: Positive = 3.4
    kappa_floor: Positive = 0.3
    steps: Annotated[str, one_of("measured", *PUBLISHED)] = "measured"
    rounding: Annotated[str, one_of(*ROUNDING)] = "inward"

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.kappa_floor > self.kappa:
            msg = (
                f"kappa_floor must be at most kappa={self.kappa}, got {self.kappa_floor}"
                ". To fix this, lower kappa_floor or raise kappa"
            )
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
class EvaluationConfig(Checked):
    """When and how the clusters are predicted and compared.

    Attributes
    ----------
    every : int, 1 or more. Epochs between evaluations; the last epoch is always evaluated.
    views : int, 0 or more. Augmented views averaged at prediction; 0: the plain image alone.
    heads : ``"target"`` or ``"all"``. Which heads are compared with the classes: all of them shows
        under- and over-clustering side by side.
    neighbors : int, 0 or more. Neighbors of a k-NN classifier on the encoder's features; 0: none.
    probe : bool. Whether a linear classifier is fitted on the encoder's features, at the end: a
        logistic regression on the plain images, or by SGD as the table ``[linear]`` says.
    """

    every: Count = 10
    views: Cardinal = 0
    heads: Annotated[str, one_of("target", "all")] = "target"
    neighbors: Cardinal = 0
    probe: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionConfig(Checked):
    """How the step is computed; none of these changes what is computed, up to rounding.

    Attributes
    ----------
    precision : ``"float32"``, ``"bfloat16"`` (autocast of the network; losses, scores and prices
        stay in float32 and float64) or ``"float64"`` (for comparisons).
    channels_last : bool. Memory format of the network and its images.
    step : ``"eager"``, ``"compile"`` (`torch.compile` of the network in training), ``"graph"``
        (CUDA only: the whole step, from features to the optimizer, and the views captured once and
        replayed), ``"compiled-graph"`` (both), or ``"auto"``: on CUDA ``"graph"``, compiled as well
        where the run is long enough, as `loop.execution.choose_step` says, and eager elsewhere.
    """

    precision: Annotated[str, one_of("float32", "bfloat16", "float64")] = "float32"
    channels_last: bool = False
    step: Annotated[str, one_of("auto", "eager", "compile", "graph", "compiled-graph")] = "auto"


@dataclass(frozen=True, slots=True)
@with_method_tables
class RunConfig(Checked):
    """All settings of one training run.

    Attributes
    ----------
    method : str. The clustering method, a key of `METHOD_OPTIONS`: ``"secu"``, ``"coke"``,
        ``"propos"``, ``"gatcluster"``, ``"mi_margin"`` or ``"self_label"``.
    seed : int in [0, 2**63). Source of every random number of the run.
    epochs : int, 1 or more. Passes over the data.
    batch_size : int, 2 or more. Images in one step; batch normalization needs at least two.
    threads : int, 0 or more. CPU threads of PyTorch; 0 leaves its own choice. The order of
        additions depends on it, so that it belongs to what repeats a run.
    log : list of names. Trackers that get a copy of the figures of each epoch: any of
        ``"tensorboard"``, ``"wandb"`` and ``"mlflow"``. Not part of what a run is, so that it may
        differ when a run is resumed.
    augment : AugmentConfig. How the first view of an image is drawn.
    second : AugmentConfig or None. How the second view is drawn, where it differs from the first.
    small : AugmentConfig or None. How small crops are drawn, of methods that have them.
    encoder : EncoderConfig or None. How an encoder is used that has learned before.
    linear : LinearConfig or None. Linear evaluation on crops, where ``evaluation.probe`` is on.
    starts : StartsConfig or None. Several beginnings, of which the best one goes on.
    secu, self_label, coke, ... : a field for each method of `METHOD_OPTIONS`. The method's own
        table; those of other methods must be left out.

    Raises
    ------
    UsageError
        If a value has the wrong type or breaks its rule.

    Examples
    --------
    >>> config = override(RunConfig(), ["optim.lr=0.05", "heads.clusters=[10, 20, 30]"])
    >>> config.optim.lr, config.heads.clusters
    (0.05, (10, 20, 30))
    >>> from_mapping(RunConfig, {"epoch": 3})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    dualclust.algos.core.errors.UsageError: config.toml: unknown key 'epoch'; did you mean ...
    """

    method: Name = "secu"
    seed: Seed = 0
    epochs: Count = 100
    batch_size: Annotated[int, Rule("an integer, 2 or more", lambda x: x >= 2)] = 256
    threads: Cardinal = 0
    log: Annotated[
        tuple[Annotated[str, one_of(*LOGS)], ...],
        Rule("a list without repetition", lambda names: len(names) == len(set(names))),
    ] = ()
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    second: AugmentConfig | None = None
    small: AugmentConfig | None = None
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    assignment: AssignmentConfig = field(default_factory=AssignmentConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    encoder: EncoderConfig | None = None
    linear: LinearConfig | None = None
    starts: StartsConfig | None = None

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        if self.method not in METHOD_OPTIONS:
            msg = (
                f"method must be one of {', '.join(METHOD_OPTIONS)}, got {self.method!r}"
                f". To fix this, {choice_fix(self.method, METHOD_OPTIONS)}"
            )
            raise UsageError(msg)
        self._check_tables()
        if self.linear is not None and (self.data.test == "none" or not self.evaluation.probe):
            msg = (
                "the table [linear] trains a classifier that held-out images score: it needs "
                "data.test='test' and evaluation.probe=true. To fix: set both, or remove the table"
            )
            raise UsageError(msg)
        if self.starts is not None and self.starts.count == 1:
            object.__setattr__(self, "starts", None)  # no choice, and no folder of its beginnings
        if self.starts is not None and self.starts.epochs >= self.epochs:
            begun = self.starts.epochs
            msg = (
                f"starts.epochs must be below epochs={self.epochs}, got {begun}"
                ". To fix this, lower starts.epochs or raise epochs"
            )
            raise UsageError(msg)
        if self.optim.warmup_epochs > self.epochs:
            warmup = self.optim.warmup_epochs
            msg = (
                f"optim.warmup_epochs must be at most epochs={self.epochs}, got {warmup}. To fix "
                f"this, set both, for example --set optim.warmup_epochs={self.epochs // 10}"
            )
            raise UsageError(msg)

    def options(self, kind: type[Options]) -> Options:
        """Return the table of the method whose settings are of this kind; its defaults if None."""
        for name, options in METHOD_OPTIONS.items():
            if options is kind:
                return getattr(self, name) or kind()
        msg = f"{kind.__name__} holds the settings of no method: {', '.join(METHOD_OPTIONS)}"
        raise UsageError(msg)

    def _check_tables(self) -> None:
        for name, options in METHOD_OPTIONS.items():
            table = getattr(self, name)
            if name == self.method and table is None:
                object.__setattr__(self, name, options())
            if name != self.method and table is not None:
                msg = (
                    f"the table [{name}] belongs to another method than method={self.method!r}. "
                    f"To fix this, remove the table, or set method={name!r}"
                )
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
        msg = f"no configuration file at {path}. To fix this, look at the path"
        raise MissingFileError(msg)
    try:
        mapping = read_toml(path)
    except (OSError, ValueError) as error:
        msg = f"{path}: not a TOML file: {error}. To fix this, write it as TOML"
        raise UsageError(msg) from None
    return from_mapping(RunConfig, mapping, str(path))
