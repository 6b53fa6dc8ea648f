"""What is taken over from a finished run: layers by name and shape, and the centers of a head."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dualclust.algos.core.errors import MissingFileError, UsageError
from dualclust.train.methods._init_from import (
    FinishedRun,
    centers_of,
    load_network,
    read_finished_run,
)


def finished(network: nn.Module, clusters=(3, 5)) -> FinishedRun:
    draws = torch.Generator().manual_seed(0)
    centers = torch.randn(len(clusters), max(clusters), 4, generator=draws)
    config = SimpleNamespace(heads=SimpleNamespace(clusters=clusters))
    state = {"network": network.state_dict(), "centers": centers}
    return FinishedRun(Path("there"), config, state)


def test_parameters_are_taken_over():
    theirs, ours = nn.Linear(2, 3), nn.Linear(2, 3)
    load_network(finished(theirs), ours)
    assert torch.equal(theirs.weight, ours.weight)
    assert torch.equal(theirs.bias, ours.bias)
    assert theirs.weight.data_ptr() != ours.weight.data_ptr()


@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        (
            nn.Linear(2, 3),
            nn.Linear(2, 3, bias=False),
            r"bias has no such tensor here, \(3,\) there",
        ),
        (
            nn.Linear(2, 3, bias=False),
            nn.Linear(2, 3),
            r"bias has \(3,\) here, no such tensor there",
        ),
        (nn.Linear(2, 3), nn.Linear(4, 3), r"weight has \(3, 4\) here, \(3, 2\) there"),
        (nn.Linear(2, 3), nn.Linear(2, 5), r"bias has \(5,\) here, \(3,\) there"),  # the first
    ],
)
def test_layers_of_another_kind_are_named(theirs, ours, words):
    before = [p.detach().clone() for p in ours.parameters()]
    with pytest.raises(
        UsageError, match=rf"differs from that of there: {words}\. To fix this, copy"
    ):
        load_network(finished(theirs), ours)
    assert all(torch.equal(a, b) for a, b in zip(before, ours.parameters(), strict=True))


def test_centers_are_those_of_the_head_with_so_many_clusters():
    run = finished(nn.Linear(1, 1))
    for head, k in enumerate((3, 5)):
        found = centers_of(run, k)
        torch.testing.assert_close(found, F.normalize(run.state["centers"][head, :k], dim=1))
        torch.testing.assert_close(found.norm(dim=1), torch.ones(k))
    with pytest.raises(UsageError, match=r"no head of there has 4 clusters, .* have \[3, 5\]"):
        centers_of(run, 4)


def test_a_folder_without_checkpoints_is_no_run(tmp_path):
    (tmp_path / "config.toml").touch()
    with pytest.raises(MissingFileError, match=r"secu\.init_from must be the folder of a finished"):
        read_finished_run(tmp_path, "secu.init_from", methods=["secu"])
    (tmp_path / "checkpoints").touch()  # a file of that name is none
    with pytest.raises(MissingFileError, match="which holds none"):
        read_finished_run(str(tmp_path), "secu.init_from", methods=["secu"])
