"""Pictures of strangers, and the files in which the known data sets are published."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from dualclust.train.augment.crops import plain_cut
from dualclust.train.data.archives import archive_reader
from dualclust.train.data.picture_files import cut_picture
from dualclust.train.data.sources import read_source
from dualclust.train.data.splits import File, Reading
from tests.bad_inputs.arrays import archive, of_file, samples, whole
from tests.bad_inputs.judge import Bad

SIZES = (
    (0, 0), (0, 9), (9, 0), (20000, 20000), (2**31 - 1, 2**31 - 1), (1, 80000), (65535, 1),
    (2**31 - 1, 1), (10000, 10000), (9, 9),
)  # fmt: skip

__all__ = ["cut", "picture_cases"]

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 32, 3), dtype=np.uint8)


def cut(path: Path) -> Any:
    """Decode a picture as training and evaluation do."""
    plans = [
        lambda w, h, fit=fit: [plain_cut(w, h, size=8, fit=fit)] for fit in ("crop", "imagenet")
    ]
    return [cut_picture(File(path.name, str(path)), plan, channels=3) for plan in plans]


def encoded(kind: str, pixels: Any = PIXELS) -> bytes:
    """The bytes of a picture file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    """A part of a PNG file."""
    sum_ = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", sum_)


def png(width: int, height: int, *, depth: int = 8, kind: int = 2, more: bytes = b"") -> bytes:
    """A PNG file that promises this size."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + head + more + data + chunk(b"IEND", b"")


def heads() -> Iterator[tuple[str, bytes]]:
    """Heads that promise a size, and nothing behind them that has it."""
    for width, height in SIZES:
        yield f"png-{width}-{height}", png(width, height)
        yield (
            f"bmp-{width}-{height}",
            b"BM"
            + struct.pack(
                "<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0
            ),
        )
        yield f"ppm-{width}-{height}", f"P6 {width} {height} 255\n".encode()
        if max(width, height) < 2**16:
            yield f"gif-{width}-{height}", b"GIF89a" + struct.pack("<HH", width, height) + bytes(3)
            yield f"jpeg-{width}-{height}", jpeg(width, height)
    for depth, kind in ((3, 2), (16, 0), (8, 9), (1, 2), (255, 255)):
        yield f"png-depth-{depth}-{kind}", png(9, 9, depth=depth, kind=kind)
    bomb = b"x\0\0" + zlib.compress(bytes(2**26), 1)
    yield "png-text-bomb", png(9, 9, more=chunk(b"zTXt", bomb))
    yield "png-profile-bomb", png(9, 9, more=chunk(b"iCCP", bomb))
    yield "ppm-number", b"P6 " + b"9" * 4000 + b" 9 255\n"
    yield "eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(x) run\n"
    for name in ("ICO", "PCX", "TGA", "PPM", "SGI", "DDS"):
        if name != "PPM":
            yield f"other-{name.lower()}", encoded(name)


def jpeg(width: int, height: int) -> bytes:
    """A JPEG file whose frame promises this size."""
    content = bytearray(encoded("JPEG"))
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(content[: len(content) // 2])


def tiffs() -> Iterator[tuple[str, bytes]]:
    """TIFF files whose one tag lies."""
    good = encoded("TIFF")
    start = struct.unpack("<I", good[4:8])[0]
    count = struct.unpack("<H", good[start : start + 2])[0]
    for i in range(count):
        at = start + 2 + 12 * i
        for value in (0, 2**32 - 1):
            tag = good[: at + 8] + struct.pack("<I", value) + good[at + 12 :]
            if i < 4:  # sizes, bits, packing
                yield f"tiff-{i}-{value}", tag
    for place in (0, 1, 3, 2**32 - 1):
        yield f"tiff-start-{place}", good[:4] + struct.pack("<I", place) + good[8:]


def picture_cases() -> Iterator[Bad]:
    """All of them."""
    for name, content in (*heads(), *tiffs()):
        yield of_file(f"picture-{name}", "a.png", content, cut)
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"):
        content = encoded(kind)
        for end in (0, 1, 8, 20, len(content) // 3):
            yield of_file(f"picture-{kind}-cut-{end}", "a.png", content[:end], cut)
    for name, content in (
        ("text", b"no picture"),
        ("zip", archive(("a", b""))),
        ("nul", bytes(999)),
    ):
        yield of_file(f"picture-{name}", "a.png", content, cut)
    yield from idx_files()
    yield from records()
    yield from containers()


def idx_files() -> Iterator[Bad]:
    """Files of MNIST: packed and plain, with sizes that lie."""
    good = bytes([0, 0, 8, 3]) + struct.pack(">III", 2, 4, 4) + bytes(32)
    wrong = {f"cut-{end}": good[:end] for end in (0, 1, 4, 7, 15, 16, 47)} | {
        f"size-{i}": good[:4] + struct.pack(">III", *shape) + bytes(32)
        for i, shape in enumerate(
            ((0, 4, 4), (3, 4, 4), (2**32 - 1,) * 3, (2, 4, 2**31), (1, 1, 1))
        )
    }
    wrong |= {
        f"magic-{i}": bytes(head) + good[4:]
        for i, head in enumerate(((0, 0, 13, 3), (0, 0, 8, 1), (1, 0, 8, 3)))
    }
    wrong |= {"longer": good + b"1"}
    bomb = bytes([0, 0, 8, 3]) + struct.pack(">III", 6800, 100, 100) + bytes(68_000_000)

    def read(folder: Path) -> Any:
        reader = archive_reader(folder)
        assert reader is not None
        return [split.read() for split in reader(Reading()).splits.values()]

    def of(name: str, file: str, content: bytes) -> Bad:
        return of_file(f"idx-{name}", file, content, lambda path: read(path.parent))

    for name, content in wrong.items():
        yield of(name, "train-images-idx3-ubyte", content)
        yield of(f"packed-{name}", "train-images-idx3-ubyte.gz", gzip.compress(content))
    yield of("bomb", "train-images-idx3-ubyte.gz", gzip.compress(bomb))
    packed = gzip.compress(good)
    for end in (0, 5, 10, 20, len(packed) - 1):
        yield of(f"packed-{end}", "train-images-idx3-ubyte.gz", packed[:end])


def records() -> Iterator[Bad]:
    """Files of CIFAR and STL-10, of which some bytes are missing."""
    for name in ("data_batch_1.bin", "train_X.bin"):
        for size in (0, 1, 3072, 3074, 27647, 27649):
            yield of_file(f"{name}-{size}", name, bytes(size), lambda path: samples(path.parent))


def containers() -> Iterator[Bad]:
    """Archives of JPEG files, with places that lead outside; and of images."""
    content = np.frombuffer(encoded("JPEG"), np.uint8)
    n = len(content)
    for i, places in enumerate((
        [0], [], [0, n + 1], [n, 0], [-1, n], [0, 0], [1, n], [0, n // 2, n],
    )):  # fmt: skip
        for kind in (np.int64, np.uint64):
            if kind is np.uint64 and min(places, default=0) < 0:
                continue
            arrays = {"train_jpeg": content, "train_offsets": np.asarray(places, kind)}
            yield of_npz(f"jpegs-{i}-{kind.__name__}", arrays)
    yield of_npz("jpegs-float", {"train_jpeg": content, "train_offsets": np.asarray([0.0, n])})
    yield of_npz("jpegs-axes", {"train_jpeg": content, "train_offsets": np.zeros((2, 2), int)})
    yield of_npz("jpegs-alone", {"train_jpeg": content})
    yield of_npz(
        "jpegs-type", {"train_jpeg": content.astype(int), "train_offsets": np.asarray([0, n])}
    )
    yield of_npz("nothing", {"x": np.zeros(3)})
    yield of_npz("objects", {"images": np.asarray([None])})


def of_npz(name: str, arrays: dict[str, Any]) -> Bad:
    """An archive of arrays, read as pictures."""
    content = archive(*((f"{key}.npy", whole(array)) for key, array in arrays.items()))

    def read(path: Path) -> Any:
        return [split.read() for split in read_source(path, Reading(size=8)).splits.values()]

    return of_file(f"container-{name}", "X.npz", content, read)._replace(about="")
