"""What a module of PyTorch must stand: states, devices, precisions, ranks; no read in a pass."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from dualclust.algos.core.errors import InvalidTypeError
from dualclust.algos.online.step_sizes import StepRule
from dualclust.torch import PricedLabels, PricedRouter, SizePrices
from tests.forked import run_program
from tests.own_loop.two_ranks import CASES, run_balanced, run_case
from tests.second_device import DEVICE, second_device

KINDS = {
    "hard": lambda **options: PricedLabels(8, upper=1.1, **options),
    "soft": lambda **options: PricedLabels(8, upper=1.1, epsilon=0.05, **options),
    "free sign": lambda **options: PricedLabels(8, lower=1.0, upper=1.0, **options),
    "projected": lambda **options: PricedLabels(8, steps=StepRule(0.01, 64, l1_radius=0.3)),
    "published": lambda **options: PricedLabels(8, steps=StepRule(0.1, 64, mean_over_chunk=True)),
    "router": lambda **options: PricedRouter(8, top_k=2, upper=1.2, **options),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def batch(seed, b=64):
    draws = torch.Generator().manual_seed(seed)
    return torch.rand(b, 8, generator=draws) + torch.linspace(1.0, 0.0, 8)


def flat(found):
    """Results of a pass as a tuple of tensors."""
    return found if isinstance(found, tuple) else (found,)


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(flat(a), flat(b), strict=True))


def warm(kind, steps=15):
    module = KINDS[kind]()
    for seed in range(steps):
        module(batch(seed))
    assert module.prices.abs().max() > 0
    return module


@kinds
def test_a_state_gives_the_same_next_labels_to_the_bit(kind, tmp_path):
    module = warm(kind)
    torch.save(nn.Sequential(module).state_dict(), tmp_path / "state.pt")
    fresh = nn.Sequential(KINDS[kind]())
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    twin = copy.deepcopy(module)
    for seed in range(100, 110):
        wanted = module(batch(seed))
        assert same(wanted, fresh[0](batch(seed)))
        assert same(wanted, twin(batch(seed)))
    assert same(tuple(module.state_dict().values()), tuple(fresh[0].state_dict().values()))


@pytest.mark.parametrize("kind", ["hard", "free sign", "router"])
def test_labels_from_before_loading_move_no_price(kind):
    """They are of other prices: the next step is that of the labels since then alone."""
    saved = copy.deepcopy(warm(kind).state_dict())
    loaded, fresh = (KINDS[kind](automatic=False) for _ in range(2))
    loaded(batch(50))
    for module in (loaded, fresh):
        module.load_state_dict(saved)
    loaded.move_prices()  # nothing has come since
    assert same(tuple(loaded.state_dict().values()), tuple(saved.values()))
    for module in (loaded, fresh):
        module(batch(51))
        module.move_prices()
    assert same(tuple(loaded.state_dict().values()), tuple(fresh.state_dict().values()))
    assert not torch.equal(fresh.prices, saved["price_lower"] - saved["price_upper"])


def test_a_state_of_other_bounds_is_refused_and_nothing_taken_over():
    module, other = warm("hard"), PricedLabels(8, upper=1.3)
    before = copy.deepcopy(other.state_dict())
    with pytest.raises(RuntimeError, match="upper_share differs: the state was saved under other"):
        other.load_state_dict(module.state_dict())
    assert same(tuple(before.values()), tuple(other.state_dict().values()))
    with pytest.raises(RuntimeError, match="size mismatch"):
        PricedLabels(9).load_state_dict(module.state_dict())


@kinds
@pytest.mark.parametrize("cast", [nn.Module.half, nn.Module.float, lambda m: m.to(torch.bfloat16)])
def test_prices_stay_float64_in_a_model_of_lower_precision(kind, cast):
    model, plain = nn.Sequential(nn.Linear(2, 2), warm(kind)), warm(kind)
    cast(model)
    assert model[0].weight.dtype != torch.float64
    assert model[1].price_lower.dtype == torch.float64
    assert same(model[1](batch(99)), plain(batch(99)))
    assert torch.equal(model[1].prices, plain.prices)


def test_buffers_that_something_else_cast_are_refused():
    module = warm("hard")
    module.price_lower = module.price_lower.half()
    with pytest.raises(InvalidTypeError, match=r"prices must be float64, got torch\.float16"):
        module(batch(0))


@kinds
def test_a_pass_on_a_second_device_reads_and_sends_nothing(kind):
    here = warm(kind)
    there = copy.deepcopy(here)
    with second_device() as transfers:
        there.to(DEVICE)
        assert there.price_lower.device == there.counts.device == DEVICE
        made = KINDS["hard"](device=DEVICE)
        scores = [batch(seed).to(DEVICE) for seed in range(40, 45)]
        weights = (torch.arange(64) < 60).to(DEVICE)
        transfers.clear()
        found = [there(rows, weights) for rows in scores]
        made(scores[0])
        there.eval()(scores[0])
        there.reset_counts()
        assert transfers.reads == {}
        assert transfers.uploads == {}
        wanted = [here(batch(seed), torch.arange(64) < 60) for seed in range(40, 45)]
        for a, b in zip(found, wanted, strict=True):
            assert same(tuple(x.cpu() for x in flat(a)), b)
        assert torch.equal(there.prices.cpu(), here.prices)
        with pytest.raises(ValueError, match="must be on the device of prices"):
            there(batch(0))


@kinds
def test_buffers_stay_in_place_so_that_a_step_can_be_captured(kind):
    module = warm(kind)
    places = {name: value.data_ptr() for name, value in module.named_buffers()}
    pending = module._pending.data_ptr()
    for seed in range(3):
        module(batch(seed))
    module.load_state_dict(copy.deepcopy(module.state_dict()))
    assert places == {name: value.data_ptr() for name, value in module.named_buffers()}
    assert pending == module._pending.data_ptr()


def test_a_rule_of_ones_own_labels_by_prices():
    class Nearest(SizePrices):
        def forward(self, scores):
            labels = (scores.double() + self.prices).argmax(dim=1)
            self.count(labels)
            return labels

    own, ours = Nearest(8, upper=1.1), PricedLabels(8, upper=1.1)
    for seed in range(20):
        assert torch.equal(own(batch(seed)), ours(batch(seed)))


RANKS = """
import os, sys
from tests.own_loop.two_ranks import CASES, run_balanced, run_case
import torch
from dualclust.common.ranks import join_ranks

