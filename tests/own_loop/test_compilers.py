"""All modules under compilers, export and vmap: one graph, no warning, equal results."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from dualclust.torch import BalancedLabels, PricedLabels, PricedRouter

MODULES = {
    "soft": lambda k=8: BalancedLabels(k, upper=1.2),
    "through a gradient": lambda k=8: BalancedLabels(k, upper=1.2, differentiable=True),
    "hard": lambda k=8: BalancedLabels(k, kind="hard", upper=1.2),
    "exact": lambda k=8: BalancedLabels(k, kind="exact", upper=1.2),
    "priced": lambda k=8: PricedLabels(k, upper=1.2),
    "priced and soft": lambda k=8: PricedLabels(k, upper=1.2, epsilon=0.05),
    "router": lambda k=8: PricedRouter(k, upper=1.2),
    "capped router": lambda k=8: PricedRouter(k, upper=1.2, capacity=1.25),
}
kinds = pytest.mark.parametrize("kind", MODULES)


@pytest.fixture(autouse=True)
def new_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def batch(seed, n=32, k=8):
    return torch.rand(n, k, generator=torch.Generator().manual_seed(seed))


def parts(found):
    return found if isinstance(found, tuple) else (found,)


def assert_same(found, wanted):
    for a, b in zip(parts(found), parts(wanted), strict=True):
        torch.testing.assert_close(a, b)


def assert_same_state(one, other):
    for (name, a), b in zip(one.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b, msg=name)


@pytest.mark.parametrize(
    ("kind", "dynamic"),
    [
        *((kind, True) for kind in MODULES),
        # A graph of one length asks less; two of them, of what is given out and what stays.
        *(
            pytest.param(kind, False, marks=[pytest.mark.slow] * (kind not in ("soft", "priced")))
            for kind in MODULES
        ),
    ],
)
def test_one_graph_gives_equal_labels_gradients_and_prices(kind, dynamic):
    plain, module = MODULES[kind](), MODULES[kind]()
    compiled = torch.compile(module, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for seed, n in enumerate((32, 40, 32)):
        scores = batch(seed, n).requires_grad_()
        twin = scores.detach().clone().requires_grad_()
        found, wanted = compiled(scores), plain(twin)
        assert_same(found, wanted)
        for a, b in zip(parts(found), parts(wanted), strict=True):
            assert a.requires_grad == b.requires_grad
            if a.requires_grad:
                (a**2).sum().backward()
                (b**2).sum().backward()
                torch.testing.assert_close(scores.grad, twin.grad)
    assert_same_state(module, plain)


def test_two_modules_of_other_k_are_one_graph():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = MODULES["soft"](8), MODULES["priced"](5)
            self.router = MODULES["router"](6)

        def forward(self, x):
            return self.one(x), self.two(x[:, :5]), self.router(x[:, :6]).indices

    plain, module = Both(), Both()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed in range(3):
        assert_same(compiled(batch(seed)), plain(batch(seed)))
    assert_same_state(module, plain)


@pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("clang++") is None,
    reason="inductor compiles C++, and neither g++ nor clang++ is here",
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method.:DeprecationWarning")  # its own
def test_inductor_gives_equal_targets_gradients_and_prices():
    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.soft, self.hard = MODULES["soft"](), MODULES["hard"]()
            self.capped = MODULES["capped router"]()

        def forward(self, x):
            cosines = torch.tanh(x)
            loss = torch.nn.functional.cross_entropy(cosines / 0.1, self.soft(cosines.detach()))
            return loss, self.hard(cosines.detach()), self.capped(torch.sigmoid(x)).indices

    plain, module = Step(), Step()
    compiled = torch.compile(module, fullgraph=True)
    for seed in range(2):
        x = batch(seed).requires_grad_()
        twin = x.detach().clone().requires_grad_()
        found, wanted = compiled(x), plain(twin)
        assert_same(found, wanted)
        found[0].backward()
        wanted[0].backward()
        torch.testing.assert_close(x.grad, twin.grad)
    assert_same_state(module, plain)


@pytest.mark.parametrize("kind", [kind for kind in MODULES if kind != "through a gradient"])
def test_an_exported_program_labels_batches_of_any_length(kind):
    module = MODULES[kind]()
    module(batch(0))
    module.eval()
    dims = ({0: torch.export.Dim("n", min=2)},)
    program = torch.export.export(module, (batch(1),), dynamic_shapes=dims).module()
    for n in (32, 45):
        assert_same(program(batch(2, n)), module(batch(2, n)))


@pytest.mark.parametrize("kind", [kind for kind in MODULES if kind != "through a gradient"])
def test_vmap_over_heads_is_each_head_by_itself(kind):
    heads = [MODULES[kind]() for _ in range(3)]
    _, buffers = torch.func.stack_module_state(heads)
    base = MODULES[kind]()

    def call(state, scores):
        return torch.func.functional_call(base, state, (scores,))

    for seed in range(2):
        scores = torch.stack([batch(10 * seed + i) for i in range(3)])
        found = torch.func.vmap(call)(buffers, scores)
        for i, head in enumerate(heads):
            assert_same(tuple(x[i] for x in parts(found)), head(scores[i]))
    for name, values in buffers.items():
        for i, head in enumerate(heads):
            torch.testing.assert_close(values[i], head.get_buffer(name))
