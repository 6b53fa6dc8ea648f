"""The page of a run: what its clusters hold and how its training goes, in one file.

`state` is what a page is made of, arrays and records alone; `samples` chooses the samples that it
shows and makes small images of them, `figures` prepares curves, map and confusion, `words` writes
what it says, `advice` what to try next, and `symptoms` names what an alarm means. `run_page` puts
them into one file with the shared parts of `common.page`, which loads nothing else.
"""

from .document import run_page
from .figures import found_parts
from .state import Found, Pictures, RunState
from .symptoms import SYMPTOMS, Symptom

__all__ = [
    "SYMPTOMS",
    "Found",
    "Pictures",
    "RunState",
    "Symptom",
    "found_parts",
    "run_page",
]
