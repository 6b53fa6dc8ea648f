"""One picture: what is cut out of its file is what Pillow resizes, at full and at reduced scale."""

import gc
import io
import struct
import sys
import weakref
import zlib
from contextlib import suppress

import numpy as np
import pytest

from dualclust.algos.core.errors import InvalidValueError
from dualclust.train.augment.crops import Cut, plain_cut
from dualclust.train.data import picture_files
from dualclust.train.data.image_files import decode_files, head_of
from dualclust.train.data.picture_files import check_file, copy_size, cut_picture, shrunk
from dualclust.train.data.splits import File, Reading
from tests.train.pictures import encoded, picture

Image = pytest.importorskip("PIL.Image")


def file_of(pixels, kind="JPEG", **options):
    return File(f"a.{kind.lower()}", memoryview(encoded(pixels, kind, **options)))


def decoded(file, mode="RGB"):
    with Image.open(io.BytesIO(file.content)) as image:
        return image.convert(mode)


def box_cut(box, size):
    return Cut(box, (size, size), (0, 0), size)


def resized(image, cut):
    """The cut by Pillow alone, of a picture decoded in full."""
    x, y, w, h = cut.box
    filters = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
    part = image.crop((x, y, x + w, y + h)).resize(cut.resized, filters[cut.filter])
    x, y = cut.corner
    return np.asarray(part.crop((x, y, x + cut.size, y + cut.size)))


BOXES = [
    (0, 0, 500, 375),
    (130, 100, 280, 270),
    (499, 374, 1, 1),
    (3, 5, 90, 120),
    (0, 100, 500, 60),
]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_view_is_the_box_resized_with_antialias(kind):
    file = file_of(picture(), kind)
    cuts = [*(box_cut(box, 96) for box in BOXES[2:]), box_cut(BOXES[1], 224)]
    cuts += [plain_cut(500, 375, size=224, fit=fit) for fit in ("crop", "squash", "imagenet")]
    asked = []

    def plan(width, height):
        asked.append((width, height))
        return cuts

    found = cut_picture(file, plan, channels=3)
    assert asked == [(500, 375)]
    for view, cut in zip(found, cuts, strict=True):
        assert view.dtype == np.uint8
        assert np.array_equal(view, resized(decoded(file), cut))


def test_a_view_of_one_to_one_shows_its_pixels_and_no_others():
    pixels = picture(60, 80)
    cut = box_cut((11, 7, 32, 32), 32)
    (found,) = cut_picture(file_of(pixels, "PNG"), lambda *_: [cut], channels=3)
    assert np.array_equal(found, pixels[7:39, 11:43])
    # Nothing beyond the box comes in, however much the view shrinks.
    pixels = np.full((60, 80, 3), 255, np.uint8)
    pixels[8:40, 16:64] = 10
    cut = box_cut((16, 8, 48, 32), 3)
    (found,) = cut_picture(file_of(pixels, "PNG"), lambda *_: [cut], channels=3)
    assert (found == 10).all()


@pytest.fixture
def scales(monkeypatch):
    """By how much JPEG files were reduced when they were decoded."""
    from PIL import JpegImagePlugin

    seen, load = [], JpegImagePlugin.JpegImageFile.load

    def watch(self):
        if self.decoderconfig:
            seen.append(self.decoderconfig[0])
        return load(self)

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "load", watch)
    return seen


@pytest.mark.parametrize("size", [(1500, 2003), (1001, 1003)])
@pytest.mark.parametrize("factor", [2, 4, 8])
def test_reduced_decoding_is_near_to_full_decoding(factor, size, scales):
    """Off by less than the customary filters are from each other: at most 2 of 255 (rms)."""
    height, width = size
    file = file_of(picture(height, width))
    side = (min(size) - 101) // (2 * factor)
    cuts = [box_cut((101, 53, width - 101, height - 57), side - 3)]
    (found,) = cut_picture(file, lambda *_: cuts, channels=3)
    assert set(scales) == {factor}
    full = decoded(file)
    expected = resized(full, cuts[0]).astype(float)
    sharper = resized(full, cuts[0]._replace(filter="bicubic")).astype(float)
    off = np.sqrt(((found - expected) ** 2).mean())
    assert off <= 2.0
    assert off < np.sqrt(((sharper - expected) ** 2).mean())
    # Shifted by a pixel of the view, it would be told.
    shifted = np.sqrt(((found[:, 1:] - expected[:, :-1]) ** 2).mean())
    assert shifted > 2 * off


