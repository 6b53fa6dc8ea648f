"""Which figures of a run are computed of what, by stand-ins for all that computes."""

from types import SimpleNamespace

import pytest
import torch

from dualclust.train.config.linear import LinearConfig
from dualclust.train.config.run import EvaluationConfig
from dualclust.train.loop import evaluation as module
from dualclust.train.loop.evaluation import evaluate_method, predict
from dualclust.train.loop.metrics import Agreement

CLASSES, HELD_OUT = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0])


class Method:
    """Two heads of three and four clusters; features are the samples, and centers one-hot."""

    def __init__(self):
        self.target, self.network = 1, torch.nn.Linear(2, 2)
        self.network.encoder = torch.nn.Identity()
        self.bounds = [SimpleNamespace(n_clusters=3), SimpleNamespace(n_clusters=4)]
        self.asked = []

    def features(self, x):
        assert not self.network.training
        return x

    def normalize_rows(self, rows):
        return 2.0 * rows

    def scores(self, rows, centers):
        return rows @ centers.T

    def predict(self, rows):
        self.asked.append((self.target, rows))
        counts = torch.tensor([2, 1, 1, 0])
        found = SimpleNamespace(labels=torch.tensor([0, 1, 1, 2]), counts=counts)
        nearest = torch.tensor([0, 1, 1, 3])
        return SimpleNamespace(
            assignment=found, nearest=nearest, features="features", centers=-torch.eye(2)
        )


class Loader:
    """Samples of two numbers; each pass is noted, and its view has its number added."""

    def __init__(self, classes=CLASSES, test=None, linear=None, **options):
        self.data = SimpleNamespace(labels=classes)
        self.test = test
        self.config = SimpleNamespace(
            evaluation=EvaluationConfig(**{"views": 0, **options}), linear=linear, seed=5
        )
        self.passes = []

    def apply_to_all(self, function, *, view="plain", stream="plain", number=0, data=None):
        self.passes.append((view, stream, number, data is self.test and data is not None))
        rows = torch.eye(2) if data is not None else torch.zeros(4, 2)
        return function(rows + number)


@pytest.fixture
def figures(monkeypatch):
    """Figures that say what they were computed of."""
    asked = []

    def evaluate(labels, data):
        asked.append(("evaluate", labels.tolist()))
        return None if data.labels is None else Agreement(*(0.1 * len(asked) for _ in range(5)))

    def agreement(labels, classes):
        asked.append(("agreement", labels.tolist(), classes.tolist()))
        return Agreement(*[0.9] * 5)

    def note(name, value):
        return lambda *given, **more: asked.append((name, given, more)) or value

    spread = SimpleNamespace(_asdict=lambda: {"imbalance": 0.5})
    for name, function in {
        "evaluate": evaluate,
        "agreement": agreement,
        "spread": note("spread", spread),
        "nearest_neighbors": note("knn", 0.25),
        "logistic_probe": note("probe", 0.75),
        "linear_accuracy": note("linear", 0.5),
    }.items():
        monkeypatch.setattr(module, name, function)
    return asked


@pytest.mark.parametrize(("views", "mean"), [(0, 0.0), (1, 0.0), (2, 0.5), (3, 1.0)])
def test_a_prediction_is_of_the_mean_of_views(views, mean):
    method, loader = Method(), Loader(views=views)
    predict(method, loader)
    predict(method, loader, 0)
    assert [head for head, _ in method.asked] == [1, 0]
    assert method.target == 1
    assert all(torch.equal(rows, torch.full((4, 2), mean)) for _, rows in method.asked)
    drawn = [("first", "predict", v, False) for v in range(views)]
    assert loader.passes == 2 * (drawn or [("plain", "plain", 0, False)])
    assert method.network.training


def test_an_error_leaves_the_target_as_it_is():
    method = Method()

    def fail(rows):
        assert method.target == 0
        raise ArithmeticError

    method.predict = fail
    with pytest.raises(ArithmeticError):
        predict(method, Loader(), 0)
    assert method.target == 1


