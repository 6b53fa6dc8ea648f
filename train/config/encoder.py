"""How an encoder that has learned before is used: what it starts from, and whether it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .constraints import Positive, one_of
from .schema import Checked, Rule

__all__ = ["RANDOM", "EncoderConfig"]

RANDOM = "random"
"""What `EncoderConfig.weights` says where nothing learned is wanted."""


@dataclass(frozen=True, slots=True)
class EncoderConfig(Checked):
    """How the encoder of a run is used that has learned before.

    Attributes
    ----------
    weights : str. A file of ``.safetensors``, or, of a ``"hf/..."`` encoder, a folder that
        transformers has written; ``"random"``: parameters that have learned nothing. Empty: those
        that timm or transformers get for its name, by their own means; of a module of the user's
        own, those that it has; of a network of ours, random ones.
    frozen : bool. The features of all samples are computed once, kept on disk, and only what
        follows the encoder learns; otherwise the encoder learns too.
    features : ``"float32"`` or ``"float16"``. How features of a frozen encoder are kept.
    rate : float > 0. Factor on the learning rate, for an encoder that learns.
    mode : ``"train"`` or ``"eval"``. Whether the batch normalization and the dropout of an encoder
        that learns work as in training, or as in evaluation: statistics stay what they were.
    digest : str. SHA-256 of the parameters that the run began with. `train` writes it, and refuses
        others where it is there; of a frozen encoder `resume` does as well.
    """

    weights: str = ""
    frozen: bool = False
    features: Annotated[str, one_of("float32", "float16")] = "float32"
    rate: Positive = 1.0
    mode: Annotated[str, one_of("train", "eval")] = "train"
    digest: Annotated[
        str, Rule("empty, or 64 hexadecimal digits", lambda text: not text or len(text) == 64)
    ] = ""
