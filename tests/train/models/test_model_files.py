"""The file of a model: what is damaged is refused, before a size that it declares is believed."""

import json
import math
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from dualclust.algos.core.errors import CheckpointError, MissingFileError, UsageError
from dualclust.train.models import MODEL_FILE, load_model
from dualclust.train.models.files import _digest
from dualclust.train.models.spec import GraphSpec
from tests.compare import assert_same_labels

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def content(finished):
    return (finished("secu").result.folder / MODEL_FILE).read_bytes()


@pytest.fixture
def refused(tmp_path):
    """A function that writes content and returns what is said against it."""

    def get(content, kind=CheckpointError):
        path = tmp_path / "m.safetensors"
        path.write_bytes(content)
        with pytest.raises(kind, match=str(path)) as found:
            load_model(path)
        return str(found.value)

    return get


def parts(content):
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header, data):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def rewritten(content, change, *, true_hash=True):
    """The file with another description, under a hash that fits."""
    tensors = safetensors.torch.load(content)
    entry = json.loads(parts(content)[0]["__metadata__"]["dualclust"])
    change(entry["model"], tensors)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    if true_hash:
        entry["sha256"] = _digest(entry["model"], tensors)
    return safetensors.torch.save(tensors, {"dualclust": json.dumps(entry, sort_keys=True)})


