"""Pictures for tests: like photographs in that most of their energy is at low frequencies."""

import io
from functools import lru_cache

import numpy as np
from PIL import Image


@lru_cache
def picture(height=375, width=500, *, seed=0, channels=3):
    """Noise whose amplitude falls with frequency, and a few rectangles with sharp edges."""
    rng = np.random.default_rng(seed)
    y, x = np.fft.fftfreq(height)[:, None, None], np.fft.rfftfreq(width)[None, :, None]
    falling = 1 / np.maximum(np.hypot(y, x), 1 / max(height, width))
    noise = np.fft.rfft2(rng.normal(size=(height, width, channels)), axes=(0, 1))
    values = np.fft.irfft2(noise * falling, s=(height, width), axes=(0, 1))
    values = 128 + 45 * values / values.std()
    for _ in range(6):
        top, left = rng.integers(0, height), rng.integers(0, width)
        h, w = rng.integers(2, max(3, height // 2)), rng.integers(2, max(3, width // 2))
        values[top : top + h, left : left + w] += rng.normal(0, 40, channels)
    pixels = np.clip(values, 0, 255).astype(np.uint8)
    pixels.flags.writeable = False
    return pixels if channels > 1 else pixels[:, :, 0]


def encoded(pixels, kind="JPEG", **options):
    """Bytes of a file of these pixels."""
    stream = io.BytesIO()
    if kind == "JPEG":
        options = {"quality": 92, **options}
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def write_folder(folder, n=24, classes=4, *, height=30, width=40, kind="JPEG"):
    """Write pictures of different sizes into sub-folders of classes; returns the folder."""
    for i in range(n):
        place = folder / f"class{i % classes}"
        place.mkdir(parents=True, exist_ok=True)
        pixels = picture(height + i % 5, width + i % 7, seed=i)
        (place / f"{i:03}.{kind.lower()}").write_bytes(encoded(pixels, kind))
    return folder
