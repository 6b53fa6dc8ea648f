"""A trained network and all that its labels need, as one object and as one file.

`Model` predicts and embeds; `load_model` reads one from a file or a run folder. `spec` describes
what it was made for, `classifier` is the network from pixels to scores, `inputs` brings arrays and
pictures to it, `files` keeps it in a safetensors file, `exports` writes `torch.export` and ONNX.
"""

from .classifier import Classifier, build_classifier
from .exports import PROGRAMS, program_bytes
from .files import MODEL_FILE, export_bytes, load_model, model_bytes
from .model import Labels, Model
from .spec import InputSpec, ModelSpec

__all__ = [
    "MODEL_FILE",
    "PROGRAMS",
    "Classifier",
    "InputSpec",
    "Labels",
    "Model",
    "ModelSpec",
    "build_classifier",
    "export_bytes",
    "load_model",
    "model_bytes",
    "program_bytes",
]
