"""The folder of a run: its files, and where a run may begin.

A run folder holds

=======================  ===========================================================================
file                     what it is
=======================  ===========================================================================
``config.toml``          the settings; with the code, all that is needed to repeat the run
``metrics.jsonl``        one line per epoch: loss, learning rate, sizes; ACC, NMI, ARI where known
``checkpoints/``         what `resume` reads: the last two epochs, hashed, without pickle
``skipped.csv``          files that cannot be read, where there are any, and why
``starts/``              the beginnings of the run, where it has several
``starts.json``          which of them went on
``heads.json``           which k the results are of, where several were candidates, and why
``assignments.csv``      id, cluster inside the bounds, margin, runner-up, nearest cluster of every
                         image; its class where known
``centers.npy``          (k, d) unit centers of the target head
``weights.safetensors``  the network's parameters
``model.safetensors``    the trained model, with normalization and prices: `dualclust.load` reads it
``tensorboard/``         event files, where the setting ``log`` asks for them
``trackers.json``        names of the run at Weights & Biases and MLflow, likewise
``report.html``          the page of the run, written after each epoch
``gallery.png``          what to look at, as are ``sizes.png`` and ``curves.png``
=======================  ===========================================================================

A run begins in an empty folder, or where the same start ended before its first epoch. A start
writes its settings, and some minutes later its first epoch. What it leaves when it is stopped in
between is known to the byte, so that the same start may take the folder over without touching
anything of somebody else's.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from ...algos.core.errors import OutputError
from ...common.locks import LOCK_FILES
from ..state.checkpoint import is_begun
from .results import SKIPPED_FILES

__all__ = ["SETTINGS", "RunWarning", "check_free", "tell_skipped"]

SETTINGS = "config.toml"

_TORN_SETTINGS = re.compile(rf"\.{re.escape(SETTINGS)}\.tmp-[0-9a-f]{{12}}")
_TORN_LOCK = re.compile(r"\.\.lock-holder\.tmp-[0-9a-f]{12}")
_TORN_EPOCH = re.compile(
    r"checkpoints(/\.epoch-000001\.tmp-[0-9a-f]{12}(/(state\.safetensors|(state|manifest)\.json))?)?"
)


class RunWarning(UserWarning):
    """Something to know about a run that does not stop it."""


def check_free(folder: Path, settings: str) -> bool:
    """Refuse a folder with content, but for what a start with these settings leaves.

    Parameters
    ----------
    folder : Path
        It need not exist.
    settings : str
        What the start would write as ``config.toml``.

    Returns
    -------
    bool
        Whether an earlier start with the same settings has left something there.

    Raises
    ------
    OutputError
        If the folder holds anything else; nothing has been touched.
    """
    if not folder.exists():
        return False
    foreign = [folder] if not folder.is_dir() else list(islice(_foreign(folder, settings), 2))
    if not foreign:
        return any(path.name not in LOCK_FILES for path in folder.iterdir())
    what = f"{folder} exists and is not empty"
    fix = "choose another folder"
    if folder.is_dir() and is_begun(folder):
        fix += f", or continue that run with: dualclust resume {folder}"
    elif [path.name for path in foreign] == [SETTINGS]:
        what += f": its {SETTINGS} has other settings than these"
    msg = f"{what}. To fix this, {fix}"
    raise OutputError(msg)


def tell_skipped(folder: Path, skipped: Sequence[tuple[str, str]], n_samples: int) -> None:
    """Say how many files a run does without.

    Parameters
    ----------
    folder : Path. Of the run.
    skipped : sequence of (name, reason). Files that cannot be read.
    n_samples : int. Files that can.

    Warns
    -----
    RunWarning
        If there are any.
    """
    if skipped:
        name, reason = skipped[0]
        msg = (
            f"{len(skipped)} of {n_samples + len(skipped)} files cannot be read and are left "
            f"out, the first: {reason if name in reason else f'{name}: {reason}'} "
            f"(all of them: {folder / SKIPPED_FILES}, from the first epoch on)"
        )
        warnings.warn(msg, RunWarning, stacklevel=3)


def _foreign(folder: Path, settings: str) -> Iterator[Path]:
    """Yield what a start with these settings cannot have left in its folder."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield path
        elif name == SETTINGS or _TORN_SETTINGS.fullmatch(name):
            if not _holds(path, settings.encode(), whole=name == SETTINGS):
                yield path
        elif name not in LOCK_FILES and not any(
            torn.fullmatch(name) for torn in (_TORN_LOCK, _TORN_EPOCH)
        ):
            yield path


def _holds(path: Path, settings: bytes, *, whole: bool) -> bool:
    """Whether a file holds the settings, or their beginning: none is believed by its name."""
    try:
        if not path.is_file() or path.stat().st_size > len(settings):
            return False
        content = path.read_bytes()
    except OSError:
        return False
    return content == settings if whole else settings.startswith(content)
