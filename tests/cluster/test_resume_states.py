"""A checkpoint whose arrays are others than those of this build is refused in words."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.clustering.constrained import KMeansState
from dualclust.algos.core.errors import CheckpointError
from dualclust.cluster import resume
from dualclust.cluster.checkpoint import load_state, save_state

RUN = {"k": 2}
STATE = KMeansState(np.eye(2), np.zeros(2), 3, np.asarray([0, 1]), 2.0, changed=0.5, drift=0.25)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "identity", lambda *_: RUN)
    options = argparse.Namespace(checkpoint=tmp_path / "X.state", device="cpu")
    group = SimpleNamespace(first_row=0, n_local=2)
    problem = SimpleNamespace(source=SimpleNamespace(group=group))
    resume.save(options, problem, STATE, STATE.labels)
    return options, problem


def test_a_state_comes_back(stored) -> None:
    found = resume.load(*stored)
    assert (found.n_iter, found.changed, found.drift) == (3, 0.5, 0.25)


@pytest.mark.parametrize("name", ["changed", "drift", "labels"])
def test_a_state_that_lacks_an_array_is_of_an_older_build(stored, name) -> None:
    path = stored[0].checkpoint
    arrays = load_state(path, RUN)
    del arrays[name]
    save_state(path, RUN, arrays)
    words = f"of an older build, whose states differ in {name}. To fix this, start afresh"
    with pytest.raises(CheckpointError, match=words):
        resume.load(*stored)


def test_an_array_too_many_is_refused(stored) -> None:
    path = stored[0].checkpoint
    save_state(path, RUN, load_state(path, RUN) | {"other": np.zeros(1)})
    with pytest.raises(CheckpointError, match="differ in other"):
        resume.load(*stored)
