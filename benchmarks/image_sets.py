"""Image sets for `own_data`: three known ones, two that are drawn here, two from files.

``letters``  A to J of the fonts that come with Matplotlib and of a folder's: gray, 28 pixels; font,
             size, slant, turn, place and ink differ
``shapes``   ten shapes on a patch of scikit-learn's two photographs: in color, 32 pixels; hue,
             brightness, size, turn and place differ
``patches``  patches of the pictures in a folder, whose class is the picture: gray, 28 pixels;
             place, size and mirror differ
``faces``    100 faces and 100 other things, gray, 25 pixels: the part of Labeled Faces in the Wild
             that comes with scikit-image
"""

from __future__ import annotations

import colorsys
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from sklearn.datasets import load_digits, load_sample_images

Pixels = NDArray[np.uint8]
Point = tuple[float, float]

LETTERS = "ABCDEFGHIJ"
SHAPES = (
    *("disk", "ring", "half disk", "crescent", "triangle"),
    *("square", "star", "cross", "arrow", "corner"),
)
NO_LETTERS = ("LastResort", "STIXNonUni", "STIXSiz", "Display", "cmex")
"""Beginnings and parts of the names of Matplotlib's fonts that have no letters of their own."""

LARGEST_PATCH = 84
"""Side in pixels of what is cut out of a picture, at most."""

FINER = 4
"""Pictures are drawn this much larger, and made smaller, so that edges are smooth."""


class ImageSet(NamedTuple):
    """Images, (n, h, w) or (n, h, w, 3) uint8, and their classes, (n,) int64."""

    images: Pixels
    labels: NDArray[np.int64]


def digits(n: int) -> ImageSet:
    """Return the first n of scikit-learn's 1,797 digits of 8 pixels."""
    found = load_digits()
    images = np.round(found.images[:n] * (255 / 16)).astype(np.uint8)
    return ImageSet(images, found.target[:n].astype(np.int64))


def mnist(n: int, file: Path) -> ImageSet:
    """Return the first n test images of MNIST, of a file with `test_images` and `test_labels`."""
    with np.load(file) as stored:
        return ImageSet(stored["test_images"][:n], stored["test_labels"][:n].astype(np.int64))


def cifar10(n: int, file: Path) -> ImageSet:
    """Return the first n test images of CIFAR-10, stored as JPEG files one after another."""
    with np.load(file) as stored:
        data, ends = stored["test_jpeg"], stored["test_offsets"]
        labels = stored["test_labels"][:n].astype(np.int64)
    files = (data[ends[i] : ends[i + 1]].tobytes() for i in range(len(labels)))
    images = [np.asarray(Image.open(io.BytesIO(one)).convert("RGB")) for one in files]
    return ImageSet(np.stack(images), labels)


def fonts(folder: Path | None = None) -> list[Path]:
    """Return the fonts with letters that come with Matplotlib, and all in a folder, by name."""
    own = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    found = [f for f in own.glob("*.ttf") if not any(part in f.name for part in NO_LETTERS)]
    more = [] if folder is None else [f for f in folder.rglob("*") if f.suffix in (".otf", ".ttf")]
    by_name = {file.stem: file for file in sorted([*found, *more])}
    return [by_name[name] for name in sorted(by_name)]


def letters(n: int, files: Sequence[Path], *, seed: int = 0) -> ImageSet:
    """Draw letters, each class as often as any other."""
    labels = _classes(n, seed)
    images = [_letter(LETTERS[c], files, np.random.default_rng([seed, i])) for i, c in labels]
    return ImageSet(np.stack(images), np.array([c for _, c in labels]))


def shapes(n: int, *, seed: int = 0) -> ImageSet:
    """Draw shapes on patches of photographs, each class as often as any other."""
    labels, grounds = _classes(n, seed), load_sample_images().images
    images = [_shape(SHAPES[c], grounds, np.random.default_rng([seed, i])) for i, c in labels]
    return ImageSet(np.stack(images), np.array([c for _, c in labels]))


def patches(n: int, folder: Path, *, seed: int = 0) -> ImageSet:
    """Cut patches out of at most ten pictures, each of them as often as any other."""
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in (".png", ".jpg", ".jpeg"))
    pictures = [Image.open(file).convert("L") for file in files[:10]]
    if not pictures or min(min(picture.size) for picture in pictures) <= LARGEST_PATCH:
        msg = (
            f"{folder} must hold PNG or JPEG pictures of more than {LARGEST_PATCH} pixels a side, "
            f"got {[picture.size for picture in pictures]}. To fix this, name another folder"
        )
        raise SystemExit(msg)
    classes = np.random.default_rng([seed, n]).permutation(n) % len(pictures)
    images = [
        _patch(pictures[c], np.random.default_rng([seed, i]))
        for i, c in enumerate(classes.tolist())
    ]
    return ImageSet(np.stack(images), classes.astype(np.int64))


def _patch(picture: Image.Image, draws: np.random.Generator) -> Pixels:
    side = int(draws.integers(28, LARGEST_PATCH + 1))
    left, top = (int(draws.integers(length - side)) for length in picture.size)
    patch = picture.crop((left, top, left + side, top + side)).resize(
        (28, 28), Image.Resampling.BOX
    )
    mirrored = draws.uniform() < 0.5
    return np.asarray(patch)[:, ::-1] if mirrored else np.asarray(patch)


