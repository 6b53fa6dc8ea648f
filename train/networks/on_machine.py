"""The encoder of photographs where the user names none: what is on this machine, weights and all.

First come networks of the DINOv2 family that transformers or timm have downloaded before: published
results on frozen features are theirs (TEMI .945 to .969 on CIFAR-10, where `efficientnet_lite` has
.62 here). huggingface_hub is asked where its cache keeps their files, a look that opens no
connection, and the place is named as ``encoder.weights``, so that no library looks for newer ones.
Small networks come before large ones, for CPUs. timm's DINOv2 is left out: it is made for 518
pixels, which takes seven times as long as 256.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ...algos.core.errors import MissingExtraError
from .efficientnet_lite import weights_file
from .libraries import LIBRARIES, library_of, loaded

__all__ = ["DEFAULT", "LARGER", "Found", "encoder_here"]

DEFAULT = "efficientnet/lite2"
"""Of the extra ``photos``."""

LARGER = (
    "hf/facebook/dinov2-small",
    "hf/facebook/dinov2-with-registers-small",
    "hf/facebook/dinov3-vits16-pretrain-lvd1689m",
    "timm/vit_small_patch16_dinov3.lvd1689m",
    "hf/facebook/dinov2-base",
    "hf/facebook/dinov2-with-registers-base",
    "hf/facebook/dinov3-vitb16-pretrain-lvd1689m",
    "timm/vit_base_patch16_dinov3.lvd1689m",
)
"""Names of ``--encoder``, the first one that is there is taken."""

_WEIGHTS = "model.safetensors"
_FILES = {"hf": (_WEIGHTS, "config.json", "preprocessor_config.json"), "timm": (_WEIGHTS,)}


class Found(NamedTuple):
    """An encoder with its weights.

    Attributes
    ----------
    name : str. What ``network.name`` becomes.
    weights : str. What ``encoder.weights`` becomes: a place; empty where the name says it.
    """

    name: str
    weights: str = ""


def encoder_here() -> Found | None:
    """Return the encoder to look at photographs with; None if there is none on this machine."""
    for name in LARGER if find_spec("huggingface_hub") is not None else ():
        if weights := _kept(name):
            return Found(name, weights)
    try:
        weights_file()
    except MissingExtraError:
        return None
    return Found(DEFAULT)


def _kept(name: str) -> str:
    """Return where the weights are, of a library that imports; empty: nowhere."""
    hub: Any = import_module("huggingface_hub")
    split = library_of(name)
    assert split is not None
    library, repository = split
    repository = repository if library == "hf" else f"timm/{repository}"
    found = [hub.try_to_load_from_cache(repository, file) for file in _FILES[library]]
    # None: not asked for yet; another object: known not to be in the repository.
    if not all(isinstance(path, str) for path in found):
        return ""
    try:
        loaded(LIBRARIES[library].package, library)
    except MissingExtraError:
        return ""
    return str(found[0]) if library == "timm" else str(Path(str(found[0])).parent)
