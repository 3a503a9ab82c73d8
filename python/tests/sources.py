"""Values that users assign to arrays, in each kind of memory. Each maker takes an ndarray and a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


class Subclass(np.ndarray):
    """A subclass as users write them, with an attribute that `__array_finalize__` copies."""

    def __array_finalize__(self, other: Any) -> None:
        self.unit = getattr(other, "unit", None)


class ByInterface:
    """Memory that only has `__array_interface__`."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values
        self.__array_interface__ = values.__array_interface__


class ByProtocol:
    """Values that only have `__array__`."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values if dtype is None else self._values.astype(dtype)


def read_only(values: np.ndarray) -> np.ndarray:
    values.flags.writeable = False
    return values


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether the dtype is one of NumPy's own numbers and booleans."""
    return dtype.kind in "?biufc" and dtype.num < 256


def _memory_map(mode: str) -> Callable[[np.ndarray, Path], Any]:
    def make(values: np.ndarray, folder: Path) -> Any:
        # As bytes: .npy files cannot name the dtypes of ml_dtypes.
        path = folder / "values.bin"
        path.write_bytes(values.tobytes() or b"\0")
        return np.memmap(path, values.dtype, mode, shape=values.shape)

    return make


def _strided(values: np.ndarray) -> np.ndarray:
    room = np.zeros([2 * n + 1 for n in values.shape], values.dtype)
    part = room[tuple(slice(1, None, 2) for _ in values.shape)]
    part[...] = values
    return part


def _frozen(values: np.ndarray) -> np.ndarray:
    return np.frombuffer(bytes(values.tobytes()), values.dtype).reshape(values.shape)


def _jax(values: np.ndarray) -> Any:
    jax = sys.modules.get("jax")
    assert jax is not None
    return jax.numpy.asarray(values)


def _arrow(values: np.ndarray) -> Any:
    import pyarrow as pa

    flat = pa.array(values.reshape(-1))
    return flat.to_numpy(zero_copy_only=False).reshape(values.shape)


def _fits_jax(dtype: np.dtype[Any]) -> bool:
    return dtype.name in ("float32", "int16", "int32", "uint8", "bool", "complex64", "bfloat16")


SOURCES: dict[str, tuple[Callable[[np.ndarray, Path], Any], Callable[[np.dtype[Any]], bool]]] = {
    "plain": (lambda v, p: v.copy(), lambda d: True),
    "read-only": (lambda v, p: read_only(v.copy()), lambda d: True),
    "memory map r": (_memory_map("r"), lambda d: d.kind != "T"),
    "memory map r+": (_memory_map("r+"), lambda d: d.kind != "T"),
    "memory map c": (_memory_map("c"), lambda d: d.kind != "T"),
    "subclass": (lambda v, p: v.copy().view(Subclass), lambda d: True),
    "read-only subclass": (lambda v, p: read_only(v.copy().view(Subclass)), lambda d: True),
    "broadcast": (lambda v, p: np.broadcast_to(v[:1], v.shape), lambda d: True),
    "scalar broadcast": (lambda v, p: np.broadcast_to(v.reshape(-1)[:1].reshape(()), v.shape), lambda d: True),
    "Fortran order": (lambda v, p: np.asfortranarray(v), lambda d: True),
    "read-only Fortran order": (lambda v, p: read_only(np.asfortranarray(v.copy())), lambda d: True),
    "swapped bytes": (lambda v, p: v.astype(v.dtype.newbyteorder(">")), lambda d: d.kind in "iufcmMU" and d.num < 256),
    "read-only swapped bytes": (
        lambda v, p: read_only(v.astype(v.dtype.newbyteorder(">"))),
        lambda d: d.kind in "iufcmMU" and d.num < 256,
    ),
    "negative strides": (lambda v, p: v[(slice(None, None, -1),) * v.ndim], lambda d: True),
    "read-only negative strides": (lambda v, p: read_only(v.copy())[(slice(None, None, -1),) * v.ndim], lambda d: True),
    "steps": (lambda v, p: _strided(v), lambda d: d.kind != "T"),
    "from bytes": (lambda v, p: _frozen(v), lambda d: d.kind != "T"),
    "memoryview": (lambda v, p: memoryview(v.copy()), is_plain),
    "read-only memoryview": (lambda v, p: memoryview(v.copy()).toreadonly(), is_plain),
    "array interface": (lambda v, p: ByInterface(read_only(v.copy())), is_plain),
    "array protocol": (lambda v, p: ByProtocol(read_only(v.copy())), lambda d: d.kind != "T"),
    "list": (lambda v, p: v.tolist(), lambda d: is_plain(d) or d.kind == "T"),
    "Arrow": (lambda v, p: _arrow(v), lambda d: d.name in ("float32", "int16", "bool", "datetime64[s]")),
    "JAX": (lambda v, p: _jax(v), _fits_jax),
    "JAX shown by NumPy": (lambda v, p: np.asarray(_jax(v)), _fits_jax),
}


def numbered(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Values of the given dtype, nearly all different."""
    count = int(np.prod(shape))
    if dtype.kind == "b":
        return (np.arange(count) % 3 == 0).reshape(shape)
    if dtype.kind in "SU":
        return np.array([f"{i:d}" for i in range(count)]).astype(dtype).reshape(shape)
    if dtype.kind == "T":
        return np.array([f"item {i}" for i in range(count)], dtype).reshape(shape)
    if dtype.kind in "mM":
        return (np.arange(count, dtype="i8") * 1001 - 7).view(dtype).reshape(shape)
    made = (np.arange(count) - 5).astype(dtype)
    return (made + made * 2j if dtype.kind == "c" else made).astype(dtype).reshape(shape)
