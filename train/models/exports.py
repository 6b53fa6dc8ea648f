"""A model as a program for another runtime: `torch.export` or ONNX.

The program takes a batch of any length of what the model was made for, (b, c, h, w) uint8 pixels or
(b, d) float32 embeddings under the name ``samples``, and returns ``scores`` (b, k) and ``features``
(b, d). Normalization and centers are inside. What is no arithmetic, such as prices and the cut of a
picture, is JSON beside it (`description`): under `DESCRIPTION` in the extra files of the ``.pt2``,
or in the metadata of the ONNX model.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ...algos.core.checks import choice_fix
from ...algos.core.errors import MissingExtraError, UsageError
from .classifier import Classifier
from .model import Model

__all__ = ["DESCRIPTION", "PROGRAMS", "description", "program_bytes"]

DESCRIPTION = "dualclust.json"


def description(model: Model) -> dict[str, Any]:
    """Return all of a model but its network, as JSON has it."""
    vectors = {name: getattr(model, name).tolist() for name in ("prices", "lower", "upper")}
    return {
        **model.spec.as_mapping(),
        "counts": model.counts.tolist(),
        **vectors,
        "centers": model.centers.tolist(),
        "mean": model.classifier.mean.tolist(),
        "std": model.classifier.std.tolist(),
        "labels": "argmax of scores; argmax of scores + prices repeats the bounded labels",
    }


def program_bytes(model: Model, to: str) -> bytes:
    """Return the file of a program.

    Parameters
    ----------
    model : Model
    to : str. A key of `PROGRAMS`.

    Raises
    ------
    UsageError
        If `to` is unknown, or the network cannot be traced, as one of the user's own may be.
    MissingExtraError
        If ``"onnx"`` is asked for, and onnx or onnxscript is missing.

    Notes
    -----
    The program computes in the dtype of the parameters, without autocast.
    """
    if to not in PROGRAMS:
        msg = (
            f"to must be one of {', '.join(map(repr, PROGRAMS))}, got {to!r}"
            f". To fix this, {choice_fix(to, PROGRAMS)}"
        )
        raise UsageError(msg)
    classifier = deepcopy(model.classifier).cpu()
    classifier.network.autocast = None
    shape = model.spec.input.shape
    dtype = torch.uint8 if model.spec.input.is_image else torch.float32
    # Of two samples: a length of one would be taken for a constant.
    example = torch.zeros(2, *shape, dtype=dtype)
    try:
        return PROGRAMS[to](classifier, example, json.dumps(description(model), sort_keys=True))
    except MissingExtraError:
        raise
    except Exception as error:  # whatever a tracer meets in a module of somebody's own
        what = str(error).strip().partition("\n")[0]
        name = model.spec.own_network or model.spec.network.name
        msg = (
            f"the network {name} cannot be written for {to}: {type(error).__name__}: {what}. "
            f"To fix this, export with --to safetensors, which needs no trace"
        )
        raise UsageError(msg) from error


class _Named(nn.Module):
    """The classifier with the names that the program's input has."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        scores, features = self.classifier(samples)
        # Two outputs of one name would be one output.
        return scores, features.clone() if features is scores else features


def _traced(classifier: Classifier, example: Tensor) -> torch.export.ExportedProgram:
    length = {0: torch.export.Dim("batch", min=1)}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer, about itself
        return torch.export.export(
            _Named(classifier).eval(), (example,), dynamic_shapes={"samples": length}
        )


def _torch_export(classifier: Classifier, example: Tensor, text: str) -> bytes:
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(_traced(classifier, example), content, extra_files={DESCRIPTION: text})
    return content.getvalue()


def _onnx(classifier: Classifier, example: Tensor, text: str) -> bytes:
    for name in ("onnx", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            msg = f"--to onnx needs {name}. To fix this: pip install 'dualclust[onnx]'"
            raise MissingExtraError(msg) from error
    traced = _traced(classifier, example)
    with warnings.catch_warnings(), _quiet("torch.onnx._internal.exporter._registration"):
        warnings.simplefilter("ignore")
        program: Any = torch.onnx.export(
            traced,
            (example,),
            dynamo=True,
            verbose=False,
            input_names=["samples"],
            output_names=["scores", "features"],
        )
    program.model.metadata_props["dualclust"] = text
    found: bytes = program.model_proto.SerializeToString()
    return found


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep a logger from saying that torchvision, which nothing here uses, is missing."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


PROGRAMS: dict[str, Callable[[Classifier, Tensor, str], bytes]] = {
    "torch.export": _torch_export,
    "onnx": _onnx,
}
"""What writes a program, by the name that ``dualclust export --to`` takes."""
