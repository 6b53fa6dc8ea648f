"""Tests hold behavior: how many patches of the library they have may only fall, in each folder."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.house.patches import ROOT, counted, patched, patches

TABLE = Path(__file__).with_name("patches.toml")

# Tests of what proves or is printed as proven: a patch there would hide a false certificate.
CERTIFICATES = (
    "unit/offline/test_proof.py",
    "unit/offline/test_row_errors.py",
    "unit/offline/test_assignment.py",
    "unit/offline/test_assignment_extremes.py",
    "unit/offline/test_reduced.py",
    "unit/online/test_certificates.py",
    "unit/online/test_certificates_values.py",
    "unit/pseudo_labels/test_energy.py",
    "unit/pseudo_labels/test_solver.py",
    "unit/pseudo_labels/test_solver_residual.py",
    "unit/pseudo_labels/test_system.py",
    "unit/pseudo_labels/test_newton_moves.py",
    "unit/clustering/test_constrained.py",
    "unit/clustering/test_labels.py",
    "unit/clustering/test_hardness_weighted.py",
    "unit/clustering/test_hardness_weighted_steps.py",
    "property/test_certificates.py",
    "property/test_hardness_centers.py",
    "property/test_pseudo_labels.py",
    "property/test_assignment.py",
    "property/test_exact_judge.py",
    "train/methods/secu/test_secu_certified.py",
)


def sentences(found: dict[str, int], stored: dict[str, int]) -> list[str]:
    """What to do about each folder whose number differs from the stored one."""
    said = []
    for folder in sorted(found | stored):
        n, most = found.get(folder, 0), stored.get(folder, 0)
        if n > most:
            said.append(
                f"tests/{folder} replaces parts of the library {n} times, at most {most} may be: "
                "test what a real input does (`python -m tests.house.patches` lists the places)"
            )
        elif n < most:
            said.append(f"tests/{folder}: write {n} instead of {most} in {TABLE.name}")
    return said


def test_patches_of_the_library_only_fall() -> None:
    stored = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    said = sentences(counted(ROOT / "tests"), stored)
    assert not said, "\n".join(said)


def test_tests_of_certificates_replace_nothing() -> None:
    tests = ROOT / "tests"
    assert all((tests / name).is_file() for name in CERTIFICATES)
    found = [
        f"{path}:{line}: {text}"
        for path, line, text in patches(tests)
        if path.relative_to(tests).as_posix() in CERTIFICATES
    ]
    assert not found, "\n".join(found)


def test_more_and_fewer_are_both_said() -> None:
    said = sentences({"a": 3, "b": 1, "c": 2}, {"a": 2, "b": 4, "c": 2, "d": 1})
    assert len(said) == 3
    assert "tests/a replaces parts of the library 3 times, at most 2" in said[0]
    assert said[1:] == [
        "tests/b: write 1 instead of 4 in patches.toml",
        "tests/d: write 0 instead of 1 in patches.toml",
    ]


OURS = """
import importlib, sys
from dualclust.algos.offline import _proof, assignment as module
from dualclust.cluster.labeling import Labeler
import dualclust.common.files as files
"""
FOREIGN = """
import os, sys, time
import numpy as np
import torch
from unittest import mock
from benchmarks import gpu
from tests import problems
from dualclust.common import files, watch
"""


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr(_proof, 'TIE', 0)",
        "monkeypatch.setattr(module, name, spy)",
        "patch.setattr('dualclust.cluster.model.BLOCK', 100)",
        "patch.setattr(f'dualclust.train.{name}', None)",
        "patch.setattr(Labeler, 'labels', spy)",
        "patch.setattr(Labeler(scores).state, 'labels', spy)",
        "patch.delattr(files, 'os')",
        "patch.setitem(module.TABLE, 'kernel', None)",
        "patch.setitem(sys.modules, 'dualclust.proofs', None)",
        "mock.patch('dualclust.cluster.model.BLOCK', 1)",
        "mock.patch.object(files, '_write', spy)",
        "patch.dict(module.TABLE, {})",
        "setattr(files, '_write', spy)",
        "files._write = spy",
        "Labeler.labels = spy",
        "found = importlib.import_module('dualclust.x')\npatch.setattr(found, 'y', 1)",
        "found = sys.modules['dualclust.x']\npatch.setattr(found, 'y', 1)",
        "for one in (_proof, module):\n    patch.setattr(one, 'y', 1)",
        "def hidden(patch, given):\n    patch.setattr(given, 'y', 1)",
        "run = tiny()\npatch.setattr(run, 'y', 1)",
        "from tests.train.runs import tiny\nrun = tiny()\npatch.setattr(run, 'y', 1)",
        "patch.setattr(type(Labeler(scores)), 'labels', spy)",
    ],
)
def test_a_patch_of_the_library_counts(line: str) -> None:
    assert len(list(patched(ast.parse(OURS + line)))) == 1, line


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr(os, 'replace', full)",
        "monkeypatch.setattr(watch.os, '_exit', seen.append)",
        "monkeypatch.setattr('os.replace', full)",
        "monkeypatch.setattr(time, 'time', clock)",
        "monkeypatch.setattr(np.linalg, 'norm', spy)",
        "monkeypatch.setattr(torch.cuda, 'is_available', bool)",
        "monkeypatch.setitem(sys.modules, 'torch', None)",
        "monkeypatch.setenv('OMP_NUM_THREADS', '1')",
        "mock.patch.object(os, 'replace', full)",
        "mock.patch.dict(os.environ, {})",
        "monkeypatch.setattr(gpu, 'run_stage', None)",
        "monkeypatch.setattr(problems, 'N', 1)",
        "class Own:\n    pass\npatch.setattr(Own, 'y', 1)",
        "run = files.Run()\nrun.stop = True",
        "x = np.zeros(3)\nx.shape = (3, 1)",
    ],
)
def test_a_patch_of_something_else_does_not(line: str) -> None:
    assert not list(patched(ast.parse(FOREIGN + line))), line
