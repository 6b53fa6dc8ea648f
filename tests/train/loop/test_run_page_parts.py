"""What a run tells its page: each figure of a prediction, and the run as it is."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dualclust.train.loop import Run, run_page
from dualclust.train.loop.run_page import ALL, MEANWHILE, RunPage
from tests.train.runs import tiny, write_images


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("data") / "images.npz", n=61)


@pytest.fixture
def run(images):
    """A run before its first epoch, of two heads; the target has the fewer clusters."""
    run = Run(tiny(images, "assignment.rounding=outward"), "cpu")
    run.init()
    return run


@pytest.fixture
def told(run, tmp_path, monkeypatch):
    """The page in a folder ``here``, and what it has given to the writers of pages."""
    seen = {}

    def parts(found, pictures):
        seen["found"], seen["pictures"] = found, pictures
        return {"parts": "of a prediction"}

    def page(state, parts):
        seen["state"], seen["parts"] = state, parts
        return "a page"

    monkeypatch.setattr(run_page, "found_parts", parts)
    monkeypatch.setattr(run_page, "run_page", page)
    (tmp_path / "here").mkdir()
    return RunPage(run, tmp_path / "here"), seen


def test_the_page_gets_the_prediction_as_the_host_has_it(run, told):
    page, seen = told
    prediction, method = run.predict(), run.method
    page.see(prediction)
    found = seen["found"]
    scores = (prediction.features @ prediction.centers.T).double().numpy()
    labels = prediction.assignment.labels.numpy()
    own = scores[np.arange(61), labels]
    assert found.epoch == 1
    np.testing.assert_array_equal(found.labels, labels)
    np.testing.assert_array_equal(found.nearest, prediction.nearest)
    np.testing.assert_array_equal(found.runner_up, prediction.runner_up)
    np.testing.assert_array_equal(found.margins, prediction.margins.double())
    np.testing.assert_allclose(found.near, own, rtol=1e-6)
    np.testing.assert_allclose(found.loss, scores.max(1) - own, atol=1e-6)
    np.testing.assert_array_equal(found.features, prediction.features.float())
    np.testing.assert_array_equal(found.prices, prediction.assignment.prices)
    np.testing.assert_array_equal(found.lower, method.bounds[0].lower)
    np.testing.assert_array_equal(found.upper, method.bounds[0].upper)
    assert found.gap == float(prediction.assignment.gap)
    np.testing.assert_array_equal(found.ids, run.loader.data.ids)
    np.testing.assert_array_equal(found.classes, run.loader.data.labels)
    assert found.margins.dtype == found.near.dtype == found.loss.dtype == np.float64
    assert found.prices.dtype == np.float64
    assert found.features.dtype == np.float32
    assert seen["pictures"].most == MEANWHILE == 600
    page.see(prediction, most=ALL)
    assert seen["pictures"].most == ALL == 20_000
    assert (found.names, found.class_names) == (None, run.loader.data.class_names)
    files = tuple(f"{i}.png" for i in range(61))
    unlabeled = run.loader.shown._replace(names=files, labels=None, class_names=("x",))
    run.loader.shown, run.epoch = unlabeled, 3
    page.see(prediction)
    found = seen["found"]
    assert (found.epoch, found.names, found.classes, found.class_names) == (3, files, None, ("x",))


def test_pictures_are_of_the_images_as_they_are_stored(run, told, monkeypatch):
    page, seen = told
    page.see(run.predict())
    pictures, asked = seen["pictures"], []
    np.testing.assert_array_equal(pictures.images([5, 2]), run.loader.data.images[[5, 2]])
    monkeypatch.setattr(run.method, "attended", lambda data, ids: asked.append((data, ids)))
    assert pictures.attended([4, 1]) is None
    ((data, ids),) = asked
    assert data is run.loader.data
    assert ids.tolist() == [4, 1]


def test_the_page_gets_the_run_as_it_is(run, told, monkeypatch):
    page, seen = told
    run.metrics = [{"epoch": 1}]
    run.method.heads.duals.lower[0, 3] = 0.5
    uneven = SimpleNamespace(n_clusters=2, lower=torch.tensor([3, 1]), upper=torch.tensor([50, 60]))
    run.method.bounds, run.method.followed = [run.method.bounds[0], uneven], 1
    page.write()
    state = seen["state"]
    assert state.followed == (2, 1, 60)
    assert (page.folder / "report.html").read_text() == "a page"
    assert (state.title, state.method, state.epochs) == ("here", "secu", 4)
    assert (state.done, state.stopped, seen["parts"]) == (False, "", None)
    assert state.records == [{"epoch": 1}]
    assert state.n_samples == 61
    assert state.settings == run_page.dump_config(run.config)
    np.testing.assert_array_equal(state.lower, run.method.bounds[0].lower)
    np.testing.assert_array_equal(state.upper, run.method.bounds[0].upper)
    np.testing.assert_array_equal(state.trained, run.method.training_sizes())
    np.testing.assert_array_equal(state.prices, run.method.training_prices())
    assert state.prices[3] == 0.5
    page.see(run.predict())
    monkeypatch.setattr(run.method, "training_prices", lambda: None)
    page.write(done=True, stopped="It ended.", more=[{"epoch": 2}])
    state = seen["state"]
    assert (state.done, state.stopped, state.prices) == (True, "It ended.", None)
    assert state.records == [{"epoch": 1}, {"epoch": 2}]
    assert seen["parts"] == {"parts": "of a prediction"}


def test_versions_are_of_what_decides_the_figures():
    found = run_page._versions(torch.device("cpu"))
    assert list(found) == [
        *("Python", "dualclust", "torch", "numpy", "safetensors", "pillow"),
        "device",
    ]
    assert found["numpy"] == np.__version__
    assert found["device"] == "cpu"
    assert run_page._version("no such package") == "not installed"
