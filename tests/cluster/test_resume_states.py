"""A checkpoint whose arrays are others than those of this build is refused in words."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

from dualclust.algos.clustering.constrained import KMeansState
from dualclust.algos.core.errors import CheckpointError
from dualclust.algos.scores.sources import alone
from dualclust.cluster import resume
from dualclust.cluster.checkpoint import load_state, save_state

RUN = {"k": 2}
STATE = KMeansState(
    centers=np.eye(2),
    prices=np.asarray([0.5, -0.5]),
    n_iter=3,
    labels=np.asarray([0, 1]),
    objective=2.0,
    converged=True,
    gap=0.125,
    drifts=np.asarray([0.25, 0.75]),
    changed=0.5,
    upper_bound=2.5,
    rounding=1e-9,
)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "identity", lambda *_: RUN)
    options = argparse.Namespace(checkpoint=tmp_path / "X.state", device="cpu")
    problem = SimpleNamespace(source=SimpleNamespace(group=alone(2)))
    resume.save(options, problem, STATE, STATE.labels)
    return options, problem


def test_a_state_comes_back(stored) -> None:
    found = resume.load(*stored)
    assert [np.asarray(x).tolist() for x in found] == [np.asarray(x).tolist() for x in STATE]
    assert [type(x) for x in found] == [type(x) for x in STATE]


def test_drifts_that_are_not_known_stay_so(stored) -> None:
    resume.save(*stored, STATE._replace(drifts=None), STATE.labels)
    assert resume.load(*stored).drifts is None


@pytest.mark.parametrize("name", ["changed", "drifts", "labels", "upper_bound"])
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
