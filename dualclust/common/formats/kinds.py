"""What a file is, by its first bytes: its name may say anything.

A file that cannot be clustered is named for what it is, with what to do about it. Nothing is
decoded but the names inside a zip archive, and no pickle is loaded.
"""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from ...algos.core.errors import InvalidValueError
from .unpacked import GZIP, opened

__all__ = ["Kind", "kind_of"]

LOOKED_AT = 2**16
"""Bytes of a file that are looked at."""


class Kind(NamedTuple):
    """What a file is.

    Attributes
    ----------
    key : str
        Short name.
    what : str
        With its article, for messages.
    fix : str
        What to do with a file that is not read; empty for a format that is.
    """

    key: str
    what: str
    fix: str = ""

    @property
    def format(self) -> bool:
        """Whether embeddings are read from files of this kind."""
        return not self.fix


PICTURE = "compute embeddings of the pictures first, and give the file that holds these"
SOUND = "compute embeddings of the recordings first, and give the file that holds these"
PICKLE = (
    "load it yourself where you trust it, and save the numbers: np.save('X.npy', x). A pickle can "
    "run any code, so none is loaded here"
)
MATLAB = "save it with -v7.3, which is HDF5, or np.save('X.npy', scipy.io.loadmat(path)['X'])"
MATRIX_MARKET = "scipy.sparse.save_npz('X.npz', scipy.io.mmread(path).tocsr())"
FASTTEXT = "give the .vec file that fastText writes beside it"
R = "write.csv(x, 'X.csv', row.names = FALSE)"
EXPORT = "export its numbers as .npy, .parquet or .csv"
DOWNLOAD = "look at it in a browser: a download that fails often leaves such a page"


def _unpack(command: str) -> str:
    return f"unpack it ({command}) and give what comes out"


HDF5 = b"\x89HDF\r\n\x1a\n"
KNOWN = (
    # (first byte, magic bytes there, kind); longer ones first where one begins like another
    (0, b"\x93NUMPY", Kind("npy", "an .npy file")),
    (0, b"PAR1", Kind("parquet", "a Parquet file")),
    (0, b"PARE", Kind("pare", "an encrypted Parquet file", "write it without encryption")),
    (0, b"ARROW1", Kind("arrow", "an Arrow file")),
    (0, b"\xff\xff\xff\xff", Kind("stream", "an Arrow stream")),
    (
        0,
        b"FEA1",
        Kind("fea1", "a Feather file of version 1", "write it as version 2, pyarrow's default"),
    ),
    (0, HDF5, Kind("hdf5", "an HDF5 file")),
    (0, b"\x89PNG\r\n\x1a\n", Kind("png", "a PNG picture", PICTURE)),
    (0, b"\xff\xd8\xff", Kind("jpeg", "a JPEG picture", PICTURE)),
    (0, b"GIF8", Kind("gif", "a GIF picture", PICTURE)),
    (0, b"II*\0", Kind("tiff", "a TIFF picture", PICTURE)),
    (0, b"MM\0*", Kind("tiff", "a TIFF picture", PICTURE)),
    (8, b"WEBP", Kind("webp", "a WebP picture", PICTURE)),
    (8, b"WAVE", Kind("wav", "a WAV recording", SOUND)),
    (4, b"ftyp", Kind("mp4", "an MP4 or HEIC file", PICTURE)),
    (0, b"%PDF", Kind("pdf", "a PDF document", EXPORT)),
    (0, b"BZh", Kind("bzip2", "packed by bzip2", _unpack("bunzip2"))),
    (0, b"\xfd7zXZ\0", Kind("xz", "packed by xz", _unpack("unxz"))),
    (0, b"\x28\xb5\x2f\xfd", Kind("zstd", "packed by Zstandard", _unpack("unzstd"))),
    (0, b"\x04\x22\x4d\x18", Kind("lz4", "packed by LZ4", _unpack("unlz4"))),
    (0, b"7z\xbc\xaf\x27\x1c", Kind("7z", "a 7-Zip archive", _unpack("7z x"))),
    (257, b"ustar", Kind("tar", "a tar archive", _unpack("tar -xf"))),
    (0, b"SQLite format 3\0", Kind("sqlite", "an SQLite database", EXPORT)),
    (0, b"MATLAB 5.0", Kind("matlab", "a MATLAB file of another version than 7.3", MATLAB)),
    (0, b"ORC", Kind("orc", "an ORC file", "write it as Parquet: pyarrow.orc.read_table")),
    (0, b"Obj\x01", Kind("avro", "an Avro file", "write it as Parquet")),
    (0, b"IxF", Kind("faiss", "a faiss index", "save its vectors: index.reconstruct_n(0, n)")),
    (0, b"IxM", Kind("faiss", "a faiss index", "save its vectors: index.reconstruct_n(0, n)")),
    (0, b"GGUF", Kind("gguf", "a GGUF model", "save embeddings that the model computes")),
    (0, b"\x7fELF", Kind("elf", "a program", "give the file that the program writes")),
    (
        0,
        b"version https://git-lfs",
        Kind("lfs", "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"),
    ),
    (
        0,
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.",
        Kind(
            "old-torch",
            "a PyTorch file of the form before version 1.6, which is a bare pickle",
            "load it with torch.load(path, weights_only=True) and save it again with torch.save",
        ),
    ),
    (0, b"\xba\x16\x4f\x2f", Kind("fasttext", "a fastText model", FASTTEXT)),
    (0, b"X\n\0\0", Kind("r", "an R object", R)),
    (0, b"RDX", Kind("r", "an R workspace", R)),
    (0, b"%%MatrixMarket", Kind("mtx", "a Matrix Market file", MATRIX_MARKET)),
    (0, b"\xff\xfe", Kind("utf-16", "text in UTF-16", "save it as UTF-8")),
    (0, b"\xfe\xff", Kind("utf-16", "text in UTF-16", "save it as UTF-8")),
)

