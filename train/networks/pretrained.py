"""Encoders that have learned before: opened by the settings, told apart by their parameters.

An encoder is one of three: a module of the user's own; one of timm or transformers (`libraries`),
in a `Pretrained` that brings pixels to what it was trained on; or a network of ours with
parameters from a file (`load_start`). What a run began with is known by a digest (`digest_of`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.core.errors import CheckpointError, MissingFileError, UsageError
from ..config.encoder import RANDOM, EncoderConfig
from ..config.run import NetworkConfig, RunConfig
from ..state.seeding import generator
from .libraries import LIBRARIES, Pixels, library_of, rows_of
from .network import OWN, own_name

__all__ = [
    "Pretrained",
    "Standardized",
    "check_digest",
    "check_own",
    "digest_of",
    "load_start",
    "open_encoder",
    "read_start",
    "start_digest",
]

SUFFIX = ".safetensors"

_HEADS = ("fc.", "head.", "classifier.", "head_dist.")
"""Parameters of a file that no encoder has: those of the classifier it was trained with."""

_COUNTS = "num_batches_tracked"
"""What a batch normalization counts, and nothing here reads."""


class Pretrained(nn.Module):
    """An encoder of a library, for pixels from 0 to 1 of any size and of one channel or three.

    Parameters
    ----------
    module : nn.Module. Of timm or transformers.
    pixels : Pixels. What it was trained on.
    architecture : str. See `libraries.Built`.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, module: nn.Module, pixels: Pixels, architecture: str = "") -> None:
        super().__init__()
        # Repositories may be in half precision; what a run computes in is for it to say.
        self.module, self.pixels, self.architecture = module.float(), pixels, architecture
        for name, numbers in (("mean", pixels.mean), ("std", pixels.std)):
            vector = torch.tensor(numbers, dtype=torch.float32)[:, None, None]
            self.register_buffer(name, vector, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Features (b, d) of (b, c, h, w) pixels; gray ones stand in each channel."""
        if images.shape[1] == 1:
            images = images.expand(-1, len(self.mean), -1, -1)
        if tuple(images.shape[2:]) != self.pixels.size:
            mode = str(getattr(self.module, "resize", "bicubic"))
            images = F.interpolate(
                images, self.pixels.size, mode=mode, antialias=True, align_corners=False
            ).clamp(0.0, 1.0)
        return rows_of(self.module, (images - self.mean) / self.std)


class Standardized(nn.Module):
    """A frozen encoder with what its features are divided by.

    Parameters
    ----------
    module : nn.Module. The encoder.
    mean, std : (d,) float32 tensors.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, module: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.module = module
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, samples: Tensor) -> Tensor:
        """Features (b, d) of samples, as training saw them."""
        rows: Tensor = self.module(samples)
        return (rows - self.mean) / self.std


def open_encoder(
    network: NetworkConfig, encoder: EncoderConfig | None, *, seed: int = 0, learned: bool = True
) -> Pretrained | None:
    """Open the encoder of a library.

    Parameters
    ----------
    network, encoder : the tables of the settings.
    seed : int. Seed of parameters that are drawn; the global random state is left alone.
    learned : bool. Whether its parameters are wanted, or a checkpoint has them.

    Returns
    -------
    Pretrained, or None where ``network.name`` is of no library.

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    UsageError, MissingFileError
        If it does not know the encoder, or the weights are not there or not those of it.
    """
    found = library_of(network.name)
    if found is None:
        return None
    library, name = found
    place = "" if encoder is None else encoder.weights
    learned = learned and place != RANDOM
    place = "" if place == RANDOM else place
    # Of a run that goes on, a folder still says what is built.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(seed, "encoder").initial_seed())
        built = LIBRARIES[library].build(name, place, learned)
    if place and learned and library == "timm":  # transformers has read its folder
        load_start(built.module, read_start(place), place)
    return Pretrained(built.module, built.pixels, built.architecture)


