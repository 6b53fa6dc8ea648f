"""Data: samples read from a built-in set, arrays, archives or folders of pictures, and normalized.

`load_source` in `samples` is the way in, and returns images, embeddings, or pictures that stay in
their files (`pictures`) or in copies on disk (`copies`); `look_at` looks first. `sources` chooses
the reader (`archives`, `image_files`); `long_tail`, `arrays` and `input_scale` take subsets and
normalize.
"""

from .input_scale import INPUT_SCALES, InputScale, rescaled
from .look import Look, look_at
from .pictures import PictureData, picture_data
from .samples import EmbeddingData, ImageData, Samples, embedding_data, image_data, load_source

__all__ = [
    "INPUT_SCALES",
    "EmbeddingData",
    "ImageData",
    "InputScale",
    "Look",
    "PictureData",
    "Samples",
    "embedding_data",
    "image_data",
    "load_source",
    "look_at",
    "picture_data",
    "rescaled",
]
