"""TIFF images as physical values: scaled, with an offset, and NaN for missing pixels."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from penstock._core import UnpackedImage, unpacked_image, unpacked_type
from penstock.core.array import Progress
from penstock.core.errors import InvalidArgumentError, UnsupportedError
from penstock.core.indexing import Key, KeyMaker, as_tuple, expand, is_list, is_mask, oindex, vindex
from penstock.core.progress import callback_of
from penstock.core.sizes import check_threads
from penstock.core.tensor import Tensor
from penstock.geo.header import TiffHeader
from penstock.geo.masks import Validity

if TYPE_CHECKING:
    from penstock.core.plan import Plan
    from penstock.geo.tiff import TiffArray


def _type_of(packed: TiffArray) -> np.dtype[Any]:
    return unpacked_type(packed.dtype, not (set(packed.scales) <= {1.0} and set(packed.offsets) <= {0.0}))


def unpack(packed: TiffArray, selection: Any, masked: bool, **how: Any) -> npt.NDArray[Any]:
    """Read `selection`; missing pixels are those that a band's mask excludes or, without a mask, those that are
    nodata.
    """
    key = selection._key if isinstance(selection, Key) else selection
    kind = selection._kind if isinstance(selection, Key) else "basic"
    if kind == "basic" and not any(is_list(item) for item in as_tuple(key)):
        return _unpack_box(packed, key, masked, how.get("threads") or 0, how.get("progress"))
    return _unpack_lists(packed, selection, masked, **how)


def _unpack_box(packed: TiffArray, key: Any, masked: bool, threads: int, progress: Any) -> npt.NDArray[Any]:
    """Let the engine unpack values, in the copy after decoding."""
    _ = packed._band_axis
    ranges, shape = packed._resolve(key)
    assert ranges is not None
    kind = _type_of(packed)
    made = np.empty(math.prod(shape) * kind.itemsize, np.uint8)
    unpacked_image(packed, masked).read(ranges, shape, made, threads, progress)
    return made.view(kind).reshape(shape)


def _unpack_lists(packed: TiffArray, selection: Any, masked: bool, **how: Any) -> npt.NDArray[Any]:
    kind = _type_of(packed)
    validity = Validity(packed) if masked else None
    which, mask_key = _bands_of(packed, selection, validity)
    of_mask = None if mask_key is None or validity is None else validity.mask.read_async(mask_key)
    values = np.asarray(packed.read(selection, **how))
    made = values.astype(kind)
    if set(packed.scales) != {1.0} or set(packed.offsets) != {0.0}:
        made = made * np.array(packed.scales)[which] + np.array(packed.offsets)[which]
    valid = None if validity is None else validity.of(values, None if of_mask is None else of_mask.wait(), which)
    if valid is not None:
        made = np.where(np.broadcast_to(valid, made.shape), made, np.asarray(np.nan, kind))
    return np.asarray(made)


def _bands_of(packed: TiffArray, selection: Any, validity: Validity | None) -> tuple[Any, Any]:
    """The band of each value of a selection by lists, in a shape that broadcasts against the values; and the selection
    of the mask, or None.
    """
    band = packed._band_axis
    mask = None if validity is None else validity.mask
    in_one = validity is not None and mask is not None and validity.is_of_all_bands
    key = selection._key if isinstance(selection, Key) else selection
    kind = selection._kind if isinstance(selection, Key) else "basic"
    items = as_tuple(key)
    if kind == "basic" and any(is_list(item) for item in items):
        whole = len(items) == 1 and is_mask(items[0]) and np.ndim(items[0]) > 1
        items = items if whole else expand(packed, items)
        kind = "vindex" if whole or sum(map(is_list, items)) == packed.ndim else "oindex"
    if kind == "vindex":
        points = np.nonzero(items[0]) if len(items) == 1 and is_mask(items[0]) else items
        lists = [np.asarray(each) % n for each, n in zip(points, packed.shape, strict=True)]
        flat_lists = [np.zeros_like(each) if d == band and in_one else each for d, each in enumerate(lists)]
        return np.broadcast_arrays(*lists)[band], None if mask is None else vindex[tuple(flat_lists)]
    if kind != "oindex":
        raise UnsupportedError(f"unpacked arrays take no {kind} selections", f"array '{packed.uri}'")
    parts = list(expand(packed, items))
    parts += [slice(None)] * (packed.ndim - len(parts))
    which = np.arange(packed.shape[band])[parts[band]]
    behind = sum(np.ndim(part) > 0 or isinstance(part, slice) for part in parts[band + 1 :])
    if in_one:
        parts[band] = slice(0, 1) if np.ndim(which) else 0
    return which.reshape(which.shape + (1,) * behind), None if mask is None else oindex[tuple(parts)]


def _mask_key(packed: TiffArray, selection: Any, validity: Validity) -> Any:
    """The selection that a read of `selection` reads from the mask."""
    key = selection._key if isinstance(selection, Key) else selection
    items = as_tuple(key)
    if (isinstance(selection, Key) and selection._kind != "basic") or any(is_list(item) for item in items):
        return _bands_of(packed, selection, validity)[1]
    if not validity.is_of_all_bands:
        return selection
    parts = [item for item in items if item is not None]
    parts = list(expand(packed, tuple(parts)))
    parts += [slice(None)] * (packed.ndim - len(parts))
    band = parts[packed._band_axis]
    parts[packed._band_axis] = slice(0, 1) if isinstance(band, slice) else 0
    return tuple(parts)


class UnpackedArray(TiffHeader):
    """A TIFF image whose reads return physical values. Made by `penstock.open(..., unpack=True)`.

    value = stored * scale + offset, of each band; NaN where the pixel is missing (by the mask, else by nodata, else by
    alpha). `dtype` is float32 for integers of 16 bits and fewer without scale and offset, the stored one for floats
    without, else float64; complex numbers remain complex. `packed` is the array as stored. The header's properties are
    the same, except that `nodata` is NaN and scales and offsets are 1 and 0.

    Examples
    --------
    >>> x = np.array([[[0, 300], [310, 320]]], "u2")
    >>> ps.save("t.tif", x, nodata=0, scales=[0.5], offsets=[100.0])
    >>> t = ps.open("t.tif", unpack=True)
    >>> t[0], t.dtype
    (array([[ nan, 250.],
           [255., 260.]]), dtype('float64'))
    >>> int(t.packed[0, 0, 1])
    300
    """

    def __init__(self, packed: TiffArray) -> None:
        self.packed = packed
        self.uri, self.dimension_names, self.chunks = packed.uri, packed.dimension_names, packed.chunks
        self.format, self._tiff_details, self._options = packed.format, packed._tiff_details, packed._options
        self.dtype = _type_of(packed)
        if "band" not in (packed.dimension_names or ()):
            raise InvalidArgumentError("scales belong to bands: unpack=True needs layout='band'", packed.uri)

    read_only = True

    @cached_property
    def _engine_image(self) -> UnpackedImage:
        return unpacked_image(self.packed, True)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Sizes in pixels."""
        return self.packed.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that all elements take in memory."""
        return self.size * self.dtype.itemsize

    @property
    def nodata(self) -> float | None:
        """NaN, or None if all pixels have a value."""
        return float("nan") if Validity(self.packed).is_partial else None

    @property
    def scales(self) -> tuple[float, ...]:
        """1.0 for each band."""
        return (1.0,) * len(self._bands)

    @property
    def offsets(self) -> tuple[float, ...]:
        """0.0 for each band."""
        return (0.0,) * len(self._bands)

    def read(
        self,
        selection: Any = ...,
        out: Any = None,
        device: Any = None,
        threads: int | None = None,
        progress: Progress | bool | None = None,
    ) -> Any:
        """Read `selection` as physical values.

        Parameters
        ----------
        selection
            As for `Array.read`, except `blocks`.
        out
            An ndarray of the selection's shape, which is returned.
        device
            None or "cpu".
        threads
            Decoding workers of this read; None: the context's.
        progress
            As for `Array.read`.

        Returns
        -------
        numpy.ndarray
            `out`, or a new array of `dtype`.

        Raises
        ------
        UnsupportedError
            `device` is not the host.
        InvalidArgumentError
            `out` has another shape.
        OutOfRangeError
            The selection does not fit.
        CancelledError
            `progress` returned False.

        Examples
        --------
        >>> ps.save("t.tif", np.array([[[0, 300], [310, 320]]], "u2"), nodata=0, scales=[0.5], offsets=[100.0])
        >>> ps.open("t.tif", unpack=True).read(np.s_[0, 1], threads=1)
        array([255., 260.])
        """
        if device is not None and str(device) != "cpu":
            message = "unpacked reads end in host memory: read `packed` on a device, or use xarray's engine"
            raise UnsupportedError(message, f"array '{self.uri}'")
        workers = check_threads(threads) or None
        made = unpack(self.packed, selection, True, threads=workers, progress=callback_of(progress, "reading"))
        if out is None:
            return made
        if out.shape != made.shape:
            raise InvalidArgumentError(f"out has shape {out.shape}, the selection {made.shape}")
        out[...] = made
        return out

    def plan(self, selection: Any = ..., *, max_lines: int = 64) -> Plan:
        """Return how `selection` would be read, with its mask: as `Array.plan`.

        The numbers are those of the stored image and of the mask, before values are converted. `chunks_touched` and
        `touched` are those of the image.

        Parameters
        ----------
        selection
            As for `read`.
        max_lines
            The most operations in the text, of the image and of the mask each.

        Returns
        -------
        Plan
            A `str` with attributes.

        Raises
        ------
        OutOfRangeError, InvalidArgumentError
            The selection does not fit.

        Examples
        --------
        >>> ps.save("t.tif", np.zeros((1, 64, 64), "u2"), mask=np.ones((64, 64), bool), tiles=(64, 64))
        >>> t = ps.open("t.tif", unpack=True)
        >>> t.packed.plan(np.s_[0, :8]).requests, t.plan(np.s_[0, :8]).requests     # the mask is another image
        (1, 2)
        """
        made = self.packed.plan(selection, max_lines=max_lines)
        validity = Validity(self.packed)
        if validity.mask is None or not made.returned_bytes:
            return made
        key = _mask_key(self.packed, selection, validity)
        masks = getattr(validity.mask, "bands", [validity.mask])
        return made._and_of("mask", [each.plan(key, max_lines=max_lines) for each in masks])

    def __getitem__(self, key: Any) -> Any:
        made = self.read(key)
        return made if made.ndim or any(item is ... for item in as_tuple(key)) else made[()]

    @property
    def oindex(self) -> Any:
        """Orthogonal indexing, as for other arrays."""
        return _Reader(self, oindex)

    @property
    def vindex(self) -> Any:
        """Points, as for other arrays."""
        return _Reader(self, vindex)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("reading an array from storage always makes a copy")
        made: npt.NDArray[Any] = self.read()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): reads end in ordinary memory."""
        return (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """Read the whole array and export it: `torch.from_dlpack(a)`."""
        return Tensor(self.read()).__dlpack__(**options)

    def _image(self, **changed: Any) -> UnpackedArray:
        return UnpackedArray(self.packed._image(**changed))

    def __repr__(self) -> str:
        return f"<penstock.UnpackedArray {self.uri!r} shape={self.shape} dtype={self.dtype} chunks={self.chunks}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return UnpackedArray, (self.packed,)


class _Reader:
    def __init__(self, array: UnpackedArray, kind: KeyMaker) -> None:
        self._array, self._kind = array, kind

    def __getitem__(self, key: Any) -> Any:
        return self._array.read(self._kind[key])


__all__ = ["UnpackedArray", "unpack"]
