"""Settings of ``dualclust train``: of a recipe, or chosen by looking at the data; then options.

The later the stronger: the recipe or the choice, ``-k``, ``--data``, ``--set``, ``--seed``.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from importlib.resources import as_file, files
from typing import Any, NamedTuple

from ..algos.core.checks import choice_fix
from ..algos.core.errors import UsageError
from ..common.cores import cores_here
from ..common.devices import kind_of
from ..train.config.encoder import EncoderConfig
from ..train.config.methods import METHOD_OPTIONS
from ..train.config.run import AugmentConfig, RunConfig, load_config, override
from ..train.data.look import Look, look_at
from ..train.data.sources import BUILT_IN
from ..train.networks.network import OWN as OWN_MODULE
from ..train.networks.network import own_name
from ..train.networks.on_machine import DEFAULT, encoder_here
from ..train.networks.own_modules import is_own, open_own
from ..train.own_data import (
    ON_FEATURES,
    Choice,
    Chosen,
    Machine,
    Pace,
    Wanted,
    choose_settings,
    epoch_time,
    fit_to_time,
    method_for,
    seconds_of,
    with_clusters,
)
from ..train.own_data.bases import kind_of_data
from ..train.own_data.encoders import RATE
from ..train.own_data.epochs_for_time import MOST
from ..train.own_data.graph import FROM_SCRATCH
from .clusters_option import clusters_of

__all__ = ["Settings", "read_recipe", "settings_of"]

OWN = ("photos", "embeddings")
"""Recipes METHOD_photos and METHOD_embeddings are chosen by looking at the data."""


class Settings(NamedTuple):
    """Settings of a run, what is told of them, how it keeps to a time, and the user's module."""

    config: RunConfig
    told: str = ""
    pace: Pace | None = None
    network: Any = None


def read_recipe(name: str) -> RunConfig:
    """Read the settings of a TOML file, or of a built-in recipe by its name.

    Raises
    ------
    UsageError
        If neither a file nor a recipe has that name; the message lists the recipes.
    """
    if name.endswith(".toml"):
        return load_config(name)
    recipes = files("dualclust.train.recipes")
    known = sorted(r.name.removesuffix(".toml") for r in recipes.iterdir() if ".toml" in r.name)
    if name not in known:
        msg = (
            f"recipe must be a .toml file or one of {', '.join(known)}, got {name!r}"
            f". To fix this, {choice_fix(name, known)}"
        )
        raise UsageError(msg)
    with as_file(recipes / f"{name}.toml") as path:
        return load_config(path)


def settings_of(options: argparse.Namespace) -> Settings:
    """Read or choose the settings, and change what the options say.

    Raises
    ------
    UsageError, MissingFileError, ...
        If an option, a recipe or the data is not what it should be.
    """
    clusters = clusters_of(options.clusters)
    _check_encoder(options)
    options = _with_default(options)
    recipe, method = options.recipe, options.method
    built_in = options.data in (None, *BUILT_IN) and options.encoder is None
    if recipe in [f"{method}_{kind}" for kind in OWN] or (recipe is None and not built_in):
        return _own(options, recipe, clusters)
    if options.time is not None:
        msg = (
            f"--time fits settings that are chosen by looking at --data, and here a recipe names "
            f"them. To fix this, set epochs instead: --set epochs={10}"
        )
        raise UsageError(msg)
    config = read_recipe(recipe or f"{method}_{options.data or 'digits'}")
    if clusters:
        config = with_clusters(override(config, [f"method={method}"]), clusters)
    config = override(config, _changes(options))
    return Settings(config, "\n".join(_doubts(config)))


def _with_default(options: argparse.Namespace) -> argparse.Namespace:
    """Name the method, and the encoder that it needs, where the user has named none."""
    method, recipe, source = options.method, options.recipe, options.data
    if method is None and recipe is not None:
        named = [m for m in METHOD_OPTIONS if recipe in [f"{m}_{kind}" for kind in OWN]]
        method = named[0] if named else read_recipe(recipe).method
    elif method is None and source in (None, *BUILT_IN) and options.encoder is None:
        method = FROM_SCRATCH
    elif method is None and source is None:
        msg = "--encoder looks at data of your own. To fix this, name it: --data"
        raise UsageError(msg)
    options = argparse.Namespace(**{**vars(options), "method": method})
    asked = dict(item.partition("=")[::2] for item in options.set)
    looks = recipe in (None, f"{method}_photos") and source not in (None, *BUILT_IN)
    if not looks or method not in (None, *ON_FEATURES) or (method and "network.name" in asked):
        return options
    look = look_at(source, split=asked.get("data.split", "auto"))
    found = None
    if options.encoder is None and kind_of_data(look) == "photographs":
        found = encoder_here()
    best = method_for(
        look,
        encoder=options.encoder is not None,
        fine_tune=options.fine_tune,
        there=found is not None,
        card=method is None and not kind_of(options.device).reads_are_free,
    )
    options.method = method or best
    if found is not None:
        options.encoder, options.weights = found.name, found.weights or None
        options.reason = HERE_REASON
    return options