ALSO_WORDS = {"orc", "bzip2", "gif", "faiss", "avro", "gguf", "elf"}
"""Kinds whose first bytes may as well be the first word of a text."""

NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x1f\x7f]")
"""What stands in no text of one byte a character: control characters, but for spaces."""

EMPTY = Kind("empty", "empty (0 bytes)", "write or copy it again: a full disk leaves such files")
DAMAGED_ZIP = Kind(
    "damaged-zip",
    "the beginning of a zip archive (.npz, .pt) whose end is missing or damaged",
    "write or copy it again",
)
TEXT = Kind("text", "text")
WORD2VEC = Kind("word2vec", "a word2vec file")
INSIDE_GZIP = ("text", "word2vec", "empty")
"""Kinds that are read where gzip has packed them."""


def kind_of(path: Path) -> Kind:
    r"""Return what a file is.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "X.npy"
    >>> _ = path.write_bytes(b"\x89PNG\r\n\x1a\n...")
    >>> kind_of(path).what
    'a PNG picture'
    """
    with path.open("rb") as file:
        start = file.read(LOOKED_AT)
    if start.startswith(GZIP):
        return _kind_of_gzip(path)
    if not start:
        return EMPTY
    if start.startswith(b"PK\x03\x04") or start.startswith(b"PK\x05\x06"):
        return _kind_of_zip(path)
    return _kind_of_start(start)


def _kind_of_start(start: bytes) -> Kind:
    """Return the kind of what is no archive."""
    if any(start.startswith(HDF5, 2**i) for i in range(9, 15)):  # behind a block of the user's
        return Kind("hdf5", "an HDF5 file")
    for place, magic, kind in KNOWN:
        if start.startswith(magic, place) and not (kind.key in ALSO_WORDS and _is_text(start)):
            return kind
    if start[8:9] == b"{" and int.from_bytes(start[:8], "little") < 2**27:
        return Kind("safetensors", "a .safetensors file")
    if re.match(rb"\d+ \d+\n", start) and not _is_text(start):
        return WORD2VEC
    if start[0] == 0x80 and len(start) > 1 and 2 <= start[1] <= 5:
        return Kind("pickle", "a Python pickle", PICKLE)
    return _kind_of_text(start)


def _kind_of_gzip(path: Path) -> Kind:
    """Return the kind of what is packed, if it is read so; text is."""
    try:
        with opened(path) as file:
            start = file.read(LOOKED_AT)
    except InvalidValueError:
        return Kind("gzip", "packed by gzip, and damaged", "write or copy it again")
    inside = _kind_of_start(start) if start else EMPTY
    if inside.key in INSIDE_GZIP:
        return inside
    fix = _unpack("gunzip") if inside.format else inside.fix
    return Kind("gzip", f"{inside.what}, packed by gzip", fix)


def _kind_of_zip(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return DAMAGED_ZIP
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return Kind("torch", "a PyTorch file")
    if "[Content_Types].xml" in names:
        return Kind("office", "an Office document", EXPORT)
    if names and all(name.endswith(".npy") for name in names):
        return Kind("npz", "an .npz archive")
    if not names:
        return Kind("zip", "a zip archive without files", "look at the program that wrote it")
    return Kind("zip", "a zip archive of other files than arrays", _unpack("unzip"))


def _kind_of_text(start: bytes) -> Kind:
    lead = start.lstrip(b"\xef\xbb\xbf \t\r\n")[:64].lower()
    if not _is_text(start):
        if b"\n" in start and NO_TEXT.search(start) is None:
            return Kind("latin-1", "text in another encoding than UTF-8", "save it as UTF-8")
        first = " ".join(f"{byte:02x}" for byte in start[:8])
        return Kind(
            "unknown",
            f"of no format that is known here (it begins with the bytes {first})",
            "give --dtype and --dim if it holds raw numbers, or save it as .npy",
        )
    if lead.startswith((b"<!doctype html", b"<html")):
        return Kind("html", "a page in HTML", DOWNLOAD)
    if lead.startswith(b"<?xml"):
        return Kind("xml", "XML", EXPORT)
    if re.match(rb'[\[{]\s*["\[{\]}\d-]', lead):  # "[PAD]" is a word with a vector
        return Kind("json", "JSON", "write the numbers as .npy, .parquet or .csv")
    return TEXT


def _is_text(start: bytes) -> bool:
    try:
        start.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # The last character may be cut in two by the end of what was read.
        if error.start <= len(start) - 4 or len(start) < LOOKED_AT:
            return False
    return b"\0" not in start
