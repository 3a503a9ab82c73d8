"""Resampling of one box of pixels to another grid: the numerical core of `read_window`.

Each axis is resampled on its own: output pixel i covers source positions [start + i * step, start + (i + 1) * step),
where source pixel k covers [k, k + 1). A kernel gives each source pixel a weight; weights of pixels that are missing
(nodata, masked, beyond the edge) are omitted, and the others are scaled to a sum of one.

- nearest: the pixel that holds the centre of the output pixel, start + (i + 1/2) * step.
- average: the pixels that the output pixel covers, weighted by the covered share.
- bilinear: a triangle around the centre that reaches max(1, step) pixels to either side; if the output is coarser than
  the source it grows with the output pixel, so that no source pixel is skipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core

KERNELS = ("nearest", "average", "bilinear")
_SNAP = 1e-9  # pixels: what counts as an edge in spite of rounding


@dataclass(frozen=True)
class Taps:
    """The source pixels of each output pixel along one axis: `first[i] + k` with `weights[i, k]`."""

    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]

    @property
    def span(self) -> tuple[int, int]:
        """The range of source pixels with a weight, [low, high)."""
        return int(np.amin(self.first)), int(np.amax(self.first)) + self.weights.shape[1]


def taps(kernel: str, start: float, step: float, count: int) -> Taps:
    """The weights of `count` output pixels."""
    edges = start + step * np.arange(count + 1)
    edges = np.where(np.abs(edges - np.round(edges)) < _SNAP, np.round(edges), edges)
    if kernel == "nearest":
        centres = start + step * (np.arange(count) + 0.5)
        return Taps(np.floor(centres + _SNAP).astype(np.int64), np.ones((count, 1)))
    if kernel == "average":
        low, high = edges[:-1], edges[1:]
    else:
        centres, reach = (edges[:-1] + edges[1:]) / 2, max(1.0, step)
        low, high = centres - reach, centres + reach
    first = np.floor(low).astype(np.int64)
    width = max(1, int(np.amax(np.ceil(high) - first)))
    pixels = first[:, None] + np.arange(width)
    if kernel == "average":
        weights = np.minimum(high[:, None], pixels + 1) - np.maximum(low[:, None], pixels)
    else:
        weights = 1 - np.abs(pixels + 0.5 - centres[:, None]) / reach
    return Taps(first, np.maximum(weights, 0.0))


def picks(of: Taps) -> npt.NDArray[np.int64] | None:
    """The one source pixel for each output pixel: a copy, with any kernel. None if an output pixel has several."""
    is_used = of.weights > 0
    return of.first + is_used.argmax(axis=1) if (is_used.sum(axis=1) == 1).all() else None


def resample(
    values: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None,
    rows: Taps,
    columns: Taps,
    low: tuple[int, int],
    by_axis: bool,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weighted means of (..., y, x) `values`, whose first pixel is `low`, and the weight of the valid pixels in each.

    `by_axis`: weights are scaled along x first, then along y over the rows with valid pixels (bilinear, as GDAL does);
    otherwise in both at once. Pixels beyond the edges have no weight.
    """
    lead, shape = values.shape[:-2], (len(rows.first), len(columns.first))
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    planes = np.ascontiguousarray(values).reshape(math.prod(lead), *values.shape[-2:])
    flags = None
    if valid is not None:
        flags = np.ascontiguousarray(valid).view(np.uint8).reshape(math.prod(valid.shape[:-2]), *valid.shape[-2:])
    means = np.empty((len(planes), *shape))
    weight = np.empty((1 if flags is None else len(planes), *shape))
    _core.weighted_means(
        planes, flags, rows.first, rows.weights, low[0], columns.first, columns.weights, low[1], by_axis, means, weight
    )
    return means.reshape(*lead, *shape), weight[0] if flags is None else weight.reshape(*lead, *shape)


def store(
    means: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], dtype: np.dtype[Any], missing: Any, nodata: Any
) -> npt.NDArray[Any]:
    """Means in the type of the source: integers rounded (halves up) and cut to the type's range.

    Without valid pixels they are `missing`. A mean of valid pixels that equals `nodata` is changed to the nearest other
    value of the type, so that it stays a value.
    """
    held = dtype
    if dtype == np.float16:
        means, held = means.astype(np.float16).astype(np.float64), np.dtype(np.float32)
    instead = None
    if nodata is not None and nodata == nodata:
        if dtype.kind in "iu":
            next_to = nodata - 1 if nodata == np.iinfo(dtype).max else nodata + 1
        else:
            next_to = np.nextafter(dtype.type(nodata), dtype.type(np.inf))
        instead = np.array([nodata, next_to], dtype).astype(held)
    made = np.empty(means.shape, held)
    planes = (-1, *means.shape[-2:])
    has_nothing = _core.store_means(means.reshape(planes), weight.reshape(planes), made.reshape(planes), instead)
    made = made.astype(dtype, copy=False)
    if has_nothing:
        made[np.broadcast_to(weight <= 0, made.shape)] = 0 if missing is None else missing
    return made
