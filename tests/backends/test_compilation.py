"""What numba compiles: told before it happens, kept for the next process, once for each dtype."""

import json
import os
import subprocess
import sys
from importlib import import_module

import numba
import numpy as np
import pytest
from numba.core import event

from dualclust.backends import numba_compilation
from tests.backends import interpreted as uncompiled
from tests.backends.interpreted import ending, interpreted

PROGRAM = """
import json, sys
import numpy as np
from dualclust.backends.numba_compilation import watched
from dualclust.backends import numba_engine
told = []
values = np.ones((3, 1), dtype=np.int64)
with watched(lambda name, seconds: told.append((name, seconds))):
    for _ in range(2):
        numba_engine.segment_sum(values, np.zeros(3, dtype=np.int64), n_segments=1)
print(json.dumps(told))
"""


def told_in_a_process(folder):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_the_first_process_is_told_and_the_second_finds_the_cache(tmp_path):
    first = told_in_a_process(tmp_path)
    assert [name for name, _ in first] == ["segment_sum"]
    assert first[0][1] == 0.0
    assert told_in_a_process(tmp_path) == []


def test_nested_functions_are_told_with_the_time_so_far(monkeypatch):
    """By a clock that shows 100, 103, 107 ...: each reading is later than the one before."""
    seen, times = [], iter([100.0, 103.0, 107.0, 112.0, 118.0, 125.0, 133.0, 142.0, 152.0])
    monkeypatch.setattr(numba_compilation.time, "perf_counter", lambda: next(times))
    listener = numba_compilation._Listener(lambda name, seconds: seen.append((name, seconds)))

    class Event:
        data = {"dispatcher": type("D", (), {"py_func": _outer})}  # noqa: RUF012

    for step in "on_start", "on_start", "on_end", "on_end", "on_start", "on_start", "on_start":
        getattr(listener, step)(Event)
    # Outer 100; inner told at 103, begun at 107, ended without a look; outer ended at 112.
    # The third begins at 118, one inside it is told at 125, and one inside that at 142.
    assert [name for name, _ in seen] == ["outer"] * 5
    assert [seconds for _, seconds in seen] == [0.0, 3.0, 12.0, 12.0 + 7.0, 12.0 + 24.0]


def test_what_is_compiled_inside_the_block_is_told_and_nothing_else():
    told, data = [], {"dispatcher": type("D", (), {"py_func": _outer})}
    with numba_compilation.watched(lambda *what: told.append(what)):
        with event.trigger_event("numba:compile", data=data):
            assert told == [("outer", 0.0)]
        with event.trigger_event("numba:llvm_lock", data=data):
            pass
    with event.trigger_event("numba:compile", data=data):
        pass
    assert told == [("outer", 0.0)]


@pytest.mark.parametrize(
    "name",
    ["engine", "candidates", "free_rows", "smoothed_dual", "augmenting_paths", "path_heaps"],
)
def test_kernels_let_other_threads_run_and_inner_functions_have_no_wrappers(name):
    module = import_module(f"dualclust.backends.numba_{name}")
    inner = {"no_cpython_wrapper", "no_cfunc_wrapper"}
    compiled = [f for f in vars(module).values() if hasattr(f, "targetoptions")]
    assert compiled
    for function in compiled:
        options = function.targetoptions
        given = {key for key in (*inner, "nogil") if options.get(key)}
        assert given in ({"nogil"}, inner), function


@pytest.mark.parametrize(
    "name", ["engine", "candidates", "free_rows", "smoothed_dual", "augmenting_paths"]
)
def test_options_of_compilation(monkeypatch, name):
    """Entries are kept and let other threads run; what only they call has no way in from Python."""
    given = {}

    def njit(**options):
        def same(function):
            given[function.__name__] = options
            return function

        return same

    monkeypatch.setattr(numba, "njit", njit)
    interpreted(f"numba_{name}")
    assert given.pop("_nothing") == {"cache": True}
    entries = {f for f, options in given.items() if options == {"nogil": True, "cache": True}}
    assert entries
    for function in set(given) - entries:
        options = dict(given[function])
        fast = options.pop("fastmath", None)
        # Nor may sums change their order: 0 * x + 0 * y becomes 0 * (x + y), which may be NaN.
        assert fast in (None, {"nnan", "nsz"})
        if name == "augmenting_paths":  # divisions are of whole numbers above 0: none is looked at
            assert options.pop("error_model") == "numpy"
            assert options.pop("forceinline")
        inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
        assert options == inner, function


