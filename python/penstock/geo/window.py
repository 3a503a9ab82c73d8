"""`read_window`: a rectangle on the ground, on a grid of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock._core import WindowReader, _levels_of, plan_window
from penstock.core.array import Array, Progress
from penstock.core.errors import InvalidArgumentError
from penstock.core.group import Group
from penstock.core.indexing import oindex
from penstock.core.levels import levels_with_place
from penstock.core.progress import callback_of
from penstock.geo import placed
from penstock.geo.masks import fill_item
from penstock.geo.unpacked import UnpackedArray

RESAMPLINGS = ("nearest", "average", "bilinear")


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
    progress: Progress | bool | None = None,
) -> npt.NDArray[Any]:
    """Read the area within `bounds` on a grid of `shape` pixels, from a suitable overview.

    Parameters
    ----------
    a
        An array whose last dimensions are y and x; a group whose attributes name levels (OME-Zarr, GeoZarr), which
        determines `overviews` and, from OME-Zarr's scale, `transform`; or a group with one image, as `convert` writes.
    bounds
        (left, bottom, right, top) in the units of `a.crs`, or as `a.bounds` has them; None: the whole array, which
        needs no position. Pixels outside the image get the fill value. If the array has no nodata value, `fill_value`
        must then be given.
    shape
        (rows, columns) of the result; None: as many as the bounds have pixels of the image itself.
    resampling
        "nearest": the pixel at the centre of each result pixel. "average": the mean of the pixels that it covers,
        weighted by area. "bilinear": a triangle that reaches one pixel to each side, or one of the result's if those
        are larger. The latter two exclude missing pixels: masked ones, else nodata, else fully transparent ones; of an
        image with `unpack=True` those that are NaN. A result pixel without any source value gets the fill value.
        Integers are rounded, halves up. C++'s `penstock/window.h` has the formulas (`resampling`). Results equal
        GDAL's for the same window, with these exceptions. GDAL propagates a nodata value of NaN. GDAL ignores source
        values outside the window in pixels that its edge cuts. GDAL averages MINISWHITE images through a colour table.
        Without resampling, GDAL returns the stored values of masked pixels; here these get the fill value, and only
        transparent pixels keep their stored values unless `fill_value` is given. Halves can differ by rounding errors.
    fill_value
        For pixels without a value. None: nodata; without nodata, 0 for missing pixels within the image.
    transform, nodata, overviews
        The position of the array, as coefficients (a, b, c, d, e, f); the value of missing pixels; the same image in
        coarser arrays. None: those of the GeoTIFF; of an array with the attribute `grid_mapping`, those of the mapping,
        or of the coordinates, and of `_FillValue`.
    boundless
        True permits bounds that are wholly outside the image.
    threads
        Decoding workers; None: the context's.
    progress
        True: a line on stderr, or a bar in a notebook. A function: called with (bytes done, bytes in all) of the pixels
        that are read. Returning False stops (`CancelledError`).

    Returns
    -------
    numpy.ndarray
        Of shape (bands, rows, columns), in the image's dtype. The overview is the smallest whose pixels are not larger
        than the result's (by a tenth at most; "nearest": by a fifth), as GDAL chooses. Only tiles under the window are
        read; memory in addition to the result is about 64 MiB.

    Raises
    ------
    InvalidArgumentError
        The bounds are wholly outside the image and `boundless` is False. Or they exceed the image and there is neither
        nodata nor `fill_value`. Or the image's integers do not have the value `fill_value`.
    UnsupportedError
        The image is rotated, and bounds are given; or its values are not real numbers, or are indexes of a palette, and
        `resampling` is not "nearest".

    Examples
    --------
    A preview of a part of a scene:

    >>> x = np.zeros((3, 1024, 1024), "u2")
    >>> ps.save("scene.tif", x, crs=32633, transform=(10, 0, 500000, 0, -10, 5000000))
    >>> scene = ps.open("scene.tif")
    >>> ps.read_window(scene, bounds=(501000, 4992000, 506000, 4997000), shape=(64, 64), resampling="average").shape
    (3, 64, 64)

    Pixels outside of the image need a value:

    >>> around = ps.read_window(scene, (499900, 4999900, 500100, 5000100), fill_value=9)
    >>> around[0, [0, -1], [0, -1]]
    array([9, 0], dtype=uint16)
    """
    image = placed.image_in(a) if isinstance(a, Group) and not _levels_of(a) else None
    a = a if image is None else image
    if isinstance(a, Group):
        levels, of_group = levels_with_place(a)
        a, overviews = levels[0], levels[1:] if overviews is None else overviews
        transform = of_group if transform is None else transform
    if not isinstance(a, Array | UnpackedArray):
        raise InvalidArgumentError(f"read_window takes an array or a group that is open, got {type(a).__name__}")
    if isinstance(a, Array) and "grid_mapping" in a.attrs:
        if transform is None and bounds is not None:
            transform = placed.transform_of(a)
        nodata = placed.nodata_of(a, a.attrs.asdict()) if nodata is None else nodata
    if resampling not in RESAMPLINGS:
        raise InvalidArgumentError(f"resampling must be one of {', '.join(RESAMPLINGS)}, got {resampling!r}")
    if nodata is not None and a.dtype.kind not in "iufc":
        fill_value, nodata = nodata if fill_value is None else fill_value, None
    options = {
        "bounds": None if bounds is None else _four_numbers(bounds),
        "shape": None if shape is None else _result_shape(shape),
        "resampling": resampling,
        "fill_value": b"" if fill_value is None else _item(fill_value, a.dtype),
        "transform": None if transform is None else tuple(map(float, tuple(transform)[:6])),
        "nodata": nodata,
        "overviews": None if overviews is None else [_image(each) for each in overviews],
        "threads": threads or 0,
        "boundless": boundless,
    }
    window = plan_window(_image(a), options)
    report = callback_of(progress, "reading")
    if _has_objects(a.dtype):
        return _read_objects(window, a.dtype, fill_value, threads, report)
    made = np.empty(math.prod(window.shape) * a.dtype.itemsize, np.uint8)
    window.read(made, report)
    return made.view(a.dtype).reshape(window.shape)


def _image(a: Any) -> Any:
    return a._engine_image if isinstance(a, UnpackedArray) else a


def _four_numbers(bounds: Sequence[float]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(each) for each in bounds)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) != 4:
        raise InvalidArgumentError(f"bounds must be (left, bottom, right, top), got {bounds!r}")
    return numbers


def _result_shape(shape: tuple[int, int]) -> tuple[int, int]:
    if not hasattr(shape, "__len__"):
        raise InvalidArgumentError(f"shape must be (rows, columns), got {shape!r}")
    if len(shape) != 2 or any(int(each) != each or each < 1 for each in shape):
        raise InvalidArgumentError(f"shape must be (rows, columns) of 1 or more, got {shape}")
    return int(shape[0]), int(shape[1])


def _has_objects(dtype: np.dtype[Any]) -> bool:
    return dtype.hasobject or dtype.kind == "T"


def _item(value: Any, dtype: np.dtype[Any]) -> bytes:
    """One item in the form of C++; for objects, only whether it exists."""
    return bytes(16) if _has_objects(dtype) else fill_item(value, dtype).tobytes()


def _read_objects(
    window: WindowReader, dtype: np.dtype[Any], fill_value: Any, threads: int | None, progress: Progress | None
) -> npt.NDArray[Any]:
    """Elements that are Python objects: the pixels that "nearest" selects."""
    level = Array(window.level)
    made = np.full(window.shape, 0 if fill_value is None else fill_value, dtype)
    places = [np.array(each, np.int64) for each in window.nearest]
    inside = [np.flatnonzero((at >= 0) & (at < size)) for at, size in zip(places, level.shape[-2:], strict=True)]
    rows, columns = (at[each] for at, each in zip(places, inside, strict=True))
    if len(rows) and len(columns):
        everything = (slice(None),) * (level.ndim - 2)
        where: Any = (..., *np.ix_(*inside))
        made[where] = level.read(oindex[(*everything, rows, columns)], threads=threads, progress=progress)
    return made
