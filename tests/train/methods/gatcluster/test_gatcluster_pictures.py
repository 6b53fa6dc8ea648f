"""Which maps a run of GATCluster draws its windows from, and where on the image they lie."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from dualclust.train.methods.gatcluster import method as gatcluster
from dualclust.train.report.attention import attended
from tests.train.methods.gatcluster.test_gatcluster import K, N, make


class Map(nn.Module):
    """An encoder that keeps a map of some shape, cut from 4 × 4 images."""

    def __init__(self, height, width):
        super().__init__()
        self.map_shape, self.origin, self.spacing = (1, height, width), (0.5, 1.5), 2
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, images):
        _, height, width = self.map_shape
        return self.scale * images[:, 0, :height, :width].flatten(1)


@pytest.mark.parametrize(("height", "width"), [(1, 4), (4, 1), (2, 2), (2, 3)])
def test_a_map_of_two_lines_is_drawn(height, width, monkeypatch, tmp_path):
    written = []
    monkeypatch.setattr(gatcluster, "write_overlays", lambda *a, **k: written.append((a, k)))
    method = make(encoder=Map(height, width), dtype=torch.float32)
    images = torch.rand(N, 1, 4, 4)
    data = SimpleNamespace(images="the images", take=lambda ids: images[ids])
    features = torch.softmax(torch.randn(N, K), dim=1)
    prediction = SimpleNamespace(
        assignment=SimpleNamespace(labels=features.argmax(1)), features=features
    )
    method.write_pictures(tmp_path, data, prediction)
    if min(height, width) < 2:
        assert written == []
        return
    ((path, shown, labels, surest, windows), settings) = written[0]
    assert (path, shown) == (tmp_path / "attention.png", "the images")
    assert torch.equal(labels, features.argmax(1))
    assert torch.equal(surest, features.max(1).values)
    assert settings == {
        "map_size": (height, width),
        "alpha": method.options.alpha,
        "n_clusters": K,
        "origin": (0.5, 1.5),
        "spacing": 2,
    }
    ids = torch.tensor([3, 1])
    found = windows(ids)
    assert method.network.training  # put back
    method.network.eval()
    expected = method.branches.windows(method.network(images[ids]))
    torch.testing.assert_close(found[0], expected[0])


@pytest.mark.parametrize(("height", "width"), [(1, 4), (4, 1), (2, 2), (2, 3)])
def test_images_are_shown_under_their_own_windows(height, width):
    """At the size of a page, where the points of the map look; not where there is no window."""
    method = make("gatcluster.alpha=0.3", encoder=Map(height, width), dtype=torch.float32)
    method.network.encoder.spacing = 1
    with torch.no_grad():  # windows that differ from image to image
        method.branches.window_layer.weight.normal_(generator=torch.Generator().manual_seed(1))
    draws = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (N, 1, 4, 4), generator=draws, dtype=torch.uint8)
    data = SimpleNamespace(images=pixels, take=lambda ids: pixels[ids] / 255.0)
    ids = torch.tensor([3, 1])
    found = method.attended(data, ids)
    if min(height, width) < 2:
        assert found is None
        return
    assert method.network.training  # put back
    method.network.eval()
    with torch.no_grad():
        windows = method.branches.windows(method.network(pixels[ids] / 255.0))
    placed = {"map_size": (height, width), "alpha": 0.3, "origin": (0.5, 1.5), "spacing": 1}
    _, expected = attended(pixels[ids].numpy(), windows, **placed)
    np.testing.assert_array_equal(found, expected)
    for name in ("origin", "spacing"):
        other = attended(pixels[ids].numpy(), windows, **{**placed, name: None})[1]
        assert (other != expected).any()
