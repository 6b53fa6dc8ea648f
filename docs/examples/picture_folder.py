"""A folder of pictures, from files to clusters: `dualclust train --data FOLDER`, in Python.

900 scans of handwritten digits lie in a folder as PNG and JPEG files, in sub-folders, beside a text
file and a picture that was cut short. The settings are chosen by looking at the files, a network is
trained on them, and the run folder gets a gallery. Names of files end in the digit, which no step
reads: it only says in the end how many pictures came where they belong.

``python docs/examples/picture_folder.py docs/images`` draws the figure, in less than a minute.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from dualclust.algos.clustering import clustering_scores
from dualclust.train.data import look_at
from dualclust.train.loop import RunWarning, train
from dualclust.train.own_data import Machine, choose_settings


class Found(NamedTuple):
    """What a run made of the folder."""

    sizes: list[int]
    allowed: tuple[int, int]
    left_out: list[str]
    accuracy: float


def write_scans(folder: Path, n: int) -> None:
    """Write n digits as pictures, two kinds of files in two sub-folders, and what is none."""
    digits = load_digits()
    for number, (image, digit) in enumerate(zip(digits.images[:n], digits.target[:n], strict=True)):
        place = folder / ("archive" if number % 3 else "desk")
        place.mkdir(parents=True, exist_ok=True)
        kind = "png" if number % 2 else "jpg"
        picture = Image.fromarray((image * 15.9).astype(np.uint8))
        picture.save(place / f"scan{number:04}-{digit}.{kind}", quality=95)  # of JPEG
    (folder / "notes.txt").write_text("not a picture")
    whole = next((folder / "desk").glob("*.png")).read_bytes()
    (folder / "desk" / "cut-short.png").write_bytes(whole[: len(whole) // 2])


def cluster_folder(folder: Path, run: Path, epochs: int | None) -> Found:
    """Choose settings by looking at the files, train, and read what the run folder says."""
    look = look_at(str(folder))
    chosen = choose_settings(
        look, "secu", str(folder), Machine(cores=1), clusters=10, epochs=epochs
    )
    print(look.describe(), *(f"  {c.settings}  # {c.reason}" for c in chosen.choices), sep="\n")
    with warnings.catch_warnings():  # that a file was left out: skipped.csv says it as well
        warnings.simplefilter("ignore", RunWarning)
        result = train(chosen.config, run)
    with (run / "assignments.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (run / "skipped.csv").open(encoding="utf-8", newline="") as file:
        left_out = [row["file"] for row in csv.DictReader(file)]
    digits = np.asarray([int(Path(row["file"]).stem[-1]) for row in rows])
    clusters = np.asarray([int(row["cluster"]) for row in rows])
    return Found(
        sizes=np.bincount(clusters, minlength=10).tolist(),
        allowed=(result.lower, result.upper),
        left_out=left_out,
        accuracy=float(clustering_scores(clusters, digits).acc),
    )


def main(folder: Path, *, small: bool = False) -> Found:
    """Write ``picture_folder_gallery.png``, the gallery of the run; returns what it found."""
    with tempfile.TemporaryDirectory() as place:
        scans, run = Path(place, "scans"), Path(place, "run")
        write_scans(scans, 200 if small else 900)
        found = cluster_folder(scans, run, epochs=1 if small else None)
        shutil.copy(run / "gallery.png", folder / "picture_folder_gallery.png")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    print(main(parser.parse_args().folder))
