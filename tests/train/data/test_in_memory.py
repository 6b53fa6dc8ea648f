"""Which samples stay on the device: those that fit in a share of its free memory."""

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
        (400 / module.RESIDENT_SHARE, "auto", True),
        (399 / module.RESIDENT_SHARE, "auto", False),
        (1e12, "never", False),
        (0, "always", True),
    ],
)
def test_what_fits_stays_on_the_device(monkeypatch, free, resident, stays):
    monkeypatch.setattr(module, "kind_of", lambda device: _Kind(free))
    samples = torch.zeros(100, dtype=torch.float32)
    assert module._is_resident(samples, torch.device("cpu"), resident) is stays