def test_png_files_are_decoded_in_full_and_small_crops_too(scales):
    pixels = picture(900, 1200)
    cut = box_cut((0, 0, 1200, 900), 64)
    file = file_of(pixels, "PNG")
    (found,) = cut_picture(file, lambda *_: [cut], channels=3)
    assert np.array_equal(found, resized(decoded(file), cut))
    small = box_cut((10, 10, 100, 100), 64)
    cut_picture(file_of(pixels), lambda *_: [cut, small], channels=3)
    assert scales == []


@pytest.mark.parametrize(("kind", "turn"), [("JPEG", 1), ("PNG", 1), ("JPEG", 6)])
def test_a_copy_shows_what_the_picture_shows(kind, turn):
    """The same boxes, in pixels of the full picture; off by less than two filters are."""
    exif = Image.Exif()
    exif[0x0112] = turn
    file = file_of(picture(600, 801), kind, exif=exif)
    copy = File("copy", shrunk(file, 96, channels=3))
    assert copy.content.pixels.shape == ((128, 96, 3) if turn == 6 else (96, 128, 3))
    asked, cuts = [], [box_cut((0, 0, 600, 600), 48), box_cut((211, 93, 301, 377), 48)]

    def plan(*size):
        asked.append(size)
        return cuts

    pairs = zip(*(cut_picture(one, plan, channels=3) for one in (file, copy)), strict=True)
    assert asked == [(600, 801) if turn == 6 else (801, 600)] * 2
    for whole, small in pairs:
        off = np.sqrt(((whole.astype(float) - small) ** 2).mean())
        assert off < 4.5
        shifted = np.sqrt(((whole[:, 1:].astype(float) - small[:, :-1]) ** 2).mean())
        assert shifted > 2 * off
    # What is small already keeps its pixels.
    tiny = picture(40, 50)
    assert np.array_equal(shrunk(file_of(tiny, "PNG"), 96, channels=3).pixels, tiny)


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("size", [32, 160])
def test_boxes_are_of_the_upright_picture(turn, size):
    stored = picture(400, 640)
    exif = Image.Exif()
    exif[0x0112] = turn
    file = file_of(stored, exif=exif)
    upright = {
        1: lambda x: x,
        2: np.fliplr,
        3: lambda x: np.rot90(x, 2),
        4: np.flipud,
        5: lambda x: np.swapaxes(x, 0, 1),
        6: lambda x: np.rot90(x, -1),
        7: lambda x: np.rot90(np.swapaxes(x, 0, 1), 2),
        8: np.rot90,
    }[turn](np.asarray(decoded(file)))
    height, width = upright.shape[:2]
    cut = box_cut((24, 40, width - 72, height - 56), size)
    (found,) = cut_picture(
        file, lambda w, h: [cut] if (w, h) == (width, height) else [], channels=3
    )
    expected = resized(Image.fromarray(np.ascontiguousarray(upright)), cut).astype(float)
    off = np.sqrt(((found - expected) ** 2).mean())
    # In full, the picture is turned and nothing else; at 1/4, see above.
    assert off <= (2.0 if size == 32 else 0.0)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("turn", [3, 6, 8])
def test_every_format_is_turned_upright(kind, turn):
    """Of TIFF, Pillow tells the size of the upright picture beside the note that it is turned."""
    upright = picture(40, 64)
    stored = np.ascontiguousarray(np.rot90(upright, {3: 2, 6: 1, 8: -1}[turn]))
    exif = Image.Exif()
    exif[0x0112] = turn
    stream = io.BytesIO()
    how = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(stored).save(stream, kind, exif=exif, **how)
    file = File(f"a.{kind.lower()}", memoryview(stream.getvalue()))
    assert head_of(file)[1] == (64, 40)
    (found,) = cut_picture(file, lambda w, h: [box_cut((w - 40, 0, 40, h), 40)], channels=3)
    assert np.array_equal(found, upright[:, 24:])


