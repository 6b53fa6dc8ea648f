"""How views of images and embeddings may differ from what they show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ...algos.core.errors import UsageError
from .constraints import Angle, Cardinal, Fraction, NonNegative, Positive, Share, Turn
from .schema import Checked, Rule

__all__ = ["AugmentConfig"]

AMOUNTS = (
    *("rotate", "translate", "shear", "brightness", "contrast", "noise", "elastic", "cutout"),
    *("gray", "solarize", "blur", "mask"),
)
"""Settings of a view that are multiplied by its strength."""


@dataclass(frozen=True, slots=True)
class AugmentConfig(Checked):
    """How far a view may differ from its image; by default nothing does (`augment.views`).

    Embeddings take `noise`, `mask` and `neighbors` alone; images take all others, and `noise`.

    Attributes
    ----------
    size : int, 0 or more. Side of the view in pixels; 0: that of the image.
    crop : (float, float), 0 < low <= high <= 1. Share of the image's area that a view shows,
        uniform between the two; (1, 1): all of it.
    ratio : (float, float), 0 < low <= high. Width over height of the crop, log-uniform.
    rotate : float, degrees in [0, 180]. Angle uniform in ±rotate degrees.
    translate : float in [0, 1]. Shift uniform in ±translate of the side, on
        each axis.
    scale : (float, float), 0 < low <= high. Magnification, log-uniform between the two.
    shear : float, degrees in [0, 60]. Horizontal shear angle uniform in ±shear degrees.
    brightness : float >= 0. Offset uniform in ±brightness standard deviations of the data.
    contrast : float in [0, 1]. Factor uniform in 1 ± contrast, about the background.
    noise : float >= 0. Gaussian noise on each value, in standard deviations of the data.
    jitter : (float, float, float, float). Strengths of brightness, contrast, saturation (each 0 or
        more, a factor uniform in 1 ± strength) and hue (in [0, 0.5], turns of the color circle,
        uniform in ± strength), in pixel units from 0 to 1.
    jitter_probability : float in [0, 1]. Probability that a sample is jittered.
    gray : float in [0, 1]. Probability that a sample loses its colors.
    solarize : float in [0, 1]. Probability that a sample's bright half is inverted.
    blur : float in [0, 1]. Probability that a sample is blurred.
    blur_sigma : (float, float), 0 < low <= high. Width of the blur in pixels, uniform.
    cutout : float in [0, 1]. Side of a square replaced by background, as a share of the view's.
    elastic : float in [0, 0.5]. The control points of a smooth random displacement field move
        uniformly in ±elastic of the side along each axis.
    flip : bool. Mirror left to right with probability one half.
    mask : float in [0, 1). Share of the entries of an embedding set to 0, at random.
    neighbors : int, 0 or more. A view of an embedding is made of one of so many nearest samples by
        the cosine, at random, in place of the sample itself; 0: of itself. Finding them takes
        O(n^2 d) once.
    """

    size: Cardinal = 0
    crop: tuple[Positive, Positive] = (1.0, 1.0)
    ratio: tuple[Positive, Positive] = (3 / 4, 4 / 3)
    rotate: Angle = 0.0
    translate: Fraction = 0.0
    scale: tuple[Positive, Positive] = (1.0, 1.0)
    shear: Annotated[float, Rule("between 0 and 60 degrees", lambda x: 0 <= x <= 60)] = 0.0
    brightness: NonNegative = 0.0
    contrast: Fraction = 0.0
    noise: NonNegative = 0.0
    jitter: tuple[NonNegative, NonNegative, NonNegative, Turn] = (0.0, 0.0, 0.0, 0.0)
    jitter_probability: Fraction = 0.8
    gray: Fraction = 0.0
    solarize: Fraction = 0.0
    blur: Fraction = 0.0
    blur_sigma: tuple[Positive, Positive] = (0.1, 2.0)
    cutout: Fraction = 0.0
    elastic: Annotated[float, Rule("between 0 and 0.5", lambda x: 0 <= x <= 0.5)] = 0.0
    flip: bool = False
    mask: Share = 0.0
    neighbors: Cardinal = 0

    def __post_init__(self) -> None:
        Checked.__post_init__(self)
        for name in ("crop", "ratio", "scale", "blur_sigma"):
            low, high = getattr(self, name)
            if low > high:
                msg = (
                    f"{name} must be [low, high] with low <= high, got {[low, high]}"
                    ". To fix this, put the smaller one first"
                )
                raise UsageError(msg)
        if self.crop[1] > 1:
            msg = f"crop must be shares of the image's area, at most 1, got {list(self.crop)}"
            raise UsageError(msg)

    def milder(self, strength: float) -> AugmentConfig:
        """Return views that differ from what they show by this share of what these do.

        Amounts, and the probabilities of gray, solarized and blurred samples, are multiplied; areas
        and magnifications drawn nearer to 1. The probability of jitter, whose amounts are, mirrors,
        the ratio of crops, the width of a blur, the size of the view and neighbors stay.

        Parameters
        ----------
        strength : float in [0, 1]. 1: the same views.

        Examples
        --------
        >>> view = AugmentConfig(rotate=20.0, crop=(0.3, 1.0), scale=(0.81, 1.44)).milder(0.5)
        >>> view.rotate, view.crop, view.scale
        (10.0, (0.65, 1.0), (0.9, 1.2))
        """
        if strength == 1.0:
            return self  # to the last digit
        low, high = self.crop
        brightness, contrast, saturation, hue = (strength * amount for amount in self.jitter)
        return replace(
            self,
            crop=(1.0 - strength * (1.0 - low), 1.0 - strength * (1.0 - high)),
            scale=(self.scale[0] ** strength, self.scale[1] ** strength),
            jitter=(brightness, contrast, saturation, hue),
            **{name: strength * getattr(self, name) for name in AMOUNTS},
        )
