"""The second device refuses and counts what it is there for."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from dualclust.backends import TABLE, select  # noqa: E402
from tests.second_device import (  # noqa: E402
    DEVICE,
    SecondGenerator,
    SecondTensor,
    call_site,
    second_device,
)


def test_factories_and_copies_make_tensors_of_the_device(transfers):
    host = torch.arange(6.0)
    made = [
        torch.zeros(6, device=DEVICE),
        torch.tensor([1.0, 2.0], device=DEVICE),
        torch.asarray(host, device=DEVICE),
        torch.as_tensor(np.arange(3), device="lazy"),
        torch.randn(3, device=DEVICE, generator=SecondGenerator()),
        host.to(DEVICE),
        torch.zeros_like(host, device=DEVICE),
        host.to(DEVICE)[1:].reshape(5, 1).double(),
        torch.cat([host.to(DEVICE)] * 2),
    ]
    assert all(type(x) is SecondTensor and x.device == DEVICE for x in made)
    assert type(torch.zeros(3)) is torch.Tensor
    assert type(host.to(DEVICE).cpu()) is torch.Tensor
    torch.testing.assert_close(host.to(DEVICE).cpu(), host, rtol=0, atol=0)


def test_in_place_changes_reach_views_and_their_base(transfers):
    base = torch.zeros(2, 3, device=DEVICE)
    row = base[1]
    assert row.add_(2.0) is row
    base[0, 0] = 5.0
    base[:, 2] *= 3
    assert base.cpu().tolist() == [[5, 0, 0], [2, 2, 6]]
    torch.add(row, 1.0, out=row)
    assert base.cpu().tolist() == [[5, 0, 0], [3, 3, 7]]


def test_gradients_optimizers_and_copies(transfers):
    made = torch.nn.Linear(4, 2, dtype=torch.float64)
    twin = copy.deepcopy(made)
    second = made.to(DEVICE)
    x = torch.randn(5, 4, dtype=torch.float64)
    for module, rows in ((twin, x), (second, x.to(DEVICE))):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            module(rows).square().sum().backward()
            optimizer.step()
    kept = copy.deepcopy(second)
    assert type(kept.weight.detach()) is SecondTensor
    torch.testing.assert_close(kept.weight.cpu(), twin.weight)


def test_inference_mode_takes_tensors_from_before(transfers):
    before = torch.arange(3.0).to(DEVICE)
    with torch.inference_mode():
        found = (before[:, None] * before[None, :])[1:].sum(dim=0)
        assert found.is_inference()
        transfers.clear()
        here = found.cpu()
    assert type(here) is torch.Tensor
    assert here.numpy().tolist() == [0, 3, 6]
    assert transfers.reads.total() == 1


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + torch.ones(3),
        lambda x: torch.cat([x, torch.ones(3)]),
        lambda x: x.index_add_(0, torch.tensor([0]), torch.ones(1)),
        lambda x: x[torch.tensor([0, 1])],
        lambda x: torch.ones(3)[x.long()],
        lambda x: torch.stack([x.sum(), torch.tensor(1.0)]),
        lambda x: torch.where(x > 0, x, torch.zeros(3)),
        lambda x: torch.nn.functional.linear(x, torch.ones(2, 3)),
    ],
)
def test_a_tensor_of_the_host_is_refused(transfers, mix):
    x = torch.ones(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="same device, got lazy:0 and cpu"):
        mix(x)


def test_a_number_of_the_host_may_take_part(transfers):
    x = torch.ones(3, device=DEVICE)
    assert (x * 2 + torch.tensor(1.0)).cpu().tolist() == [3, 3, 3]
    assert torch.where(x > 2, x, torch.tensor(0.5)).cpu().tolist() == [0.5, 0.5, 0.5]


def test_numpy_is_refused(transfers):
    x = torch.ones(3, device=DEVICE)
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array([x[0], x[1]])):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            convert()


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (lambda x: x[0].item(), 1),
        (lambda x: float(x.sum()), 1),
        (lambda x: bool((x > 0).any()), 1),
        (lambda x: x.tolist(), 1),
        (lambda x: x.cpu(), 1),
        (lambda x: x.to("cpu"), 1),
        (lambda x: torch.zeros(3).copy_(x), 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: x.masked_select(x > 0), 1),
        (lambda x: x.unique(), 1),
        (lambda x: torch.bincount(x.long()), 1),
        (lambda x: torch.repeat_interleave(x, x.long()), 1),
        (lambda x: torch.arange(8, device=DEVICE)[x.long()[0]], 1),  # a position: the host asks
        (lambda x: torch.linalg.solve(torch.eye(3, device=DEVICE), x), 1),
        (lambda x: torch.equal(x, x), 1),
        (lambda x: range(int(x.sum())), 1),
        (lambda x: x.masked_fill(x > 0, 0.0), 0),
        (lambda x: x.index_select(0, x.long() * 0), 0),
        (lambda x: torch.where(x > 0, x, 0.0).sum().add(1).argsort(), 0),
        (lambda x: torch.repeat_interleave(x, x.long(), output_size=3), 0),
        (lambda x: x.shape[0] + len(x), 0),
    ],
)
def test_what_the_host_reads_is_counted(transfers, read, count):
    x = torch.ones(3, device=DEVICE)
    transfers.clear()
    read(x)
    assert transfers.reads.total() == count


def test_a_value_set_under_a_mask_is_not_read(transfers):
    x = torch.ones(3, device=DEVICE)
    x[x > 0] = 2.0
    assert transfers.reads.total() == 0
    x[x > 0] = x.clone()
    assert transfers.reads.total() == 1


def test_what_goes_to_the_device_is_counted(transfers):
    x = torch.ones(3, device=DEVICE)
    assert transfers.uploads.total() == 0
    x.copy_(torch.zeros(3))
    torch.tensor([1.0], device=DEVICE)
    torch.zeros(3).to(DEVICE)
    assert transfers.uploads.total() == 3
    assert transfers.reads.total() == 0


def test_reads_are_filed_under_the_line_that_asks(transfers):
    from dualclust import SizeBounds, assign

    bounds = SizeBounds.from_ratios(2, n_samples=4, lower=0.5, xp=torch, device=DEVICE)
    transfers.clear()
    assign(torch.zeros(4, 2, device=DEVICE), bounds)
    lines = [line for line in transfers.reads if line.startswith("backends/torch_engine.py:")]
    assert any(line.endswith(" assign_stream") for line in lines), transfers.reads
    assert call_site() == "outside of the library"


def test_the_device_has_the_rows_of_cuda_while_it_is_active():
    with second_device():
        x = torch.zeros(3, device=DEVICE)
        for name, row in TABLE.items():
            target = row.get(("torch", "cuda"))
            assert row.get(("torch", "lazy")) == target
            assert (select(name, x) is None) == (target is None)
    assert not any(("torch", "lazy") in row for row in TABLE.values())
    with pytest.raises(RuntimeError, match=r"outside `second_device\(\)`"):
        x + 1


def test_threads_take_the_device_over():
    with second_device() as transfers:
        weight = torch.ones(3, device=DEVICE).requires_grad_()
        (weight * weight).sum().backward()  # in a thread of autograd
        assert weight.grad.cpu().tolist() == [2, 2, 2]
        transfers.clear()
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(lambda n: torch.ones(n, device=DEVICE), range(4)))
            assert all(type(x) is SecondTensor for x in made)
            assert list(pool.map(lambda x: float(x.sum()), made)) == [0, 1, 2, 3]
        assert transfers.reads.total() == 4
    with ThreadPoolExecutor(1) as pool:
        assert type(pool.submit(torch.ones, 3).result()) is torch.Tensor
