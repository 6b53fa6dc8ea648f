"""The model of a run: it computes what the method does, or is not written."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.config.run import RunConfig, override
from dualclust.train.loop import Run, trained
from dualclust.train.loop.trained import CHECKED, dualclust_version, trained_model
from dualclust.train.models.spec import EncoderSpec, InputSpec, ModelSpec
from dualclust.train.networks.libraries import Pixels
from dualclust.train.networks.pretrained import Pretrained, Standardized
from tests.train.runs import tiny, write_images


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    source = write_images(tmp_path_factory.mktemp("data") / "images.npz", n=80)
    return Run(tiny(source, "heads.clusters=[10]", "assignment.rounding=outward"), "cpu")


@pytest.mark.parametrize(("by", "fits"), [(0.9e-3, True), (1.5e-3, False), (float("nan"), False)])
def test_scores_that_the_model_has_not_are_refused(run, monkeypatch, by, fits):
    """Compared on the first 64 samples, by the largest difference of a score."""
    prediction = run.predict()
    looked, scores = [], run.method.scores

    def other(features, centers):
        looked.append(len(features))
        found = scores(features, centers)
        found[3, 4] -= by
        return found

    monkeypatch.setattr(run.method, "scores", other)
    if fits:
        assert trained_model(run.method, run.loader, prediction)
    else:
        words = r"method 'secu' has features or scores of its own, .*set SeCu\.readout"
        with pytest.raises(UsageError, match=words):
            trained_model(run.method, run.loader, prediction)
    assert looked == [CHECKED] == [64]


def test_a_tree_that_is_not_installed_has_no_version(monkeypatch):
    assert dualclust_version() == trained.version("dualclust")

    def unknown(name):
        raise trained.PackageNotFoundError(name)

    monkeypatch.setattr(trained, "version", unknown)
    assert dualclust_version() == "unknown"


def test_the_mode_of_the_network_is_left_as_it_is(run):
    assert run.method.network.training
    trained._check(run.method, run.method.network, run.loader, run.predict())
    assert run.method.network.training
    assert torch.is_grad_enabled()


def test_a_model_says_what_it_is_of(run):
    """Each field of its description, for a run on images whose size was not asked for."""
    spec = trained._spec(run.method, run.method.network, run.loader)
    assert spec == ModelSpec(
        method="secu",
        readout=run.method.readout,
        temperature=run.method.temperature,
        n_clusters=10,
        n_samples=80,
        input=InputSpec((1, 8, 8)),
        network=run.config.network,
        dualclust=dualclust_version(),
        torch=str(torch.__version__),
    )
    assert (spec.dtype, spec.autocast, spec.own_network) == ("float32", False, "")
    assert (spec.encoder, spec.branches) == (None, None)
    # The second branch of a method serves its training alone.
    config = override(run.config, ["network.predictor=7"])
    other = SimpleNamespace(config=config, n=80, shown=run.loader.shown)
    assert trained._spec(run.method, run.method.network, other) == spec


@pytest.mark.parametrize(
    ("size", "shape", "fit"),
    [(8, (3, 8, 8), "squash"), (0, (3, 8, 8), "none"), (8, (3, 8, 9), "none"), (8, (8,), "none")],
)
def test_views_of_a_size_that_was_asked_for_have_a_rule(size, shape, fit):
    config = override(RunConfig(), [f"data.size={size}", "data.fit=squash"])
    loader = SimpleNamespace(shown=SimpleNamespace(shape=shape))
    assert trained._fit(config, loader) == fit


def test_what_stands_in_front_of_the_heads_is_described():
    pixels = Pixels((8, 9), (0.5, 0.4, 0.3), (0.25, 0.2, 0.1))
    plain = torch.nn.Flatten()
    library = Pretrained(plain, pixels, "described")

    def described(encoder):
        return trained._encoder(SimpleNamespace(encoder=encoder))

    assert described(plain) is None
    assert described(Standardized(plain, torch.zeros(2), torch.ones(2))) == EncoderSpec(True)
    for frozen in (False, True):
        inside = Standardized(library, torch.zeros(2), torch.ones(2)) if frozen else library
        found = described(inside)
        assert found == EncoderSpec(frozen, *pixels, "described")
