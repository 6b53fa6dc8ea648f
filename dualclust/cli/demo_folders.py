"""Where `dualclust demo` writes its runs: it replaces its own earlier runs and nothing else.

``demo.json`` in the folder of the runs lists the runs that a demo wrote, with a hash of their
settings. The next demo replaces them, finished or interrupted. It removes only files under the
names that a run writes; any other file, or a run that no demo wrote, stops it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from ..algos.core.errors import OutputError
from ..common.files import TEMPORARY
from ..common.locks import LOCK_FILES
from ..common.untrusted import parse_json

__all__ = ["run_folder"]

MARKER = "demo.json"
WRITER = "dualclust demo"

_NAMES = (
    r"(config\.toml|metrics\.jsonl|assignments\.csv|centers\.npy|(weights|model)\.safetensors"
    r"|(gallery|sizes|curves)\.png|report\.html|skipped\.csv)"
)
_CHECKPOINT = rf"checkpoints/\.?epoch-\d{{6,}}(\.old)?({TEMPORARY})?/[\w-]+\.(safetensors|json)"
_LOCKS = "|".join(re.escape(name) for name in sorted(LOCK_FILES))
_OURS = re.compile(rf"{_NAMES}|\.{_NAMES}{TEMPORARY}|{_CHECKPOINT}|{_LOCKS}")


def run_folder(out: Path, name: str, settings: str) -> Path:
    """Clear the folder of a run of the demo, and record the run in ``demo.json``.

    Parameters
    ----------
    out : Path
        Folder of the demo's runs; created if it does not exist.
    name : str
        Name of the run's folder in `out`.
    settings : str
        The run's later ``config.toml``.

    Returns
    -------
    Path
        A folder that is empty or does not exist.

    Raises
    ------
    OutputError
        If the folder holds a file that no demo wrote, or cannot be written. Nothing has been
        removed then.
    """
    folder = out / name
    try:
        runs = _marked(out)
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise _foreign(folder, "it is no folder")
        if folder.is_dir() and any(folder.iterdir()):
            _remove(folder, _checked(folder, runs.get(name)))
        out.mkdir(parents=True, exist_ok=True)
        runs[name] = _digest(settings.encode())
        temporary = out / f".{MARKER}.tmp"
        temporary.write_text(json.dumps({"written by": WRITER, "runs": runs}, indent=2) + "\n")
        temporary.replace(out / MARKER)
    except OutputError:
        raise
    except OSError as error:
        what = error.strerror or error
        msg = f"cannot write into {out}: {what}. To fix this, name another folder with --out"
        raise OutputError(msg) from error
    return folder


def _marked(out: Path) -> dict[str, str]:
    """Return the runs of earlier demos, with the hashes of their settings."""
    path = out / MARKER
    if not path.exists():
        return {}
    try:
        found = parse_json(path.read_text())
        if found["written by"] == WRITER:
            return {str(name): str(digest) for name, digest in found["runs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise _foreign(path, "it is of another program")


def _checked(folder: Path, digest: str | None) -> list[Path]:
    """Return the files of a run, if a demo wrote all of it."""
    if digest is None:
        raise _foreign(folder, f"{MARKER} does not name it")
    config = folder / "config.toml"
    if config.is_file() and _digest(config.read_bytes()) != digest:
        raise _foreign(folder, "its config.toml is of another run")
    files = []
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(place) / name).is_symlink()]
        for path in (Path(place) / name for name in [*names, *links]):
            if path.is_symlink() or not _OURS.fullmatch(path.relative_to(folder).as_posix()):
                raise _foreign(folder, f"{path.relative_to(folder)} is no file of a run")
            files.append(path)
    return files


def _remove(folder: Path, files: list[Path]) -> None:
    """Remove these files, the settings last, and then the empty folders.

    After an interrupted removal the run is still recognized by its settings.
    """
    for path in sorted(files, key=lambda path: path.name == "config.toml"):
        path.unlink()
    for place, _, _ in os.walk(folder, topdown=False):
        Path(place).rmdir()


def _foreign(path: Path, why: str) -> OutputError:
    return OutputError(
        f"{path} was not written by a demo: {why}. To fix this, name another folder with --out"
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
