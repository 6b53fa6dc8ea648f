"""Every flag that takes a number or a path, in every command: values out of range are refused.

The error has one line that names the flag, and nothing is read far or written.
"""

from __future__ import annotations

import numpy as np
import pytest

from dualclust.cli.main import main
from tests.cli.cluster_files import cluster, error_of, groups, listing, save

AT_LEAST_0, AT_LEAST_1, SHARE = ("-1",), ("0", "-1"), ("-0.1", "1.5", "nan")
MACHINE = {"--threads": AT_LEAST_1, "--timeout": ("0", "-1", "nan", "inf")}
SIZES = {
    "--lower": ("-0.1", "1.5", "nan"),
    "--upper": ("0.5", "nan"),
    "--min-count": AT_LEAST_0,
    "--max-count": AT_LEAST_0,
}
ONE = {"--seed": AT_LEAST_0, "-k": AT_LEAST_1, "--max-iter": AT_LEAST_0, "--tol": SHARE}
TRAINED = {"--device": ("nowhere", "meta", "cuda:99"), "--timeout": ("0", "-1", "nan", "inf")}

# The command, what it works with, and the flags with values that are none.
COMMANDS = {
    "cluster": (
        ("cluster", "X.npy", "-k", "4"),
        ONE | SIZES | MACHINE | {"--gap": SHARE},
    ),
    "choice": (
        ("cluster", "X.npy", "--k-range", "2,4"),
        {"--seed": AT_LEAST_0, "--sample": ("7", "-1")}
        | {name: SIZES[name] for name in ("--lower", "--upper")}
        | MACHINE,
    ),
    "assign": (("assign", "M", "X.npy", "--bounded"), SIZES | MACHINE | {"--gap": SHARE}),
    "train": (("train", "secu", "--data", "X.npy", "-k", "4"), TRAINED),
    "resume": (("resume", "run"), TRAINED),
    "compare": (("compare", "--data", "X.npy", "-k", "4"), {"--device": TRAINED["--device"]}),
    "predict": (
        ("predict", "run", "X.npy"),
        {"--batch-size": AT_LEAST_1, "--device": TRAINED["--device"]},
    ),
    "embed": (
        ("embed", "run", "X.npy", "--out", "E.npy"),
        {"--batch-size": AT_LEAST_1, "--device": TRAINED["--device"]},
    ),
}
CASES = [
    pytest.param(command, flag, value, id=f"{command} {flag} {value}")
    for command, (_, flags) in COMMANDS.items()
    for flag, values in flags.items()
    for value in values
]
PATHS = {
    "cluster": "--weights --bounds --seeds --forbidden --start --checkpoint --table --out".split(),
    "assign": "--bounds --table --out".split(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows and a model of them."""
    home = tmp_path_factory.mktemp("ranges")
    path = save(home / "X.npy", groups(n=40)[0].astype(np.float32))
    assert cluster(path, "--out", home / "M") == 0
    return home


@pytest.fixture
def home(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("command", "flag", "value"), CASES)
def test_a_number_out_of_its_range_is_refused(home, capsys, command, flag, value) -> None:
    arguments, _ = COMMANDS[command]
    if flag in arguments:
        arguments = arguments[: arguments.index(flag)]
    before = listing(home)
    code = 2 if flag == "--device" else 65
    error = error_of(capsys, code, *arguments, f"{flag}={value}" if flag != "-k" else f"-k{value}")
    assert error.startswith(f"dualclust: error: {flag} "), error
    assert listing(home) == before


@pytest.mark.parametrize(
    ("command", "flag"), [(command, flag) for command, flags in PATHS.items() for flag in flags]
)
def test_a_name_that_no_file_can_have_is_refused(home, capsys, command, flag) -> None:
    before = listing(home)
    for wrong in ("", "a" * 300 + ".csv", "no\0name.csv"):
        error = error_of(capsys, 2, *COMMANDS[command][0], flag, wrong)
        assert error.startswith(f"dualclust: error: {flag} must be the path of a file or folder")
    assert listing(home) == before


def test_the_commands_that_are_changed_work(home, tmp_path) -> None:
    for command in ("cluster", "assign", "choice"):
        arguments = COMMANDS[command][0]
        assert main([*arguments, "--out", str(tmp_path / command), "--threads", "1"]) == 0