def test_a_numba_without_the_switch_still_compiles(monkeypatch):
    """The switch that leaves out counting who holds an array is none that numba documents."""
    assert interpreted("numba_compilation").INNER["_nrt"] is False
    monkeypatch.setattr("numba.core.cpu.CPUTargetOptions", object)
    assert "_nrt" not in interpreted("numba_compilation").INNER


def _outer():
    """Stand for a kernel."""


def endless():
    while True:
        pass


def test_a_loop_of_a_kernel_that_does_not_end_fails_its_test(monkeypatch):
    monkeypatch.setattr(uncompiled, "CPU_SECONDS", 0.02)
    told = r"numba_engine has computed for 0\.02 seconds"
    with pytest.raises(AssertionError, match=told), ending("numba_engine"):
        endless()


def test_no_place_to_keep_anything_is_no_error(monkeypatch):
    """As where neither the package nor the home can be written."""

    def njit(**options):
        assert options == {"cache": True}
        msg = "cannot cache function: no locator available"
        raise RuntimeError(msg)

    monkeypatch.setattr(numba_compilation, "njit", njit)
    assert not numba_compilation._can_keep()


@pytest.mark.parametrize("kind", ["C", "F", "read-only"])
def test_candidates_are_compiled_once_for_a_dtype(kind):
    from dualclust.backends import numba_candidates

    compiled = numba_candidates._select_candidates
    scores = np.zeros((4, 3), dtype=np.float32)
    numba_candidates.select_candidates(scores, np.zeros(3), np.zeros(3), width=2)
    before = len(compiled.signatures)
    scores = np.asfortranarray(scores) if kind == "F" else scores
    scores.flags.writeable = kind != "read-only"
    numba_candidates.select_candidates(scores, np.zeros(3), np.zeros(3), width=2)
    assert len(compiled.signatures) == before


ROWS, ZEROS, INTEGERS = np.ones((4, 3)), np.zeros(3), np.zeros(4, dtype=np.int64)
SHARES = {"lower_share": ZEROS, "upper_share": ZEROS + 1.0}
BOUNDS = {"lower": INTEGERS[:3], "upper": INTEGERS[:3] + 4}
STEPS = {"step_size": 0.1, "chunk_size": 2, "remaining": -1, "free_sign": False}
CALLS = {
    "engine.assign_stream": ((ROWS, ZEROS, ZEROS, INTEGERS[:3]), {**SHARES, **BOUNDS, **STEPS}),
    "engine.segment_sum": ((INTEGERS[:, None], INTEGERS), {"n_segments": 1}),
    "engine.add_limbs": (
        (ROWS, INTEGERS, np.zeros((1, 3), dtype=np.int64)),
        {"unit": 1.0, "bits": 20, "depth": 1},
    ),
    "engine.best_clusters": ((ROWS, ZEROS), {}),
    "smoothed_dual.soft_counts": (
        (ROWS, INTEGERS[:, None].astype(np.int32) + np.arange(3, dtype=np.int32), ZEROS),
        {"temperature": 1.0},
    ),
}


@pytest.mark.parametrize("kernel", CALLS)
def test_what_is_only_read_is_compiled_once_for_a_dtype(kernel):
    """Arrays that nobody may write, as those of a mapped file, are no other kind."""
    module, _, name = kernel.partition(".")
    module = import_module(f"dualclust.backends.numba_{module}")
    compiled, (arrays, options) = getattr(module, f"_{name}"), CALLS[kernel]
    getattr(module, name)(*arrays, **options)
    before = len(compiled.signatures)
    for i, array in enumerate(arrays):
        if name != "add_limbs" or i < 2:  # which writes into the third
            arrays = (*arrays[:i], frozen(array), *arrays[i + 1 :])
    found = {k: frozen(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    getattr(module, name)(*arrays, **found)
    assert len(compiled.signatures) == before


def frozen(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy
