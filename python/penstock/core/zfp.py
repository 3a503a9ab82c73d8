"""`zfp` of Zarr v3 for builds of the engine without libzfp, such as wheels: through zfpy and its bundled library.

Source: zarr-extensions, codecs/zfp; zfp's manual, "Compression modes" and `zfp_promote_*`.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.errors import CorruptDataError, InvalidArgumentError, UnsupportedError
from penstock.core.sizes import counted

_LIMITS = {"reversible": None, "fixed_rate": "rate", "fixed_precision": "precision", "fixed_accuracy": "tolerance"}

_FIELDS = {"int32": "int32", "int64": "int64", "float32": "float", "float64": "double"}

_SMALL_INTEGERS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16}
_WIDER = {"float16": "float32", "bfloat16": "float32"}
_SIGNED = {"uint32": "int32", "uint64": "int64"}
"""The registration does not define it for these types: as in zarrs, they are signed numbers, and numbers below 0 decode
to 0."""

_MOST_BITS_A_VALUE = 128
"""zfp itself never needs more than 70; settings beyond that can only make a reader allocate memory."""


def make_stage(settings: dict[str, Any], dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> _Stage | None:
    """Make the codec for chunks of `shape`; None if zfpy is not installed."""
    try:
        library = importlib.import_module("zfpy")
    except ImportError:
        return None
    if dtype is None or shape is None or len(shape) > 4 or _Items.named(dtype) is None:
        raise UnsupportedError(f"codec 'zfp' does not support {dtype} of {counted(len(shape or ()), 'dimension')}")
    mode = settings.get("mode")
    if mode not in _LIMITS:
        return None
    limits = {name: _number(settings, name, mode) for name in filter(None, [_LIMITS[mode]])}
    if limits.get("rate", 0) > _MOST_BITS_A_VALUE:
        raise CorruptDataError(f"codec 'zfp' asks for more than {_MOST_BITS_A_VALUE} bits a value")
    description = f"zfp({mode}{_text(limits)}) via Python"
    return _Stage(_Coder(library, limits), _Items(dtype, shape or (1,)), limits, description)


def _text(limits: dict[str, float]) -> str:
    return "".join(f", {name}={value}" for name, value in limits.items())


def _number(settings: dict[str, Any], name: str, mode: str) -> float:
    value: Any = settings.get(name)
    whole = name == "precision"
    good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not good or not 0 <= value < (2**32 if whole else math.inf):
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

    def __init__(self, coder: _Coder, items: _Items, limits: dict[str, float], description: str) -> None:
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
        return blocks * (bits // 8 + 16) + 64

    def decode(self, data: bytes) -> Any:
        padded = bytes(data).ljust(self._most_bytes(), b"\0")
        values = self._coder.decode(padded, self._items.field, self._items.shape)
        return np.ascontiguousarray(self._items.from_field(values)).reshape(-1).view("u1").data


class _Coder:
    """zfpy, which has all modes but the expert one."""

    def __init__(self, library: Any, limits: dict[str, float]) -> None:
        self._library = library
        self._limits = limits

    def encode(self, values: npt.NDArray[Any], field: str) -> bytes:
        del field
        return bytes(self._library.compress_numpy(values, write_header=False, **self._limits))

    def decode(self, data: bytes, field: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        kind = getattr(self._library, f"type_{field}")
        return np.asarray(self._library._decompress(data, kind, shape, **self._limits))
