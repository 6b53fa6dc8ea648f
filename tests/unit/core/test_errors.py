"""The errors of the library: their kinds, their exit codes, and their table."""

import copy
import pickle
import re

import pytest

from dualclust.algos.core import errors
from dualclust.algos.core.errors import DualclustError, InfeasibleBoundsError, InvalidValueError

EXPECTED = {
    "InvalidValueError": (ValueError, 65),
    "InvalidTypeError": (TypeError, 65),
    "InfeasibleBoundsError": (InvalidValueError, 65),
    "DeviceMismatchError": (InvalidValueError, 65),
    "UsageError": (InvalidValueError, 2),
    "DivergedError": (errors.UsageError, 2),
    "MissingFileError": (FileNotFoundError, 66),
    "OutputError": (OSError, 73),
    "CheckpointError": (RuntimeError, 65),
    "MissingExtraError": (ImportError, 69),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_error_is_of_the_root_and_of_its_built_in(name):
    error, (builtin, exit_code) = getattr(errors, name), EXPECTED[name]
    assert issubclass(error, DualclustError)
    assert issubclass(error, builtin)
    assert error.exit_code == exit_code


def test_no_error_is_missing_from_this_list():
    assert set(errors.__all__) == {*EXPECTED, "DualclustError"}
    own = (value for value in vars(errors).values() if isinstance(value, type))
    public = {value.__name__ for value in own if value.__module__ == errors.__name__}
    assert public == set(errors.__all__)


def test_the_module_says_the_same_in_its_table():
    rows = [line.split() for line in errors.__doc__.splitlines() if re.match("`[A-Z]", line)]
    written = {row[0].strip("`"): (row[1], int(row[2])) for row in rows}
    roots = (ValueError, TypeError, FileNotFoundError, OSError, RuntimeError, ImportError)
    for name, (builtin, exit_code) in EXPECTED.items():
        root = next(r for r in roots if issubclass(builtin, r))
        assert written.pop(name) == (root.__name__, exit_code)
    assert not written


def test_an_error_without_a_proof_has_no_clusters():
    error = InfeasibleBoundsError(message="too many")
    assert str(error) == "too many"
    assert vars(error) == {"clusters": (), "excess": 0, "vector": None}
    error = InfeasibleBoundsError("too many", clusters=(1,), excess=2, vector="proof")
    assert vars(error) == {"clusters": (1,), "excess": 2, "vector": "proof"}


def test_exit_codes_fit_a_shell():
    codes = {getattr(errors, name).exit_code for name in errors.__all__}
    assert all(0 < code < 126 for code in codes)
    assert DualclustError.exit_code == 70


@pytest.mark.parametrize("clone", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize(
    "error",
    [
        InvalidValueError("scores must be finite"),
        InfeasibleBoundsError("too many", clusters=(0, 2), excess=3),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_survive_the_way_back_from_a_worker_process(clone, error):
    again = clone(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
