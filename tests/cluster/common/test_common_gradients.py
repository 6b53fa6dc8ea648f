"""Rows of all ranks joined with gradients: along any axis, each rank's own slice comes back."""

import pytest

torch = pytest.importorskip("torch")

from dualclust.common._gradients import gather_with_gradients  # noqa: E402


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_rows_are_joined_along_any_axis_and_gradients_come_back_to_their_rank(dim):
    shape, lengths = [3, 4, 5], (2, 3, 1)
    parts, asked = [], []
    for rank, length in enumerate(lengths):
        shape[dim] = length
        generator = torch.Generator().manual_seed(rank)
        parts.append(torch.randn(shape, generator=generator, dtype=torch.float64))

    def join(rows):
        asked.append(rows.shape[0])
        return torch.cat([part.movedim(dim, 0) for part in parts])

    whole, start = torch.cat(parts, dim), 0
    weight = torch.randn(whole.shape, generator=torch.Generator().manual_seed(9)).double()
    for length, part in zip(lengths, parts, strict=True):
        rows = part.clone().requires_grad_()
        found = gather_with_gradients(rows, join, (start, start + length), dim)
        assert torch.equal(found, whole)
        (found * weight).sum().backward()
        assert torch.equal(rows.grad, weight.narrow(dim, start, length))
        start += length
    assert asked == list(lengths)
