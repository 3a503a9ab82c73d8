"""`read_window`: a rectangle on the ground, on a grid of any size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import held_nodata, plan_window
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from penstock.core.group import Group
from penstock.core.indexing import oindex
from penstock.core.levels import levels_with_place
from penstock.geo.header import TiffHeader
from penstock.geo.masks import Validity
from penstock.geo.resample import KERNELS, Taps, picks, resample, store, taps
from penstock.geo.tiff import TiffArray

_STRIP_ELEMENTS = 1 << 21  # source elements that are resampled at a time, while as many more are read


def read_window(
    a: Array | Group,
    bounds: Sequence[float] | None = None,
    shape: tuple[int, int] | None = None,
    resampling: str = "nearest",
    *,
    fill_value: Any = None,
    transform: Sequence[float] | None = None,
    nodata: Any = None,
    overviews: Sequence[Array] | None = None,
    threads: int | None = None,
    boundless: bool = False,
) -> npt.NDArray[Any]:
    """Read the area within `bounds` on a grid of `shape` pixels, from a suitable overview.

        x = ps.read_window(ps.open("scene.tif"), bounds=(500000, 4990000, 510000, 5000000), shape=(256, 256))

    Parameters
    ----------
    a
        An array whose last dimensions are y and x; or a group whose attributes name levels (OME-Zarr, GeoZarr), which
        determines `overviews` and, from OME-Zarr's scale, `transform`.
    bounds
        (left, bottom, right, top) in the units of `a.crs`, or as `a.bounds` has them; None: the whole array, which
        needs no position. Pixels outside the image get the fill value. If the array has no nodata value, `fill_value`
        must then be given.
    shape
        (rows, columns) of the result; None: as many as the bounds have pixels of the image itself.
    resampling
        "nearest": the pixel at the centre of each result pixel. "average": the mean of the pixels that it covers,
        weighted by area. "bilinear": a triangle that reaches one pixel to each side, or one of the result's if those
        are larger. The latter two exclude missing pixels: masked ones, else nodata, else fully transparent ones. A
        result pixel without any source value gets the fill value. Integers are rounded, halves up.
        `penstock/geo/resample.py` has the formulas. Results equal GDAL's for the same window, with these exceptions.
        GDAL propagates a nodata value of NaN. GDAL ignores source values outside the window in pixels that its edge
        cuts. GDAL averages MINISWHITE images through a colour table. Without resampling, GDAL returns the stored values
        of masked pixels; here these get the fill value, and only transparent pixels keep their stored values unless
        `fill_value` is given. Halves can differ by rounding errors.
    fill_value
        For pixels without a value. None: nodata; without nodata, 0 for missing pixels within the image.
    transform, nodata, overviews
        The position of the array, as coefficients (a, b, c, d, e, f); the value of missing pixels; the same image in
        coarser arrays. None: those of the GeoTIFF.
    boundless
        True permits bounds that are wholly outside the image.
    threads
        Decoding workers; None: the context's.

    Returns
    -------
    An array of (bands, rows, columns) in the image's dtype. The overview is the smallest whose pixels
    are not larger than the result's (by a tenth at most; "nearest": by a fifth), as GDAL chooses. Only tiles under the
    window are read; memory in addition to the result is about 64 MiB.

    Raises
    ------
    InvalidArgumentError
        The bounds are wholly outside the image and `boundless` is False. Or they leave the image and there is neither
        nodata nor `fill_value`.
    UnsupportedError
        The image is rotated, and bounds are given; or its values are not real numbers, or are indexes of a palette, and
        `resampling` is not "nearest".
    """
    if isinstance(a, Group):
        levels, of_group = levels_with_place(a)
        a, overviews = levels[0], levels[1:] if overviews is None else overviews
        transform = of_group if transform is None else transform
    if resampling not in KERNELS:
        raise InvalidArgumentError(f"resampling must be one of {', '.join(KERNELS)}, it is {resampling!r}")
    if _is_engines(a) and all(map(_is_engines, overviews or ())):
        options = {
            "bounds": bounds,
            "shape": shape,
            "resampling": resampling,
            "fill_value": fill_value,
            "transform": transform,
            "nodata": nodata,
            "overviews": overviews,
            "threads": threads,
            "boundless": boundless,
        }
        return _read_by_engine(a, **options)
    is_given = nodata is not None
    nodata = held_nodata(nodata if is_given else getattr(a, "nodata", None), a.dtype)
    if a.format == "tiff" and (a.dimension_names or ())[-2:] != ("y", "x"):
        message = "windows are read of (band, y, x): open the file without layout='native'"
        raise UnsupportedError(message, f"array '{a.uri}'")
    if a.ndim < 2:
        raise InvalidArgumentError(f"an array of shape {a.shape} has no rows and columns", f"array '{a.uri}'")
    window = _Window(0, 0, *a.shape[-2:]) if bounds is None else _Grid.of(a, transform).window(bounds)
    if bounds is not None:
        _check_within(a, window, bounds, boundless, has_fill=fill_value is not None or nodata is not None)
    rows, columns = max(1, round(window.height)), max(1, round(window.width))
    if shape is not None:
        rows, columns = _result_shape(shape)
    factors = [min(a.shape[-1] / width, a.shape[-2] / height) for height, width in _overview_shapes(a, overviews)]
    number = _level(factors, window, rows, columns, resampling)
    level = a if number == 0 else overviews[number - 1] if overviews is not None else _overview(a, number)
    y, x = a.shape[-2] / level.shape[-2], a.shape[-1] / level.shape[-1]
    row_taps = taps(resampling, window.y / y, window.height / y / rows, rows)
    column_taps = taps(resampling, window.x / x, window.width / x / columns, columns)
    missing = fill_value if fill_value is not None else nodata
    made = np.empty((*a.shape[:-2], rows, columns), a.dtype)
    if resampling == "nearest":
        _pick(level, row_taps.first, column_taps.first, 0 if missing is None else missing, made, threads)
        return made
    if a.dtype.kind not in "iuf":
        raise UnsupportedError(f"values of {a.dtype} are read with resampling='nearest' only", f"array '{a.uri}'")
    if isinstance(a, TiffHeader) and a.photometric == "palette":
        message = "indexes of a palette have no mean: read them with resampling='nearest'"
        raise UnsupportedError(message, f"array '{a.uri}'")
    validity = Validity(level) if not is_given and isinstance(level, TiffArray) else None
    bands = np.arange(level.shape[0])[:, None, None] if validity is not None else None

    def valid_of(values: Any, mask: Any) -> Any:
        if validity is not None:
            return validity.of(values, mask, bands)
        return None if nodata is None else ~np.isnan(values) if nodata != nodata else values != nodata

    of_mask = None if validity is None else validity.mask
    rows_of, columns_of = picks(row_taps), picks(column_taps)
    if rows_of is not None and columns_of is not None:
        mask = None
        if of_mask is not None:
            mask = np.empty((of_mask.shape[0], rows, columns), np.uint8)
            _pick(of_mask, rows_of, columns_of, 0, mask, threads)
        _pick(level, rows_of, columns_of, 0 if missing is None else missing, made, threads)
        valid = valid_of(made, mask)
        if valid is not None and not (validity is not None and validity.is_opacity and fill_value is None):
            made[np.broadcast_to(~valid, made.shape)] = 0 if missing is None else missing
        return made
    strips = list(_strips(row_taps, column_taps, made.size // max(1, rows * columns), level.chunks[-2]))
    sources = [_source(level, strip, column_taps) for _, strip in strips]
    reads = _read_each(level, of_mask, [selection for selection, _ in sources], threads)
    for (part, strip), (_, low), (values, mask) in zip(strips, sources, reads, strict=True):
        valid = valid_of(values, mask)
        means, weight = resample(values, valid, strip, column_taps, low, by_axis=resampling == "bilinear")
        made[..., part, :] = store(means, weight, a.dtype, missing, nodata)
    return made


def _is_engines(a: Any) -> bool:
    """Whether the engine reads the array's elements without Python code of its class."""
    return type(a) in (Array, TiffArray) and not a.dtype.hasobject and a.dtype.kind != "T"


