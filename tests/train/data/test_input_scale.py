"""Images normalized with constants by name: values, background, held-out images, resume."""

import numpy as np
import pytest
import torch

from dualclust.algos.core.errors import CheckpointError, UsageError
from dualclust.common.ranks import ALONE
from dualclust.train.config.run import DataConfig, override
from dualclust.train.data.input_scale import INPUT_SCALES, rescaled
from dualclust.train.data.samples import embedding_data, load_source
from dualclust.train.loop import resume, train
from dualclust.train.loop.execution import Execution
from dualclust.train.loop.loader import Loader
from tests.train.runs import tiny_recipe


@pytest.fixture
def colored(tmp_path):
    rng = np.random.default_rng(3)
    pixels = {
        f"{split}_images": rng.integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
        for split, n in (("train", 60), ("test", 20))
    }
    np.savez(tmp_path / "colored.npz", **pixels, train_labels=np.arange(60) % 3)
    return tmp_path / "colored.npz", pixels


@pytest.mark.parametrize("name", INPUT_SCALES)
def test_pixels_are_divided_by_the_constants(name, colored):
    path, pixels = colored
    before = load_source(path)
    after = rescaled(before, name)
    mean, std = (np.asarray(x) for x in INPUT_SCALES[name])
    expected = (pixels["train_images"] / 255 - mean) / std
    found = after.take(torch.arange(60)).permute(0, 2, 3, 1).double().numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    # The background is the same pixel in other units.
    pixel = before.background * before.std + before.mean
    torch.testing.assert_close(after.background * after.std + after.mean, pixel)
    assert after.digest() == before.digest()


def test_the_data_s_own_scale_changes_nothing(colored):
    data = load_source(colored[0])
    assert rescaled(data, "own") is data


def test_the_names_are_those_of_the_settings():
    for name in INPUT_SCALES:
        assert DataConfig(normalization=name).normalization == name
    with pytest.raises(UsageError, match="normalization"):
        DataConfig(normalization="other")


@pytest.mark.parametrize("kind", ["gray", "embeddings"])
def test_what_has_no_three_channels_is_refused(kind):
    data = load_source("digits") if kind == "gray" else embedding_data(np.ones((4, 3), np.float32))
    what = "images of 1 channel" if kind == "gray" else "embeddings"
    with pytest.raises(UsageError, match=f"the samples are {what}. To fix this, set data.norm"):
        rescaled(data, "cifar10")


def settings(path, *changes):
    config = tiny_recipe("secu_digits", path)
    own = ["heads.clusters=[3]", "heads.target=3", "data.test=test", "evaluation.views=0"]
    return override(config, [*own, "assignment.rounding=outward", "epochs=2", *changes])


def test_held_out_images_have_the_scale_of_training(colored):
    config = settings(colored[0], "data.normalization=cifar10")
    device = torch.device("cpu")
    loader = Loader(config, ALONE, Execution(config.execution, device))
    assert loader.data.std.tolist() == pytest.approx([0.2023, 0.1994, 0.2010])
    assert torch.equal(loader.test.std, loader.data.std)
    assert torch.equal(loader.test.mean, loader.data.mean)


def test_a_run_cannot_be_resumed_with_another_scale(colored, tmp_path):
    folder = tmp_path / "run"
    train(settings(colored[0], "data.normalization=cifar10"), folder)
    text = (folder / "config.toml").read_text()
    assert 'normalization = "cifar10"' in text
    (folder / "config.toml").write_text(text.replace('"cifar10"', '"imagenet"'))
    with pytest.raises(CheckpointError, match="normalization"):
        resume(folder)


def test_the_constants_are_those_of_the_scripts():
    assert {name: (*scale.mean, *scale.std) for name, scale in INPUT_SCALES.items()} == {
        "cifar10": (0.4914, 0.4822, 0.4465, 0.2023, 0.1994, 0.2010),
        "cifar100": (0.5071, 0.4867, 0.4408, 0.2675, 0.2565, 0.2761),
        "imagenet": (0.485, 0.456, 0.406, 0.229, 0.224, 0.225),
        "imagenet-gray": (0.449, 0.449, 0.449, 0.226, 0.226, 0.226),
        "none": (0, 0, 0, 1, 1, 1),
    }
