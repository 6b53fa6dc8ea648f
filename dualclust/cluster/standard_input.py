"""``-`` in the place of a file: standard input, laid down in a temporary file for the run.

Clustering takes many passes, and a pipe gives its bytes once. Its first bytes say what it is.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..algos.core.errors import DualclustError, UsageError
from ..common.ranks import read_launch

__all__ = ["from_standard_input"]


@contextmanager
def from_standard_input(options: argparse.Namespace, ending: str) -> Iterator[None]:
    """Let the input of a command be a file while it runs.

    Parameters
    ----------
    options : argparse.Namespace
        Its `input` is replaced, and its `out` gets a default.
    ending : str
        Of the name of the output folder, ``stdin`` and this.

    Raises
    ------
    UsageError
        If several ranks would have to share one standard input.
    DualclustError
        Those of the command, with ``-`` as the name of the file.
    """
    if read_launch() is not None:
        msg = "standard input goes to one process. To fix this, write it to a file for the ranks"
        raise UsageError(msg)
    with tempfile.TemporaryDirectory(prefix="dualclust-") as folder:
        path = Path(folder, "stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        options.input, options.out = path, options.out or Path(f"stdin{ending}")
        try:
            yield
        except DualclustError as error:
            error.args = (_renamed(str(error), str(path)),)
            raise


def _renamed(message: str, path: str) -> str:
    """Return a message about standard input: no array of it can be named behind a colon."""
    name = re.escape(path)
    message = re.sub(rf"name one: {name}:\S+, or --array", "name one: --array", message)
    message = re.sub(rf", or as {name}:\S+", "", message)
    return message.replace(path, "-")
