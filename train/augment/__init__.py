"""Augmentation: views of a batch of images or embeddings, each sample by its own random numbers.

`views` draws a view as an `AugmentConfig` says, `geometry` computes where in an image it is read,
`color` changes colors and sharpness, and `crops` draws the boxes: of a batch, or of pictures that
stay in files.
"""

from .crops import Cut, crop_boxes, plain_cut, random_cut
from .geometry import affine_matrix, warp
from .views import augment

__all__ = ["Cut", "affine_matrix", "augment", "crop_boxes", "plain_cut", "random_cut", "warp"]
