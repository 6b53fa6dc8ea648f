"""The rows of CoKe's network: unit vectors, of the projector and of the predictor on top of it."""

import pytest
import torch
from torch.nn import functional as F

from tests.train.coke_methods import PREDICTOR, D, draw_images, make


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("changes", [["coke.views=one"], ["coke.views=one", *PREDICTOR]], ids=len)
def test_each_part_is_a_direction(changes, dtype):
    """Scores are cosines (Eq. 10), for the predictor's vectors as well."""
    method = make(changes=changes, dtype=dtype)
    method.network.eval()
    [images] = draw_images(method, 7, dtype=dtype)
    rows = method._rows(images).detach()
    projected = method.network(images).detach()
    parts = [projected]
    if method.beta:
        parts.append(method.network.predict(projected).detach())
    assert rows.shape == (7, D * len(parts))
    for part, found in zip(parts, rows.split(D, dim=1), strict=True):
        lengths = part.norm(dim=1)
        assert (lengths - 1.0).abs().max() > 0.1  # else nothing would be tested
        torch.testing.assert_close(found, part / lengths[:, None])
        torch.testing.assert_close(found.norm(dim=1), torch.ones(7, dtype=dtype))
        assert torch.equal(found, F.normalize(part, dim=1)) or dtype == torch.float32
