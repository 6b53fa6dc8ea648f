"""What to cluster: where samples come from, and how files become images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from .constraints import Cardinal, Name, Ratio, one_of
from .schema import Checked, Rule

__all__ = ["FITS", "MOST_PIXELS", "DataConfig"]

FITS = ("crop", "crop-bilinear", "squash", "imagenet")
"""How a whole picture becomes a square; see `DataConfig`."""

MOST_PIXELS = 178_956_970
"""Pixels above which Pillow itself refuses a picture, as one that is made to fill the memory."""

_Pixels = Annotated[
    int, Rule(f"an integer in [1, {MOST_PIXELS + 1})", lambda x: 1 <= x <= MOST_PIXELS)
]


@dataclass(frozen=True, slots=True)
class DataConfig(Checked):
    """What to cluster.

    Attributes
    ----------
    source : str. ``"digits"`` (built in) or a path; see `data.load_source`.
    split : ``"train"``, ``"test"``, ``"unlabeled"``, ``"train+unlabeled"``, ``"all"`` (train and
        test) or ``"auto"``. What to train on and cluster, of sources that come split; ``"auto"``
        takes the training images, and all of a source without splits.
    test : ``"none"`` or ``"test"``. ``"test"`` also scores the test images, which training never
        sees, by the clusters of the training images (protocol of SCAN and SeCu).
    classes : ``"fine"`` or ``"coarse"``. Which classes the clusters are compared with where a
        source has two sets, as CIFAR-100 has 100 classes in 20 superclasses.
    folders : ``"names"`` or ``"classes"``. What the sub-folders of a folder of images are: parts of
        the names of its images, or the classes that clusters are compared with.
    bad : ``"skip"`` or ``"stop"``. What happens at a picture file that cannot be decoded.
        ``"skip"`` decodes each file at the start and leaves out the bad ones (``skipped.csv`` in
        the run folder lists them); ``"stop"`` refuses the first, where it is met.
    max_pixels : int in [1, 178956970]. Pictures with more pixels are bad.
    size : int, 0 or more. Side in pixels to which the images of a folder are brought, as `fit`
        says. 0: they all have one size already.
    fit : ``"crop"``, ``"crop-bilinear"``, ``"squash"`` or ``"imagenet"``. What a view without a
        random crop shows, and prediction. ``"crop"``: the shorter side is resized to `size`, by a
        bicubic filter, and the middle is kept; ``"crop-bilinear"``: the same by a bilinear one;
        ``"squash"``: both sides are resized to `size`; ``"imagenet"``: the shorter side is resized
        to 256/224 of `size` and the middle is kept, as is usual to evaluate on ImageNet.
    decode : ``"views"``, ``"copies"``, ``"once"`` or ``"auto"``. ``"views"``: picture files stay as
        they are, and each view is cut out of the whole picture, decoded anew, ahead of the step;
        ``"copies"``: the same boxes are cut, of whole copies whose shorter side is twice that of a
        view, which are decoded once and kept on disk (`data.copies`); ``"once"``: pictures are
        decoded at the start, and the squares that `fit` makes are all that is kept, for random
        crops too; ``"auto"``: ``"views"`` where the source is picture files, `size` is set and the
        settings ask for a random crop, else ``"once"``. Never a matter of how much memory there
        is: they draw different views.
    workers : int, 0 or more. Threads that decode pictures for ``"views"`` and ``"copies"``; 0: one
        for each CPU that the process may use. The views do not depend on it.
    normalization : ``"own"``, or constants of a released script by name (`input_scale`):
        ``"cifar10"``, ``"cifar100"``, ``"imagenet"``, ``"imagenet-gray"``, ``"none"``. What is
        subtracted from images and what they are divided by: by default the mean and deviation of
        the training images, by channel.
    standardize : bool. Whether each column of embeddings is brought to mean 0 and deviation 1.
    imbalance : float, 1 or more. Size of the largest class over the smallest in a long-tailed
        subset (CIFAR-LT); 1 keeps every image. Reads the classes, to build the subset only.
    limit : int, 0 or more. Keep this many images, drawn by the run's seed; 0 keeps all.
    resident : ``"auto"``, ``"always"`` or ``"never"``. Whether the samples live on the training
        device; ``"auto"``: where they take at most 60 % of its free memory.
    """

    source: Name = "digits"
    split: Annotated[
        str, one_of("auto", "train", "test", "unlabeled", "train+unlabeled", "all")
    ] = "auto"
    test: Annotated[str, one_of("none", "test")] = "none"
    classes: Annotated[str, one_of("fine", "coarse")] = "fine"
    folders: Annotated[str, one_of("names", "classes")] = "names"
    bad: Annotated[str, one_of("skip", "stop")] = "skip"
    max_pixels: _Pixels = MOST_PIXELS
    size: Cardinal = 0
    normalization: Annotated[
        str, one_of("own", "cifar10", "cifar100", "imagenet", "imagenet-gray", "none")
    ] = "own"
    fit: Annotated[str, one_of(*FITS)] = "crop"
    decode: Annotated[str, one_of("auto", "once", "views", "copies")] = "auto"
    workers: Cardinal = 0
    standardize: bool = False
    imbalance: Ratio = 1.0
    limit: Cardinal = 0
    resident: Annotated[str, one_of("auto", "always", "never")] = "auto"
