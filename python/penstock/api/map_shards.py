"""Views of mapped `.npy` and raw files."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.errors import UnsupportedError
from penstock.shards import arrays as _array_shards
from penstock.shards.readers import JoinedArray
from penstock.shards.sharded_array import root_of


def map_shards(array: Any) -> list[npt.NDArray[Any]]:
    """Read-only NumPy views of the files of an array of local `.npy` or raw files: nothing is copied."""
    if isinstance(array, JoinedArray) and (parts := _array_shards.saved_parts(array)) is not None:
        return [view for part in parts for view in map_shards(part.array())]
    files = _core.shard_files(array)
    if not files or not array.uri.startswith("file:"):
        raise UnsupportedError(f"'{array.uri}' is of no .npy or raw files of this machine: they cannot be mapped")
    # The items in their stored form: maps cannot be transposed or byte-swapped.
    codecs = {each["name"]: each.get("configuration", {}) for each in array.codecs}
    endian = codecs["bytes"].get("endian", "little")
    if not isinstance(endian, str):
        raise UnsupportedError(f"'{array.uri}' mixes byte orders within its items: it cannot be mapped")
    stored = array.dtype.newbyteorder("<" if endian == "little" else ">")
    layout: Literal["C", "F"] = "F" if "transpose" in codecs else "C"
    axis = _core.shard_axis(array)
    root = root_of(array)[len("file://") :]
    out: list[npt.NDArray[Any]] = []
    for key, length, offset, _ in files:
        shape = (*array.shape[:axis], length, *array.shape[axis + 1 :]) if array.shape else ()
        if 0 in shape:
            out.append(np.empty(shape, stored))
            continue
        mapped = np.memmap(os.path.join(root, os.fsdecode(key)), stored, "r", offset, shape, layout)
        out.append(mapped.view(np.ndarray))
    return out