def _changes(options: argparse.Namespace) -> list[str]:
    """Return what the options say, as items of ``--set``."""
    changes = [f"method={options.method}"]
    # Where no data is named, the recipe says what it is of.
    changes += [] if options.data is None else [f"data.source={json.dumps(options.data)}"]
    changes += ["data.folders=classes"] if options.classes else []
    changes += [] if options.bad is None else [f"data.bad={options.bad}"]
    if options.encoder is not None:
        frozen = json.dumps(not options.fine_tune)
        own = () if is_own(options.encoder) else (options.encoder,)  # a module says its name itself
        changes += [f"network.name={json.dumps(name)}" for name in own]
        changes.append(f"encoder.frozen={frozen}")
        changes += [f"encoder.rate={RATE}", "encoder.mode=eval"] if options.fine_tune else []
    if options.weights is not None and not is_own(options.encoder):
        changes.append(f"encoder.weights={json.dumps(options.weights)}")
    changes += options.set
    changes += [] if options.seed is None else [f"seed={options.seed}"]
    changes += [f"log={json.dumps(options.log)}"] if options.log else []
    return changes


def _check_encoder(options: argparse.Namespace) -> None:
    """Refuse flags about an encoder that do not go together."""
    name = options.encoder
    if name is None and (options.weights is not None or options.fine_tune):
        flag = "--fine-tune" if options.weights is None else "--weights"
        msg = f"{flag} is about an encoder. To fix this, name it: --encoder timm/NAME or hf/NAME"
        raise UsageError(msg)
    known = name is None or is_own(name) or re.fullmatch(r"(efficientnet|timm|hf)/.+", name)
    if not known:
        msg = (
            f"--encoder must be timm/NAME or hf/NAME, {DEFAULT}, module:Class, or a file "
            f".pt2, .pt or .onnx, got {name!r}. To fix this, write it so; for a network of ours "
            f"with weights, --set network.name, encoder.weights and encoder.frozen"
        )
        raise UsageError(msg)
    if name is not None and options.time is not None:
        msg = (
            "--time times the steps of a network that learns from its start, and --encoder names "
            "one that has learned. To fix this, set epochs instead: --set epochs=20"
        )
        raise UsageError(msg)


def _wanted(options: argparse.Namespace, network: Any) -> Wanted | None:
    """Look at the encoder that is asked for, without its weights, or at the user's module."""
    if options.encoder is None:
        return None
    from ..train.networks.pretrained import open_encoder

    weights = options.weights or ""
    if network is not None:
        asked = dict(item.partition("=")[::2] for item in options.set)
        side = _number(asked, "data.size") or getattr(network, "side", 0) or OWN_SIDE
        if options.fine_tune and not any(p.requires_grad for p in network.parameters()):
            msg = (
                f"--fine-tune: {options.encoder} has no parameters that learn. To fix this, leave "
                f"it out: the encoder stays as it is, and what follows it learns"
            )
            raise UsageError(msg)
        name, why = f"{OWN_MODULE}{own_name(network)}", f"as asked: --encoder {options.encoder}"
        return Wanted(name, side, not options.fine_tune, reason=why)
    named = replace(RunConfig().network, name=options.encoder)
    found = open_encoder(named, EncoderConfig(weights=weights), learned=False)
    assert found is not None
    wanted = Wanted(options.encoder, max(found.pixels.size), not options.fine_tune, weights)
    if options.encoder == DEFAULT:
        return wanted._replace(reason=LITE_REASON, fit="crop-bilinear")
    return wanted._replace(reason=getattr(options, "reason", wanted.reason))


def _doubts(config: RunConfig) -> list[str]:
    """Say what is legal and yet most likely a mistake."""
    doubts = []
    views = {config.augment, config.second or config.augment}
    if config.method not in ON_FEATURES and views == {AugmentConfig()}:
        doubts.append(
            "dualclust: [augment] changes nothing, so that all views of a sample are the same and "
            "little can be learned. To fix this, set for example augment.crop=[0.3, 1.0] and "
            "augment.flip=true for photographs, augment.noise=0.2 for embeddings"
        )
    if config.network.name == "digits-cnn" and config.data.size > 16:
        doubts.append(
            f"dualclust: network.name='digits-cnn' is made for digits of 8 pixels, and "
            f"data.size={config.data.size}. To fix this, set for example network.name=resnet18-stl"
        )
    return doubts


