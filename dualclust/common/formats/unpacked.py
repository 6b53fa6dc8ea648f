"""Text that gzip has packed, as programs write it: read as it is unpacked, and never as a whole."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..untrusted import MOST_PACKED, packed_too_much, refuse

__all__ = ["GZIP", "opened", "suffix_of"]

GZIP = b"\x1f\x8b"
"""First bytes of a packed file."""


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked.

    Raises
    ------
    InvalidValueError
        When it is read: for a damaged file, and one that becomes far larger than data would.
    """
    file = path.open("rb")
    packed = file.read(len(GZIP)) == GZIP
    file.seek(0)
    return cast(BinaryIO, io.BufferedReader(_Unpacked(path, file)) if packed else file)


def suffix_of(path: Path) -> str:
    """Return the end of a name in small letters, without that of gzip.

    Examples
    --------
    >>> suffix_of(Path("X.CSV.gz")), suffix_of(Path("X.npy"))
    ('.csv', '.npy')
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


class _Unpacked(io.RawIOBase):
    """The bytes that a packed file becomes."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path, self.file, self.inside = path, file, gzip.GzipFile(fileobj=file)
        self.there, self.done = path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        again = "write or copy it again"
        try:
            content = self.inside.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            refuse(self.path, f"cannot be unpacked ({error})", "A packed file must be whole", again)
        self.done += len(content)
        if packed_too_much(self.done, self.there):
            rule = f"Text does not pack {MOST_PACKED} times: this may be made to fill the disk"
            found = f"is packed too well ({self.there} bytes become more than {self.done})"
            refuse(self.path, found, rule, "unpack it yourself (gunzip) and give what comes out")
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self.inside.close()
        self.file.close()
        super().close()
