"""Values for HDF5 files, and a comparison of what was read."""

from __future__ import annotations

from typing import Any

import numpy as np


def same(read: Any, wanted: Any) -> bool:
    """Whether both are equal bit for bit, in any byte order of the file."""
    read, wanted = np.asarray(read), np.asarray(wanted)
    if read.shape != wanted.shape:
        return False
    if wanted.dtype.names:
        return all(same(read[name], wanted[name]) for name in wanted.dtype.names)
    return read.tobytes() == wanted.astype(wanted.dtype.newbyteorder("=")).tobytes()


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "S":
        return rng.integers(97, 120, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.names:
        out = np.zeros(shape, dtype)
        for i, name in enumerate(dtype.names):
            out[name] = values(dtype[name].base, (*shape, *dtype[name].shape), seed + i)
        return out
    return rng.normal(size=shape).round(2).astype(dtype)
