"""What training says of a file that it refuses can be done there, and helps."""

from __future__ import annotations

import re
import shlex
import warnings

import numpy as np
import pytest

from dualclust.algos.core.errors import DualclustError
from dualclust.cli.main import build_parser, main
from dualclust.train.data.row_files import SAVED
from dualclust.train.data.samples import EmbeddingData, load_source
from tests.cluster.mistakes.remedies import FOLLOW, OUTSIDE, reduced
from tests.cluster.mistakes.written import X
from tests.cluster.test_mistaken_files import CASES

ALONE = {name: case for name, case in CASES.items() if len(shlex.split(case.arguments)) == 1}
"""Cases whose only argument is a file: what `train --data` may be given as well."""

SAVING = (
    SAVED,
    "drop that row",
    "fill them, or leave these rows out of the file",
    "name one of these sources",
    "name a folder with files of",
    "give each sample a row of numbers",
    "cast to float32",
)
"""Beginnings of remedies that end in an .npy file of the numbers that are meant."""


def refusal(case, folder) -> str:
    """What is said of the file, to the end; empty where it is taken."""
    case.write(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_source(case.arguments)
    except DualclustError as error:
        return str(error)
    return ""


def advice(said) -> str:
    return re.split(r"To fix(?: this,|:) ", said)[-1]


def options_of_training() -> set[str]:
    """Options of `dualclust train`, as its parser has them."""
    train = next(a for a in build_parser()._actions if a.dest == "command").choices["train"]
    return {option for action in train._actions for option in action.option_strings}


@pytest.mark.parametrize("name", ALONE)
def test_a_remedy_names_no_option_that_is_not_there(tmp_path, monkeypatch, name) -> None:
    monkeypatch.chdir(tmp_path)
    said = refusal(ALONE[name], tmp_path)
    assert not {*re.findall(r"(?<!\w)--[a-z-]+", said)} - options_of_training(), said
    assert not said or "To fix" in said


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, i)
        for name in ALONE
        for i, way in enumerate(FOLLOW.get(name, [""]))
        if "--array" not in str(way)
    ],
)
def test_a_remedy_helps(tmp_path, monkeypatch, name, way) -> None:
    """What `cluster` advises is done, without its options; what then still needs one is saved."""
    monkeypatch.chdir(tmp_path)
    said = refusal(ALONE[name], tmp_path)
    remedy = advice(said)
    if not said or remedy.startswith(OUTSIDE):
        return
    if not remedy.startswith(SAVING):
        is_wide = remedy.startswith("give fewer numbers a row")  # which `cluster` may take
        follow = reduced if is_wide else FOLLOW[name][way]
        source = (follow if isinstance(follow, str) else follow(tmp_path)).partition(" --")[0]
        try:
            assert isinstance(load_source(source), EmbeddingData), source
        except DualclustError as error:
            said = str(error)
        else:
            return
    assert advice(said).startswith(SAVING), said
    np.save("saved.npy", X)
    assert isinstance(load_source("saved.npy"), EmbeddingData)


@pytest.mark.parametrize("name", ["npz-two", "id-named", "csv-word"])
def test_the_command_says_it(tmp_path, monkeypatch, capsys, name) -> None:
    monkeypatch.chdir(tmp_path)
    said = refusal(ALONE[name], tmp_path)
    assert main(["train", "secu", "--data", ALONE[name].arguments, "-k", "2"]) == ALONE[name].code
    assert capsys.readouterr().err.endswith(f"dualclust: error: {said}\n")
