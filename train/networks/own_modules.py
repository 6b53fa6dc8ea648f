"""Encoders of the user's own that the command can name: a class, or a file of a whole network.

========================  ========================================================================
name                      encoder
========================  ========================================================================
``package.module:Class``  ``Class()``, imported from the folder at hand or from what is installed;
                          its weights are those that it makes, or of a file of ``.safetensors``
``FILE.pt2``              ``torch.export.load``
``FILE.pt``, ``.ts``      TorchScript, ``torch.jit.load``
``FILE.onnx``             ``onnxruntime``, on the CPU; nothing in it learns. Weights in files of
                          their own lie beside it
========================  ========================================================================

A class is code that runs, and so is a file of a network: name those that you trust. Each maps
images (b, c, h, w) to rows (b, d) for any b.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...algos.core.errors import MissingExtraError, MissingFileError, UsageError
from .pretrained import load_start, read_start

__all__ = ["Exported", "Onnx", "is_own", "open_own"]

_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_FILES = (".pt2", ".pt", ".ts", ".torchscript", ".onnx")


def is_own(name: str | None) -> bool:
    """Return whether a name is that of a class, ``module:Class``, or of a file of a network.

    Examples
    --------
    >>> [is_own(name) for name in ("my.encoders:Small", "net.onnx", "timm/resnet18", None)]
    [True, True, False, False]
    """
    return name is not None and (bool(_CLASS.fullmatch(name)) or Path(name).suffix in _FILES)


def open_own(name: str, weights: str = "") -> nn.Module:
    """Open an encoder of the user's own.

    Parameters
    ----------
    name : str. As `is_own` knows it.
    weights : str. A file of ``.safetensors`` for a class; empty: those that it makes.

    Raises
    ------
    MissingFileError
        If a file is not there.
    MissingExtraError
        If onnxruntime is not installed.
    UsageError
        If there is no such class, or the file holds no network; the message says what was met.
    """
    if _CLASS.fullmatch(name):
        module = _instance(name)
        if weights:
            load_start(module, read_start(weights), weights)
        return module
    if weights:
        msg = (
            f"--weights must be left out for {name}, which holds its weights, got {weights!r}. To "
            f"fix this, leave it out"
        )
        raise UsageError(msg)
    if not Path(name).is_file():
        msg = f"no encoder at {name!r}. To fix this, look at --encoder"
        raise MissingFileError(msg)
    suffix = Path(name).suffix
    open_file: Any = {".onnx": Onnx, ".pt2": Exported}.get(suffix, _scripted)
    try:
        found: nn.Module = open_file(name)
    except MissingExtraError:
        raise
    except Exception as error:  # whatever the reader of a foreign file meets
        what = {".onnx": "ONNX", ".pt2": "torch.export"}.get(suffix, "TorchScript")
        msg = (
            f"cannot read {name} as a network of {what}: {type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}. To fix this, write it anew; a file of "
            f"weights alone goes to --weights, beside --encoder module:Class"
        )
        raise UsageError(msg) from error
    return found


def _instance(name: str) -> nn.Module:
    module, _, attribute = name.partition(":")
    fix = "To fix this, name a class that is called without arguments: --encoder module:Class"
    here = os.getcwd()
    sys.path.insert(0, here)  # as python -m has it
    try:
        made = getattr(import_module(module), attribute)()
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        msg = f"cannot make the encoder {name}: {said}. {fix}"
        raise UsageError(msg) from error
    finally:
        sys.path.remove(here)
    if not isinstance(made, nn.Module):
        msg = f"the encoder {name} must be a torch.nn.Module, got {type(made).__name__}. {fix}"
        raise UsageError(msg)
    return made


def _scripted(name: str) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the format, which users still have
        module: nn.Module = torch.jit.load(name, map_location="cpu")  # type: ignore[no-untyped-call]
    return module


class Exported(nn.Module):
    """A program of torch.export, which has no modes."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.program = torch.export.load(name).module()

    def train(self, mode: bool = True) -> Exported:
        """Note the mode, which the program has not."""
        self.training = mode
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Rows of a batch."""
        rows: Tensor = self.program(images)
        return rows


class Onnx(nn.Module):
    """A file of ONNX in onnxruntime, by as many threads as torch has.

    Attributes
    ----------
    sha256 : (32,) uint8 tensor. Of the file and of those beside it that begin with its name, where
        writers put weights: what tells two encoders apart.
    batch, side : int. Samples of a pass, and pixels of a picture, where it takes no others; else 0.
    """

    sha256: Tensor

    def __init__(self, name: str) -> None:
        super().__init__()
        try:
            runtime: Any = import_module("onnxruntime")
        except ImportError as error:
            msg = f"--encoder {name} needs onnxruntime. To fix this: pip install onnxruntime"
            raise MissingExtraError(msg) from error
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self.session = runtime.InferenceSession(name, options, ["CPUExecutionProvider"])
        given = self.session.get_inputs()
        if [one.type for one in given] != ["tensor(float)"]:
            kinds = ", ".join(f"{one.name}: {one.type}" for one in given)
            msg = f"it must have one input, tensor(float), got {kinds}"
            raise ValueError(msg)
        self.name = given[0].name
        # An axis of any length has a name or None in place of a number.
        fixed = [n if isinstance(n, int) else 0 for n in given[0].shape]
        self.batch = fixed[0]
        self.side = fixed[3] if len(fixed) == 4 else 0
        digest = hashlib.sha256()
        for path in sorted(Path(name).parent.glob(f"{glob.escape(Path(name).name)}*")):
            digest.update(path.read_bytes())
        found = torch.frombuffer(bytearray(digest.digest()), dtype=torch.uint8)
        self.register_buffer("sha256", found)

    def __deepcopy__(self, memo: object) -> Onnx:
        return self  # nothing in it changes, and a session cannot be copied

    def forward(self, images: Tensor) -> Tensor:
        """Rows of a batch, in passes of the size that the file takes."""
        given = torch.split(images.detach().cpu().float(), self.batch or len(images))
        return torch.cat([self._rows(part) for part in given]).to(images.device)

    def _rows(self, images: Tensor) -> Tensor:
        short = self.batch - len(images)
        full = F.pad(images, (0, 0) * (images.ndim - 1) + (0, short)) if short > 0 else images
        (rows, *_) = self.session.run(None, {self.name: full.numpy()})
        return torch.from_numpy(rows)[: len(images)]