def _check_asked(
    options: argparse.Namespace, recipe: str | None, clusters: tuple[int, ...], look: Look
) -> None:
    """Refuse a recipe of another kind of data, and data without a number of clusters."""
    source = options.data
    kind = "embeddings" if look.kind == "embeddings" else "photos"
    if recipe is not None and recipe != f"{options.method}_{kind}":
        msg = (
            f"--recipe {recipe} does not fit {source}, which holds {look.describe()}. "
            f"To fix this, leave out --recipe"
        )
        raise UsageError(msg)
    if not clusters:
        msg = (
            f"how many clusters shall {source} be put into? To fix this, say it by -k, for example "
            f"-k 10, or -k 5,10,20 to let the run choose (secu and coke); dualclust cluster X.npy "
            f"--k-range 5:50:5 compares several on embeddings"
        )
        raise UsageError(msg)


def _own(options: argparse.Namespace, recipe: str | None, clusters: tuple[int, ...]) -> Settings:
    """Choose settings by looking at the data."""
    source = options.data
    if source is None:
        what = "settings for --encoder are" if recipe is None else f"--recipe {recipe} is"
        msg = f"{what} chosen by looking at the data. To fix this, name it: --data"
        raise UsageError(msg)
    asked = dict(item.partition("=")[::2] for item in options.set)
    split = asked.get("data.split", "auto")
    look = look_at(source, split=split, folders="classes" if options.classes else "names")
    _check_asked(options, recipe, clusters, look)
    look = look._replace(n=min(look.n, _number(asked, "data.limit") or look.n))
    network = open_own(options.encoder, options.weights or "") if is_own(options.encoder) else None
    card = not kind_of(options.device).reads_are_free
    machine = Machine(*cores_here(), card=card)
    epochs = _number(asked, "epochs")
    chosen = choose_settings(
        look,
        options.method,
        source,
        machine,
        clusters=clusters,
        epochs=epochs,
        encoder=_wanted(options, network),
    )
    changes = _changes(options)
    pace = None
    if options.time is not None:
        seconds = _seconds(options.time, epochs, options.method)
        begun = getattr(options, "begun", None)
        if begun is not None:
            pace = Pace(seconds, begun, MOST * chosen.config.epochs)
        # Beginnings take time as well.
        of_starts = [change for change in changes if change.startswith("starts.")]
        chosen = chosen._replace(config=override(chosen.config, of_starts))
        own_network = any(name.startswith("network.") for name in asked)
        chosen = fit_to_time(
            chosen,
            seconds,
            lambda config: epoch_time(override(config, changes), options.device, look.n),
            rungs=[chosen.config] if own_network else None,
            begun=begun,
        )
    if not card and kind_of("cuda").available():
        note = Choice("--device cpu", "as by default; a CUDA card is here: --device cuda")
        chosen = chosen._replace(choices=(*chosen.choices, note))
    if options.encoder is None and not card and _from_scratch(options.method, look):
        chosen = chosen._replace(choices=(*chosen.choices, SCRATCH))
    config = override(chosen.config, changes)
    told = Chosen(config, tuple(_as_asked(choice, asked) for choice in chosen.choices))
    return Settings(config, told.describe(look, machine), pace, network)


OWN_SIDE = 224
"""Pixels of pictures for a module of the user's own, where neither it nor data.size says them."""

HERE_REASON = "it and its weights are on this machine; another: --encoder"

LITE_REASON = "has learned ImageNet's classes; another: --encoder"

SCRATCH = Choice(
    "from scratch on a CPU",
    "expect nothing: ACC 0.16 of ten classes, chance is 0.10; better: no method",
)
"""What is told of photographs without an encoder that has learned before."""


def _from_scratch(method: str, look: Look) -> bool:
    return method not in ON_FEATURES and kind_of_data(look) == "photographs"


def _as_asked(choice: Choice, asked: dict[str, str]) -> Choice:
    """Return what is told of a choice that --set has overruled."""
    name = choice.settings.partition(" = ")[0]
    return Choice(f"{name} = {asked[name]}", "as asked") if name in asked else choice


def _number(asked: dict[str, str], name: str) -> int | None:
    """Return a count that --set asks for; what is none is refused later, with all its rules."""
    text = asked.get(name, "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _seconds(text: str, epochs: int | None, method: str) -> float:
    """Return what --time says, which finds the epochs that --set must then leave open."""
    if method in ON_FEATURES:
        msg = (
            f"--time fits steps of a network to a time, and {method} takes none: its time is that "
            f"of the features. To fix this, leave out --time, or name a method that learns by steps"
        )
        raise UsageError(msg)
    if epochs is not None:
        msg = "--time finds the epochs, and --set epochs names them. To fix this, leave out one"
        raise UsageError(msg)
    return seconds_of(text)
