"""Arrays as Dask arrays. The public names are in `penstock.dask`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from penstock.api.open import open_array
from penstock.core.array import Array
from penstock.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    import dask.array

__all__ = ["blocks", "from_array"]


def blocks(array: Array, block_bytes: int = 128 << 20) -> tuple[int, ...]:
    """A block shape for Dask: whole storage objects (shards, else chunks), as many as fit into `block_bytes`.

    Blocks grow from the last axis to the first, so that a block is one run of storage if possible. A larger object is
    cut along its first axes, at chunks.
    """
    unit = tuple(min(n, max(1, length)) for n, length in zip(array.shards or array.chunks, array.shape, strict=True))
    inner = tuple(min(n, max(1, length)) for n, length in zip(array.chunks, array.shape, strict=True))
    most = max(1, block_bytes // max(1, array.dtype.itemsize))
    shape = list(unit)
    for axis in range(len(shape)):
        if math.prod(shape) <= most:
            break
        others = math.prod(shape) // shape[axis]
        shape[axis] = max(inner[axis], most // others // inner[axis] * inner[axis])
    for axis in reversed(range(len(shape))):
        if shape[axis] < unit[axis]:
            break  # the object was divided here
        others = math.prod(shape) // shape[axis]
        fits = max(1, most // others // unit[axis])
        shape[axis] = min(max(1, array.shape[axis]), fits * unit[axis])
    return tuple(shape)


def from_array(source: Any, chunks: Any = None, **options: Any) -> dask.array.Array:
    """A Dask array that reads `source` block by block.

    Workers of a cluster open the array themselves, by its URI; an array that only this process has, such as one of a
    dict, works with threads only.

    Parameters
    ----------
    source
        An open `Array`, or what `open_array` takes.
    chunks
        Blocks in Dask's notation; None: see `blocks`.
    options
        For `dask.array.from_array`: `name`, `lock`, `meta`.
    """
    import dask.array

    array = source if isinstance(source, Array) else open_array(source)
    if options.get("asarray") is False:
        raise InvalidArgumentError("blocks of an array are ndarrays: asarray cannot be False")
    made: dask.array.Array = dask.array.from_array(array, chunks=blocks(array) if chunks is None else chunks, **options)
    return made