def read_start(weights: str) -> dict[str, Tensor]:
    """Read parameters to start from: a file of ``.safetensors``.

    Raises
    ------
    MissingFileError
        If there is none.
    UsageError
        If it is no such file.
    """
    path = Path(weights)
    if not path.is_file():
        msg = f"no weights at {weights!r}. To fix this, look at encoder.weights"
        raise MissingFileError(msg)
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        msg = (
            f"cannot read {weights}, which must be a file of .safetensors ({error}). To fix this, "
            f"write the parameters so: safetensors.torch.save_file(module.state_dict(), path)"
        )
        raise UsageError(msg) from error


def load_start(module: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Give an encoder its parameters; those of a classifier behind it are left out.

    Raises
    ------
    UsageError
        If another tensor is missing, is too many or has another shape; the first one is named.
    """
    ours = {n: t for n, t in module.state_dict().items() if not n.endswith(_COUNTS)}
    given = {
        name: tensor
        for name, tensor in state.items()
        if name in ours or not (name.startswith(_HEADS) or name.endswith(_COUNTS))
    }
    for name in sorted(ours.keys() | given.keys()):
        a, b = (tuple(s[name].shape) if name in s else "no such tensor" for s in (ours, given))
        if a != b:
            msg = (
                f"the weights in {where} are of another network: {name} has {b} there, and the "
                f"encoder {a}. To fix this, name the file of this encoder, or its network.name"
            )
            raise UsageError(msg)
    module.load_state_dict(given, strict=False)


def digest_of(state: nn.Module | Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of parameters and buffers, to the bit, with names and shapes."""
    tensors = state.state_dict() if isinstance(state, nn.Module) else state
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        if isinstance(tensor, Tensor):
            plain = tensor.detach().to("cpu").contiguous().reshape(-1)
            found.update(repr((name, str(plain.dtype), tuple(tensor.shape))).encode())
            found.update(np.ascontiguousarray(plain.view(torch.uint8).numpy()).data)
    return found.hexdigest()


def start_digest(config: RunConfig, encoder: nn.Module | None) -> str:
    """Return the digest of what the encoder of a run starts from; empty for random parameters.

    Parameters
    ----------
    config : RunConfig
    encoder : nn.Module or None. Of a library or of the user's own.
    """
    if encoder is not None:
        return digest_of(encoder.module if isinstance(encoder, Pretrained) else encoder)
    weights = "" if config.encoder is None else config.encoder.weights
    return digest_of(read_start(weights)) if weights not in ("", RANDOM) else ""


def check_digest(options: EncoderConfig | None, found: str) -> None:
    """Refuse an encoder with other parameters than the run was started with.

    Raises
    ------
    CheckpointError
    """
    if options is not None and options.digest and found != options.digest:
        msg = (
            f"the encoder has other weights than the run was started with: their SHA-256 is "
            f"{found[:16]}..., and encoder.digest {options.digest[:16]}.... To fix this, give the "
            f"encoder the weights that it had, or begin another run"
        )
        raise CheckpointError(msg)


def check_own(config: NetworkConfig, encoder: nn.Module | None) -> None:
    """Refuse a module of the user's own that is not of the class that the settings name.

    The class is compared without the module that defines it: a script is ``__main__`` when it is
    run, and has its name when it is imported.

    Raises
    ------
    UsageError
    """
    if encoder is None:
        return
    wanted, found = config.name, own_name(encoder)
    if not wanted.startswith(OWN):
        msg = (
            f"the run has network.name={wanted!r}, and a module of your own was passed, {found}. "
            f"To fix this, leave network out"
        )
        raise UsageError(msg)
    if wanted.rpartition(".")[2] != found.rpartition(".")[2]:
        msg = (
            f"the run was started with the network {wanted.removeprefix(OWN)}, and {found} was "
            f"passed. To fix this, pass a module of that class"
        )
        raise UsageError(msg)
