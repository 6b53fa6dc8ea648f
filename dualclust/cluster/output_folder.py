"""The output folder: what may be replaced, and how.

A folder is one of ours if it holds exactly the files that its result.json lists, and nothing else:
whatever the user added makes it theirs. Only such a folder is ever replaced. The old one is moved
aside by a rename, the new one takes its place by a rename, and then the old one goes.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from ..algos.core.errors import OutputError
from ..common.files import doomed, remove_folder, write_folder
from ..common.untrusted import parse_json

__all__ = ["check_folder", "is_ours", "replace_folder"]

RESULT, CHOICE = "result.json", "choice.json"
_NONE: Mapping[str, Path | None] = MappingProxyType({})


def check_folder(out: Path, *, overwrite: bool, inputs: Mapping[str, Path | None] = _NONE) -> None:
    """Refuse a folder that stands and may not be replaced.

    Parameters
    ----------
    out : Path
    overwrite : bool
    inputs : mapping from option to path
        What is read or written beside the folder: none of them may lie in it.

    Raises
    ------
    OutputError
    """
    for name, path in inputs.items():
        if path is not None and out.resolve() in (path.resolve(), *path.resolve().parents):
            msg = f"{name} {path} lies in the output folder {out}. To fix this, name another --out"
            raise OutputError(msg)
    if not (out.exists() or out.is_symlink()):
        return
    if not overwrite:
        fix = "name another folder with --out"
        fix += ", or replace it with --overwrite" if is_ours(out) else ""
        msg = f"{out} exists. To fix this, {fix}"
        raise OutputError(msg)
    if not is_ours(out):
        msg = (
            f"{out} exists, and is not just what this command wrote: --overwrite replaces a folder "
            f"only if it holds the files that its {RESULT} lists, and no other. To fix this, name "
            f"another folder with --out, or move it away"
        )
        raise OutputError(msg)


def is_ours(out: Path) -> bool:
    """Tell whether a folder holds the files of an output folder, and no other.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "result.json").write_text('{"files": ["labels.npy", "result.json"]}')
    >>> _ = (folder / "labels.npy").write_bytes(b"")
    >>> is_ours(folder)
    True
    >>> _ = (folder / "notes.txt").write_text("mine")
    >>> is_ours(folder)
    False
    """
    if out.is_symlink() or not out.is_dir():
        return False
    name = CHOICE if (out / CHOICE).is_file() else RESULT
    try:
        result = parse_json((out / name).read_bytes())
        entries = list(out.iterdir())
    except (OSError, ValueError, RecursionError):
        return False
    listed = result.get("files") if isinstance(result, dict) else None
    if not isinstance(listed, list) or any(e.is_symlink() or not e.is_file() for e in entries):
        return False
    return name in listed and sorted(e.name for e in entries) == sorted(map(str, listed))


def replace_folder(out: Path, files: Mapping[str, bytes], *, overwrite: bool) -> None:
    """Write the output folder, all of it or nothing.

    Parameters
    ----------
    out : Path
    files : mapping from name to content
    overwrite : bool
        Whether a folder that stands there may be replaced, if it is one of ours.

    Raises
    ------
    OutputError
        If the folder may not be replaced, or cannot be written. What stood there stands unchanged.
    """
    check_folder(out, overwrite=overwrite)
    aside = doomed(out)
    # Without an old folder, one may still lie aside: of a run that was killed at this place.
    write_folder(out, files, aside=aside)
    if not aside.exists():
        return
    if is_ours(aside):
        with suppress(OSError):
            remove_folder(aside, of=out)
        return
    kept = out.with_name(f"{out.name}-old-{secrets.token_hex(3)}")
    os.replace(aside, kept)
    msg = f"{out} got other files while it was replaced: what stood there is now {kept}"
    warnings.warn(msg, RuntimeWarning, stacklevel=2)
