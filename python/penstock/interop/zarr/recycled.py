"""Large results of zarr-python in memory that the context recycles.

zarr-python allocates new memory for each result. The system zeroes its pages one by one while the first chunks are
decoded into them, which costs about as much as decoding; recycled memory already has its pages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from zarr.core.buffer import cpu

from penstock import _core
from penstock.interop.zarr.settings import current_context

_FROM_BYTES = 4 << 20


def _holders(array: npt.NDArray[Any]) -> int:
    return sys.getrefcount(array)


def _alone() -> int:
    """The result of `_holders` for an array that only a buffer and one caller's variable hold."""
    empty: Any = np.empty(1)
    buffer = cpu.NDBuffer(empty)
    del empty
    array: Any = buffer._data
    return _holders(array)


_ALONE = _alone()


def _elements(selections: Iterable[Any]) -> int:
    """The number of elements of a result that the slices cover, without overlap; -1 if they are not all slices."""
    total = 0
    for selection in selections:
        count = 1
        for part in selection if isinstance(selection, tuple) else (selection,):
            if type(part) is not slice or part.step not in (None, 1) or part.start is None or part.stop is None:
                return -1
            count *= part.stop - part.start
        total += count
    return total


def exchange(buffer: Any, selections: Iterable[Any]) -> None:
    """Give `buffer` recycled memory, if it is large, not referenced elsewhere, and `selections` overwrite all of it.

    An array that a caller passed in, or that has a view or an exported pointer, has another holder and is kept.
    """
    if type(buffer) is not cpu.NDBuffer:
        return
    array: Any = buffer._data
    if (
        type(array) is not np.ndarray
        or array.nbytes < _FROM_BYTES
        or not array.flags.owndata
        or not array.flags.c_contiguous
        or array.dtype.hasobject
        or _holders(array) != _ALONE
        or _elements(selections) != array.size
    ):
        return
    memory: Any = _core.recycled_memory(current_context(), array.nbytes)
    recycled: Any = np.ndarray(array.shape, array.dtype, buffer=memory)
    buffer._data = recycled
