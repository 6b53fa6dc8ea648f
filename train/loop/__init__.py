"""The training loop: it draws batches, takes steps, evaluates, saves, and resumes exactly.

`train` and `resume` in `train_and_resume` write a run folder, epoch by epoch of a `Run`. The run
has a `Loader` (ids to views), an `Execution` (how a step is computed) and an optimizer (`optim`).
`evaluation` asks it for labels and figures, and `metrics` compares labels with classes. What a
resume checks and restores is in `resume_state`.
"""

from .evaluation import evaluate_method, predict
from .execution import Execution
from .loader import Loader
from .metrics import Agreement, evaluate, kmeans_on_pixels
from .run import Run
from .run_folder import RunWarning
from .train_and_resume import RunResult, resume, train, write_page

__all__ = [
    "Agreement",
    "Execution",
    "Loader",
    "Run",
    "RunResult",
    "RunWarning",
    "evaluate",
    "evaluate_method",
    "kmeans_on_pixels",
    "predict",
    "resume",
    "train",
    "write_page",
]
