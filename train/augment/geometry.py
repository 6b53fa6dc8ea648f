"""Resample views of images: affine maps, boxes and displacement fields.

A view has its own frame, from -1 to 1 along each side. An affine map and a displacement field act
there, as on an image of the view's size; then the frame is laid on a box of the image. One
resampling does it all, with each sample's own map.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from .crops import row_like

__all__ = ["affine_matrix", "warp"]


def affine_matrix(
    *,
    angle: torch.Tensor,
    shift_x: torch.Tensor,
    shift_y: torch.Tensor,
    zoom: torch.Tensor,
    shear: torch.Tensor,
    flip: torch.Tensor,
    height: int,
    width: int,
) -> torch.Tensor:
    """Matrix that maps a pixel of the view to the place in the image where it is read.

    The view is the image flipped, then sheared, zoomed, rotated about its center, and shifted.

    Parameters
    ----------
    angle : (b,) tensor, radians, counterclockwise as seen.
    shift_x, shift_y : (b,) tensors, share of width and height; right and down are positive.
    zoom : (b,) tensor, above 0. Magnification: 2 shows the object twice as large.
    shear : (b,) tensor, radians. Angle by which upright lines lean to the right.
    flip : (b,) bool tensor. Whether left and right are exchanged.
    height, width : int, pixels. Angles are angles of pixels, also in an image that is not square.

    Returns
    -------
    theta : (b, 2, 3) tensor, in the coordinates of `torch.nn.functional.affine_grid`.
    """
    cos, sin, lean = torch.cos(angle) / zoom, torch.sin(angle) / zoom, torch.tan(shear)
    sign = 1 - 2 * flip.to(angle.dtype)
    # Undo the steps in reverse: rotation and zoom, then shear, then flip. y points down.
    x_x, x_y = sign * (cos + lean * sin), sign * (lean * cos - sin)
    y_x, y_y = sin, cos
    # The grid runs from -1 to 1 along each side, whatever its length in pixels.
    x_y, y_x = x_y * (height / width), y_x * (width / height)
    dx, dy = 2 * shift_x, 2 * shift_y
    rows = [
        torch.stack([x_x, x_y, -(x_x * dx + x_y * dy)], dim=1),
        torch.stack([y_x, y_y, -(y_x * dx + y_y * dy)], dim=1),
    ]
    return torch.stack(rows, dim=1)


def warp(
    images: torch.Tensor,
    theta: torch.Tensor | None,
    field: torch.Tensor | None = None,
    boxes: torch.Tensor | None = None,
    *,
    size: tuple[int, int] | None = None,
    finer: int = 1,
) -> torch.Tensor:
    """Resample images bilinearly along an affine map, a displacement field and a box.

    A place inside the box interpolates between pixels of the box alone, whose outermost pixels
    extend to its edge. A place outside of the box reads the image around it; beyond the image is 0.

    Parameters
    ----------
    images : (b, c, h, w) float tensor.
    theta : (b, 2, 3) tensor from `affine_matrix`, or None for the identity.
    field : ``(b, 2, *size)`` tensor or None. Displacement (x, y) added, where a side is 2 long.
    boxes : (b, 4) tensor from `crops.crop_boxes`, or None for the whole image.
    size : (height, width) of the view; None: that of the image.
    finer : int. Places read along each side of a pixel of the view, and averaged: a view of fewer
        pixels than its box aliases with one.
    """
    b, c, height, width = images.shape
    rows, columns = (finer * side for side in size or (height, width))
    if theta is None:
        theta = torch.eye(2, 3, dtype=images.dtype, device=images.device).expand(b, 2, 3)
    grid = F.affine_grid(theta, [b, c, rows, columns], align_corners=False)
    if field is not None:
        if finer > 1:
            field = field.repeat_interleave(finer, 2).repeat_interleave(finer, 3)
        grid = grid + field.permute(0, 2, 3, 1)
    if boxes is not None:
        sides = row_like(images, width, height)
        corner, spans = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        edge = 1 - 1 / spans
        inside = torch.minimum(torch.maximum(grid, -edge), edge)
        grid = torch.where(grid.abs() <= 1, inside, grid)
        grid = grid * (spans / sides) + ((2 * corner + spans) / sides - 1)
    views = F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return views if finer == 1 else F.avg_pool2d(views, finer)
