"""Each command that is written down is one that the parser and the settings take."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")  # the settings of a run
from tests.written_commands import commands_of, refusal

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "algos", "backends", "train", "proofs", "dualclust", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")

OTHER_PROGRAMS = {
    *(
        "--budget",
        "--stages",
        "--again",
        "--scratch",
        "--detach",
        "--pick-up",
        "--rehearse",
    ),  # make gpu
    *("--node-rank", "--nnodes", "--standalone"),  # torchrun
    *("--require-hashes",),  # pip
}
NO_COMMANDS = {
    "dualclust train toy --data digits": "the method that docs/training.md adds",
    "dualclust cluster checkpoint 1 the format": "the first bytes of a file",
}


def files() -> list[Path]:
    """Every page, module and recipe of the repository, once: dualclust/ has links to the layers."""
    found = [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".md", ".py", ".toml"} and path.resolve() == path
    ]
    return [*found, *(ROOT / name for name in PAGES)]


def wrong(paths: list[Path], root: Path) -> tuple[int, list[str]]:
    """Return how many commands are written down, and those that are refused, with the reason."""
    n, found = 0, []
    for path in paths:
        for place, text in commands_of(path, root):
            ours = "benchmarks" not in place and place != "Makefile"
            if text.startswith("--") and (not ours or text.split()[0] in OTHER_PROGRAMS):
                continue
            n += 1
            said = "" if text in NO_COMMANDS else refusal(text)
            found += [f"{place}: {text}: {said}"] if said else []
    return n, found


def test_every_command_that_is_written_down_parses() -> None:
    n, found = wrong(files(), ROOT)
    assert found == []
    assert n > 200


def test_wrong_commands_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""Run ``dualclust train --method secu`` or::\n\n    dualclust clutser X.npy -k 3\n"""\n'
        "x = f\"To fix this, 'dualclust cluster {3} -k 3 --upper-bound 2'\"\n"
        "# `dualclust train secu --set data.sizes=224`\n"
    )
    (tmp_path / "b.md").write_text(
        "Take `--set data.size=224 augment.blur=0.5` or `--dry`.\n\n"
        "`dualclust train secu --recipe secu_cifar100000`, `dualclust cluster X.npy -k 3`,\n"
        "`dualclust export --to`, `torchrun --nproc-per-node 4 -m dualclust cluster X.npy -k 3`\n"
    )
    n, found = wrong([tmp_path / "a.py", tmp_path / "b.md"], tmp_path)
    assert n == 10
    assert [line.split(":")[0] for line in found] == ["a.py"] * 4 + ["b.md"] * 2
    for word in ("--method", "clutser", "--upper-bound", "data.sizes", "augment.blur", "100000"):
        assert any(word in line for line in found), word
