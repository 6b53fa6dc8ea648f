"""Where `dualclust demo` writes its runs, again and again, without taking anything that is not its.

``demo.json`` in the folder of the runs says which ones a demo wrote, with a hash of their settings.
Such a run, finished or interrupted, makes room for the next one. Only files under the names that a
run has are removed; anything else, and a run that no demo wrote, stops the demo instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

from ..algos.core.errors import OutputError

__all__ = ["run_folder"]

MARKER = "demo.json"
WRITER = "dualclust demo"

_NAMES = (
    r"(config\.toml|metrics\.jsonl|assignments\.csv|centers\.npy|weights\.safetensors"
    r"|(gallery|sizes|curves)\.png)"
)
_CHECKPOINT = (
    r"checkpoints/\.?epoch-\d{6,}(\.old|\.tmp-\w+|\.old\.tmp-\w+)?/[\w-]+\.(safetensors|json)"
)
_OURS = re.compile(rf"{_NAMES}|\.{_NAMES}\.tmp|{_CHECKPOINT}")


def run_folder(out: Path, name: str, settings: str) -> Path:
    """Make room for a run of the demo, and say that it is one.

    Parameters
    ----------
    out : Path
        Folder of the demo's runs; made where it is not there.
    name : str
        Of the run's folder in it.
    settings : str
        What the run will keep as ``config.toml``.

    Returns
    -------
    Path
        A folder that is empty or not there.

    Raises
    ------
    OutputError
        If something is there that no demo wrote, or the folder cannot be written. Nothing has been
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
    except OSError as error:
        what = error.strerror or error
        msg = f"cannot write into {out}: {what}. To fix this, name another folder with --out"
        raise OutputError(msg) from error
    return folder


def _marked(out: Path) -> dict[str, str]:
    """Runs of earlier demos, and the hashes of their settings."""
    path = out / MARKER
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text())
        if found["written by"] == WRITER:
            return {str(name): str(digest) for name, digest in found["runs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise _foreign(path, "it is of another program")


def _checked(folder: Path, digest: str | None) -> list[Path]:
    """Files of a run that a demo wrote."""
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
    """Remove these files and the folders that are empty then; the settings last.

    An interrupted removal leaves a run that is still known by its settings.
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
