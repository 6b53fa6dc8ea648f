"""Photographs by frozen features: k-means, a graph of neighbors, and what bounds do, with seeds.

Each set is a folder of pictures that ``dualclust train --data FOLDER -k K`` clusters, once for each
seed; its features are computed once. Beside it stand k-means of the same features (centered, at
unit length, ten starts), and the same with a class ten times as large as another. True classes are
used for ACC and NMI alone; ``second`` is of the second half of the pictures, on which no setting
was chosen.

    python -m benchmarks.photographs --cifar10 cifar10_jpeg.npz
    python -m benchmarks.photographs --photos FOLDER -k 10        # k-means beside ours, no classes
    python -m benchmarks.photographs --large 1000                 # time and memory of large files
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dualclust import ConstrainedKMeans, SpectralConstrainedKMeans
from dualclust.algos.clustering.metrics import clustering_scores

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()
RATIO = 10.0
ORDERS = 3
"""Orders of the classes, from the largest to the smallest, of sets that are not balanced."""

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]


class Found(NamedTuple):
    """Labels of one procedure, and the CPU seconds that they took."""

    labels: Labels
    seconds: float


def write_cifar10(archive: Path, folder: Path, limit: int | None = None) -> Labels:
    """Write the test pictures as files, named by their place; return their classes."""
    with np.load(archive) as arrays:
        ends, content = arrays["test_offsets"], arrays["test_jpeg"]
        classes = arrays["test_labels"][:limit].astype(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(len(classes)):
        (folder / f"{i:05d}.jpg").write_bytes(content[ends[i] : ends[i + 1]].tobytes())
    return classes


def train(folder: Path, out: Path, k: int, seed: int, *more: str) -> dict[str, float]:
    """Run the command as a process of its own; return its wall and CPU seconds and its memory."""
    words = ["train", "--data", str(folder), "-k", str(k), "--seed", str(seed), "--out", str(out)]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "dualclust", *words, *more], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "wall": time.perf_counter() - started,
        "cpu": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        "peak_gb": after.ru_maxrss / 2**20,
    }


def labels_of(out: Path) -> Labels:
    """Return the labels of a run, in the order of its files."""
    lines = (out / "assignments.csv").read_text().splitlines()
    place = lines[0].split(",").index("cluster")
    return np.asarray([int(line.split(",")[place]) for line in lines[1:]])


def features_in(cache: Path) -> Rows:
    """Return the features that the last run has kept."""
    from safetensors.numpy import load_file

    newest = max((cache / "features").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    return np.asarray(load_file(newest)["features"], np.float32)


def k_means(rows: Rows, k: int, seed: int) -> Found:
    """Cluster directions of centered rows without bounds, from ten starts."""
    started = time.process_time()
    model = ConstrainedKMeans(k, metric="cosine", n_init=10, random_state=seed)
    return Found(model.fit(rows - rows.mean(axis=0)).labels_, time.process_time() - started)


def in_graph(rows: Rows, k: int, seed: int, **bounds: float) -> Found:
    """Cluster in a graph of neighbors."""
    started = time.process_time()
    model = SpectralConstrainedKMeans(k, random_state=seed, **bounds).fit(rows)
    return Found(model.labels_, time.process_time() - started)


def uneven(classes: Labels, order: Sequence[int], largest: int) -> Labels:
    """Return the first pictures of each class, falling from `largest` to a tenth of it."""
    sizes = [round(largest * RATIO ** (-i / (len(order) - 1))) for i in range(len(order))]
    kept = [np.flatnonzero(classes == c)[:n] for c, n in zip(order, sizes, strict=True)]
    return np.concatenate(kept)


def figures(classes: Labels, labels: Labels) -> str:
    """Return ACC and NMI."""
    found = clustering_scores(classes, labels)
    return f"{found.acc:.3f} ({found.nmi:.3f})"


def rows_of_cifar10(archive: Path, work: Path, seeds: int, limit: int | None) -> Iterator[str]:
    """Yield the lines of the tables."""
    classes = write_cifar10(archive, work / "pictures", limit)
    half = len(classes) // 2
    yield "| procedure | seed | ACC (NMI) | first half | second | CPU s |"
    yield "|---|---|---|---|---|---|"
    for seed in range(seeds):
        cost = train(work / "pictures", work / f"run{seed}", 10, seed)
        parts = parts_of(classes, labels_of(work / f"run{seed}"), half)
        yield f"| `dualclust train` | {seed} | {parts} | {cost['cpu']:.0f} |"
    draw_picture(work / "run0" / "gallery.png", work / "photographs.png")
    rows = features_in(work / "cache")
    tight = {"lower": 0.8, "upper": 1.2}
    for seed in range(seeds):
        for name, found in (
            ("k-means", k_means(rows, 10, seed)),
            ("graph", in_graph(rows, 10, seed)),
            ("graph, 0.8 to 1.2", in_graph(rows, 10, seed, **tight)),
        ):
            parts = parts_of(classes, found.labels, half)
            yield f"| {name} | {seed} | {parts} | {found.seconds:.1f} |"
    yield ""
    yield "| largest class ten times the smallest | k-means | graph | graph, 0.8 to 1.2 |"
    yield "|---|---|---|---|"
    for order in range(ORDERS):
        places = np.random.default_rng(order).permutation(10).tolist()
        kept = uneven(classes, places, min(1000, len(classes) // 10))
        rest, truth = rows[kept], classes[kept]
        for seed in range(seeds):
            each = k_means(rest, 10, seed), in_graph(rest, 10, seed)
            found = [*each, in_graph(rest, 10, seed, **tight)]
            shown = " | ".join(figures(truth, one.labels) for one in found)
            yield f"| order {order}, seed {seed}, {len(kept)} pictures | {shown} |"


def parts_of(classes: Labels, labels: Labels, half: int) -> str:
    """Return figures of all pictures and of both halves, as columns."""
    parts = slice(None), slice(None, half), slice(half, None)
    return " | ".join(figures(classes[part], labels[part]) for part in parts)


def draw_picture(gallery: Path, out: Path) -> None:
    """Write the figure of the pages: a gallery, smaller and of fewer colors."""
    from PIL import Image

    with Image.open(gallery) as image:
        side = 1000, round(1000 * image.height / image.width)
        image.convert("RGB").resize(side, Image.Resampling.LANCZOS).quantize(96).save(out)


def rows_of_photos(folder: Path, work: Path, k: int) -> Iterator[str]:
    """Yield what k-means and the graph make of a folder: sizes, and how far they agree."""
    train(folder, work / "run", k, 0)
    ours, rows = labels_of(work / "run"), features_in(work / "cache")
    theirs = k_means(rows, k, 0).labels
    for name, labels in (("k-means", theirs), ("ours", ours)):
        yield f"{name:<8} sizes {sorted(np.bincount(labels, minlength=k).tolist())}"
    yield f"NMI of the two {clustering_scores(theirs, ours).nmi:.3f}; look at {work / 'run'}"


def kinds_of_large() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Return suffix, format, mode and options of twenty files, as a phone and its owner have them.

    A tenth is turned by the camera's note.
    """
    turned = {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"}
    jpeg: list[tuple[str, str, str, dict[str, Any]]] = [("jpg", "JPEG", "RGB", {"quality": 90})]
    return [
        *jpeg * 8,
        *[("jpg", "JPEG", "RGB", {"quality": 90, **turned})] * 2,
        ("jpg", "JPEG", "RGB", {"quality": 90, "progressive": True}),
        ("jpg", "JPEG", "L", {"quality": 90}),
        ("jpg", "JPEG", "CMYK", {"quality": 90}),
        *[("png", "PNG", "RGB", {"compress_level": 1})] * 2,
        ("png", "PNG", "RGBA", {"compress_level": 1}),
        ("tif", "TIFF", "I;16", {}),
        *[("webp", "WEBP", "RGB", {"quality": 80})] * 2,
        ("gif", "GIF", "P", {}),
    ]


def rows_of_large(n: int, work: Path) -> Iterator[str]:
    """Yield time and memory of pictures of 4,000 by 3,000 pixels in several formats.

    Twenty are drawn; links to them are the rest, since making them is not what is timed. Three more
    files are broken: cut short, without a byte, and text.
    """
    from PIL import Image

    folder = work / "large"
    folder.mkdir(parents=True)
    draws = np.random.default_rng(0)
    first: list[Path] = []
    for i, (suffix, kind, mode, options) in enumerate(kinds_of_large()):
        coarse = draws.integers(0, 256, size=(12, 16, 3), dtype=np.uint8)
        smooth = Image.fromarray(coarse).resize((4000, 3000), Image.Resampling.BICUBIC)
        noise = draws.normal(0.0, 6.0, size=(3000, 4000, 1))  # so that files are of a phone's size
        pixels = np.clip(np.asarray(smooth) + noise, 0, 255).astype(np.uint8)
        picture = Image.fromarray(pixels)
        if mode == "I;16":
            picture = Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257)
        path = folder / f"{i:04d}.{suffix}"
        (picture if mode == "I;16" else picture.convert(mode)).save(path, kind, **options)
        first.append(path)
    for i in range(len(first), n):
        os.link(first[i % len(first)], folder / f"{i:04d}{first[i % len(first)].suffix}")
    whole = first[0].read_bytes()
    for name, content in (("cut", whole[: len(whole) // 2]), ("empty", b""), ("text", b"text")):
        (folder / f"{name}.jpg").write_bytes(content)
    cost = train(folder, work / "run-large", 10, 0)
    left = (work / "run-large" / "skipped.csv").read_text().count("\n") - 1
    found = {name: round(x, 2) for name, x in cost.items()}
    yield json.dumps({"pictures": n, "left out": left, **found})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cifar10", type=Path, metavar="FILE")
    parser.add_argument("--photos", type=Path, metavar="FOLDER")
    parser.add_argument("--large", type=int, metavar="N")
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="pictures of CIFAR-10 (default all 10,000)")
    parser.add_argument("--work", type=Path, help="where pictures and runs are left")
    options = parser.parse_args(arguments)
    work = options.work or Path(tempfile.mkdtemp(prefix="photographs-"))
    os.environ["DUALCLUST_CACHE"] = str((work / "cache").absolute())
    lines: Iterator[Any] = iter(())
    if options.cifar10 is not None:
        lines = rows_of_cifar10(options.cifar10, work, options.seeds, options.limit)
    elif options.photos is not None:
        lines = rows_of_photos(options.photos, work, options.k)
    elif options.large is not None:
        lines = rows_of_large(options.large, work)
    for line in lines:
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
