"""Codecs that the engine does not have: less common ones of numcodecs, and those that users registered with numcodecs
or zarr-python.

When an array is opened, the engine requests a codec for each stage of its chain, and then calls its `encode` and
`decode` from any thread. Buffers are C-order bytes; elements of variable length are NumPy arrays of objects.
"""

from __future__ import annotations

import json
import pickle
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from penstock.core import zfp as _zfp
from penstock.core.errors import CorruptDataError, Error, UnsupportedError

_NUMCODECS = "numcodecs."

_EXECUTES_CODE = frozenset({"pickle"})
"""Codecs whose decoders run any program that the data contains."""

_MAKES_BYTES = frozenset({"pickle", "pcodec", "zfpy", "json2", "msgpack2", "vlen-array", "vlen-bytes", "vlen-utf8"})

_OF_TEXT = {"vlen-utf8": "U", "vlen-bytes": "SV"}
"""The NumPy kinds of fixed length that numcodecs' text codecs convert. The engine itself implements them for types of
variable length."""

_PROBE_BYTES = 1 << 20


class Stage(Protocol):
    """One codec of a chain."""

    description: str
    output_dtype: npt.DTypeLike | None
    """Dtype of the array that `encode` returns; None if it returns bytes."""
    output_shape: tuple[int, ...] | None

    def encode(self, items: Any) -> Any:
        """Bytes, or an array of objects, to bytes."""

    def decode(self, data: bytes) -> Any:
        """The reverse."""


def make(
    name: str, configuration: str, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None, *, allow_pickle: bool
) -> Stage | None:
    """Make the codec `name` for an array of `dtype` and `shape`, or for bytes (both None). None if no library has
    it.
    """
    settings = json.loads(configuration)
    if name == "zfp":
        return _zfp.make_stage(settings, dtype, shape)
    own_name = name.removeprefix(_NUMCODECS)
    if own_name in _OF_TEXT and (dtype is None or dtype.kind not in _OF_TEXT[own_name]):
        given = "bytes" if dtype is None else "other elements" if dtype.hasobject else f"elements of {dtype}"
        raise UnsupportedError(f"codec '{name}' is for text or bytes of variable length, not for {given}")
    try:
        if name.startswith(_NUMCODECS):
            return _from_numcodecs(own_name, settings, dtype, shape, allow_pickle)
        found = _from_zarr(name, settings, dtype, shape)
        return found or _from_numcodecs(name, settings, dtype, shape, allow_pickle)
    except (Error, MemoryError):
        raise
    except Exception as error:  # third-party codecs can raise any exception
        given = "bytes" if dtype is None else f"elements of {dtype}"
        message = f"codec '{name}' does not support this configuration for {given}: {type(error).__name__}: {error}"
        raise CorruptDataError(message) from error


class _Array:
    """The input and output of an array stage."""

    def __init__(self, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> None:
        self.dtype = dtype
        self.shape = shape

    def to_input(self, items: Any) -> npt.NDArray[Any]:
        """The input for a codec's encoder."""
        if isinstance(items, np.ndarray):
            return items
        if self.dtype is None or self.shape is None:
            return np.frombuffer(items, "u1")
        if not self.dtype.itemsize:
            return np.zeros(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, items)

    def from_output(self, made: Any) -> Any:
        """The output of a codec's decoder, as C-order bytes or an array of objects."""
        if self.dtype is None:
            return _as_bytes(made)
        if self.dtype.hasobject:
            return np.asarray(made, dtype=object)
        if isinstance(made, np.ndarray) and made.dtype != self.dtype and made.dtype != np.dtype("u1"):
            # Codecs without complex numbers store their halves.
            halves = self.dtype.kind == "c" and made.dtype.itemsize * 2 == self.dtype.itemsize
            made = np.ascontiguousarray(made).reshape(-1) if halves else made.astype(self.dtype)
        return _as_bytes(made)


class _NumcodecsStage:
    def __init__(self, codec: Any, array: _Array) -> None:
        self._codec = codec
        self._array = array
        self.description = f"{codec!r} via Python"
        self.output_dtype: npt.DTypeLike | None = None
        self.output_shape: tuple[int, ...] | None = None
        self._probe()

    def _probe(self) -> None:
        """Find out whether the codec produces an array; only a trial shows it."""
        array = self._array
        if self._codec.codec_id in _MAKES_BYTES or array.dtype is None or array.shape is None:
            return
        if np.prod(array.shape, dtype=float) * max(1, array.dtype.itemsize) > _PROBE_BYTES:
            shape = (1,) * len(array.shape)
        else:
            shape = array.shape
        try:
            made = self._codec.encode(
                np.full(shape, "", object) if array.dtype.hasobject else np.zeros(shape, array.dtype)
            )
        except Exception:
            return  # it may be able to decode although it cannot encode
        if isinstance(made, np.ndarray) and made.size == np.prod(shape) and not made.dtype.hasobject:
            if made.dtype == np.dtype("u1") and array.dtype.itemsize != 1 and made.ndim != len(shape):
                return
            self.output_dtype = made.dtype
            self.output_shape = array.shape

    def encode(self, items: Any) -> Any:
        return _as_bytes(self._codec.encode(self._array.to_input(items)))

    def decode(self, data: bytes) -> Any:
        given: Any = data
        if self.output_dtype is not None and self.output_shape is not None:
            given = np.frombuffer(data, self.output_dtype).reshape(self.output_shape)
        return self._array.from_output(self._codec.decode(given))


class _ZarrStage:
    def __init__(self, codec: Any, before: Any, after: Any, array: _Array) -> None:
        self._codec = codec
        self._before = before
        self._array = array
        self._output = _Array(None, None)
        self.description = f"{codec!r} via Python"
        self.output_dtype: npt.DTypeLike | None = None
        self.output_shape: tuple[int, ...] | None = None
        if after is not None:
            native = after.dtype.to_native_dtype()
            self._output = _Array(native, after.shape)
            self.output_dtype, self.output_shape = native, after.shape

    def encode(self, items: Any) -> Any:
        made = self._codec._encode_sync(_to_zarr(self._array, items, self._before), self._before)
        if made is None:
            raise ValueError("zarr-python's codec made nothing of a chunk")
        return self._output.from_output(_from_zarr_buffer(made))

    def decode(self, data: bytes) -> Any:
        made = self._codec._decode_sync(_to_zarr(self._output, data, self._before), self._before)
        return self._array.from_output(_from_zarr_buffer(made))


class _TrustedPickle:
    """numcodecs' Pickle for callers that allow it: it has its own `decode`, as numcodecs' has a process-wide switch."""

    codec_id = "pickle"

    def __init__(self, codec: Any) -> None:
        self.encode = codec.encode
        self._codec = codec

    def __repr__(self) -> str:
        return repr(self._codec)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)