def test_a_png_file_is_not_decoded_for_its_head():
    """Only where its exact size is asked for: a note on orientation may be behind the pixels."""
    content = encoded(picture(400, 640), "PNG")
    half = File("a.png", memoryview(content[: len(content) // 2]))
    assert head_of(half) == (False, (640, 400))
    with pytest.raises(InvalidValueError, match=r"cannot decode a\.png"):
        head_of(half, exact=True)
    at = content.index(b"IEND") - 4
    exif = Image.Exif()
    exif[0x0112] = 6
    note = exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(note)) + b"eXIf" + note
    chunk += struct.pack(">I", zlib.crc32(chunk[4:]))
    late = File("a.png", memoryview(content[:at] + chunk + content[at:]))
    assert head_of(late, exact=True)[1] == (400, 640)
    (found,) = decode_files([late], Reading()).images
    assert np.array_equal(found, np.rot90(picture(400, 640), -1))


def test_modes_become_gray_or_color():
    gray = picture(40, 50, channels=1)
    cut = box_cut((0, 0, 50, 40), 40)
    (one,) = cut_picture(file_of(gray, "PNG"), lambda *_: [cut], channels=1)
    assert one.shape == (40, 40, 1)
    (three,) = cut_picture(file_of(gray, "PNG"), lambda *_: [cut], channels=3)
    assert np.array_equal(three, np.repeat(one, 3, axis=2))
    for mode in ("RGBA", "P", "CMYK", "1", "LA"):
        image = Image.fromarray(picture(40, 50)).convert(mode)
        stream = io.BytesIO()
        image.save(stream, "TIFF" if mode == "CMYK" else "PNG")
        file = File("a", memoryview(stream.getvalue()))
        (view,) = cut_picture(file, lambda *_: [cut], channels=3)
        assert np.array_equal(view, resized(decoded(file), cut))


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_broken_files_are_named(kind):
    content = encoded(picture(), kind)
    cut = box_cut((0, 0, 500, 375), 64)
    words = r"cannot decode photos/7\.jpg: .*\. To fix this: write or copy the picture again$"
    for broken in (content[: len(content) // 2], content[:20], b"", b"no picture"):
        with pytest.raises(InvalidValueError, match=words):
            cut_picture(File("photos/7.jpg", memoryview(broken)), lambda *_: [cut], channels=3)
    with pytest.raises(InvalidValueError, match=r"cannot decode gone\.jpg: .*No such file"):
        cut_picture(File("gone.jpg", "/nowhere/gone.jpg"), lambda *_: [cut], channels=3)


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_of_16_bits_the_upper_eight_are_kept(kind):
    values = np.arange(20 * 30, dtype=np.uint16).reshape(20, 30) * 109
    values[0, 0], values[0, 1] = 0xFFFF, 0  # the ends of what 16 bits hold
    cut = box_cut((0, 0, 20, 20), 20)
    for channels in (1, 3):
        (found,) = cut_picture(file_of(values, kind), lambda *_: [cut], channels=channels)
        assert (found == (values[:, :20, None] >> 8)).all()


def test_deeper_pictures_are_refused():
    for values, mode in ((np.full((5, 5), 0.5, np.float32), "F"), (np.full((5, 5), -1), "I")):
        file = file_of(values.astype(np.float32 if mode == "F" else np.int32), "TIFF")
        match = (
            rf"cannot decode a\.tiff: values of more than 16 bits \({mode}\)\. To fix this, save"
        )
        with pytest.raises(InvalidValueError, match=match):
            cut_picture(file, lambda *_: [box_cut((0, 0, 5, 5), 5)], channels=3)


@pytest.mark.parametrize("wrong", [[0, 0x10000], [-1, 9]])
def test_one_value_beyond_16_bits_is_enough(wrong):
    cut = box_cut((0, 0, 2, 1), 1)
    (found,) = cut_picture(
        file_of(np.array([[0, 0xFFFF]], np.int32), "TIFF"),
        lambda *_: [box_cut((1, 0, 1, 1), 1)],
        channels=1,
    )
    assert found.tolist() == [[[255]]]
    with pytest.raises(InvalidValueError, match=r"values of more than 16 bits \(I\)"):
        cut_picture(file_of(np.array([wrong], np.int32), "TIFF"), lambda *_: [cut], channels=1)


@pytest.mark.parametrize(("side", "factor"), [(201, None), (200, 2), (100, 4), (50, 8)])
def test_a_copy_is_decoded_with_two_pixels_for_one(scales, side, factor):
    copy = shrunk(file_of(picture(800, 1000)), side, channels=3)
    assert copy.pixels.shape[0] == side
    assert copy.size == (1000, 800)
    assert scales == ([] if factor is None else [factor] * len(scales))
    assert bool(scales) == bool(factor)


def test_a_picture_of_too_many_pixels_is_refused_undecoded(scales):
    file = file_of(picture(40, 50))._replace(max_pixels=1999)
    with pytest.raises(InvalidValueError, match=r"a\.jpeg: 50 × 40 pixels.* data\.max_pixels=1999"):
        check_file(file)
    assert scales == []
    check_file(file._replace(max_pixels=2000))


def test_a_strip_may_be_a_thousand_times_as_long_as_wide():
    for shape in ((1, 1000), (1000, 1)):
        check_file(file_of(np.zeros((*shape, 3), np.uint8), "PNG"))
    for shape in ((1, 1001), (1001, 1)):
        with pytest.raises(InvalidValueError, match="no side 1000 times as long as the other"):
            check_file(file_of(np.zeros((*shape, 3), np.uint8), "PNG"))


def test_a_file_is_checked_at_an_eighth_of_its_scale(scales):
    check_file(file_of(picture(80, 96)))
    assert set(scales) == {8}


@pytest.mark.parametrize(
    ("size", "copied"),
    [
        ((4000, 3000), (128, 96)),
        ((600, 803), (96, 128)),  # 128.48
        ((803, 600), (128, 96)),
        ((97, 97), (96, 96)),
        ((96, 4000), (96, 4000)),
        ((95, 99), (95, 99)),
        ((97, 200), (96, 198)),  # 197.9
    ],
)
def test_the_shorter_side_of_a_copy_is_at_most_what_is_asked(size, copied):
    assert copy_size(*size, 96) == copied


def test_who_has_a_phone_s_pictures_learns_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(InvalidValueError, match=r"To fix this: pip install pillow-heif"):
        check_file(File("a.HEIC", memoryview(b"\0\0\0\x18ftypheic")))


def test_a_check_decodes_an_eighth_of_a_jpeg_file(monkeypatch):
    from PIL.JpegImagePlugin import JpegImageFile

    asked, draft = [], JpegImageFile.draft

    def spy(image, mode, size):
        asked.append((mode, size))
        return draft(image, mode, size)

    monkeypatch.setattr(JpegImageFile, "draft", spy)
    check_file(File("a.jpeg", memoryview(encoded(picture(80, 121)))))
    assert asked == [(None, (15, 10))]


def test_kinds_of_pictures_are_those_that_pillow_reads_once_it_has_begun(monkeypatch):
    known, asked = {}, []

    class Heif:
        @staticmethod
        def register_heif_opener():
            known["HEIF"] = None

    monkeypatch.setattr(Image, "OPEN", known)
    monkeypatch.setattr(Image, "init", lambda: known.update(PNG=None, FLI=None))
    monkeypatch.setattr(picture_files, "import_module", lambda name: asked.append(name) or Heif)
    assert set(picture_files._formats.__wrapped__()) == {"PNG", "HEIF"}
    assert asked == ["pillow_heif"]


def test_what_a_refused_picture_held_is_freed_at_once(monkeypatch):
    """Else a folder of damaged pictures fills the memory until the collector of cycles comes."""
    seen = []
    monkeypatch.setattr(
        picture_files, "_check_size", lambda file, image: seen.append(weakref.ref(image))
    )
    content = encoded(picture(64, 48), "PNG")
    cut = box_cut((0, 0, 48, 48), 8)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            with suppress(InvalidValueError):  # which pytest would keep
                cut_picture(File("a", memoryview(content[:-900])), lambda *_: [cut], channels=3)
        assert len(seen) == 3
        assert [ref() for ref in seen] == [None] * 3
    finally:
        gc.enable()