children, (folder, port) = [], sys.argv[1:]
for rank in range(2):
    child = os.fork()
    if child:
        children.append(child)
        continue
    code = 1
    try:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
        join_ranks("cpu", timeout=600)
        found = {name: run_case(name, rank) for name in CASES}
        torch.save({**found, "balanced": run_balanced(rank)}, f"{folder}/{rank}.pt")
        code = 0
    finally:
        os._exit(code)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory, free_port):
    folder = tmp_path_factory.mktemp("ranks")
    done = run_program(RANKS, str(folder), str(free_port))
    assert done.returncode == 0, done.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.fixture(scope="module")
def free_port():
    import socket

    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        return here.getsockname()[1]


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_are_one_process_to_the_bit(two_ranks, name):
    alone = run_case(name, None)
    first, second = (found[name] for found in two_ranks)
    for key in ("lower", "upper", "counts"):
        assert torch.equal(first[key], alone[key]), key
        assert torch.equal(second[key], alone[key]), key
    for a, b, wanted in zip(first["labels"], second["labels"], alone["labels"], strict=True):
        assert torch.equal(torch.cat([a, b]), wanted)
    assert alone["lower"].max() > 0


def test_two_ranks_balance_one_batch(two_ranks):
    alone = run_balanced(None)
    first, second = (found["balanced"] for found in two_ranks)
    for name in ("soft", "gradient"):
        for a, b, wanted in zip(first[name], second[name], alone[name], strict=True):
            torch.testing.assert_close(torch.cat([a, b]), wanted, atol=1e-5, rtol=1e-4)
    for a, b in zip(first["hard"], second["hard"], strict=True):
        counts = torch.cat([a, b]).bincount(minlength=6)
        assert 7 <= counts.min() <= counts.max() <= 9
    assert all(float(x) == 0.0 for x in first["violation"] + second["violation"])
    assert all(torch.equal(a, b) for a, b in zip(first["prices"], second["prices"], strict=True))


def test_an_error_inside_is_not_taken_for_a_missing_torch():
    program = """
import sys
for name in [name for name in sys.modules if name.startswith("dualclust.torch")]:
    del sys.modules[name]
sys.modules["dualclust.torch.labels"] = None
try:
    import dualclust.torch
except ModuleNotFoundError as error:
    print(type(error).__name__, error.name)
"""
    done = run_program(program)
    assert done.stdout == "ModuleNotFoundError dualclust.torch.labels\n", done.stderr
