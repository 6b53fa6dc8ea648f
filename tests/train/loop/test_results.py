"""The files of a finished run to the letter, and when a run is finished."""

from types import SimpleNamespace

import numpy as np
import pytest
import safetensors.torch
import torch

from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.data.samples import embedding_data, image_data
from dualclust.train.data.splits import Skipped
from dualclust.train.loop import results
from dualclust.train.loop.results import (
    is_finished,
    read_metrics,
    write_metrics,
    write_results,
    write_skipped,
)

BOUNDS = SimpleNamespace(n_clusters=3, lower=torch.tensor([1, 1, 0]), upper=torch.tensor([3, 2, 4]))


def prediction():
    found = SimpleNamespace(labels=torch.tensor([2, 0, 1, 0]), counts=torch.tensor([2, 1, 1]))
    return SimpleNamespace(
        assignment=found,
        margins=torch.tensor([0.5, 0.25, 1.23456789, 0.0]),
        runner_up=torch.tensor([1, 1, 0, 2]),
        nearest=torch.tensor([2, 0, 1, 1]),
        centers=torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
    )


@pytest.fixture
def drawn(monkeypatch):
    """What the pictures of a run are made of."""
    seen = {}
    for name in ("write_gallery", "write_sizes"):
        monkeypatch.setattr(
            results, name, lambda *given, name=name, **more: seen.update({name: (given, more)})
        )
    return seen


def test_a_table_of_embeddings_and_the_numbers_beside_it(tmp_path, drawn):
    data = embedding_data(np.ones((4, 2), np.float32), [5, -1, 7, 5])
    data = data._replace(ids=data.ids + 10, names=("a", "b,c", "d", "e"))
    network = torch.nn.Linear(2, 2)
    write_results(tmp_path, prediction(), BOUNDS, data, network)
    assert (tmp_path / "assignments.csv").read_bytes().decode() == (
        "id,cluster,margin,runner_up,nearest,class,file\n"
        "10,2,0.500000,1,2,0,a\n"
        '11,0,0.250000,1,0,,"b,c"\n'
        "12,1,1.234568,0,1,1,d\n"
        "13,0,0.000000,2,1,0,e\n"
    )
    assert np.array_equal(np.load(tmp_path / "centers.npy"), prediction().centers)
    weights = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert weights.keys() == network.state_dict().keys()
    assert torch.equal(weights["weight"], network.weight)
    assert list(drawn) == ["write_sizes"]
    (path, *sizes), more = drawn["write_sizes"]
    assert (path, more) == (tmp_path / "sizes.png", {})
    assert [size.tolist() for size in sizes] == [[2, 1, 1], [1, 1, 0], [3, 2, 4]]


@pytest.mark.parametrize(
    ("classes", "shown"),
    [([0, 1, 2, 0], [0, 1, 2, 0]), ([0, 1, -1, 0], None), (None, None)],
)
def test_a_gallery_shows_classes_where_every_image_has_one(tmp_path, drawn, classes, shown):
    pixels = np.arange(4 * 36, dtype=np.uint8).reshape(4, 6, 6)
    data = image_data(pixels, classes, None if classes is None else ["x", "y", "z"])
    write_results(tmp_path, prediction(), BOUNDS, data, torch.nn.Linear(2, 2))
    given, more = drawn["write_gallery"]
    assert given[0] == tmp_path / "gallery.png"
    assert torch.equal(given[1], data.images)
    assert [x.tolist() for x in given[2:]] == [
        prediction().assignment.labels.tolist(),
        prediction().margins.tolist(),
    ]
    found = more.pop("true_labels")
    assert (None if found is None else found.tolist()) == shown
    assert more == {"n_clusters": 3, "class_names": data.class_names}
    first = (tmp_path / "assignments.csv").read_text().splitlines()[0]
    assert ("class" in first.split(",")) == (classes is not None)


def test_files_that_are_left_out_are_written_once(tmp_path):
    write_skipped(tmp_path, SimpleNamespace())
    write_skipped(tmp_path, SimpleNamespace(skipped=()))
    assert not list(tmp_path.iterdir())
    skipped = (Skipped("a.png", 'no "picture"'), Skipped("b,c.png", "short"))
    for many in (skipped, skipped[:1]):
        write_skipped(tmp_path, SimpleNamespace(skipped=many))
    text = (tmp_path / "skipped.csv").read_bytes().decode()
    assert text == 'file,reason\na.png,"no ""picture"""\n"b,c.png",short\n'


def test_a_run_is_finished_with_its_last_epoch_its_labels_and_its_model(tmp_path):
    config = SimpleNamespace(epochs=2)
    for name in ("assignments.csv", "model.safetensors"):
        (tmp_path / name).touch()
    assert (read_metrics(tmp_path), is_finished(tmp_path, config)) == ([], False)
    for lines, whole in (("", False), ('{"epoch": 1}\n', False), ('{"epoch": 2}\n', True)):
        write_metrics(tmp_path, lines)
        assert is_finished(tmp_path, config) is whole
    for name in ("assignments.csv", "model.safetensors"):
        (tmp_path / name).unlink()
        assert not is_finished(tmp_path, config)
        (tmp_path / name).touch()
    assert is_finished(tmp_path, config)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"epoch": 1}\n{"epoch"', r"one does not parse \("),
        ("[1]\n", r"one does not parse \("),
        ('{"epoch": 1}\n{"loss": 2}\n', "one has no epoch"),
        ('{"epoch": true}\n', "one has no epoch"),
        ('{"epoch": 1.0}\n', "one has no epoch"),
    ],
)
def test_metrics_that_are_no_records_are_refused(tmp_path, text, words):
    write_metrics(tmp_path, text)
    with pytest.raises(InvalidValueError, match=words):
        read_metrics(tmp_path)