def test_a_file_cut_short_anywhere_is_refused(content, refused):
    length = 8 + int.from_bytes(content[:8], "little")
    for end in (0, 1, 7, 8, 9, length - 1, length, length + 1, len(content) // 2, len(content) - 1):
        assert "damaged, or no model" in refused(content[:end])
    assert "damaged" in refused(content + b"\0")


def test_a_flipped_bit_anywhere_is_refused(content, refused):
    length = 8 + int.from_bytes(content[:8], "little")
    rng = np.random.default_rng(0)
    places = [*range(8), *rng.integers(8, length, 60), *rng.integers(length, len(content), 20)]
    for place in map(int, places):
        wrong = bytearray(content)
        wrong[place] ^= 1 << int(rng.integers(8))
        assert "m.safetensors" in refused(bytes(wrong))


def test_every_number_of_the_description_is_hashed(content, refused):
    def warmer(model, tensors):
        model["temperature"] *= 1.5

    assert "SHA-256" in refused(rewritten(content, warmer, true_hash=False))


def test_declared_sizes_are_compared_before_anything_is_allocated(content, refused):
    """Of terabytes that are not there, with the memory for them taken away."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    header, data = parts(content)
    lies = []
    for shape in ([2**40], [2**21, 2**21], [-4], [2.5], ["9"], None):
        name = next(name for name in header if name != "__metadata__")
        lies.append(joined({**header, name: {**header[name], "shape": shape}}, data))
        long = math.prod(shape) * 8 if shape and all(type(s) is int for s in shape) else 0
        entry = {"dtype": "F64", "shape": shape, "data_offsets": [0, long]}
        lies.append(joined({**header, name: entry}, data))
    lies.append((2**63).to_bytes(8, "little") + content[8:])
    lies.append((len(content) - 8).to_bytes(8, "little") + content[8:])
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, before[1]))
    try:
        for wrong in lies:
            refused(wrong)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize(
    ("table", "key", "value", "words"),
    [
        ("network", "width", 10**12, "no network has the sizes|needs encoder"),
        ("network", "width", 3, "the network needs encoder"),
        ("network", "hidden", 10**15, "no network has the sizes|needs projector"),
        ("network", "layers", 10**12, "has 1000000000000 layers"),
        ("network", "name", "resnet18-cifar", "the network needs encoder"),
        ("network", "name", "gone", "'gone' is unknown"),
        ("network", "width", -1, "width must be"),
        ("input", "shape", [1, 10**9, 10**9], "no network has the sizes|needs projector"),
        ("input", "shape", [3, 8, 8], r"mean must have shape \(3,\)"),
        ("input", "shape", [8, 8], r"shape must be \(c, h, w\) or \(d,\)"),
        ("input", "fit", "stretch", "fit must be"),
        (None, "readout", "magic", "readout must be"),
        (None, "temperature", 0.0, "temperature must be"),
        (None, "temperature", "warm", "temperature must be"),
        (None, "n_clusters", 11, r"must have shape \(11,\)"),
        (None, "n_clusters", 10**15, "must have shape"),
        (None, "more", 1, "unknown key 'more'"),
        (None, "format", "other", "its format is 'other'"),
        (None, "version", 2, "has version 2 of the format.*install the dualclust"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(content, refused, table, key, value, words):
    def change(model, tensors):
        (model if table is None else model[table])[key] = value

    assert re.search(words, refused(rewritten(content, change)))


@pytest.mark.parametrize("name", ["prices", "centers", "mean", "network.encoder.0.weight"])
def test_a_missing_tensor_is_refused(content, refused, name):
    assert name.removeprefix("network.") in refused(
        rewritten(content, lambda model, tensors: tensors.pop(name))
    )


@pytest.mark.parametrize("case", ["secu", "gatcluster", "mi_margin"])
@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("prices", lambda x: x.float(), r"prices must be torch\.float64, got torch\.float32"),
        ("prices", lambda x: x.bfloat16(), r"prices must be torch\.float64"),
        ("prices", lambda x: x[:, None], r"prices must have shape \(10,\), got \(10, 1\)"),
        ("prices", lambda x: x * math.nan, "prices must be finite"),
        ("lower", lambda x: x.double(), r"lower must be torch\.int64"),
        ("upper", lambda x: x.int(), r"upper must be torch\.int64"),
        ("counts", lambda x: x.bool(), r"counts must be torch\.int64"),
        ("mean", lambda x: x.double(), r"mean must be torch\.float32"),
        ("mean", lambda x: x + math.inf, "mean must be finite"),
        ("std", lambda x: 0 * x, "std must be above 0"),
        ("std", lambda x: x * math.nan, "std must be above 0"),
        ("centers", lambda x: x.double(), r"centers must be torch\.float32, got torch\.float64"),
        ("centers", lambda x: x[0], r"centers must have shape \(10, d\)"),
        ("centers", lambda x: x[None], r"centers must have shape \(10, d\)"),
        ("centers", lambda x: x / 0, "centers must be finite"),
        ("network", lambda x: x.double(), r"needs .* in torch\.float32, and the file has .*64"),
        ("network", lambda x: x.half(), r"needs .* in torch\.float32, and the file has .*16"),
        ("network", lambda x: x > 0, r"needs .* in torch\.float32, and the file has .*bool"),
        ("network", lambda x: x / 0, "must be finite, and holds NaN or infinity"),
    ],
)
def test_a_tensor_of_another_kind_is_refused(finished, refused, case, name, change, words):
    """Of every method, also where nothing reads the numbers but the user."""

    def other(model, tensors):
        first = sorted(t for t in tensors if t.startswith(name) and tensors[t].is_floating_point())
        found = first[0] if first else name
        tensors[found] = change(tensors[found])

    content = (finished(case).result.folder / MODEL_FILE).read_bytes()
    said = refused(rewritten(content, other))
    assert re.search(words, said), said
    assert "damaged, or no model" in said
    assert said.endswith("To fix this, export or copy it again")


def test_centers_of_another_width_are_refused(finished, refused):
    def wider(model, tensors):
        tensors["centers"] = torch.ones(10, 9)

    content = (finished("secu").result.folder / MODEL_FILE).read_bytes()
    words = "centers have 9 numbers, and the network's rows 64"
    assert words in refused(rewritten(content, wider))


def test_log_probabilities_of_other_clusters_are_refused(finished, refused):
    def fewer(model, tensors):
        model["n_clusters"] = 9
        for name in ("prices", "lower", "upper", "counts", "centers"):
            tensors[name] = tensors[name][:9]

    content = (finished("mi_margin").result.folder / MODEL_FILE).read_bytes()
    assert "rows have 10 numbers for 9 clusters" in refused(rewritten(content, fewer))


def test_a_tensor_too_many_is_refused(content, refused):
    def add(model, tensors):
        tensors["network.more"] = torch.zeros(3)

    assert "more of shape no such tensor" in refused(rewritten(content, add))


def test_other_files_are_refused(refused, tmp_path):
    assert "damaged, or no model" in refused(safetensors.torch.save({"w": torch.zeros(2)}))
    weights = safetensors.torch.save({"w": torch.zeros(2)}, {"dualclust": "[]"})
    assert "does not parse" in refused(weights)
    deep = safetensors.torch.save({"w": torch.zeros(2)}, {"dualclust": "[" * 100000})
    assert "does not parse" in refused(deep)
    torch.save({"w": torch.zeros(2)}, tmp_path / "w.pt")
    assert "damaged, or no model" in refused((tmp_path / "w.pt").read_bytes())
    assert "damaged, or no model" in refused(b"")


def test_what_is_no_file_of_a_model(tmp_path, finished):
    with pytest.raises(MissingFileError, match=r"no model at .*gone\. To fix this, name a run"):
        load_model(tmp_path / "gone")
    with pytest.raises(MissingFileError, match="which holds no run"):
        load_model(tmp_path)
    (tmp_path / "config.toml").write_text("")
    words = r"ended before its first epoch\. To fix this, start it again$"
    with pytest.raises(MissingFileError, match=words):
        load_model(tmp_path)
    (tmp_path / "checkpoints" / "epoch-000001").mkdir(parents=True)
    with pytest.raises(MissingFileError, match=r"not ended\. To fix this, end it: dualclust"):
        load_model(tmp_path)
    for name, runtime in (("m.onnx", "onnxruntime"), ("m.pt2", r"torch\.export\.load")):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(UsageError, match=f"program for {runtime}.*--to safetensors"):
            load_model(tmp_path / name)


ALONE = """
import sys
WITHOUT = {"numba", "llvmlite", "sklearn", "PIL", "matplotlib", "rich", "tensorboard", "pyarrow",
           "h5py", "joblib", "threadpoolctl", "pandas", "cvxpy", "jax", "onnx"}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in WITHOUT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import dualclust
from dualclust import DualclustError

for file, rows, out in zip(*[iter(sys.argv[1:])] * 3):
    model, x = dualclust.load(file), np.load(rows)
    np.savez(out, labels=model.predict(x), priced=model.predict(x, priced=True),
             chances=model.predict_proba(x), rows=model.embed(x))
try:
    model.predict("photos")
except DualclustError as error:
    print(type(error).__name__, error)
print(sorted({name.split(".")[0] for name in sys.modules} & WITHOUT))
"""


def test_an_environment_of_torch_and_safetensors_is_enough(finished, tmp_path):
    """Another process, where nothing else of the extras can be imported; labels are as good."""
    words = []
    for case in (cases := ["secu", "gatcluster", "propos", "mi_margin rows"]):
        found, place = finished(case), tmp_path / case.replace(" ", "-")
        place.mkdir()
        np.save(place / "x.npy", found.samples)
        path = place / "m.safetensors"
        path.write_bytes((found.result.folder / MODEL_FILE).read_bytes())
        words += [path, place / "x.npy", place / "out.npz"]
    run = subprocess.run(
        [sys.executable, "-c", ALONE, *map(str, words)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    error, loaded = run.stdout.splitlines()
    assert loaded == "[]"
    assert error.startswith("MissingExtraError pictures and data sets need PIL")
    for case, out in zip(cases, words[2::3], strict=True):
        check_same_answers(finished(case), np.load(out))


def check_same_answers(found, theirs):
    """Fail unless another process found what this one finds, as far as it can."""
    x = found.samples
    # The environment above chooses the last bits of products by itself, as another machine would.
    scores, prices = found.model.scores(x), found.model.prices
    nearest, ours = found.result.prediction.nearest, found.model.predict(x, priced=True)
    assert_same_labels(scores, 0.0 * prices, theirs["labels"], nearest, tol=1e-5)
    assert_same_labels(scores, prices, theirs["priced"], ours, tol=1e-5)
    np.testing.assert_allclose(theirs["chances"], found.model.predict_proba(x), rtol=0, atol=1e-5)
    np.testing.assert_allclose(theirs["rows"], found.model.embed(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["rows", "vectors", "neighbors"])
def test_a_graph_without_a_side_is_refused(name):
    sides = {"rows": 5, "vectors": 2, "neighbors": 3}
    assert GraphSpec(**sides).neighbors == 3
    for wrong in (0, -1, "2"):
        with pytest.raises(UsageError, match=f"{name} must be"):
            GraphSpec(**(sides | {name: wrong}))
