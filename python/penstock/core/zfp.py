"""`zfp` of Zarr v3: streams without zfp's header, through zfpy and its bundled library.

Source: zarr-extensions, codecs/zfp; zfp's manual, "Compression modes" and `zfp_promote_*`.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import CorruptDataError, InvalidArgumentError, UnsupportedError

_LIMITS = {"reversible": None, "fixed_rate": "rate", "fixed_precision": "precision", "fixed_accuracy": "tolerance"}
_EXPERT = ("minbits", "maxbits", "maxprec", "minexp")

_FIELDS = {"int32": "int32", "int64": "int64", "float32": "float", "float64": "double"}
_TYPE_NUMBERS = {"int32": 1, "int64": 2, "float": 3, "double": 4}
"""`zfp_type`."""

_SMALL_INTEGERS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16}
_WIDER = {"float16": "float32", "bfloat16": "float32"}
_SIGNED = {"uint32": "int32", "uint64": "int64"}
"""The registration names them and does not say how: as zarrs does, signed, so that what is below 0 decodes to 0."""

_MOST_BITS_A_VALUE = 128
"""zfp itself never needs 70; settings beyond this are only there to make a reader allocate."""


def make_stage(settings: dict[str, Any], dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> _Stage | None:
    """Make the codec for chunks of `shape`; None if zfpy is not installed."""
    try:
        library = importlib.import_module("zfpy")
    except ImportError:
        return None
    if dtype is None or shape is None or len(shape) > 4 or _Items.named(dtype) is None:
        raise UnsupportedError(f"codec 'zfp' does not take {dtype} of {len(shape or ())} dimensions")
    mode = settings.get("mode")
    if mode != "expert" and mode not in _LIMITS:
        raise UnsupportedError(f"codec 'zfp' in the mode {mode!r} is not readable")
    names = _EXPERT if mode == "expert" else tuple(filter(None, [_LIMITS[mode]]))
    limits = {name: _number(settings, name, mode) for name in names}
    values = 4 ** max(1, len(shape))
    if max(limits.get("rate", 0) * values, limits.get("minbits", 0)) > _MOST_BITS_A_VALUE * values:
        raise CorruptDataError(f"codec 'zfp' asks for more than {_MOST_BITS_A_VALUE} bits a value")
    coder = _Expert(library, limits) if mode == "expert" else _Bounded(library, limits)
    return _Stage(coder, _Items(dtype, shape or (1,)), limits, f"zfp({mode}{_text(limits)}) via Python")


def _text(limits: dict[str, float]) -> str:
    return "".join(f", {name}={value}" for name, value in limits.items())


def _number(settings: dict[str, Any], name: str, mode: str) -> float:
    value: Any = settings.get(name)
    whole = name not in ("rate", "tolerance")
    good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    least, most = (-(2**31), 2**31 - 1) if name == "minexp" else (0, 2**32 - 1)
    if not good or not (least <= value <= most if whole else 0 <= value < math.inf):
        raise CorruptDataError(f"codec 'zfp' in the mode {mode!r} needs a number '{name}', not {value!r}")
    return float(value) if not whole else int(value)


class _Items:
    """A chunk's items, and their numbers for zfp."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype = dtype
        self.shape = shape
        self.field = _FIELDS[self.named(dtype) or ""]
        self.bits = _SMALL_INTEGERS.get(dtype.name, 0)
        self._middle = 1 << (self.bits - 1) if self.bits and dtype.name.startswith("u") else 0

    @staticmethod
    def named(dtype: np.dtype[Any]) -> str | None:
        """The one of zfp's four types that represents `dtype`."""
        if dtype.kind in "mM":
            return "int64"
        name = "int32" if dtype.name in _SMALL_INTEGERS else _WIDER.get(dtype.name, _SIGNED.get(dtype.name, dtype.name))
        return name if name in _FIELDS else None

    def to_field(self, items: Any) -> npt.NDArray[Any]:
        values = np.ndarray(self.shape, self.dtype, items)
        wide = np.dtype(self.named(self.dtype))
        if self.dtype.kind in "mM":
            return values.view(wide)
        if self.bits:
            return (values.astype(wide) - self._middle) << (31 - self.bits)
        if self.dtype.name in _SIGNED and values.size and values.max() > np.iinfo(wide).max:
            raise InvalidArgumentError(f"codec 'zfp' takes {self.dtype} up to {np.iinfo(wide).max} only")
        return values.astype(wide, copy=False)

    def from_field(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self.dtype.kind in "mM":
            return values.view(self.dtype)
        if self.bits:
            lowest = 0 if self._middle else -(1 << (self.bits - 1))
            values = np.clip((values >> (31 - self.bits)) + self._middle, lowest, lowest + (1 << self.bits) - 1)
        elif self.dtype.name in _SIGNED:
            values = np.maximum(values, 0)
        return values.astype(self.dtype, copy=False)


class _Stage:
    output_dtype: npt.DTypeLike | None = None
    output_shape: tuple[int, ...] | None = None

    def __init__(self, coder: _Bounded | _Expert, items: _Items, limits: dict[str, float], description: str) -> None:
        self._coder = coder
        self._items = items
        self._limits = limits
        self.description = description

    def encode(self, items: Any) -> Any:
        return self._coder.encode(np.ascontiguousarray(self._items.to_field(items)), self._items.field)

    def _most_bytes(self) -> int:
        """The bytes that zfp may read for a stream: it assumes that streams are complete."""
        shape = self._items.shape
        blocks: int = math.prod(-(-length // 4) for length in shape)
        widest = 8 * max(4, self._items.dtype.itemsize) + 2
        bits: int = 4 ** len(shape) * max(widest, math.ceil(self._limits.get("rate", 0)))
        bits = max(bits, int(self._limits.get("minbits", 0)))
        return blocks * (bits // 8 + 16) + 64

    def decode(self, data: bytes) -> Any:
        padded = bytes(data).ljust(self._most_bytes(), b"\0")
        values = self._coder.decode(padded, self._items.field, self._items.shape)
        return np.ascontiguousarray(self._items.from_field(values)).reshape(-1).view("u1").data


class _Bounded:
    """The modes that zfpy has."""

    def __init__(self, library: Any, limits: dict[str, float]) -> None:
        self._library = library
        self._limits = limits

    def encode(self, values: npt.NDArray[Any], field: str) -> bytes:
        del field
        return bytes(self._library.compress_numpy(values, write_header=False, **self._limits))

    def decode(self, data: bytes, field: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        kind = getattr(self._library, f"type_{field}")
        return np.asarray(self._library._decompress(data, kind, shape, **self._limits))


class _Expert:
    """All four parameters of a stream. zfpy cannot set them; the library that it is linked with can."""

    def __init__(self, library: Any, limits: dict[str, float]) -> None:
        self._zfp = _functions(library.__file__)
        self._limits = [int(limits[name]) for name in _EXPERT]
        stream = self._zfp.zfp_stream_open(None)
        good = self._zfp.zfp_stream_set_params(stream, *self._limits)
        self._zfp.zfp_stream_close(stream)
        if not good:
            raise CorruptDataError(f"codec 'zfp' has no mode{_text(limits)}")

    def _run(self, work: str, values: npt.NDArray[Any], field: str, bits: Any, size: int) -> int:
        zfp = self._zfp
        make_field = getattr(zfp, f"zfp_field_{values.ndim}d")
        of = make_field(values.ctypes.data, _TYPE_NUMBERS[field], *reversed(values.shape))
        held = zfp.stream_open(bits, size)
        stream = zfp.zfp_stream_open(held)
        try:
            zfp.zfp_stream_set_params(stream, *self._limits)
            if work == "size":
                return int(zfp.zfp_stream_maximum_size(stream, of))
            zfp.zfp_stream_rewind(stream)
            return int(getattr(zfp, work)(stream, of))
        finally:
            zfp.zfp_stream_close(stream)
            zfp.stream_close(held)
            zfp.zfp_field_free(of)

    def encode(self, values: npt.NDArray[Any], field: str) -> bytes:
        size = self._run("size", values, field, None, 0)
        made = ctypes.create_string_buffer(max(1, size))
        written = self._run("zfp_compress", values, field, made, size)
        if not written and values.size:
            raise InvalidArgumentError(f"codec 'zfp' cannot encode {values.dtype} in this mode")
        return made.raw[:written]

    def decode(self, data: bytes, field: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        values = np.zeros(shape, {number: name for name, number in _FIELDS.items()}[field])
        held = ctypes.create_string_buffer(data, len(data))
        if not self._run("zfp_decompress", values, field, held, len(data)) and values.size:
            raise CorruptDataError("codec 'zfp' cannot decode these bytes")
        return values


def _functions(module: str) -> Any:
    """zfp's functions as zfpy's own module finds them. Source: zfp.h and bitstream.h of zfp 1.0."""
    library = ctypes.CDLL(module)
    pointer, size, unsigned = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
    signatures = {
        "stream_open": (pointer, [pointer, size]),
        "stream_close": (None, [pointer]),
        "zfp_stream_open": (pointer, [pointer]),
        "zfp_stream_close": (None, [pointer]),
        "zfp_stream_set_params": (ctypes.c_int, [pointer, unsigned, unsigned, unsigned, ctypes.c_int]),
        "zfp_stream_rewind": (None, [pointer]),
        "zfp_stream_maximum_size": (size, [pointer, pointer]),
        "zfp_compress": (size, [pointer, pointer]),
        "zfp_decompress": (size, [pointer, pointer]),
        "zfp_field_free": (None, [pointer]),
        **{f"zfp_field_{rank}d": (pointer, [pointer, unsigned] + [size] * rank) for rank in range(1, 5)},
    }
    try:
        for name, (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as missing:
        raise UnsupportedError("codec 'zfp' in the mode 'expert' needs a zfpy with zfp's own library") from missing
    return library
