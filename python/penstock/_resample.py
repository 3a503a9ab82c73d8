"""Resampling of one box of pixels to another grid: the numerical core of `read_window`.

Each axis by itself: output pixel i covers source positions [start + i * step, start + (i + 1) * step), where source
pixel k covers [k, k + 1). A kernel gives each source pixel a weight; weights of pixels that are missing (nodata,
masked, beyond the edge) are left out and the others scaled up to a sum of one.

- nearest: the pixel that holds the centre of the output pixel, start + (i + 1/2) * step.
- average: the pixels that the output pixel covers, by the share that it covers of them.
- bilinear: a triangle around the centre that reaches max(1, step) pixels to either side; where the output is coarser
  than the source it grows with the output pixel, so that no source pixel is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

KERNELS = ("nearest", "average", "bilinear")
_SNAP = 1e-9  # pixels: what counts as an edge in spite of rounding


@dataclass(frozen=True)
class Taps:
    """The source pixels of each output pixel along one axis: `first[i] + k` with `weights[i, k]`."""

    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]

    @property
    def span(self) -> tuple[int, int]:
        """The source pixels that matter, [low, high)."""
        return int(np.amin(self.first)), int(np.amax(self.first)) + self.weights.shape[1]


def taps(kernel: str, start: float, step: float, count: int) -> Taps:
    """The taps of `count` output pixels."""
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


def along(values: npt.NDArray[Any], axis_taps: Taps, low: int) -> npt.NDArray[np.float64]:
    """Weighted sums along the last axis, whose first pixel is number `low`; taps beyond the edges count nothing."""
    size = values.shape[-1]
    made = np.zeros((*values.shape[:-1], len(axis_taps.first)))
    for k in range(axis_taps.weights.shape[1]):
        at = axis_taps.first + (k - low)
        weights = np.where((at >= 0) & (at < size), axis_taps.weights[:, k], 0.0)
        used = np.flatnonzero(weights)
        if used.size:
            made[..., used] += values[..., at[used]] * weights[used]
    return made


def down(values: npt.NDArray[Any], axis_taps: Taps, low: int) -> npt.NDArray[np.float64]:
    """As `along`, along the last axis but one."""
    size = values.shape[-2]
    made = np.zeros((*values.shape[:-2], len(axis_taps.first), values.shape[-1]))
    for k in range(axis_taps.weights.shape[1]):
        at = axis_taps.first + (k - low)
        weights = np.where((at >= 0) & (at < size), axis_taps.weights[:, k], 0.0)
        used = np.flatnonzero(weights)
        if used.size:
            made[..., used, :] += values[..., at[used], :] * weights[used, None]
    return made


def resample(
    values: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None,
    rows: Taps,
    columns: Taps,
    low: tuple[int, int],
    by_axis: bool,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Weighted means of (..., y, x) `values`, whose first pixel is `low`, and the weight of what was valid in each.

    `by_axis`: weights are scaled up along x first, then along y over the rows that had something (bilinear, as GDAL
    does); else in both at once. Rows go first where the order does not matter: they lie together in memory.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        if valid is None:
            across = along(np.ones(values.shape[-1]), columns, low[1])
            weight = along(np.ones(values.shape[-2]), rows, low[0])[:, None] * across
            return along(down(values, rows, low[0]), columns, low[1]) / weight, weight
        numbers, known = np.where(valid, values, 0), valid.astype(np.float64)
        if by_axis:
            total, weight = along(numbers, columns, low[1]), along(known, columns, low[1])
            total, weight = np.where(weight > 0, total / weight, 0.0), (weight > 0).astype(np.float64)
            total, weight = down(total, rows, low[0]), down(weight, rows, low[0])
        else:
            total = along(down(numbers, rows, low[0]), columns, low[1])
            weight = along(down(known, rows, low[0]), columns, low[1])
        return total / weight, weight


def store(
    means: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], dtype: np.dtype[Any], missing: Any, nodata: Any
) -> npt.NDArray[Any]:
    """Means in the type of the source: integers rounded (halves up) and cut to the type's range.

    Where nothing was valid they are `missing`. A mean of valid pixels that happens to be `nodata` is moved by the least
    that the type can tell, so that it stays a value.
    """
    empty = np.broadcast_to(weight <= 0, means.shape)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        with np.errstate(invalid="ignore"):
            rounded = np.clip(np.floor(np.where(empty, 0, means) + 0.5), info.min, info.max)
        made = np.where(rounded >= float(info.max), info.max, rounded.astype(dtype)).astype(dtype)
        if nodata is not None:
            made[(made == nodata) & ~empty] = nodata - 1 if nodata == info.max else nodata + 1
    else:
        made = np.where(empty, 0, means).astype(dtype)
        if nodata is not None and nodata == nodata:
            made[(made == nodata) & ~empty] = np.nextafter(dtype.type(nodata), dtype.type(np.inf))
    made[empty] = 0 if missing is None else missing
    return made
