"""Which samples a run's page shows, in which order, and as which images."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from dualclust.train.report.page import Found, Pictures
from dualclust.train.report.page import samples as module
from dualclust.train.report.page.samples import choose_samples, thumbnails
from tests.train.report.test_run_page import found_of

KINDS = ("exemplars", "random", "doubtful")


def of_clusters(sizes, seed=0):
    """Samples of clusters of these sizes, whose margins are random."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n, k = len(labels), len(sizes)
    return found_of(n, 2)._replace(
        labels=labels, lower=np.zeros(k, int), upper=np.full(k, n), prices=np.zeros(k)
    )


@pytest.mark.parametrize(
    ("k", "most"),
    [
        (20, (10, 8, 6)),
        (21, (8, 6, 4)),
        (100, (8, 6, 4)),
        (101, (6, 4, 4)),
        (300, (6, 4, 4)),
        (301, (4, 2, 2)),
    ],
)
def test_the_more_clusters_the_fewer_samples_of_each(k, most):
    chosen = choose_samples(found_of(26 * k, k))
    assert {kind: len(some) // k for kind, some in chosen.items()} == dict(
        zip(KINDS, most, strict=True)
    )
    for some in chosen.values():
        assert some.dtype == np.int64
        assert (np.diff(some % k) >= 0).all()


def test_small_clusters_have_typical_samples_first():
    sizes = [0, 3, 10, 12, 16, 17, 40]
    found = of_clusters(sizes)
    chosen = choose_samples(found)
    draws = np.random.default_rng(0)
    for j, size in enumerate(sizes):
        own = {kind: some[found.labels[some] == j].tolist() for kind, some in chosen.items()}
        members = np.flatnonzero(found.labels == j)
        order = members[np.argsort(-found.margins[members])]
        assert own["exemplars"] == order[:10].tolist()
        doubtful = min(max(size - 10, 0), 6)
        assert own["doubtful"] == order[size - doubtful :][::-1].tolist()
        middle = order[10 : size - doubtful]
        drawn = np.sort(draws.permutation(len(middle))[:8])
        assert own["random"] == middle[drawn].tolist()


def shown(found, *, most=20_000, side=(2, 3), attended=None):
    """Thumbnails of images that hold their position, and how many were asked for at a time."""
    asked = []

    def images(some):
        asked.append(len(some))
        values = np.asarray(some) % 256
        return np.broadcast_to(values[:, None, None, None], (len(some), 1, *side)).astype(np.uint8)

    chosen = choose_samples(found)
    return thumbnails(found, chosen, Pictures(images, attended, most)), chosen, asked


def decoded(address):
    head, content = address.split(",")
    return head, Image.open(io.BytesIO(base64.b64decode(content)))


def test_clusters_take_turns():
    """First the best of each cluster of each kind, then the second ones."""
    found = of_clusters([12, 30, 11])
    made, chosen, asked = shown(found)
    turns = []
    for rank in range(10):
        for kind in KINDS:
            for j in range(3):
                own = chosen[kind][found.labels[chosen[kind]] == j]
                turns += own[rank : rank + 1].tolist()
    assert list(made["of"]) == turns
    assert list(made["of"].values()) == list(range(len(turns)))
    assert (asked, made["left_out"], made["under"]) == ([len(turns)], 0, {})
    for position, at in made["of"].items():
        assert np.asarray(decoded(made["images"][at])[1])[0, 0] == position % 256


@pytest.mark.parametrize(
    ("most", "asked", "left_out"),
    [(20_000, [256, 224], 0), (480, [256, 224], 0), (300, [256, 44], 180), (256, [256], 224)],
)
def test_no_more_images_than_are_wanted(most, asked, left_out):
    made, _, found = shown(found_of(480, 20), most=most)
    assert (found, made["left_out"], len(made["images"])) == (asked, left_out, sum(asked))


def test_no_more_bytes_than_there_is_room_for(monkeypatch):
    found = found_of(480, 20)
    images = shown(found)[0]["images"]
    size = sum(map(len, images[:256]))
    for room, asked in ((size, [256]), (size + 1, [256, 224])):
        monkeypatch.setattr(module, "BYTES", room)
        made, _, batches = shown(found)
        assert (batches, made["left_out"]) == (asked, 480 - sum(asked))


@pytest.mark.parametrize(("side", "pixels"), [((40, 40), True), ((41, 2), False), ((2, 41), False)])
def test_small_images_are_shown_as_pixels(side, pixels):
    assert shown(of_clusters([3, 4]), side=side)[0]["pixels"] is pixels


def test_what_a_network_looks_at_is_shown_of_the_first_ones():
    found = found_of(26 * 100, 100)
    batches = []

    def attended(some):
        batches.append(list(some))
        return np.zeros((len(some), 4, 4, 3), np.uint8)

    made, chosen, asked = shown(found, most=2000, attended=attended)
    assert asked == [256] * 7 + [8]
    assert list(map(len, batches)) == [256, 144]
    first = [p for kind in chosen["exemplars"].reshape(100, 8)[:, :4].tolist() for p in kind]
    assert [p for some in batches for p in some] == first == list(made["under"])
    assert list(made["under"].values()) == list(range(1800, 2200))
    assert len(made["images"]) == 2200
    batches.clear()
    few, _, _ = shown(found, most=401, attended=attended)
    # A quarter of what may be shown, of those that are shown themselves.
    assert len(few["under"]) == 100
    assert set(few["under"]) <= set(few["of"])
    none, _, _ = shown(found, attended=lambda some: None)
    assert (none["under"], len(none["images"])) == ({}, 1800)


@pytest.mark.parametrize(
    ("shape", "kind", "size"),
    [
        ((8, 6, 1), "png", (6, 8)),
        ((40, 50, 1), "png", (50, 40)),
        ((32, 40, 3), "jpeg", (40, 32)),
        ((40, 31, 3), "png", (31, 40)),
        ((64, 64, 3), "jpeg", (64, 64)),
        ((65, 33, 3), "jpeg", (32, 64)),
        ((64, 128, 3), "jpeg", (64, 32)),
        ((200, 100, 1), "png", (32, 64)),
    ],
)
def test_a_small_image_is_as_it_is_and_a_large_one_shrinks(shape, kind, size):
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    head, shown = decoded(module._address(image))
    assert (head, shown.size) == (f"data:image/{kind};base64", size)
    assert shown.mode == ("L" if shape[2] == 1 else "RGB")
    if kind == "png" and max(shape) <= 64:
        np.testing.assert_array_equal(np.asarray(shown).reshape(shape), image)


def test_photographs_are_stored_at_a_quality_of_85():
    image = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    content = io.BytesIO()
    Image.fromarray(image).save(content, "JPEG", quality=85)
    address = module._address(image)
    assert base64.b64decode(address.partition(",")[2]) == content.getvalue()


def test_pages_show_many_images_unless_fewer_are_asked_for():
    assert Pictures(lambda some: None).most == 20_000
    assert (module.SIDE, module.BYTES, module.ATTENDED) == (64, 16_000_000, 4)


def test_sizes_count_clusters_without_samples():
    found: Found = of_clusters([2, 0, 1, 0])
    assert found.counts.tolist() == [2, 0, 1, 0]
    assert found.counts.dtype == np.int64
