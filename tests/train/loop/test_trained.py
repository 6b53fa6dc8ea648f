"""The model of a run: it computes what the method does, or is not written."""

import pytest
import torch

from dualclust.algos.core.errors import UsageError
from dualclust.train.loop import Run, trained
from dualclust.train.loop.trained import CHECKED, dualclust_version, trained_model
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


def test_fewer_samples_are_all_compared(run, monkeypatch):
    looked, prediction = [], run.predict()
    monkeypatch.setattr(run.loader, "n", 7)
    monkeypatch.setattr(run.method, "scores", lambda f, c: looked.append(len(f)) or f @ c.T)
    trained._check(run.method, run.method.network, run.loader, prediction)
    assert looked == [7]


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
