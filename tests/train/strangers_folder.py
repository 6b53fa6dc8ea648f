"""A folder of photographs as strangers keep them, with more than ten kinds of trouble.

    DUALCLUST_DATA=shared/data python -m tests.train.strangers_folder OUT

writes 500 pictures of CIFAR-10 (its JPEG copy) to OUT/photos, and their classes to OUT/classes.csv.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SKIPPED = ("IMG_empty.jpg", "IMG_noise.jpg", "day1/IMG_cut.jpg", "day2/gone.png", "phone.heic")
"""Files that cannot be read, in the order of their names."""

SIZES = ((32, 32), (48, 64), (90, 60), (120, 160), (200, 150), (400, 300))


def write_strangers(folder: Path, images: np.ndarray) -> dict[str, int]:
    """Write (n, h, w, 3) uint8 images, n at least 24, with trouble; returns files and their image.

    Sizes differ, and formats; there are gray, palette, transparent, 16-bit and turned pictures, in
    the folder itself and in sub-folders; links to files, to folders, in a circle and to nowhere;
    hidden files, other files, and files that are empty, cut short or no pictures at all.
    """
    written = {}
    for i, pixels in enumerate(images):
        place = ("", "day1", "day2", "day2/later")[i % 4]
        name = f"{place}/IMG_{i:04}".lstrip("/")
        written[name + write_one(folder / name, pixels, i)] = i
    (folder / "day3").symlink_to("../elsewhere")
    (folder / "day2" / "circle").symlink_to("..")
    (folder / "day2" / "gone.png").symlink_to("nowhere.png")
    moved = next(name for name in written if name.startswith("day1/"))
    (folder.parent / "elsewhere").mkdir()
    (folder / moved).rename(folder.parent / "elsewhere" / "IMG_moved.jpg")
    written["day3/IMG_moved.jpg"] = written.pop(moved)
    write_bad(folder)
    return written


def write_one(path: Path, pixels: np.ndarray, i: int) -> str:
    """Write one picture in the i-th way; returns the ending of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels).resize(SIZES[i % len(SIZES)], Image.Resampling.BICUBIC)
    kind, options = (
        (("JPEG", ".jpg"), ("PNG", ".PNG"), ("WEBP", ".webp"), ("BMP", ".bmp"))[i % 7 % 4],
        {},
    )
    mode = {3: "L", 5: "RGBA", 8: "P", 11: "I;16"}.get(i % 12)
    if mode is not None:
        kind = ("PNG", ".png")
        if mode == "I;16":
            image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) * 257)
        else:
            image = image.convert(mode)
    elif i % 12 == 7:
        kind, options["exif"] = ("JPEG", ".jpeg"), Image.Exif()
        options["exif"][0x0112] = 6  # turned by a quarter; what is stored lies on its side
        image = image.transpose(Image.Transpose.ROTATE_90)
    image.save(path.with_name(path.name + kind[1]), kind[0], **options)
    return kind[1]


def write_bad(folder: Path) -> None:
    """Write what is no picture, or should not be looked at."""
    content = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(content, "JPEG")
    whole = content.getvalue()
    (folder / "IMG_empty.jpg").write_bytes(b"")
    (folder / "IMG_noise.jpg").write_bytes(noise.tobytes())
    (folder / "day1" / "IMG_cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    (folder / ".thumbnails").mkdir()
    (folder / ".thumbnails" / "small.jpg").write_bytes(whole)
    (folder / "._IMG_0000.jpg").write_bytes(b"\0\5\x16\7")
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (folder / "notes.txt").write_text("not a picture")
    (folder / "day1" / "film.mp4").write_bytes(b"\0\0\0\x18ftypmp42")


def main(out: Path) -> None:
    """Write the folder of 500 pictures, fifty of each class."""
    with np.load(Path(os.environ["DUALCLUST_DATA"]) / "cifar10_jpeg.npz") as archive:
        content, offsets = archive["train_jpeg"], archive["train_offsets"]
        labels = archive["train_labels"]
    chosen = np.sort(np.concatenate([np.flatnonzero(labels == c)[:50] for c in range(10)]))
    files = [bytes(content[offsets[i] : offsets[i + 1]]) for i in chosen]
    images = np.stack([np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files])
    written = write_strangers(out / "photos", images)
    with (out / "classes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file", "class"])
        rows.writerows((name, labels[chosen[i]]) for name, i in sorted(written.items()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
