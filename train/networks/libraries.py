"""Encoders with weights of others: built by their names, with what their pixels should be.

timm and transformers are needed by nothing else, and neither is loaded before an encoder of it is
asked for. What they download, how timm reads it, and where they keep it, is theirs; nothing here
opens a connection. transformers reads no pickle (``use_safetensors``) and runs no code that comes
with weights; weights on this machine are safetensors for both.

======================  ==========================================================================
name                    encoder
======================  ==========================================================================
``efficientnet/lite2``  a network of ours (`efficientnet_lite`) with the weights of a package, the
                        extra ``photos``
``timm/NAME``           ``timm.create_model(NAME, num_classes=0)``: its pooled features
``hf/NAME``             ``transformers.AutoModel`` of a repository: the class token of the last
                        layer where it has one, else the mean of its tokens or of its map; of
                        models of images and text, the features of images
======================  ==========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...algos.core.errors import DualclustError, MissingExtraError, UsageError
from ...common.untrusted import parse_json
from . import efficientnet_lite

__all__ = ["LIBRARIES", "Built", "Pixels", "library_of", "loaded", "rows_of"]


class Pixels(NamedTuple):
    """What the pixels of an encoder are, from 0 to 1 before anything is done to them.

    Attributes
    ----------
    size : (int, int). Height and width.
    mean, std : tuples of float, one for each channel. Subtracted, and divided by.
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]


class Built(NamedTuple):
    """An encoder of a library.

    Attributes
    ----------
    module : nn.Module
    pixels : Pixels
    architecture : str. What builds the module again, besides its name: JSON, or nothing.
    """

    module: nn.Module
    pixels: Pixels
    architecture: str = ""


class _Library(NamedTuple):
    """How encoders of a library are built.

    Attributes
    ----------
    package : str. What is installed, and the extra of that name.
    build : function of the name, of a place on this machine (empty: what the library gets by the
        name), and of whether parameters that have learned are wanted.
    rebuild : function of the name and the architecture. Returns the module with random parameters.
    """

    package: str
    build: Callable[[str, str, bool], Built]
    rebuild: Callable[[str, str], nn.Module]


def library_of(name: str) -> tuple[str, str] | None:
    """Return library and encoder of a ``network.name``; None if it is of no library.

    Examples
    --------
    >>> library_of("hf/facebook/dinov2-small"), library_of("resnet18")
    (('hf', 'facebook/dinov2-small'), None)
    """
    library, _, rest = name.partition("/")
    return (library, rest) if library in LIBRARIES and rest else None


def rows_of(module: Any, images: Tensor) -> Tensor:
    """Return the features (b, d) that a module of a library makes of normalized images."""
    if hasattr(module, "get_image_features"):
        found = module.get_image_features(pixel_values=images)
        rows: Tensor = found if isinstance(found, Tensor) else found.pooler_output
        return rows
    if not hasattr(module, "config"):
        plain: Tensor = module(images)
        return plain
    last: Tensor = module(pixel_values=images).last_hidden_state
    if last.ndim == 4:
        return last.mean((2, 3))
    return last[:, 0] if _has_class_token(module) else last.mean(1)


def _has_class_token(module: nn.Module) -> bool:
    names = ("cls_token", "class_embedding")
    return any(name.rpartition(".")[2] in names for name, _ in module.named_parameters())


@contextmanager
def _of_library(package: str, name: str) -> Iterator[None]:
    """Turn what a library raises into one error that names the encoder."""
    try:
        yield
    except DualclustError:
        raise
    except Exception as error:  # whatever it meets: a name, a connection, a file
        what = str(error).strip().partition("\n")[0]
        msg = (
            f"{package} cannot build the encoder {name!r}: {type(error).__name__}: {what}. To fix "
            f"this, look at the name, or name weights that are on this machine: encoder.weights"
        )
        raise UsageError(msg) from error


def loaded(package: str, extra: str, module: str = "") -> Any:
    """Import a library, or say how to install it.

    Raises
    ------
    MissingExtraError
    """
    try:
        return import_module(module or package)
    except RuntimeError as error:  # torchvision of another build: its operators are missing
        msg = (
            f"an encoder {extra}/... needs {package}, which does not import here: "
            f"{str(error).partition(chr(10))[0]}. Most likely torchvision is of another build than "
            f"torch {torch.__version__}. To fix this, install both from one index, as "
            f"docs/start/install.md says"
        )
        raise MissingExtraError(msg) from error
    except ImportError as error:
        msg = (
            f"an encoder {extra}/... needs {package}, which does not import here ({error}). "
            f"To fix this: pip install 'dualclust[{extra}]', or pass a module of your own from "
            f"Python: network=..."
        )
        raise MissingExtraError(msg) from error


def _timm(name: str, place: str, learned: bool) -> Built:
    timm, data = loaded("timm", "timm"), loaded("timm", "timm", "timm.data")
    with _of_library("timm", name):
        module: nn.Module = timm.create_model(name, pretrained=learned and not place, num_classes=0)
        said: Mapping[str, Any] = data.resolve_model_data_config(module)
        _, height, width = said["input_size"]
        pixels = Pixels((height, width), tuple(said["mean"]), tuple(said["std"]))
    return Built(module, pixels)