def faces(n: int, file: Path) -> ImageSet:
    """Return n of the 200 images, in an order that mixes faces (0) and other things (1)."""
    order = np.random.default_rng(0).permutation(200)[:n]
    stored = np.load(file)
    return ImageSet(
        np.round(255.0 * stored[order]).astype(np.uint8), (order >= 100).astype(np.int64)
    )


def _classes(n: int, seed: int) -> list[tuple[int, int]]:
    order = np.random.default_rng([seed, n]).permutation(n) % 10
    return list(enumerate(order.tolist()))


def _letter(letter: str, files: Sequence[Path], draws: np.random.Generator) -> Pixels:
    side = 28 * FINER
    file = files[int(draws.integers(len(files)))]
    font = ImageFont.truetype(str(file), size=round(side * draws.uniform(0.55, 0.95)))
    page = Image.new("L", (side, side))
    at = tuple(side / 2 + side * draws.uniform(-0.06, 0.06, 2))
    width = int(draws.integers(0, FINER))
    ink = int(draws.integers(120, 256))
    ImageDraw.Draw(page).text(at, letter, fill=ink, font=font, anchor="mm", stroke_width=width)
    slant, turn = draws.uniform(-0.25, 0.25), math.radians(draws.uniform(-12, 12))
    cos, sin = math.cos(turn), math.sin(turn)
    matrix = np.array([[cos, -sin], [sin, cos]]) @ np.array([[1.0, slant], [0.0, 1.0]])
    shift = side / 2 - matrix @ np.full(2, side / 2)
    rows = (*matrix[0], shift[0], *matrix[1], shift[1])
    turned = page.transform((side, side), Image.Transform.AFFINE, rows, Image.Resampling.BILINEAR)
    return np.asarray(turned.resize((28, 28), Image.Resampling.BOX))


def _shape(name: str, grounds: Sequence[Pixels], draws: np.random.Generator) -> Pixels:
    side, ground = 32, grounds[int(draws.integers(len(grounds)))]
    patch = int(draws.integers(side, 4 * side))
    top, left = (int(draws.integers(length - patch)) for length in ground.shape[:2])
    picture = Image.fromarray(ground[top : top + patch, left : left + patch])
    picture = picture.resize((side, side), Image.Resampling.BOX)
    mask = Image.new("L", (side * FINER, side * FINER))
    radius = side * FINER * draws.uniform(0.22, 0.4)
    turn, center = draws.uniform(0, 2 * math.pi), side * FINER * draws.uniform(0.4, 0.6, 2)
    for points, fill in _outlines(name):
        angles = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
        placed = (np.asarray(points) @ angles.T) * radius + center
        ImageDraw.Draw(mask).polygon([tuple(p) for p in placed.tolist()], fill=fill)
    color = colorsys.hsv_to_rgb(draws.uniform(), draws.uniform(0.5, 1.0), draws.uniform(0.5, 1.0))
    paint = Image.new("RGB", (side, side), tuple(round(255 * c) for c in color))
    picture.paste(paint, mask=mask.resize((side, side), Image.Resampling.BOX))
    return np.asarray(picture)


def _outlines(name: str) -> list[tuple[list[Point], int]]:
    """Polygons of a shape within the unit circle: 255 paints, 0 takes away."""
    disk = _circle(1.0)
    found: dict[str, list[tuple[list[Point], int]]] = {
        "disk": [(disk, 255)],
        "ring": [(disk, 255), (_circle(0.55), 0)],
        "half disk": [(_circle(1.0, turns=0.5), 255)],
        "crescent": [(disk, 255), (_circle(0.8, at=0.45), 0)],
        "triangle": [(_circle(1.0, points=3), 255)],
        "square": [(_circle(1.0, points=4), 255)],
        "star": [(_star(), 255)],
        "cross": [(_bar(1.0, 0.3), 255), (_bar(0.3, 1.0), 255)],
        "arrow": [(_bar(0.9, 0.2), 255), ([(1.0, 0.0), (0.1, 0.7), (0.1, -0.7)], 255)],
        "corner": [
            ([(-0.8, -0.8), (0.8, -0.8), (0.8, -0.3), (-0.3, -0.3), (-0.3, 0.8), (-0.8, 0.8)], 255)
        ],
    }
    return found[name]


def _circle(radius: float, *, points: int = 40, turns: float = 1.0, at: float = 0.0) -> list[Point]:
    angles = [2 * math.pi * turns * i / points for i in range(points + (turns < 1))]
    return [(at + radius * math.cos(a), radius * math.sin(a)) for a in angles]


def _star() -> list[Point]:
    radii = [1.0, 0.42] * 5
    return [
        (r * math.cos(math.pi * i / 5), r * math.sin(math.pi * i / 5)) for i, r in enumerate(radii)
    ]


def _bar(x: float, y: float) -> list[Point]:
    return [(-x, -y), (x, -y), (x, y), (-x, y)]
