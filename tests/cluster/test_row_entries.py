"""What a report shows of a row: links, thumbnails, and texts that are cut to their bytes."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from dualclust.cluster.report import Shown
from dualclust.cluster.report.row_entries import Room, entry_of, short


@pytest.mark.parametrize(
    ("value", "link"),
    [
        ("https://example.org/a.png", "https://example.org/a.png"),
        ("HTTP://example.org", "HTTP://example.org"),
        ("see https://example.org", None),
        ("javascript:alert(1)", None),
        ("javascript:alert(1)//.png", "../javascript%3Aalert%281%29/.png"),
        ("data:text/html,x", None),
        ("file:///etc/passwd", None),
        ("//evil.example/x", None),
        ("a b/ç#?.JPG", "../a%20b/%C3%A7%23%3F.JPG"),
        ("plain", None),
        ("", None),
    ],
)
def test_what_is_a_link(tmp_path, value, link) -> None:
    entry = entry_of(value, Shown("x", {}, tmp_path, tmp_path / "out"), Room())
    assert entry["text"] == value
    assert entry.get("link") == link


def test_images_are_thumbnails(tmp_path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGBA", (400, 200), (255, 0, 0, 128)).save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no image")
    shown, room = Shown("x", {}, tmp_path, tmp_path / "out"), Room()
    entry = entry_of("a.png", shown, room)
    head, content = room.pictures[entry["image"]].split(",")
    assert head == "data:image/jpeg;base64"
    import io

    image = pillow.open(io.BytesIO(base64.b64decode(content)))
    assert image.size == (96, 48)
    assert np.abs(np.asarray(image)[20, 50].astype(int) - [255, 127, 127]).max() < 6
    assert entry_of("b.png", shown, room) == {"text": "b.png", "link": "../b.png"}
    assert "image" not in entry_of("missing.png", shown, room)
    room.images = 0
    pillow.new("L", (4, 4)).save(tmp_path / "c.png")
    assert "image" not in entry_of("c.png", shown, room)
    assert entry_of("a.png", shown, room)["image"] == 0  # it is there already
    assert len(room.pictures) == 1
    assert [note.split()[0] for note in room.notes()] == ["1", "2"]


def test_without_pillow_images_are_links(tmp_path, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "PIL", None)
    room = Room()
    entry = entry_of("a.png", Shown("x", {}, tmp_path, tmp_path), room)
    assert entry == {"text": "a.png", "link": "a.png"}
    assert "pip install pillow" in room.notes()[0]


@pytest.mark.parametrize("text", ["", "a", "<" * 9, "漢" * 9, "a" * 99, '"\\' * 9, "\0\n\t" * 9])
@pytest.mark.parametrize("longest", [5, 12, 30, 240])
def test_texts_are_cut_to_their_bytes(text, longest) -> None:
    cut = short(text, longest)
    escaped = json.dumps(cut, ensure_ascii=False)[1:-1]
    for letter in "<>&":
        escaped = escaped.replace(letter, "123456")
    assert len(escaped.encode()) <= longest
    assert cut.rstrip("…") == text.translate({0: " ", 9: " ", 10: " "})[: len(cut.rstrip("…"))]