def _timm_again(name: str, architecture: str) -> nn.Module:
    if ":" in name:  # a place, which timm would look up: a file must not make a connection
        msg = (
            f"the encoder timm/{name} is no name of timm's own. To fix this, pass the module: "
            f"dualclust.load(path, network=...)"
        )
        raise UsageError(msg)
    timm = loaded("timm", "timm")
    with _of_library("timm", name):
        module: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    return module


def _hf(name: str, place: str, learned: bool) -> Built:
    library = loaded("transformers", "hf")
    reader = loaded("transformers", "hf", "transformers.image_processing_base")
    if place and not Path(place).is_dir():
        msg = (
            f"encoder.weights of hf/{name} must be a folder that transformers has written, got "
            f"{place!r}. To fix this, name the folder that holds its config.json"
        )
        raise UsageError(msg)
    with _of_library("transformers", f"hf/{name}"):
        if learned:
            module = library.AutoModel.from_pretrained(
                place or name, use_safetensors=True, trust_remote_code=False
            )
        else:
            config = library.AutoConfig.from_pretrained(place or name, trust_remote_code=False)
            module = library.AutoModel.from_config(config, trust_remote_code=False)
        said, _ = reader.ImageProcessingMixin.get_image_processor_dict(place or name)
        pixels = _hf_pixels(said)
    return Built(module, pixels, json.dumps(_described(module.config.to_dict()), sort_keys=True))


def _hf_again(name: str, architecture: str) -> nn.Module:
    library = loaded("transformers", "hf")
    described = parse_json(architecture)
    if foreign := _foreign(described):
        msg = (
            f"the encoder hf/{name} is described by {foreign}, which another library would look "
            f"up. To fix this, pass the module: dualclust.load(path, network=...)"
        )
        raise UsageError(msg)
    with _of_library("transformers", f"hf/{name}"):
        config = library.AutoConfig.for_model(**_described(described))
        module: nn.Module = library.AutoModel.from_config(config, trust_remote_code=False)
    return module


FOREIGN = frozenset(
    {
        "auto_map",
        "backbone",
        "backbone_kwargs",
        "checkpoint_path",
        "model_args",
        "quantization_config",
        "use_pretrained_backbone",
        "use_timm_backbone",
    }
)
"""Settings of transformers that make it build, download or read what is not in the description."""


def _foreign(said: object) -> str:
    """Return a setting, at any depth, by which a file would open a connection or another file."""
    if isinstance(said, Mapping):
        for key, value in said.items():
            if key in FOREIGN and value:
                return f"{key} = {value!r}"
            if key == "model_type" and str(value).startswith("timm"):
                return f"model_type = {value!r}"
    elif not isinstance(said, list):
        return ""
    inside = said.values() if isinstance(said, Mapping) else said
    return next((found for each in inside if (found := _foreign(each))), "")


def _described(said: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what names a place, or code that is found elsewhere."""
    places = ("attn_implementation", "auto_map", "quantization_config", "transformers_version")
    return {k: v for k, v in said.items() if not k.startswith("_") and k not in places}


def _hf_pixels(said: Mapping[str, Any]) -> Pixels:
    """Read the settings of an image processor: what it crops to, and what it divides by."""
    cropped = said.get("crop_size") if said.get("do_center_crop", True) else None
    size = cropped or said.get("size") or 224
    if isinstance(size, Mapping):
        height = size.get("height", size.get("shortest_edge", 224))
        width = size.get("width", height)
    else:
        height = width = size
    if not said.get("do_normalize", True):
        return Pixels((height, width), (0.0,) * 3, (1.0,) * 3)
    mean, std = said.get("image_mean", (0.5,) * 3), said.get("image_std", (0.5,) * 3)
    return Pixels((height, width), tuple(map(float, mean)), tuple(map(float, std)))


def _efficientnet(name: str, place: str, learned: bool) -> Built:
    _check_lite(name)
    if place:
        msg = (
            f"encoder.weights of efficientnet/{name} must be left out, got {place!r}: its weights "
            f"are those of {efficientnet_lite.PACKAGE}. To fix this, leave out --weights"
        )
        raise UsageError(msg)
    # Looked for even where none are wanted yet, so that nobody waits for what cannot come.
    weights = efficientnet_lite.weights_file()
    module = efficientnet_lite.lite2(weights if learned else None)
    side, mean, std = (getattr(efficientnet_lite, n) for n in ("SIDE", "MEAN", "STD"))
    return Built(module, Pixels((side, side), (mean,) * 3, (std,) * 3))


def _efficientnet_again(name: str, architecture: str) -> nn.Module:
    _check_lite(name)
    return efficientnet_lite.lite2()


def _check_lite(name: str) -> None:
    if name != "lite2":
        msg = (
            f"the encoder efficientnet/{name} is unknown; there is efficientnet/lite2. To fix "
            f"this, name that one"
        )
        raise UsageError(msg)


LIBRARIES = {
    "efficientnet": _Library(efficientnet_lite.PACKAGE, _efficientnet, _efficientnet_again),
    "timm": _Library("timm", _timm, _timm_again),
    "hf": _Library("transformers", _hf, _hf_again),
}
"""What the first part of a ``network.name`` with a slash may be."""
