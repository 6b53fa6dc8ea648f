"""Batch normalization over groups and over ranks: equal to separate passes, and to one process."""

from __future__ import annotations

import socket

import pytest
import torch
from torch import nn

from dualclust.common.ranks import ALONE
from dualclust.train.networks.normalization import BatchNorm, groups, merge_groups, synchronize
from dualclust.train.state.seeding import generator
from tests.forked import run_program

SHAPES = [(12, 5), (12, 5, 3, 4)]
DOUBLE = torch.float64


def rows(*shape, name="rows"):
    x = torch.randn(*shape, generator=generator(0, name), dtype=DOUBLE)
    return 3 + x * torch.arange(1, shape[1] + 1, dtype=DOUBLE).view(-1, *[1] * (len(shape) - 2))


def layer(channels=5, **options):
    found = BatchNorm(channels, **options).double()
    if found.weight is not None:
        with torch.no_grad():
            found.weight.copy_(torch.linspace(0.5, 2, channels))
            found.bias.copy_(torch.linspace(-1, 1, channels))
    return found


def plain(channels, ndim):
    """PyTorch's own layer with the parameters of `layer`."""
    own = (nn.BatchNorm1d if ndim == 2 else nn.BatchNorm2d)(channels).double()
    own.load_state_dict(layer(channels).state_dict(), strict=False)
    return own


