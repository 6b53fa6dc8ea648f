"""The table is data: every row has a kernel, every kernel a row, and all of them a test."""

import inspect
import pkgutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import dualclust.algos
from dualclust import backends
from dualclust.backends import KERNELS, OPTIONAL, TABLE, engine, kernel, placement, select
from tests.backends.rows import Row, rows_of

ROWS = [(name, place, target) for name, row in TABLE.items() for place, target in row.items()]


def rows_with_a_test() -> dict[str, list[Row]]:
    """The rows that the other modules test, by kernel; `ROWS` belong to the file's kernel."""
    found: dict[str, list[Row]] = {}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        module = import_module(f"tests.backends.{file.stem}")
        if hasattr(module, "ROWS_OF"):
            found |= module.ROWS_OF
        elif (kernel := file.stem.removeprefix("test_")) in TABLE:
            found[kernel] = module.ROWS
    return found


def test_every_row_has_a_kernel_and_every_kernel_a_row():
    for module in pkgutil.walk_packages(dualclust.algos.__path__, "dualclust.algos."):
        import_module(module.name)
    assert set(TABLE) | set(OPTIONAL) == set(KERNELS)
    assert all(TABLE.values())
    assert all(OPTIONAL.values())


# While a test has the second device, the table has its rows, too: asked before any test runs.
TESTED, INSTALLED = rows_with_a_test(), {name: rows_of(name) for name in TABLE}


def test_every_row_is_tested():
    assert TESTED == INSTALLED


@pytest.mark.parametrize(("name", "place", "target"), ROWS)
def test_an_engine_has_the_name_and_the_signature_of_its_kernel(name, place, target):
    module, _, function = target.partition(":")
    assert function == name
    built = getattr(import_module(f"dualclust.backends.{module}"), function)
    wanted = inspect.signature(KERNELS[name].reference).parameters
    given = inspect.signature(built).parameters
    if any(p.kind is p.VAR_KEYWORD for p in given.values()):
        positional = [p for p in wanted.values() if p.kind is not p.KEYWORD_ONLY]
        assert [p.name for p in positional] == list(given)[: len(positional)]
    else:
        assert [(p.name, p.kind) for p in given.values()] == [
            (p.name, p.kind) for p in wanted.values()
        ]


def test_a_library_without_a_row_runs_the_reference(xp):
    chosen = select("assign_stream", xp.asarray([1.0]))
    assert (chosen is None) == (placement(xp.asarray([1.0])) not in TABLE["assign_stream"])
    assert select("no such kernel", xp.asarray([1.0])) is None


def test_placements(xp):
    library, device = placement(xp.asarray([1.0]))
    assert library == xp.name.partition(":")[0].replace("strict", "array_api_strict")
    assert device in ("cpu", "cuda", "lazy")
    assert placement(object()) == ("builtins", "unknown")


class Device:
    """A device that has some attributes, and a text."""

    def __init__(self, text="", **attributes):
        self.text = text
        vars(self).update(attributes)

    def __str__(self):
        return self.text


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        (Device("TFRT_CPU_0", platform="cpu"), "cpu"),
        (Device("cuda:0", platform="gpu"), "gpu"),
        (Device("first", type="mps", platform=3), "mps"),
        (Device("many", device_set={Device("cpu:1", platform="tpu")}), "tpu"),
        (Device("nobody yet", device_set=set()), "nobody yet"),
        ("cpu", "cpu"),
        (Device("CPU_DEVICE"), "cpu"),
        (Device("<CUDA Device 0>"), "cuda"),
        (Device("NPU:7:1"), "npu"),
    ],
)
def test_kinds_of_devices_as_libraries_name_them(device, kind):
    assert backends._device_kind(device) == kind


def test_the_reference_mode_nests_and_is_restored():
    x = np.zeros(3)
    auto = select("assign_stream", x)
    assert auto is not None
    with engine("reference"):
        assert select("assign_stream", x) is None
        with engine("auto"):
            assert select("assign_stream", x) is auto
            with engine("reference"):
                assert select("assign_stream", x) is None
            assert select("assign_stream", x) is auto
        assert select("assign_stream", x) is None
    assert select("assign_stream", x) is auto


def test_the_mode_is_restored_after_an_exception():
    x = np.zeros(3)
    with pytest.raises(ZeroDivisionError), engine("reference"):
        raise ZeroDivisionError
    assert select("assign_stream", x) is not None
    with pytest.raises(ZeroDivisionError), engine("reference"), engine("auto"):
        raise ZeroDivisionError
    assert select("assign_stream", x) is not None


def test_the_mode_of_one_thread_is_not_that_of_another():
    x = np.zeros(3)
    with engine("reference"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(select, "assign_stream", x).result() is not None
        assert select("assign_stream", x) is None


@pytest.mark.parametrize("mode", ["numba", "", None, "Reference"])
def test_an_unknown_mode_is_refused(mode):
    with (
        pytest.raises(ValueError, match="engine must be 'auto', 'reference' or 'triton', got "),
        engine(mode),
    ):
        pass
    assert select("assign_stream", np.zeros(3)) is not None


@pytest.mark.skipif(find_spec("triton") is not None, reason="the package triton is installed")
def test_triton_is_asked_for_where_it_is_installed():
    with pytest.raises(ModuleNotFoundError, match="engine='triton' needs the package triton"):
        with engine("triton"):
            pass
    assert select("best_products", np.zeros(3)) is None


def test_a_kernel_keeps_its_name_its_text_and_its_reference(monkeypatch):
    monkeypatch.setattr(backends, "KERNELS", {})

    @kernel
    def double(x, *, twice=2):
        """Twice x."""
        return twice * x

    assert double.__name__ == "double"
    assert double.__doc__ == "Twice x."
    assert double(np.ones(1)).tolist() == [2.0]
    assert double.reference(3) == 6
    assert {"double": double} == backends.KERNELS


def test_an_engine_is_called_in_the_place_of_its_kernel(monkeypatch):
    monkeypatch.setattr(backends, "KERNELS", {})
    monkeypatch.setattr(backends, "_load", lambda target: lambda *_: target)
    monkeypatch.setitem(backends.TABLE, "double", {("numpy", "cpu"): "mine"})

    @kernel
    def double(x, twice=2):
        return twice * x

    assert double(np.ones(1)) == "mine"
    assert double(np.ones(1), 2) == "mine"  # by the first argument, whatever the others are
    assert double(2, np.ones(1)).tolist() == [2.0]
    with engine("reference"):
        assert double(np.ones(1)).tolist() == [2.0]


def test_an_engine_is_imported_on_first_use_and_no_other():
    program = """
import sys
import numpy as np
import dualclust as dc
from dualclust.backends import select
assert not {"numba", "torch"} & set(sys.modules), "at import"
found = dc.SizeBounds.from_ratios(2, n_samples=4, lower=0.5)
assert not {"numba", "torch"} & set(sys.modules), "before the first use"
dc.assign(np.zeros((4, 2)), found)
assert "numba" in sys.modules
assert "torch" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
