"""Choose the settings of a run by looking at its data, and say why.

What is chosen without a reason in the data is the recipe's (`bases`), but for the rates on small
gray images. Nothing reads a class, and the same data on the same machine gives the same settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...algos.clustering.neighbor_graph import MOST_IN_GRAPH
from ..config.run import AugmentConfig, DataConfig, RunConfig
from ..config.starts import StartsConfig
from ..data.look import Look
from .bases import FINER_HEADS, NEIGHBORS, PAIRED, base_of, kind_of_data, papers_views
from .candidates import as_numbers, check_candidates, with_candidates
from .encoders import Wanted, put_encoder
from .epochs import epochs_by_count, lasting
from .graph import ON_FEATURES, feature_settings

__all__ = [
    "Choice",
    "Chosen",
    "Machine",
    "choose_settings",
    "with_clusters",
]

LEAST_SIZE = 8
"""Mean size of a cluster below which a finer head is left out."""

VIEWS, BEGUN = (1.0, 0.5), 0.4
"""Strengths of the views that beginnings try, and their share of the epochs: what suits digits is
too much for letters (benchmarks/results/own_data.md)."""

RATE = 3.0
"""Rates of SeCu and CoKe on small gray images over those of the recipes with the same views: seeds
differ less (benchmarks/results/own_data.md). For a network that begins anew."""

LOWER, UPPER = 0.7, 1.5
"""Bounds on sizes where nobody has said how balanced the data is."""


class Machine(NamedTuple):
    """What a run is on: CPUs that it uses, why not more, and whether it trains on a card."""

    cores: int
    why: str = ""
    card: bool = False

    def describe(self) -> str:
        """Return the words for it."""
        if self.card:
            return "a CUDA card"
        return f"{self.cores} CPU core{'s' * (self.cores > 1)}"


class Choice(NamedTuple):
    """Settings that belong together, as ``--set`` would take them, and why they are so."""

    settings: str
    reason: str


class Chosen(NamedTuple):
    """Settings of a run, and the reasons for those that were chosen."""

    config: RunConfig
    choices: tuple[Choice, ...]

    def describe(self, look: Look, machine: Machine) -> str:
        """Return what is printed before a run: each choice, its reason, how to change it."""
        source, method = self.config.data.source, self.config.method
        lines = [f"settings for {source}: {look.describe()}; {machine.describe()}"]
        choices = (*self.choices, *_of_beginnings(self.config))
        width = max(len(choice.settings) for choice in choices)
        lines += [f"  {choice.settings:<{width}}  {choice.reason}" for choice in choices]
        changed = f"--set epochs={max(1, self.config.epochs // 2)}"
        if method in ON_FEATURES:
            changed = "--set assignment.lower=0.8"
        return "\n".join(
            [
                *lines,
                f"to change one: {changed}; to keep all: dualclust train {method} --recipe "
                f"RUN/config.toml",
            ]
        )


def choose_settings(
    look: Look,
    method: str,
    source: str,
    machine: Machine,
    *,
    clusters: int | Sequence[int],
    epochs: int | None = None,
    data: Mapping[str, Any] | None = None,
    encoder: Wanted | None = None,
) -> Chosen:
    """Choose the settings of a method for data that somebody has looked at.

    Parameters
    ----------
    look : Look. From `data.look.look_at`.
    method : str. One of `bases.METHODS`.
    source : str. Where the data is.
    machine : Machine
    clusters : int, 2 or more; or several, of which the run chooses one (`candidates`).
    epochs : int, optional. Passes that the user asks for, to which the warm-up is fitted.
    data : mapping, optional. More settings of the table ``[data]``.
    encoder : Wanted, optional. An encoder that has learned before.

    Returns
    -------
    Chosen

    Raises
    ------
    UsageError
        If the method goes on from another run or cannot choose among several numbers of clusters,
        or a value breaks its rule.

    Examples
    --------
    >>> look = Look("files", 500, 3, 180, 135, varied=True)
    >>> found = choose_settings(look, "secu", "photos", Machine(2), clusters=10)
    >>> found.config.data.size, found.config.heads.clusters, found.config.augment.crop
    (48, (10, 20, 40), (0.3, 1.0))
    """
    if method in ON_FEATURES:
        config, told = feature_settings(
            look,
            method,
            source,
            clusters,
            threads=0 if machine.card else machine.cores,
            data=DataConfig(**(data or {})),
            encoder=encoder,
        )
        return Chosen(config, tuple(Choice(*one) for one in told))
    numbers = as_numbers(clusters)
    check_candidates(method, numbers)
    images = look
    if encoder is not None and encoder.frozen:
        # As `train.loop.encoder` sees it: rows of numbers, of a length that is not known yet.
        look = Look("embeddings", look.n)
    kind = kind_of_data(look)
    base, for_samples = base_of(look, method, card=machine.card)
    config = replace(
        base,
        data=DataConfig(source=source, **(data or {})),
        threads=0 if machine.card else machine.cores,
    )
    choices: list[Choice] = []
    if machine.why and not machine.card:
        choices.append(Choice(f"threads = {machine.cores}", machine.why))
    config = {"strokes": _strokes, "photographs": _photographs, "embeddings": _embeddings}[kind](
        config, look, machine, choices
    )
    if kind == "strokes" and method in FINER_HEADS and encoder is None:
        config = _larger_steps(config, choices)
    if encoder is not None:
        config, about = put_encoder(config, images, encoder)
        own = ("network.", "data.size", "data.decode")
        kept = [c for c in choices if not c.settings.startswith(own)]
        choices = [*(Choice(*one) for one in about), *kept]
    config = _sizes(config, look, numbers, choices)
    config = _length(config, look, machine, kind, for_samples, epochs, choices)
    return Chosen(config, tuple(choices))


def with_clusters(config: RunConfig, clusters: int | Sequence[int]) -> RunConfig:
    """Copy settings for another number of clusters; heads beside the target keep their ratio to it.

    Of several, the largest takes the place of the target; those that the settings have already make
    way for the new ones, and their largest counts as the target.

    Raises
    ------
    UsageError
        If the method cannot choose among several.

    Examples
    --------
    >>> from dualclust.train.config.run import override
    >>> config = override(RunConfig(), ["heads.clusters=[10, 20, 80]"])
    >>> with_clusters(config, 25).heads.clusters
    (25, 50, 200)
    >>> with_clusters(config, [5, 10]).heads.clusters
    (5, 10, 20, 80)
    """
    numbers = as_numbers(clusters)
    check_candidates(config.method, numbers)
    before = config.heads
    ratio = numbers[-1] / max(before.candidates, default=before.target)
    kept = [round(k * ratio) for k in before.clusters if k not in before.candidates]
    beside = {k for k in kept if k >= 2}
    network = config.network
    if config.method == "mi_margin":
        network = replace(network, out_dim=numbers[-1])  # its last layer is the head
    if len(numbers) > 1:
        finer = sorted(k for k in beside if k > numbers[-1])
        return replace(config, heads=with_candidates(config.heads, numbers, finer))
    heads = replace(
        config.heads,
        clusters=tuple(sorted(beside | set(numbers))),
        target=numbers[0],
        candidates=(),
    )
    return replace(config, heads=heads, network=network)


def _strokes(config: RunConfig, look: Look, machine: Machine, choices: list[Choice]) -> RunConfig:
    size = 0
    if look.kind == "files":
        size = min(look.side, 28) if look.side > 12 else look.side
        choices.append(Choice(f"data.size = {size}", "the pictures' own size, at most 28 pixels"))
    choices += [
        Choice(f'network.name = "{config.network.name}"', "small gray images: it keeps places"),
        Choice("augment.rotate, translate, ...", "views by shifts and small turns, no colors"),
    ]
    return replace(config, data=replace(config.data, size=size))


def _larger_steps(config: RunConfig, choices: list[Choice]) -> RunConfig:
    """Rates for small gray images; SeCu alone has one of its own for centers."""
    names = ("lr", "center_lr") if config.method == "secu" else ("lr",)
    rates = {name: round(RATE * getattr(config.optim, name), 6) for name in names}
    why = "three times the recipe's: steadier over seeds"
    choices += [Choice(f"optim.{name} = {rate:g}", why) for name, rate in rates.items()]
    return replace(config, optim=replace(config.optim, **rates))


def _photographs(
    config: RunConfig, look: Look, machine: Machine, choices: list[Choice]
) -> RunConfig:
    size = _view_size(config.method, look, machine)
    side = size or look.side
    name, width = _encoder(config.method, side, machine)
    views = papers_views(config.method)
    if look.channels == 1:
        views = {k: _without_colors(v) for k, v in views.items()}
    crops = any(view is not None and view.crop != (1.0, 1.0) for view in views.values())
    data = replace(config.data, size=size)
    if look.kind == "files":
        why = "as small as a CPU needs it" if not machine.card else "half of that of a picture"
        choices.append(Choice(f"data.size = {size}", f"side of a view in pixels: {why}"))
        if crops:
            data = replace(data, decode="copies")
            where = "files are decoded once; crops are of the whole picture"
            choices.append(Choice('data.decode = "copies"', where))
    network = replace(config.network, name=name, width=width)
    kind = "residual" if "resnet" in name else "GATCluster's"
    views_of = "augment.crop, jitter, ..." if crops else "augment.rotate, jitter, ..."
    gray = ", without colors" if look.channels == 1 else ""
    choices += [
        Choice(f'network.name = "{name}"', f"a {kind} network for {side} pixels"),
        Choice(
            f"network.width = {width}", f"channels of its first stage, for {machine.describe()}"
        ),
        Choice(views_of, f"the paper's views of photographs{gray}"),
    ]
    config = replace(config, data=data, network=network, **views)
    if machine.card:
        # ProPos takes 1.3 times as long with channels last (benchmarks/results/cuda.md).
        last = config.method != "propos"
        execution = replace(config.execution, precision="bfloat16", channels_last=last)
        config = replace(config, execution=execution)
        choices.append(Choice('execution.precision = "bfloat16"', "twice as fast on a card"))
    return config


def _view_size(method: str, look: Look, machine: Machine) -> int:
    """Side of a view in pixels, at most half that of a picture, so that crops are no magnifiers.

    0: images in arrays have the size they have.
    """
    if look.kind != "files":
        return 0
    if method == "gatcluster":
        return 96 if machine.card and look.side >= 96 else 32
    sizes = (96, 64, 48) if machine.card else (48,)
    return next((size for size in sizes if 2 * size <= look.side), 32)


def _encoder(method: str, side: int, machine: Machine) -> tuple[str, int]:
    """Name and width of the encoder for images of this size."""
    width = 64 if machine.card else 16
    if method == "gatcluster":
        return ("gat-stl" if side >= 90 else "gat-cifar"), width
    if side <= 40 and machine.card:
        return "resnet18-cifar", width
    return ("resnet18-stl" if side <= 128 else "resnet18"), width


def _without_colors(view: AugmentConfig | None) -> AugmentConfig | None:
    return None if view is None else replace(view, jitter=(*view.jitter[:2], 0.0, 0.0), gray=0.0)


def _embeddings(
    config: RunConfig, look: Look, machine: Machine, choices: list[Choice]
) -> RunConfig:
    network = replace(
        config.network,
        name="mlp" if config.method in ("gatcluster", "mi_margin") else "none",
        width=min(512, max(64, look.dim)) if config.method in ("gatcluster", "mi_margin") else 0,
        layers={"gatcluster": 0, "mi_margin": 1}.get(config.method, 2),
        hidden=256,
    )
    data = replace(config.data, standardize=True)
    choices += [
        Choice(
            f'network.name = "{network.name}"',
            "one hidden layer" if network.name == "mlp" else "heads alone: the fast path",
        ),
        Choice("data.standardize = true", "so that all columns count alike"),
    ]
    config = replace(config, data=data, network=network)
    if config.method in PAIRED and look.n <= MOST_IN_GRAPH:
        why = "one view of an embedding is itself, the other one of so many nearest"
        choices.append(Choice(f"second.neighbors = {NEIGHBORS}", why))
        pair = AugmentConfig(neighbors=NEIGHBORS)
        return replace(config, augment=AugmentConfig(), second=pair)
    choices += [
        Choice("augment.noise = 0.2", "a view of an embedding: in deviations of a column"),
        Choice("augment.mask = 0.2", "and this share of its numbers is hidden"),
    ]
    return replace(config, augment=AugmentConfig(noise=0.2, mask=0.2), second=None)


def _sizes(
    config: RunConfig, look: Look, numbers: tuple[int, ...], choices: list[Choice]
) -> RunConfig:
    """Heads and bounds for these numbers of clusters."""
    largest = numbers[-1]
    finer: list[int] = []
    if config.method in FINER_HEADS:
        finer = [f * largest for f in (2, 4, 8) if look.n // (f * largest) >= LEAST_SIZE]
    heads = with_candidates(config.heads, numbers, finer)
    why = "-k; finer heads beside it make a run reliable" if finer else "-k"
    choices.append(Choice(f"heads.clusters = {list(heads.clusters)}", why))
    if heads.candidates:
        why = "a head for each; the one that stands out without labels is used"
        choices.append(Choice(f"heads.candidates = {list(heads.candidates)}", why))
    network, assignment = config.network, config.assignment
    if config.method == "mi_margin":
        network = replace(network, out_dim=largest)
    if config.method in FINER_HEADS:
        assignment = replace(assignment, lower=LOWER, upper=UPPER)
        why = "in units of n/k: data is seldom balanced, so that"
        choices += [
            Choice(f"assignment.lower = {LOWER}", f"{why} clusters may be small"),
            Choice(f"assignment.upper = {UPPER}", "and may be large"),
        ]
    return replace(config, heads=heads, network=network, assignment=assignment)


def _length(
    config: RunConfig,
    look: Look,
    machine: Machine,
    kind: str,
    for_samples: int,
    asked: int | None,
    choices: list[Choice],
) -> RunConfig:
    """Epochs, batches, warm-up and beginnings for this number of samples."""
    if asked is None:
        asked = epochs_by_count(config.epochs, look.n, for_samples, kind, card=machine.card)
        told = f"by count: {asked * look.n:,} samples are seen"
    else:
        told = "as asked"
    choices.append(Choice(f"epochs = {asked}", told))
    # GATCluster takes many steps in one large batch.
    least = look.n if config.method == "gatcluster" else max(32, look.n // 7)
    batch = max(2, min(config.batch_size, least))
    if batch != config.batch_size:
        choices.append(Choice(f"batch_size = {batch}", "there are few samples"))
    config = lasting(replace(config, batch_size=batch), asked)
    begun = round(BEGUN * asked)
    if kind == "strokes" and config.method in FINER_HEADS and begun:
        starts = StartsConfig(count=len(VIEWS), epochs=begun, by="silhouette", views=VIEWS)
        config = replace(config, starts=starts)
    return config


def _of_beginnings(config: RunConfig) -> tuple[Choice, ...]:
    """Tell of several beginnings what the settings say, whoever has changed them."""
    starts = config.starts
    if starts is None:
        return ()
    if starts.by == "loss":
        why = f"{starts.epochs} epochs each; the one with the least loss goes on"
        return (Choice(f"starts.count = {starts.count}", why),)
    why = f"{starts.epochs} epochs each; the one whose clusters are farthest apart goes on"
    return (Choice(f"starts.views = {list(starts.views)}", why),)