def _to_zarr(array: _Array, items: Any, spec: Any) -> Any:
    if array.dtype is None:
        return spec.prototype.buffer.from_bytes(items)
    return spec.prototype.nd_buffer.from_ndarray_like(array.to_input(items))


def _from_zarr_buffer(made: Any) -> Any:
    return made.as_ndarray_like() if hasattr(made, "as_ndarray_like") else made.to_bytes()


def _as_bytes(made: Any) -> Any:
    if isinstance(made, np.ndarray):
        if made.dtype.hasobject:
            raise TypeError("a codec made Python objects where bytes should be")
        return np.ascontiguousarray(made).reshape(-1).view("u1") if made.size and made.dtype.itemsize else b""
    return made


def _from_numcodecs(
    name: str, settings: dict[str, Any], dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None, allow_pickle: bool
) -> Stage | None:
    try:
        import numcodecs
        from numcodecs.errors import UnknownCodecError
    except ImportError:
        return None
    if name in _EXECUTES_CODE and not allow_pickle:
        message = f"codec '{name}' runs programs that are in the data: open with Context(allow_pickle=True) to let it"
        raise UnsupportedError(message)
    try:
        codec = numcodecs.get_codec({"id": name, **settings})
    except UnknownCodecError:
        return None
    return _NumcodecsStage(_TrustedPickle(codec) if name in _EXECUTES_CODE else codec, _Array(dtype, shape))


def _from_zarr(
    name: str, settings: dict[str, Any], dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None
) -> Stage | None:
    try:
        import zarr.registry
        from zarr.abc.codec import ArrayArrayCodec, ArrayBytesCodec
        from zarr.core.array_spec import ArrayConfig, ArraySpec
        from zarr.core.buffer import default_buffer_prototype
        from zarr.dtype import UInt8, parse_dtype
    except ImportError:
        return None
    try:
        kind = zarr.registry.get_codec_class(name)
    except Exception:  # registries raise different exceptions for unknown names
        return None
    if not hasattr(kind, "_decode_sync") or not hasattr(kind, "_encode_sync"):
        message = f"codec '{name}' of zarr-python works asynchronously only"
        raise UnsupportedError(message)
    codec = kind.from_dict({"name": name, "configuration": settings})
    works_on_arrays = issubclass(kind, ArrayArrayCodec | ArrayBytesCodec)
    if works_on_arrays != (dtype is not None):
        wanted = "arrays" if works_on_arrays else "bytes"
        raise UnsupportedError(f"codec '{name}' of zarr-python works on {wanted}, it is used elsewhere")
    zarr_dtype = UInt8() if dtype is None else parse_dtype(dtype, zarr_format=3)
    before = ArraySpec(
        shape=() if shape is None else shape,
        dtype=zarr_dtype,
        fill_value=zarr_dtype.default_scalar(),
        config=ArrayConfig.from_dict({}),
        prototype=default_buffer_prototype(),
    )
    codec = codec.evolve_from_array_spec(before)
    after = codec.resolve_metadata(before) if issubclass(kind, ArrayArrayCodec) else None
    return _ZarrStage(codec, before, after, _Array(dtype, shape))
