"""New TIFFs: Cloud Optimized GeoTIFFs, written in rows of tiles."""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core import device as _device
from penstock.core import registry
from penstock.core.array import Array
from penstock.core.context import Context, current_context
from penstock.core.data_types import as_ndarray, is_masked_array
from penstock.core.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from penstock.core.progress import Shares, callback_of
from penstock.core.sizes import counted
from penstock.core.writing import as_value
from penstock.geo.new_system import system_of
from penstock.geo.tiff_options import TiffOptions
from penstock.target.place import place_of

_COMPRESSIONS = {None: "none", "uncompressed": "none", "zlib": "deflate", "zstandard": "zstd", "lzma2": "lzma"}
_PHOTOMETRICS = {"minisblack": 1, "miniswhite": 0, "rgb": 2}
# Bytes that are read from other objects at a time, unless a row of tiles is larger.
_PIECE_BYTES = 32 << 20


class TiffWriter:
    """A TIFF that is being written. Made by `penstock.create_array`.

    `a[:, y0:y1, :] = values` writes whole rows of tiles, each once, in any order.

    `close`, or the end of a `with` block, stores the file; until then an existing one is unchanged. After an exception
    within the block, or if the writer is dropped without `close`, it stays unchanged. Rows that were never written are
    nodata, or 0.

    Examples
    --------
    A scene of any height, written by rows of tiles, with its overviews:

    >>> with ps.create_array("scene.tif", shape=(1, 2048, 2048), dtype="u2", tiles=(512, 512), crs=32633,
    ...                      transform=(10, 0, 5e5, 0, -10, 5e6)) as w:
    ...     for y in range(0, 2048, 512):
    ...         w[:, y : y + 512] = np.full((1, 512, 2048), y, "u2")
    >>> w.overviews, w.closed
    ((2, 4), True)
    >>> int(ps.open("scene.tif", level=1)[0, 300, 0])
    512
    """

    format = "tiff"
    read_only = False

    def __init__(
        self, core: _core.TiffWriter, shape: tuple[int, ...], dtype: np.dtype[Any], tiles: tuple[int, int], place: str
    ) -> None:
        """Made by `create_array`."""
        self._core, self.shape, self.dtype, self.uri = core, shape, dtype, place
        self._tiles = tiles

    def __repr__(self) -> str:
        state = "closed" if self.closed else "under way"
        return f"<penstock.TiffWriter '{self.uri}' {self.shape} {self.dtype}, {state}>"

    @property
    def ndim(self) -> int:
        """Number of dimensions: 3, or 2 if the shape has two."""
        return len(self.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Rows and columns of a tile, after the bands that share it."""
        bands = () if self.ndim == 2 else (1 if self._planar else self.shape[0],)
        return (*bands, *self._tiles)

    _planar = False
    _nodata: float | None = None

    @property
    def overviews(self) -> tuple[int, ...]:
        """The factor by which each overview is smaller."""
        return self._core.overviews

    @property
    def closed(self) -> bool:
        """The file is stored, or was discarded."""
        return self._core.closed

    def __getitem__(self, key: Any) -> Any:
        raise UnsupportedError(f"'{self.uri}' is being written: close it, then open it to read")

    def __array__(self, *unused: Any, **unused_too: Any) -> Any:
        """Refused: there are no values yet."""
        return self[...]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(key, value)

    def write(self, selection: Any, value: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> None:
        """Write `value` to `selection`, as `w[selection] = value` does.

        Parameters
        ----------
        selection
            Rows with all columns, step 1. They start at the first row of a tile and end at the last row of a tile or of
            the image. All bands at once, unless each has tiles of its own (`interleave="band"`) and no mask exists.
        value
            Anything that NumPy would assign: it is cast to the image's dtype and broadcast. Masked elements of a
            `numpy.ma` array become nodata.
        mask
            For files that are created with one: shape (rows, columns), 0 or False is not valid. None: all pixels are
            valid.

        Raises
        ------
        InvalidArgumentError
            The selection, the value or the mask does not fit, or the writer is closed. `value` has masked elements,
            and there is neither nodata nor `mask`.
        OutOfRangeError
            An index exceeds the image.

        Examples
        --------
        >>> with ps.create_array("scene.tif", shape=(1, 64, 64), dtype="u2", tiles=(32, 32), mask=True) as w:
        ...     w.write(np.s_[:, :32], np.ones((1, 32, 64)), mask=np.arange(64) % 2 * np.ones((32, 1), bool))
        ...     w.write(np.s_[:, 32:], 2)
        >>> ps.open("scene.tif", mask=True)[0, 0, :4]
        array([  0, 255,   0, 255], dtype=uint8)
        """
        bands, rows = self._resolve(selection)
        shape = (bands.stop - bands.start, rows.stop - rows.start, self.shape[-1])
        if not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
            value = as_ndarray(value)
        if is_masked_array(value):
            value = self._filled(value, mask is not None)
        # As in NumPy: the shape of the selection has no axes that an integer dropped.
        items = as_value(value, self.dtype, shape)
        valid = None if mask is None else mask_bytes(mask, shape[1:])
        self._core.write(bands.start, rows.start, items, valid)

    def close(self) -> None:
        """Complete the overviews, and store the file.

        If the store refused the file, the call may be repeated; after success, a second call does nothing.

        Raises
        ------
        StorageError, PermissionDeniedError
            The store refused the file.

        Examples
        --------
        >>> w = ps.create_array("scene.tif", shape=(64, 64), dtype="u2", tiles=(32, 32))
        >>> w[...] = 1
        >>> w.close()
        >>> ps.open("scene.tif").shape
        (1, 64, 64)
        """
        self._core.close()

    def discard(self) -> None:
        """Discard the written data: an existing file stays as it is.

        Examples
        --------
        >>> ps.save("scene.tif", np.ones((64, 64), "u2"))
        >>> w = ps.create_array("scene.tif", shape=(64, 64), dtype="u2", tiles=(32, 32), overwrite=True)
        >>> w[:32] = 7
        >>> w.discard()
        >>> int(ps.open("scene.tif")[0, 0, 0])
        1
        """
        self._core.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.discard()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            warnings.warn(f"{self!r} was never closed: nothing is written", ResourceWarning, stacklevel=2, source=self)

    def _filled(self, value: Any, has_mask: bool) -> Any:
        if not np.ma.is_masked(value) or (has_mask and self._nodata is None):
            return np.ma.getdata(value)
        if self._nodata is None:
            raise InvalidArgumentError(
                "value has masked elements: create the file with nodata, or write value.filled(number)"
            )
        return value.astype(self.dtype).filled(self._nodata)

    def _resolve(self, selection: Any) -> tuple[slice, slice]:
        """Bands and rows of a selection, each with start, stop and step 1."""
        keys = list(selection) if isinstance(selection, tuple) else [selection]
        given = sum(key is not Ellipsis for key in keys)
        if given > self.ndim or sum(key is Ellipsis for key in keys) > 1:
            raise InvalidArgumentError(f"{selection!r} has more than {counted(self.ndim, 'dimension')}")
        at = next((i for i, key in enumerate(keys) if key is Ellipsis), len(keys))
        keys[at : at + 1] = [slice(None)] * (self.ndim - given)
        ranges = [_range(key, length) for key, length in zip(keys, self.shape, strict=True)]
        if len(ranges) == 2:
            ranges.insert(0, slice(0, 1))
        if (ranges[2].start, ranges[2].stop) != (0, self.shape[-1]):
            raise InvalidArgumentError(
                f"whole rows are written: columns [{ranges[2].start}, {ranges[2].stop}) are some of {self.shape[-1]}",
            )
        return ranges[0], ranges[1]


def mask_bytes(mask: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Bytes of 0 and 255."""
    given = np.asarray(mask)
    if given.shape != shape or given.dtype.kind not in "biu":
        raise InvalidArgumentError(
            f"a mask of bool or integers of shape {shape} is needed, not one of {given.dtype} {given.shape}",
        )
    return np.where(given != 0, np.uint8(255), np.uint8(0))


def _range(key: Any, length: int) -> slice:
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
        if step != 1:
            raise InvalidArgumentError(f"a TIFF is written with step 1, not {step}")
        return slice(start, max(start, stop))
    try:
        number = operator.index(key)
    except TypeError:
        raise InvalidArgumentError(f"a TIFF is written by slices, not by {type(key).__name__}") from None
    if not -length <= number < length:
        raise OutOfRangeError(f"index {number} is outside of a dimension of {length}")
    return slice(number % length, number % length + 1)


def new_tiff(shape: Any, dtype: Any, how: TiffOptions, attributes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The options of a new TIFF in the form for the engine."""
    sizes = _shape_of(shape)
    type_ = dtype_of(dtype)
    bands = 1 if len(sizes) == 2 else sizes[0]
    tile = _tile_of(how.tiles)
    is_palette = how.colormap is not None
    _choice(how.resampling, "resampling", ("auto", "average", "nearest"))
    colours, extra = _colours_of(how.photometric, is_palette, how.alpha, bands, type_)
    nodata = _nodata_of(how.nodata, type_)
    if how.area_or_point not in (None, "Area", "Point"):
        raise InvalidArgumentError(f"area_or_point must be 'Area' or 'Point', got {how.area_or_point!r}")
    if not isinstance(attributes or {}, Mapping):
        raise InvalidArgumentError(f"attributes must be a mapping, not {type(attributes).__name__}")
    items = dict(attributes or {})
    area_or_point = how.area_or_point
    if items.get("AREA_OR_POINT") in ("Area", "Point"):  # one of GDAL's tags: GeoTIFF has a key for it
        stated = items.pop("AREA_OR_POINT")
        area_or_point = stated if area_or_point is None else area_or_point
    if area_or_point is None and (how.crs is not None or how.transform is not None):
        area_or_point = "Area"
    of_tiff = {
        "tile_height": tile[0],
        "tile_width": tile[1],
        "bits": _small(how.bits, "bits"),
        "mask": how.mask is not None and how.mask is not False,
        "compression": _compression_of(how.compress).encode(),
        "level": _small(how.level, "level"),
        "predictor": _predictor_of(how.predictor),
        "planar": _choice(how.interleave, "interleave", ("pixel", "band")) == "band",
        "photometric": colours,
        "extra_samples": extra,
        "overviews": _overviews_of(how.overviews),
        "average": {"auto": None, "average": True, "nearest": False}[how.resampling],
        "nodata": nodata,
        "colormap": b"" if how.colormap is None else _colormap_of(how.colormap),
        "big_tiff": None if how.bigtiff in ("auto", None) else _yes_or_no(how.bigtiff),
        "transform": None if how.transform is None else _transform_of(how.transform),
        "extent": (None, "Area", "Point").index(area_or_point),
        "system": None if how.crs is None else system_of(how.crs),
        "metadata": [(str(name), str(value)) for name, value in items.items()],
        "band_meanings": _meanings_of(bands, how),
    }
    return {"format": "tiff", "shape": sizes, "type": type_, "tiff": of_tiff}


def create_tiff(
    target: Any,
    path: str = "",
    *,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    data: Any = None,
    how: TiffOptions,
    attributes: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    durable: bool = False,
    context: Context | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Any = None,
) -> Any:
    """`create_array` for a name with the ending of a TIFF: a `TiffWriter`, or the open array if `data` is given."""
    if data is not None:
        if _device.is_device_value(data):
            data = _device.to_host(data, current_context() if context is None else context)
        if not (hasattr(data, "shape") and hasattr(data, "dtype")):
            data = np.asarray(data)
        shape = data.shape if shape is None else shape
        dtype = data.dtype if dtype is None else dtype
    if shape is None or dtype is None:
        raise InvalidArgumentError("shape and dtype are needed where no data is given")
    masked = how.mask is not None and how.mask is not False
    if masked and how.mask is not True and data is None:
        raise InvalidArgumentError("mask= needs data=; or give mask=True, and a mask with each write")
    options = new_tiff(shape, dtype, how, attributes)
    options |= {"overwrite": bool(overwrite), "durable": bool(durable)}
    sizes, type_, of_tiff = options["shape"], options["type"], options["tiff"]
    context = current_context() if context is None else context
    store, inside = place_of(target, path, storage_options, context, is_object=True)
    writer = TiffWriter(
        _core.begin_array(store, context, inside, options),
        sizes,
        type_,
        (of_tiff["tile_height"], of_tiff["tile_width"]),
        f"{store.uri.rstrip('/')}/{os.fsdecode(inside)}",
    )
    writer._planar, writer._nodata = bool(of_tiff["planar"]), of_tiff["nodata"]
    if data is None:
        return writer
    with writer:
        _write_all(writer, data, None if how.mask is True or not masked else how.mask, progress)
    return registry.call("open", target, path, context=context, storage_options=storage_options)


def _write_all(writer: TiffWriter, data: Any, mask: Any, progress: Any) -> None:
    """All of `data`, which may be larger than memory."""
    if tuple(data.shape) != writer.shape:
        raise InvalidArgumentError(f"data of shape {tuple(data.shape)} is not an array of shape {writer.shape}")
    if mask is not None and tuple(np.shape(mask)) != writer.shape[-2:]:
        raise InvalidArgumentError(f"the mask has the shape {tuple(np.shape(mask))}, the image {writer.shape[-2:]}")
    is_array = isinstance(data, Array) and _core._converts(data.dtype, writer.dtype)
    if mask is None and (is_array or (isinstance(data, np.ndarray) and data.dtype == writer.dtype)):
        writer._core.write_all(data, callback_of(progress, "writing"))
    else:
        _write_slices(writer, data, mask, progress)


def _write_slices(writer: TiffWriter, data: Any, mask: Any, progress: Any) -> None:
    """The same in whole rows of tiles: for Python objects that return values by `__getitem__` only (those of Dask,
    h5py, xarray), for casts that only NumPy has, and with masks, which may be such objects.
    """
    height = writer.shape[-2]
    row_bytes = max(1, writer.dtype.itemsize * writer.shape[-1] * (writer.shape[0] if writer.ndim == 3 else 1))
    tile = writer._tiles[0]
    rows = max(1, _PIECE_BYTES // (row_bytes * tile)) * tile
    shares = Shares(progress, "writing", row_bytes * height)
    for y in range(0, height, rows):
        valid = None if mask is None else np.asarray(mask[y : y + rows])
        values = as_ndarray(data[..., y : y + rows, :])
        _check_cast(values, writer.dtype)
        writer.write((..., slice(y, y + rows), slice(None)), values, valid)
        shares.add(row_bytes * min(rows, height - y))


def _check_cast(values: Any, dtype: np.dtype[Any]) -> None:
    """Refuse numbers that integers of `dtype` do not have, if NumPy's "same_kind" rule refuses the cast, and all other
    such casts. Fractions are dropped, as by NumPy.
    """
    if np.can_cast(values.dtype, dtype, "same_kind"):
        return
    if values.dtype.kind not in "biuf" or dtype.kind not in "iu":
        raise InvalidArgumentError(f"values of {values.dtype} are not written as {dtype}: use their astype")
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        wrong = values[~((values >= limits.min) & (values < limits.max + 1))]  # NaN, too
    if is_masked_array(wrong):
        wrong = wrong.compressed()
    if wrong.size:
        raise InvalidArgumentError(f"data has values that {dtype} does not have, such as {wrong.flat[0]}: replace them")


def _shape_of(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(length) for length in shape)
    except TypeError:
        raise InvalidArgumentError(f"shape must be (band, y, x) or (y, x), got {shape!r}") from None
    if len(sizes) not in (2, 3):
        raise InvalidArgumentError(f"a TIFF has the shape (band, y, x) or (y, x), not {sizes}")
    if any(length < 1 or length >= 1 << 63 for length in sizes):
        raise InvalidArgumentError(f"an image of shape {sizes} has no pixels, or too many")
    return sizes


def dtype_of(dtype: Any) -> np.dtype[Any]:
    try:
        type_: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except TypeError as failure:
        raise UnsupportedError(f"TIFFs have no samples of {dtype!r}: {failure}") from None
    if type_.kind not in "iufc" or type_.itemsize > 16 or (type_.kind == "f" and type_.itemsize > 8):
        hint = "; write astype('uint8')" if type_.kind == "b" else ""
        raise UnsupportedError(f"TIFFs have no samples of {type_} here{hint}")
    return type_


def _small(value: Any, name: str) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name} must be an int, got {value!r}") from None
    if not 0 <= number < 1 << 31:
        raise InvalidArgumentError(f"{name} must not be {number}")
    return number


def _tile_of(tiles: Any) -> tuple[int, int]:
    is_pair = isinstance(tiles, Iterable) and not isinstance(tiles, str)
    pair = (tiles, tiles) if hasattr(tiles, "__index__") else tuple(tiles) if is_pair else ()
    sizes = [_small(length, "tiles") for length in pair]
    if len(sizes) != 2 or None in sizes:
        raise InvalidArgumentError(f"tiles must be a number, or rows and columns, got {tiles!r}")
    return sizes[0] or 0, sizes[1] or 0


def _choice(value: Any, name: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    return str(value)


def _yes_or_no(value: Any) -> bool:
    if value not in (True, False, "yes", "no"):
        raise InvalidArgumentError(f"bigtiff must be 'auto', True or False, got {value!r}")
    return value in (True, "yes")


def _compression_of(compress: Any) -> str:
    name = compress.lower() if isinstance(compress, str) else compress
    if name is not None and not isinstance(name, str):
        raise InvalidArgumentError(f"compress must be a name, got {compress!r}")
    return _COMPRESSIONS.get(name, name or "none")


def _predictor_of(predictor: Any) -> int | None:
    if predictor == "auto":
        return None
    return 1 if predictor is None or predictor is False else _small(predictor, "predictor")


def _overviews_of(overviews: Any) -> list[int] | None:
    if isinstance(overviews, str):
        _choice(overviews, "overviews", ("auto",))
        return None
    try:
        return [_small(factor, "overviews") or 0 for factor in overviews] if overviews is not None else []
    except TypeError:
        raise InvalidArgumentError(f"overviews must be 'auto', factors or None, got {overviews!r}") from None


def _colours_of(
    photometric: str, has_map: bool, alpha: bool, bands: int, dtype: np.dtype[Any]
) -> tuple[int, list[int]]:
    """The photometric interpretation, and the kinds of the bands beyond it (2: opacity)."""
    if has_map:
        if photometric not in ("auto", "palette") or bands != 1 or dtype not in (np.uint8, np.uint16):
            raise InvalidArgumentError("a colormap needs one band of uint8 or uint16")
        return 3, []
    if photometric == "palette":
        raise InvalidArgumentError("photometric 'palette' needs a colormap")
    _choice(photometric, "photometric", ("auto", *_PHOTOMETRICS, "palette"))
    usual = 2 if dtype == np.uint8 and bands == 3 + bool(alpha) else 1
    number = _PHOTOMETRICS.get(photometric, usual)
    extra = bands - (3 if number == 2 else 1)
    if alpha and extra < 1:
        raise InvalidArgumentError(f"alpha needs a band in addition to the colours, the image has {bands}")
    return number, [0] * (extra - 1) + [2] if alpha else []


def _nodata_of(nodata: Any, dtype: np.dtype[Any]) -> float | None:
    """A number, exact if it is an integer."""
    if nodata is None:
        return None
    try:
        return operator.index(nodata) if dtype.kind in "iu" and hasattr(nodata, "__index__") else float(nodata)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgumentError(f"nodata {nodata!r} is not a value of {dtype}") from None


def _transform_of(transform: Any) -> tuple[float, ...]:
    """Six numbers; `affine.Affine` has nine."""
    try:
        numbers = tuple(float(number) for number in transform)
    except (TypeError, ValueError):
        numbers = ()
    if len(numbers) == 9 and numbers[6:] == (0, 0, 1):
        numbers = numbers[:6]
    if len(numbers) != 6 or not all(map(math.isfinite, numbers)):
        raise InvalidArgumentError(f"transform must be six numbers a, b, c, d, e, f, got {transform!r}")
    return numbers


def _colormap_of(colormap: npt.ArrayLike) -> bytes:
    """Red, green and blue, 0 to 65535, of each value: shape (values, 3)."""
    colors = np.asarray(colormap)
    if colors.ndim != 2 or colors.shape[1] != 3 or colors.dtype.kind not in "iu":
        raise InvalidArgumentError(f"colormap must be integers of shape (values, 3), got {colors.shape}")
    if colors.size and (colors.min() < 0 or colors.max() > 65535):
        raise InvalidArgumentError("colours of a colormap are 0 to 65535")
    return colors.astype(np.uint16).tobytes()


def _meanings_of(bands: int, how: TiffOptions) -> list[tuple[Any, ...]]:
    """Description, unit, scale and offset of each band; empty if nothing is given."""
    given = {"description": how.descriptions, "unittype": how.units, "scale": how.scales, "offset": how.offsets}
    for role, values in given.items():
        if values is not None and (isinstance(values, str) or not hasattr(values, "__len__") or len(values) != bands):
            raise InvalidArgumentError(f"{role}: one for each of {counted(bands, 'band')} is needed, not {values!r}")
    if all(values is None for values in given.values()):
        return []
    kinds = (str, str, float, float)
    columns = []
    for (role, values), kind in zip(given.items(), kinds, strict=True):
        each_band = [None] * bands if values is None else list(values)
        try:
            columns.append([None if each is None else kind(each) for each in each_band])
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"{role}: numbers are needed, not {values!r}") from None
    return list(zip(*columns, strict=True))
