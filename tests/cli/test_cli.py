"""The command as a whole: help, exit codes, one line for an error, and life without torch."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dualclust
from dualclust.algos.core import errors
from dualclust.cli import main as cli
from dualclust.cli.main import build_parser, main
from dualclust.cluster import command as cluster_command

COMMANDS = (
    "cluster",
    "assign",
    "train",
    "resume",
    "report",
    "compare",
    "demo",
    "proofs",
    "docs",
)


@pytest.fixture
def rows(tmp_path):
    """A file of embeddings, alone in its folder."""
    path = tmp_path / "X.npy"
    np.save(path, np.random.default_rng(0).normal(size=(60, 4)))
    return path


def run(*arguments, cwd, program=("-m", "dualclust"), **options):
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"},
        **options,
    )


# Help and usage --------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_exits_with_0_and_shows_an_example(capsys, command):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"] if command else ["--help"])
    assert end.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    examples = out.partition("example")[2]
    assert f"dualclust {command or 'cluster'}" in examples


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_the_examples_of_the_help_parse():
    """Every printed line that starts with the command is one that it accepts."""
    texts = (
        cli.EXAMPLES,
        cli.cluster.EXAMPLES,
        cli.assign.EXAMPLES,
        cli.docs.EXAMPLES,
        cli.TRAIN_EXAMPLES,
        cli.comparison.EXAMPLES,
        cli.comparison.COMPARE_EXAMPLES,
    )
    lines = [line.split() for text in texts for line in text.splitlines()]
    commands = [line[1:] for line in lines if line[:1] == ["dualclust"]]
    assert len(commands) >= 9
    for line in commands:
        assert build_parser().parse_args(line).command in COMMANDS


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"dualclust {dualclust.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["clusters"],
        ["--colour"],
        ["cluster"],
        ["cluster", "X.npy"],
        ["cluster", "X.npy", "-k", "three"],
        ["cluster", "X.npy", "-k", "2.5"],
        ["cluster", "X.npy", "-k", "3", "--min", "much"],
        ["cluster", "X.npy", "-k", "3", "--rounding", "up"],
        ["cluster", "X.npy", "-k", "3", "--count", "4"],
        ["cluster", "X.npy", "Y.npy", "-k", "3"],
        ["train"],
        ["train", "kmeans"],
        ["train", "secu", "--seed", "x"],
        ["resume"],
        ["demo", "--large"],
    ],
    ids=" ".join,
)
def test_unknown_options_end_with_2(rows, capsys, monkeypatch, arguments):
    monkeypatch.chdir(rows.parent)
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: dualclust")
    assert "Traceback" not in err
    assert list(rows.parent.iterdir()) == [rows]


# How errors end --------------------------------------------------------------------------------

ERRORS = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.DualclustError)
]


def raising(monkeypatch, error):
    def fail(options):
        raise error

    monkeypatch.setattr(cluster_command, "run_cluster", fail)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_each_error_has_its_exit_code_and_one_line(monkeypatch, capsys, kind):
    extra = {"clusters": (0,), "excess": 1} if kind is errors.InfeasibleBoundsError else {}
    raising(monkeypatch, kind("what is wrong", **extra))
    assert main(["cluster", "X.npy", "-k", "3"]) == kind.exit_code
    assert capsys.readouterr() == ("", "dualclust: error: what is wrong\n")
    with pytest.raises(kind):
        main(["--debug", "cluster", "X.npy", "-k", "3"])


def test_a_bug_is_one_line_too_unless_asked_for(monkeypatch, capsys):
    raising(monkeypatch, ZeroDivisionError("by zero"))
    assert main(["cluster", "X.npy", "-k", "3"]) == 70
    expected = "dualclust: unexpected error: ZeroDivisionError: by zero (--debug shows where)\n"
    assert capsys.readouterr() == ("", expected)
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "cluster", "X.npy", "-k", "3"])


def test_an_interrupt_ends_with_130(monkeypatch, capsys):
    raising(monkeypatch, KeyboardInterrupt())
    assert main(["cluster", "X.npy", "-k", "3"]) == 130
    assert capsys.readouterr() == ("", "dualclust: interrupted\n")


# As a process ----------------------------------------------------------------------------------


def test_the_process_prints_writes_and_ends_with_0(rows):
    done = run("cluster", rows, "-k", 3, cwd=rows.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "violation           0" in done.stdout
    assert (rows.parent / "X-clusters" / "labels.npy").is_file()


def test_the_process_ends_with_the_code_of_the_error(rows):
    done = run("cluster", "gone.npy", "-k", 3, cwd=rows.parent)
    assert done.returncode == 66
    assert done.stdout == ""
    assert done.stderr.startswith("dualclust: error: no file at gone.npy. To fix this, look at")
    assert list(rows.parent.iterdir()) == [rows]


def test_the_installed_command_is_the_same(rows):
    script = os.path.join(os.path.dirname(sys.executable), "dualclust")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"dualclust {dualclust.__version__}\n")


def test_a_closed_pipe_is_no_error(rows):
    """As in `dualclust cluster ... | head -0`, with output buffered as it is by default."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "dualclust", "cluster", str(rows), "-k", "3"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


WITHOUT_TORCH = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "rich", "safetensors", "matplotlib", "PIL"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from dualclust.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def test_clustering_needs_no_torch(rows):
    done = run("cluster", rows, "-k", 3, cwd=rows.parent, program=("-c", WITHOUT_TORCH))
    assert (done.returncode, done.stderr) == (0, "")
    with_torch = run("cluster", rows, "-k", 3, "--out", "again", cwd=rows.parent)
    assert with_torch.returncode == 0
    for name in ("labels.npy", "centers.npy", "sizes.csv", "result.json"):
        outputs = [(rows.parent / folder / name).read_bytes() for folder in ("X-clusters", "again")]
        assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    "arguments", [("train", "secu"), ("resume", "runs/a"), ("demo", "--small")], ids=" ".join
)
def test_without_torch_the_other_commands_say_what_to_install(tmp_path, arguments):
    done = run(*arguments, cwd=tmp_path, program=("-c", WITHOUT_TORCH))
    assert done.returncode == 69
    assert done.stdout == ""
    assert done.stderr.startswith(f"dualclust: error: '{arguments[0]}' needs ")
    assert "pip install 'dualclust[train]' (without a graphics card, " in done.stderr
    assert done.stderr.endswith("CUDA: docs/start/install.md)\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
