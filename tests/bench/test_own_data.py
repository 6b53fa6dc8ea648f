"""The program that compares chosen settings with their neighbors, and the sets that it draws."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from benchmarks import image_sets, own_data
from benchmarks.own_data import CHANGES, CHOSEN


def test_drawn_sets_have_each_class_as_often_and_are_the_same_again() -> None:
    files = image_sets.fonts()
    for draw, shape in (
        (lambda seed: image_sets.letters(20, files, seed=seed), (20, 28, 28)),
        (lambda seed: image_sets.shapes(20, seed=seed), (20, 32, 32, 3)),
    ):
        found, again, other = draw(0), draw(0), draw(1)
        assert (found.images.shape, found.images.dtype) == (shape, np.uint8)
        assert np.bincount(found.labels).tolist() == [2] * 10
        assert np.array_equal(found.images, again.images)
        assert not np.array_equal(found.images, other.images)
        assert len({image.tobytes() for image in found.images}) == 20


def test_each_font_has_ten_letters() -> None:
    files = image_sets.fonts()
    assert len(files) > 15
    for file in files:
        font = image_sets.ImageFont.truetype(str(file), size=20)
        assert len({bytes(font.getmask(letter)) for letter in image_sets.LETTERS}) == 10, file


def test_letters_and_shapes_show_their_class() -> None:
    draws = lambda: np.random.default_rng(3)  # noqa: E731
    files = image_sets.fonts()[:1]
    ink = {c: (image_sets._letter(c, files, draws()) > 60).sum() for c in "IHB"}
    assert ink["I"] < ink["H"]
    assert ink["I"] < ink["B"]
    # Of the same draws, on black: what is painted, as a share of the disk.
    black = [np.zeros((200, 200, 3), np.uint8)]
    painted = {
        name: (image_sets._shape(name, black, draws()).max(2) > 40).sum()
        for name in image_sets.SHAPES
    }
    share = {name: count / painted["disk"] for name, count in painted.items()}
    assert share["ring"] == pytest.approx(1 - 0.55**2, abs=0.12)
    assert share["half disk"] == pytest.approx(0.5, abs=0.08)
    assert share["square"] == pytest.approx(2 / np.pi, abs=0.08)
    assert share["triangle"] == pytest.approx(3 * 3**0.5 / 4 / np.pi, abs=0.08)
    assert max(share, key=lambda name: share[name]) == "disk"


def test_patches_are_of_the_picture_that_is_their_class(tmp_path: Path) -> None:
    for level in range(12):  # ten are used
        Image.new("RGB", (120, 90), (20 * level,) * 3).save(tmp_path / f"{level:02}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    found = image_sets.patches(30, tmp_path)
    assert (found.images.shape, found.images.dtype) == ((30, 28, 28), np.uint8)
    assert np.bincount(found.labels).tolist() == [3] * 10
    assert (found.images == (20 * found.labels)[:, None, None]).all()
    again = image_sets.patches(30, tmp_path)
    assert np.array_equal(found.labels, again.labels)


def test_pictures_are_missing_or_too_small_for_patches(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="must hold PNG or JPEG pictures of more than 84 pixels"):
        image_sets.patches(3, tmp_path)
    Image.new("L", (200, 84)).save(tmp_path / "flat.JPG", "JPEG")
    with pytest.raises(SystemExit, match=r"got \[\(200, 84\)\]"):
        image_sets.patches(3, tmp_path)


def test_places_and_mirrors_of_patches_differ(tmp_path: Path) -> None:
    slope = np.tile(np.arange(200, dtype=np.uint8), (150, 1))
    Image.fromarray(slope).save(tmp_path / "slope.png")
    found = image_sets.patches(40, tmp_path)
    rising = (np.diff(found.images[:, 0, :].astype(int), axis=1) >= 0).all(axis=1)
    assert 5 < rising.sum() < 35
    assert len({image.tobytes() for image in found.images}) > 35


def test_faces_come_first_in_their_file(tmp_path: Path) -> None:
    np.save(
        tmp_path / "faces.npy", np.linspace(0.0, 1.0, 200)[:, None, None] * np.ones((1, 25, 25))
    )
    found = image_sets.faces(150, tmp_path / "faces.npy")
    assert found.images.shape == (150, 25, 25)
    assert (found.images[found.labels == 0] <= 127).all()
    assert (found.images[found.labels == 1] >= 128).all()
    assert 50 < found.labels.sum() < 100


def test_stored_sets_are_read(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (3, 28, 28)).astype(np.uint8)
    np.savez(tmp_path / "m.npz", test_images=images, test_labels=np.uint8([1, 0, 2]))
    found = image_sets.mnist(2, tmp_path / "m.npz")
    assert np.array_equal(found.images, images[:2])
    assert found.labels.tolist() == [1, 0]
    files = []
    for level in (0, 100, 200):
        file = io.BytesIO()
        Image.new("RGB", (32, 32), (level,) * 3).save(file, "JPEG")
        files.append(np.frombuffer(file.getvalue(), np.uint8))
    ends = np.cumsum([0, *map(len, files)])
    np.savez(
        tmp_path / "c.npz",
        test_jpeg=np.concatenate(files),
        test_offsets=ends,
        test_labels=np.uint8([5, 6, 7]),
    )
    colored = image_sets.cifar10(2, tmp_path / "c.npz")
    assert colored.images.shape == (2, 32, 32, 3)
    assert colored.images.mean((1, 2, 3)) == pytest.approx([0, 100], abs=2)
    assert colored.labels.tolist() == [5, 6]


@pytest.fixture(scope="module")
def choices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, own_data.Choice]:
    folder = tmp_path_factory.mktemp("sets")
    sets = {"digits": image_sets.digits(160), "shapes": image_sets.shapes(160)}
    return {
        name: own_data.choose(name, images, folder, "secu", 0.01) for name, images in sets.items()
    }


def test_settings_are_those_of_the_command(choices: dict[str, own_data.Choice]) -> None:
    digits, shapes = choices["digits"].config, choices["shapes"].config
    assert (digits.network.name, shapes.network.name) == ("digits-cnn", "resnet18-stl")
    assert (digits.epochs, digits.heads.target) == (2, 10)  # a hundredth of 200
    assert (digits.assignment.lower, digits.assignment.upper) == (0.7, 1.5)


def test_each_change_is_one(choices: dict[str, own_data.Choice]) -> None:
    for choice in choices.values():
        for name, change in CHANGES.items():
            # Photographs have no beginnings that try several strengths.
            alike = name == CHOSEN or (name == "views as they are" and choice.name == "shapes")
            assert (change(choice.config) == choice.config) == alike, name
    config = choices["shapes"].config
    cooler = CHANGES["temperature / 3"](config).loss
    assert cooler.temperature == pytest.approx(config.loss.temperature / 3)
    assert cooler.center_temperature == pytest.approx(config.loss.center_temperature / 3)
    faster = CHANGES["rate x 3"](config).optim
    assert (faster.lr, faster.center_lr) == pytest.approx(
        (3 * config.optim.lr, 3 * config.optim.center_lr)
    )
    switched = CHANGES["flips switched"](config)
    assert switched.second is not None
    assert not switched.augment.flip
    assert not switched.second.flip
    halved = CHANGES["views halved"](config)
    assert halved.augment.crop == pytest.approx((0.65, 1.0))
    assert halved.second is not None
    assert halved.second.gray == config.second.gray / 2
    digits = choices["digits"].config
    assert digits.starts is not None
    assert digits.starts.views == (1.0, 0.5)
    alone = CHANGES["views as they are"](digits)
    assert alone == replace(digits, starts=None)
    assert CHANGES["views halved"](digits).augment.rotate == digits.augment.rotate / 2
    assert CHANGES["width / 2"](config).network.width == 8


@pytest.mark.slow(reason="tests of beginnings train by what it compares")
def test_a_run_has_figures_with_and_without_classes(choices: dict[str, own_data.Choice]) -> None:
    record = own_data.run_one(choices["digits"], CHOSEN, 0)
    assert (record["set"], record["n"], record["epochs"], record["seed"]) == ("digits", 160, 2, 0)
    assert len(record["labels"]) == 160
    counts = np.bincount(record["labels"], minlength=10)
    assert record["sizes"] == [counts.min(), counts.max()]
    assert counts.min() >= 11  # 0.7 of 16
    assert 0.1 < record["acc"] < 1
    assert -1 < record["silhouette"] < 1
    assert len(record["silhouettes"]) == 2
    assert record["silhouettes"][record["chosen"]] == max(record["silhouettes"])
    alone = own_data.run_one(choices["digits"], "views halved", 0)
    assert "silhouettes" not in alone
    json.dumps(record)


def of(change: str, seed: int, acc: float, labels: list[int], **more: float) -> own_data.Record:
    figures = {"nmi": 0.5, "loss": 1.0, "silhouette": 0.5, "cpu": 1.0} | more
    head = {"set": "digits", "method": "secu", "n": 4, "change": change, "seed": seed}
    return {**head, "acc": acc, "labels": labels, **figures}


def test_tables_say_what_each_figure_would_have_picked() -> None:
    records = [
        of(CHOSEN, 0, 0.8, [0, 0, 1, 1]),
        of(CHOSEN, 1, 0.6, [0, 1, 0, 1]),
        of("rate x 3", 0, 0.9, [0, 0, 1, 1], loss=0.9),
        of("rate x 3", 1, 0.9, [1, 1, 0, 0], loss=0.7),
        of("one head", 0, 0.5, [0, 0, 1, 1], loss=0.1, silhouette=0.9),
    ]
    rows = own_data.summary(records)
    assert rows[CHOSEN]["acc"] == pytest.approx(0.7)
    assert (rows[CHOSEN]["seeds"], rows["rate x 3"]["seeds"]) == pytest.approx((0.0, 1.0))
    assert rows["one head"]["seeds"] is None
    picks = {"acc": "rate x 3", "silhouette": "one head", "seeds": "rate x 3"}
    assert own_data.picked(rows) == picks
    lines = own_data.tables(records, {"digits": 0.55}).splitlines()
    assert "| as chosen | 0.700 | 0.800, 0.600 | 0.500 | 1.000 | 0.500 | 0.000 | 1 |" in lines
    best = "0.900 (rate x 3)"
    assert lines[-1] == f"| digits | 0.550 | 0.700 | {best} | 0.500 (one head) | {best} |"


def test_runs_that_are_there_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = []

    def run_one(choice: own_data.Choice, change: str, seed: int) -> own_data.Record:
        made.append((choice.name, change, seed))
        epochs = CHANGES[change](choice.config).epochs
        return of(change, seed, 0.5, [0, 1, 0, 1]) | {"n": 60, "epochs": epochs}

    monkeypatch.setattr(own_data, "run_one", run_one)
    runs = ["--n", "60", "--share", "0.01", "--runs", str(tmp_path / "runs.jsonl")]
    # 60 images are too few for finer heads, so that one head is no change.
    changes = ["--changes", CHOSEN, "epochs / 2", "one head"]
    older = of(CHOSEN, 0, 0.5, [0, 1, 0, 1]) | {"n": 60, "epochs": 2}
    del older["silhouette"]
    (tmp_path / "runs.jsonl").write_text(json.dumps(older) + "\n")
    for seeds in "12":
        monkeypatch.setattr(sys, "argv", ["own_data", "digits", *runs, *changes, "--seeds", seeds])
        own_data.main()
    assert made == [("digits", change, seed) for seed in (0, 1) for change in changes[1:3]]
    assert capsys.readouterr().out.splitlines()[-1].startswith("| digits | ")
    monkeypatch.setattr(sys, "argv", ["own_data", "mnist"])
    monkeypatch.delenv("DUALCLUST_MNIST", raising=False)
    with pytest.raises(SystemExit, match="give --mnist PATH"):
        own_data.main()
