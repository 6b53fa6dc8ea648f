"""Which samples stay on the device: those that fit in a share of its free memory."""

import hashlib

import numpy as np
import pytest
import torch

from dualclust.train.data import samples as module


class _Kind:
    def __init__(self, free):
        self.free = free

    def free_memory(self, device):
        return self.free


@pytest.mark.parametrize(
    ("free", "resident", "stays"),
    [
        (None, "auto", True),  # the host
        (400 / module.RESIDENT_SHARE + 1, "auto", True),
        (400 / module.RESIDENT_SHARE - 1, "auto", False),
        (1e12, "never", False),
        (0, "always", True),
    ],
)
def test_what_fits_stays_on_the_device(monkeypatch, free, resident, stays):
    monkeypatch.setattr(module, "kind_of", lambda device: _Kind(free))
    samples = torch.zeros(100, dtype=torch.float32)
    assert module._is_resident(samples, torch.device("cpu"), resident) is stays


@pytest.mark.parametrize(
    ("n", "every"), [(1, 1), (4096, 1), (8191, 1), (8192, 2), (12287, 2), (12288, 3)]
)
def test_a_large_set_is_known_by_every_so_many_samples(n, every):
    """What a checkpoint keeps of the data that it was trained on."""
    rows = torch.arange(2.0 * n).reshape(n, 2)
    data = module.embedding_data(rows.numpy())._replace(rows=rows)
    sample = rows[::every].numpy()
    content = repr((n, sample.shape)).encode() + sample.tobytes()
    assert data.digest() == hashlib.sha256(content).hexdigest()
    images = module.image_data(np.full((3, 2, 2), 7, np.uint8))
    content = repr((3, (3, 1, 2, 2))).encode() + bytes([7] * 12)
    assert images.digest() == hashlib.sha256(content).hexdigest()


def test_samples_go_to_a_device_with_all_that_belongs_to_them():
    images = module.image_data(np.full((3, 2, 2), 7, np.uint8), [0, 1, 2])
    rows = module.embedding_data(np.ones((3, 4), np.float32), [0, 1, 2])
    for data in (images, rows):
        moved = data.to("meta")
        assert type(moved) is type(data)
        for name, own in data._asdict().items():
            if isinstance(own, torch.Tensor):
                assert getattr(moved, name).device.type == "meta"
            else:
                assert getattr(moved, name) == own
    assert (images.shape, rows.shape, rows.background) == ((1, 2, 2), (4,), None)