def _read_by_engine(a: Array, **options: Any) -> npt.NDArray[Any]:
    """`read_window` of an array that the engine reads."""
    bounds, transform, nodata = options["bounds"], options["transform"], options["nodata"]
    fill_value, overviews = options["fill_value"], options["overviews"]
    if nodata is not None and a.dtype.kind not in "iufc":
        fill_value, nodata = nodata if fill_value is None else fill_value, None
    if options["shape"] is not None:
        options["shape"] = _result_shape(options["shape"])
    item = b""
    if fill_value is not None:
        value = np.empty((), a.dtype)
        value[...] = fill_value
        item = value.tobytes()
    options |= {
        "bounds": None if bounds is None else tuple(float(each) for each in bounds),
        "fill_value": item,
        "transform": None if transform is None else tuple(map(float, tuple(transform)[:6])),
        "nodata": nodata,
        "overviews": None if overviews is None else list(overviews),
        "threads": options["threads"] or 0,
    }
    window = plan_window(a, options)
    made = np.empty(math.prod(window.shape) * a.dtype.itemsize, np.uint8)
    window.read(made)
    return made.view(a.dtype).reshape(window.shape)


@dataclass(frozen=True)
class _Window:
    """In pixels of the full image."""

    y: float
    x: float
    height: float
    width: float


