"""What a model may be asked about: arrays of any layout, pictures, folders, splits."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image

from dualclust.algos.core.errors import (
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    UsageError,
)
from dualclust.train.data.samples import load_source
from dualclust.train.loop import train
from dualclust.train.models import InputSpec, load_model
from dualclust.train.models.inputs import inputs_of
from tests.train.pictures import encoded, picture, write_folder
from tests.train.runs import tiny

COLOR, GRAY, ROWS = InputSpec((3, 5, 4)), InputSpec((1, 5, 4)), InputSpec((6,))
SQUARE = InputSpec((3, 8, 8), "crop")


def taken(data, spec, size=3, **options):
    found = inputs_of(data, spec, **options)
    parts = list(found.batches(size))
    assert all(len(part) <= size for part in parts)
    return torch.cat(parts), found


def test_layouts_of_images(rng):
    pixels = rng.integers(0, 256, size=(7, 5, 4, 3), dtype=np.uint8)
    expected = torch.from_numpy(pixels.transpose(0, 3, 1, 2).copy())
    first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    mine = [pixels, first, np.asfortranarray(pixels), pixels[::-1][::-1]]
    mine += [torch.from_numpy(pixels), torch.from_numpy(first), pixels.tolist()]
    for data in mine[:-1]:
        assert torch.equal(taken(data, COLOR)[0], expected)
    gray = pixels[..., 0]
    for data in (gray, gray[..., None], gray[:, None]):
        assert torch.equal(taken(data, GRAY)[0], expected[:, :1])
    with pytest.raises(InvalidTypeError, match="images must be uint8"):
        taken(mine[-1], COLOR)  # a list of integers is int64


@pytest.mark.parametrize("shape", [(7, 4, 5, 3), (7, 5, 4), (5, 4, 3), (7, 5, 4, 1), (7, 60), ()])
def test_images_of_another_shape_are_refused(shape):
    with pytest.raises(InvalidValueError, match=r"\(n, 5, 4, 3\), \(n, 3, 5, 4\), as the model"):
        inputs_of(np.zeros(shape, np.uint8), COLOR)


def test_embeddings_of_any_float(rng):
    x = rng.normal(size=(7, 6)).astype(np.float32)
    for data in (x, x.astype(">f4"), np.asfortranarray(x), torch.from_numpy(x), x.tolist()):
        assert torch.equal(taken(data, ROWS)[0].float(), torch.from_numpy(x))
    assert torch.equal(taken(x.astype(np.float16), ROWS)[0], torch.from_numpy(x).half())
    with pytest.raises(InvalidTypeError, match="embeddings must be floats, got int64"):
        inputs_of(x.astype(np.int64), ROWS)
    with pytest.raises(InvalidValueError, match=r"shape \(n, 6\).* got \(7, 5\)"):
        inputs_of(x[:, :5], ROWS)
    with pytest.raises((InvalidTypeError, InvalidValueError)):
        inputs_of(object(), ROWS)
    with pytest.raises(InvalidTypeError):
        inputs_of([[1.0], [1.0, 2.0]], ROWS)


class Large(torch.nn.Module):
    def forward(self, x):
        return torch.where(x.abs() > 1e30, x - x / 0, x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_named(tmp_path, rng, value, finished):
    """Wherever it lies, by its number in the file and not in the batch."""
    x = rng.normal(size=(300, 16)).astype(np.float32)
    x[271, 3] = x[290, 15] = value
    np.save(tmp_path / "x.npy", x)
    model = finished("secu rows").model
    for data, name in ((x, "data"), (torch.from_numpy(x), "data"), (tmp_path / "x.npy", "x.npy")):
        for ask in (model.predict, model.predict_proba, model.embed, model.scores):
            with pytest.raises(
                InvalidValueError, match=rf"{name} holds NaN or infinity in row 271"
            ):
                ask(data, batch_size=7)
    assert len(model.predict(x[:271])) == 271


def test_a_number_that_float32_has_not(rng, finished):
    x = rng.normal(size=(5, 16))
    x[4, 2] = 1e39
    with pytest.raises(InvalidValueError, match=r"data holds a number above 3\.4e\+38 in row 4"):
        finished("secu rows").model.predict(x)


def test_a_network_that_overflows_gives_no_label(rng, finished):
    """An encoder whose numbers grow: what it is asked is finite, what it says is not."""
    x = rng.normal(size=(300, 16)).astype(np.float32)
    x[280] = 3e38
    model = copy.deepcopy(finished("secu rows").model)
    encoder = model.classifier.network.encoder
    model.classifier.network.encoder = torch.nn.Sequential(Large(), encoder)
    assert len(model.predict(x[:280])) == 280
    for ask in (model.predict, model.embed):
        with pytest.raises(InvalidValueError, match="makes NaN or infinity of row 280 of data"):
            ask(x, batch_size=7)


@pytest.mark.parametrize("fit", ["crop", "imagenet", "squash"])
def test_pictures_are_cut_as_evaluation_sees_them(tmp_path, fit):
    folder = write_folder(tmp_path / "p", 12, 3)
    spec = InputSpec((3, 8, 8), fit)
    data = load_source(folder, size=8, fit=fit)
    found, inputs = taken(folder, spec, size=5)
    assert torch.equal(found, data.images)
    assert inputs.names == data.names
    # One, several, and by other words.
    paths = [folder / name for name in data.names]
    assert torch.equal(taken(paths, spec)[0], data.images)
    one, inputs = taken(str(paths[3]), spec)
    assert torch.equal(one, data.images[3:4])
    assert inputs.names == (str(paths[3]),)
    assert torch.equal(taken(folder, spec, workers=1)[0], data.images)


def test_color_for_a_gray_model_and_gray_for_a_color_one(tmp_path):
    (tmp_path / "color.png").write_bytes(encoded(picture(9, 9), "PNG"))
    (tmp_path / "gray.png").write_bytes(encoded(picture(9, 9, channels=1), "PNG"))
    gray, _ = taken(tmp_path / "color.png", InputSpec((1, 8, 8), "crop"))
    assert gray.shape == (1, 1, 8, 8)
    color, _ = taken(tmp_path / "gray.png", SQUARE)
    assert torch.equal(color[:, 0], color[:, 2])


def test_without_a_cut_pictures_have_the_size_already(tmp_path):
    pixels = picture(5, 4)
    (tmp_path / "a.png").write_bytes(encoded(pixels, "PNG"))
    found, _ = taken(tmp_path / "a.png", COLOR)
    assert torch.equal(found[0], torch.from_numpy(pixels.transpose(2, 0, 1).copy()))
    (tmp_path / "b.png").write_bytes(encoded(picture(5, 5), "PNG"))
    with pytest.raises(InvalidValueError, match=r"b\.png has 5 × 5 pixels.* 4 × 5.*data\.size=5"):
        taken(tmp_path / "b.png", COLOR)


def test_what_is_no_sample_of_the_model(tmp_path):
    with pytest.raises(MissingFileError, match=r"no picture at .*gone\.png"):
        inputs_of([tmp_path / "gone.png"], SQUARE)
    with pytest.raises(MissingFileError, match="no data at"):
        inputs_of(tmp_path / "gone", SQUARE)
    (tmp_path / "broken.png").write_bytes(encoded(picture(9, 9), "PNG")[:60])
    with pytest.raises(InvalidValueError, match=r"cannot decode .*broken\.png"):
        taken(tmp_path / "broken.png", SQUARE)
    np.save(tmp_path / "x.npy", np.zeros((3, 6), np.float32))
    with pytest.raises(UsageError, match="holds embeddings, and the model was trained on images"):
        inputs_of(tmp_path / "x.npy", SQUARE)
    (tmp_path / "a.png").write_bytes(encoded(picture(9, 9), "PNG"))
    with pytest.raises(UsageError, match="a picture, and the model was trained on embeddings of 6"):
        inputs_of(tmp_path / "a.png", ROWS)
    with pytest.raises(UsageError, match="holds images, and the model was trained on embeddings"):
        inputs_of("digits", ROWS)


def test_splits_and_files_of_arrays(tmp_path, rng):
    train_images, test_images = (
        rng.integers(0, 256, size=(n, 5, 4, 3), dtype=np.uint8) for n in (4, 3)
    )
    np.savez(tmp_path / "s.npz", train_images=train_images, test_images=test_images)
    found = {split: taken(tmp_path / "s.npz", COLOR, split=split)[0] for split in
             ("auto", "train", "test", "all")}  # fmt: skip
    assert [len(found[split]) for split in ("auto", "train", "test", "all")] == [4, 4, 3, 7]
    assert torch.equal(found["all"], torch.cat([found["train"], found["test"]]))
    rows = rng.normal(size=(9, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)
    assert torch.equal(taken(tmp_path / "x.npy", ROWS)[0], torch.from_numpy(rows))


def test_a_run_on_pictures_in_files(tmp_path):
    """Random crops out of whole pictures in training; the model sees the plain cut."""
    folder = write_folder(tmp_path / "p", 40, 10)
    changes = ["data.size=8", "data.fit=imagenet", "augment.crop=[0.3, 1.0]", "epochs=1"]
    changes += ["heads.clusters=[10]", "optim.warmup_epochs=0", "evaluation.views=0"]
    changes += ["assignment.rounding=outward"]
    result = train(tiny(folder, *changes), tmp_path / "run")
    model = load_model(tmp_path / "run")
    assert model.spec.input == InputSpec((3, 8, 8), "imagenet")
    np.testing.assert_allclose(model.embed(folder), result.prediction.features, rtol=0, atol=1e-5)
    assert (model.predict(folder) == result.prediction.nearest.numpy()).all()
    # From another format of the same pixels, and from memory.
    image = Image.open(folder / "class0" / "000.jpeg")
    image.save(tmp_path / "same.png")
    assert model.predict(tmp_path / "same.png") == model.predict(folder)[0]


def test_named_constants_and_embeddings_as_they_are(tmp_path, rng):
    """Normalization is what the run divided by, whichever that was."""
    pixels = rng.integers(0, 256, size=(40, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "i.npz", images=pixels)
    changes = ["data.normalization=imagenet", "epochs=1", "heads.clusters=[10]"]
    changes += ["optim.warmup_epochs=0", "evaluation.views=0", "assignment.rounding=outward"]
    result = train(tiny(tmp_path / "i.npz", *changes), tmp_path / "run")
    model = load_model(tmp_path / "run")
    np.testing.assert_allclose(model.classifier.mean, [0.485, 0.456, 0.406], atol=1e-7)
    np.testing.assert_allclose(model.embed(pixels), result.prediction.features, rtol=0, atol=1e-5)