def interleaved(views):
    """Image i of view v as row ``i * g + v``."""
    return torch.stack(views, 1).flatten(0, 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("g", [1, 2, 3])
def test_groups_are_separate_passes(shape, g):
    views = [rows(*shape, name=str(v)) + v for v in range(g)]
    weights = [rows(*shape, name=f"w{v}") for v in range(g)]
    ours, theirs = layer(), plain(5, len(shape))
    for _ in range(3):
        x = interleaved(views).requires_grad_()
        with groups(ours, g):
            out = ours(x)
        (out * interleaved(weights)).sum().backward()
        separate = [view.clone().requires_grad_() for view in views]
        outs = [theirs(view) for view in separate]
        sum((o * w).sum() for o, w in zip(outs, weights, strict=True)).backward()
        torch.testing.assert_close(out, interleaved(outs))
        torch.testing.assert_close(x.grad, interleaved([s.grad for s in separate]))
        torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
        torch.testing.assert_close(ours.bias.grad, theirs.bias.grad)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("g", [1, 2, 3])
def test_running_statistics_follow_the_stated_rule(shape, g):
    """Each group's move with the momentum of g passes in a row, and meet in their mean."""
    ours = layer()
    steps = [[rows(*shape, name=f"{s}{v}") + s - v for v in range(g)] for s in range(4)]
    with groups(ours, g):
        for views in steps:
            ours(interleaved(views))
    merge_groups(ours)
    kept = (1 - 0.1) ** g
    axes = [0, *range(2, len(shape))]
    means, variances = torch.zeros(g, 5, dtype=DOUBLE), torch.ones(g, 5, dtype=DOUBLE)
    for views in steps:
        for v, view in enumerate(views):
            means[v] = kept * means[v] + (1 - kept) * view.mean(axes)
            variances[v] = kept * variances[v] + (1 - kept) * view.var(axes)
    torch.testing.assert_close(ours.running_mean, means.mean(0))
    torch.testing.assert_close(ours.running_var, variances.mean(0))
    if g == 1:
        theirs = plain(5, len(shape))
        for (view,) in steps:
            theirs(view)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("affine", [True, False])
def test_evaluation_uses_the_running_statistics(shape, affine):
    ours = layer(affine=affine)
    with groups(ours, 2):
        ours(rows(*shape))
    ours.eval()
    x = rows(*shape, name="other")
    wide = [1, -1] + [1] * (len(shape) - 2)
    found = ours(x)  # which settles the groups first
    out = (x - ours.running_mean.view(wide)) / (ours.running_var.view(wide) + 1e-5).sqrt()
    if affine:
        out = out * ours.weight.view(wide) + ours.bias.view(wide)
    torch.testing.assert_close(found, out)
    # One sample at a time is the same as all at once, whatever the groups.
    with groups(ours, 3):
        torch.testing.assert_close(torch.cat([ours(row[None]) for row in x]), ours(x))


def test_a_change_of_groups_goes_on_from_what_was_learned():
    ours = layer()
    x = rows(12, 5)
    with groups(ours, 2):
        ours(x)
    assert torch.equal(ours.running_mean, torch.zeros(5, dtype=DOUBLE))  # not settled yet
    with groups(ours, 3):
        ours(x)
    met = 0.19 * x.unflatten(0, (6, 2)).mean(0).mean(0)
    expected = (0.9**3 * met + (1 - 0.9**3) * x.unflatten(0, (4, 3)).mean(0)).mean(0)
    merge_groups(ours)
    torch.testing.assert_close(ours.running_mean, expected)


def test_the_state_dict_has_the_names_of_torch():
    ours, theirs = nn.Sequential(layer()), nn.Sequential(nn.BatchNorm2d(5).double())
    with groups(ours, 2):
        ours(rows(8, 5, 2, 2))
    saved = ours.state_dict()
    assert list(saved) == [name for name in theirs.state_dict() if "num_batches" not in name]
    # What is saved is settled, and it loads.
    assert float(saved["0.running_mean"].abs().min()) > 0
    other = nn.Sequential(BatchNorm(5).double())
    other.load_state_dict(saved)
    x = rows(4, 5, 2, 2, name="x")
    assert torch.equal(other.eval()(x), ours.eval()(x))


def test_weights_of_torchs_own_layer_load():
    theirs = nn.Sequential(nn.BatchNorm2d(5).double())
    theirs(rows(8, 5, 2, 2))
    state = theirs.state_dict()
    assert "0.num_batches_tracked" in state
    ours = nn.Sequential(layer())
    with groups(ours, 2):
        ours(rows(8, 5, 2, 2))
    ours.load_state_dict(state)
    x = rows(4, 5, 2, 2, name="x")
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    assert "0.num_batches_tracked" in state  # the caller's dict is left alone


def test_groups_end_with_the_block():
    ours = nn.Sequential(layer(), nn.ReLU(), layer())

    def counts():
        return [m.groups for m in ours.modules() if isinstance(m, BatchNorm)]

    with groups(ours, 3):
        assert counts() == [3, 3]
    assert counts() == [1, 1]
    # Also where the block fails: seven rows are no three groups.
    with pytest.raises(RuntimeError, match="invalid for input of size"), groups(ours, 3):
        ours(rows(7, 5))
    assert counts() == [1, 1]


# Forked once torch is loaded: an interpreter for each rank would take most of the test's time.
RANKS = """
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
from tests.train.networks.test_normalization import layer, step, SPLITS
from dualclust.common.ranks import Ranks

children, (folder, port, world) = [], sys.argv[1:]
for rank in range(int(world)):
    child = os.fork()
    if child:
        children.append(child)
        continue
    code = 1
    try:
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=int(world),
            timeout=timedelta(seconds=600),
        )
        found = {}
        for name, (shape, g, cuts) in SPLITS.items():
            found[name] = step(shape, g, cuts[rank], cuts[rank + 1], ranks=Ranks(rank, int(world)))
        torch.save(found, f"{folder}/{rank}.pt")
        code = 0
    finally:
        os._exit(code)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
# Shape of the whole batch, groups, and where the ranks' parts begin.
SPLITS = {
    "equal rows": ((8, 5), 1, (0, 4, 8)),
    "unequal rows": ((7, 5), 1, (0, 6, 7)),
    "equal images": ((8, 5, 3, 4), 1, (0, 4, 8)),
    "unequal images": ((7, 5, 3, 4), 1, (0, 4, 7)),
    "two views": ((7, 5, 3, 4), 2, (0, 4, 7)),
}


def step(shape, g, start, stop, *, ranks):
    """Two training passes on rows start … stop of a batch whose rows are far from 0."""
    ours = layer()
    synchronize(ours, ranks)
    for number in range(2):
        whole = [1000 + rows(*shape, name=f"x{v}{number}") for v in range(g)]
        weights = [rows(*shape, name=f"w{v}{number}") for v in range(g)]
        x = interleaved([view[start:stop] for view in whole]).requires_grad_()
        ours.zero_grad()
        with groups(ours, g):
            out = ours(x)
        (out * interleaved([w[start:stop] for w in weights])).sum().backward()
    merge_groups(ours)
    kept = {
        "out": out.detach(),
        "input": x.grad,
        "weight": ours.weight.grad,
        "bias": ours.bias.grad,
    }
    return kept | {"mean": ours.running_mean, "var": ours.running_var}


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
    done = run_program(RANKS, str(folder), str(port), "2")
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("name", SPLITS)
def test_two_ranks_are_one_process(two_ranks, name):
    shape, g, cuts = SPLITS[name]
    expected = step(shape, g, 0, shape[0], ranks=ALONE)
    parts = [found[name] for found in two_ranks]
    # Rows lie far from 0: about 1e-13 of 1000 is lost, in either.
    near = {"atol": 1e-8, "rtol": 1e-8}
    for key in ("out", "input"):
        torch.testing.assert_close(torch.cat([p[key] for p in parts]), expected[key], **near)
    for key in ("weight", "bias"):
        torch.testing.assert_close(sum(p[key] for p in parts), expected[key], **near)
    for key in ("mean", "var"):
        assert torch.equal(parts[0][key], parts[1][key])
        torch.testing.assert_close(parts[0][key], expected[key], **near)
    # Statistics of a part alone are others: the comparison can fail.
    alone = step(shape, g, *cuts[:2], ranks=ALONE)
    assert not torch.allclose(alone["out"], parts[0]["out"], atol=1e-3)