_SLACK = 1e-3  # of a pixel: bounds are computed with rounding errors


def _check_within(a: Array, window: _Window, bounds: Sequence[float], boundless: bool, has_fill: bool) -> None:
    """Refuses windows outside the image, and windows that leave it if there is no value for pixels outside."""
    sides = ((window.y, window.height, a.shape[-2]), (window.x, window.width, a.shape[-1]))
    is_within = all(start >= -_SLACK and start + length <= size + _SLACK for start, length, size in sides)
    overlaps = all(start < size and start + length > 0 for start, length, size in sides)
    if is_within or (has_fill and (overlaps or boundless)):
        return
    epsg = getattr(a, "epsg", None)
    where = f"the image of {a.shape[-2]} x {a.shape[-1]} pixels"
    box = getattr(a, "bounds", None)
    if box is not None:
        where += f", which has bounds {tuple(box)}"
    where += "" if epsg is None else f" in EPSG:{epsg}"
    if not overlaps and not boundless:
        message = f"the bounds {tuple(bounds)} lie outside {where}. Are they of another CRS? "
        message += "boundless=True reads them as fill_value"
    else:
        message = f"the bounds {tuple(bounds)} leave {where}. It has no nodata value: give fill_value="
    raise InvalidArgumentError(message, f"array '{a.uri}'")


@dataclass(frozen=True)
class _Grid:
    """The position of an image that is not rotated."""

    left: float
    top: float
    dx: float
    dy: float

    @classmethod
    def of(cls, a: Array, transform: Sequence[float] | None) -> _Grid:
        transform = getattr(a, "transform", None) if transform is None else transform
        if transform is None:
            raise InvalidArgumentError("the array does not know where it lies: it has no transform", f"array '{a.uri}'")
        dx, xy, left, yx, dy, top = tuple(transform)[:6]
        if xy != 0 or yx != 0:
            raise UnsupportedError("the image is rotated: bounds are not a rectangle of its pixels", f"array '{a.uri}'")
        if not (dx and dy and all(map(math.isfinite, (dx, dy, left, top)))):
            message = f"the array's transform {tuple(transform)[:6]} gives its pixels no place and size"
            raise InvalidArgumentError(message, f"array '{a.uri}'")
        return cls(left, top, dx, dy)

    def window(self, bounds: Sequence[float]) -> _Window:
        left, bottom, right, top = (float(each) for each in bounds)
        columns = sorted(((left - self.left) / self.dx, (right - self.left) / self.dx))
        rows = sorted(((bottom - self.top) / self.dy, (top - self.top) / self.dy))
        # `.bounds` of an image whose first row or column is the southern or eastern one begins with that side.
        in_order = (left < right or self.dx < 0) and (bottom < top or self.dy > 0)
        if not (in_order and left != right and bottom != top and all(map(math.isfinite, (*columns, *rows)))):
            raise InvalidArgumentError(f"bounds are (left, bottom, right, top), they are {tuple(bounds)}")
        return _Window(rows[0], columns[0], rows[1] - rows[0], columns[1] - columns[0])


def _result_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if len(shape) != 2 or any(int(each) != each or each < 1 for each in shape):
        raise InvalidArgumentError(f"shape is (rows, columns) of 1 or more, it is {shape}")
    return int(shape[0]), int(shape[1])