@pytest.mark.parametrize(("heads", "asked"), [("target", [1]), ("all", [0, 1])])
def test_figures_of_the_target_have_plain_names(figures, heads, asked):
    method, seen = Method(), []
    found = evaluate_method(method, Loader(heads=heads), seen=seen.append)
    assert [head for head, _ in method.asked] == asked
    assert len(seen) == 1
    names = ["acc", "nmi", "ari", "nmi_geometric", "ami"]
    expected = {f"{prefix}{name}" for prefix in ("", "argmax_") for name in names}
    if heads == "all":
        expected |= {f"head0_{name}" for name in names}
        assert found["head0_acc"] == pytest.approx(0.1)
    extra = {"argmax_size_min", "argmax_size_max", "imbalance"}
    assert found.keys() == expected | extra
    first = 0.1 * len(asked)
    assert (found["acc"], found["argmax_acc"]) == pytest.approx((first, first + 0.1))
    # Of four clusters, by the labels without bounds: 1, 2, 0 and 1 samples.
    assert (found["argmax_size_min"], found["argmax_size_max"]) == (0, 2)
    [(_, given, _)] = [one for one in figures if one[0] == "spread"]
    assert (given[0], given[1].tolist()) == ("features", [2, 1, 1, 0])


def test_labels_that_the_bounds_did_not_change_are_evaluated_once(figures):
    method = Method()
    whole = method.predict

    def same(rows):
        found = whole(rows)
        found.nearest = found.assignment.labels
        return found

    method.predict = same
    found = evaluate_method(method, Loader())
    assert found["argmax_acc"] == found["acc"]
    assert [one[0] for one in figures].count("evaluate") == 1


def test_without_classes_there_are_sizes_alone(figures):
    found = evaluate_method(Method(), Loader(None, neighbors=3, probe=True), last=True)
    assert found.keys() == {"argmax_size_min", "argmax_size_max", "imbalance"}


@pytest.mark.parametrize("labels", [None, HELD_OUT])
def test_held_out_images_are_scored_by_the_centers(figures, labels):
    """Rows are twice the unit vectors, and centers their opposites: each gets the other's."""
    found = evaluate_method(Method(), Loader(test=SimpleNamespace(labels=labels)))
    told = [one for one in figures if one[0] == "agreement"]
    if labels is None:
        assert (told, "test_acc" in found) == ([], False)
    else:
        assert told == [("agreement", [1, 0], [1, 0])]
        assert found["test_acc"] == 0.9


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("neighbors", [0, 3])
@pytest.mark.parametrize("probe", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_figures_of_the_encoder_are_those_asked_for(figures, last, neighbors, probe, linear):
    test = SimpleNamespace(labels=HELD_OUT)
    table = LinearConfig() if linear else None
    loader = Loader(test=test, linear=table, neighbors=neighbors, probe=probe)
    method = Method()
    found = evaluate_method(method, loader, last=last)
    assert found.get("knn") == (0.25 if neighbors else None)
    expected = (0.5 if linear else 0.75) if probe and last else None
    assert found.get("probe") == expected
    asked = {one[0]: one[1:] for one in figures}
    if neighbors:
        (features, classes), more = asked["knn"]
        assert (features.tolist(), classes is CLASSES) == ([[0.0, 0.0]] * 4, True)
        (rows, labels), count = more["test"], more["n_neighbors"]
        assert (rows.tolist(), labels is HELD_OUT, count) == ([[1.0, 0.0], [0.0, 1.0]], True, 3)
    if expected == 0.75:
        (features, classes), more = asked["probe"]
        assert (features.tolist(), classes is CLASSES) == ([[0.0, 0.0]] * 4, True)
        assert (more["seed"], more["test"][1] is HELD_OUT) == (5, True)
    if expected == 0.5:
        assert asked["linear"] == ((method, loader, table), {})
    assert method.network.training


@pytest.mark.parametrize("test", [None, SimpleNamespace(labels=None)])
def test_without_held_out_classes_training_images_judge_the_encoder(figures, test):
    evaluate_method(Method(), Loader(test=test, neighbors=1, probe=True), last=True)
    asked = {one[0]: one[2] for one in figures if one[0] in ("knn", "probe")}
    assert (asked["knn"]["test"], asked["probe"]["test"]) == (None, None)