def _overview_shapes(a: Array, overviews: Sequence[Array] | None) -> list[tuple[int, int]]:
    if overviews is not None:
        return [(each.shape[-2], each.shape[-1]) for each in overviews]
    return list(getattr(a, "overviews", ())[_level_of(a) :])


def _level_of(a: Any) -> int:
    level: int = (getattr(a, "_options", None) or {}).get("level", 0)
    return level


def _overview(a: Any, number: int) -> Any:
    """The overview that is `number` levels below `a`; for a mask, the nearest above it that the file has."""
    is_mask = (a._options or {}).get("mask", False)
    for level in range(number, 0, -1):
        try:
            return _image(a, level=_level_of(a) + level)
        except NotFoundError:
            if not is_mask:
                raise
    return a


def _image(a: Any, **options: Any) -> Array:
    made: Array = a._image(**options)
    return made


def _level(factors: list[float], window: _Window, rows: int, columns: int, resampling: str) -> int:
    """0, or the number of the overview that is nearly as coarse as the result: GDAL's rule and its constants."""
    wanted = min(window.height / rows, window.width / columns) * (1.2 if resampling == "nearest" else 1.0) + 0.1
    best, best_factor = 0, 1.0
    for number, factor in enumerate(factors, 1):
        if best_factor < factor < wanted:
            best, best_factor = number, factor
    return best


def _pick(
    level: Array,
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    missing: Any,
    made: npt.NDArray[Any],
    threads: int | None,
) -> None:
    inside = [(at >= 0) & (at < size) for at, size in zip((rows, columns), level.shape[-2:], strict=True)]
    if not all(each.all() for each in inside):
        made[...] = missing
    if not all(each.any() for each in inside):
        return
    (top, bottom), (left, right) = (np.flatnonzero(each)[[0, -1]] for each in inside)
    everything = (slice(None),) * (len(level.shape) - 2)
    selection = oindex[(*everything, _as_slice(rows[inside[0]]), _as_slice(columns[inside[1]]))]
    made[..., top : bottom + 1, left : right + 1] = level.read(selection, threads=threads)


def _as_slice(at: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """Adjacent rows as a slice, which is read without a list."""
    if at[-1] - at[0] == len(at) - 1:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at


def _strips(rows: Taps, columns: Taps, planes: int, chunk_rows: int) -> Iterator[tuple[slice, Taps]]:
    """Output rows whose source fits into memory, with their weights; whole rows of chunks if they fit."""
    low, high = columns.span
    source_rows = max(1, _STRIP_ELEMENTS // max(1, planes * (high - low)))
    start = 0
    while start < len(rows.first):
        end = rows.first[start] + source_rows
        for last in (end // chunk_rows * chunk_rows, end):
            stop = int(np.searchsorted(rows.first, last - rows.weights.shape[1], "right"))
            if stop > start:
                break
        stop = max(start + 1, stop)
        yield slice(start, stop), Taps(rows.first[start:stop], rows.weights[start:stop])
        start = stop


def _read_each(
    level: Array, of_mask: Any, selections: Sequence[Any], threads: int | None
) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any] | None]]:
    """The values of each selection, and its mask; the next one is read while the last one is used."""

    def start(image: Any, number: int) -> Any:
        if not hasattr(image, "read_async"):  # no mask, or an unpacked image
            return None
        return image.read_async(selections[number], threads=threads)

    values, mask = None, start(of_mask, 0)
    for number, selection in enumerate(selections):
        found = level.read(selection, threads=threads) if values is None else values.wait()
        valid = None if mask is None else mask.wait()
        if number + 1 < len(selections):
            values, mask = start(level, number + 1), start(of_mask, number + 1)
        yield found, valid


def _source(level: Array, rows: Taps, columns: Taps) -> tuple[tuple[Any, slice, slice], tuple[int, int]]:
    """The source pixels of some output rows, and the position of the first one."""
    (top, bottom), (left, right) = (
        (min(max(low, 0), size), min(max(high, 0), size))
        for (low, high), size in zip((rows.span, columns.span), level.shape[-2:], strict=True)
    )
    return (..., slice(top, bottom), slice(left, right)), (top, left)
