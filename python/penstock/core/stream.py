"""`stream`: tiles of an array, read ahead while the caller computes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from penstock.core.array import Array
from penstock.core.chunking import as_list
from penstock.core.device import is_device
from penstock.core.device_stream import DeviceStream
from penstock.core.errors import InvalidArgumentError
from penstock.core.sizes import counted
from penstock.core.tile_stream import Stream


def stream(
    array: Array,
    tile: str | tuple[int, ...] | None = None,
    device: str | None = None,
    depth: int = 3,
    check: bool = False,
) -> Stream:
    """Read an array tile by tile, ahead of the loop that computes on it.

    Parameters
    ----------
    array
        An open array.
    tile
        "shard", "chunk", or a shape, cut at the end of the array; None: shards if there are any, else chunks. In arrays
        of many files each file is a shard, also with unequal lengths (a device's buffers have space for the longest);
        files without rows are not tiles.
    device
        None or "cpu"; "cuda" or "cuda:0" (or another number): tiles are in that device's memory, in `depth` + 1 buffers
        that are reused. `tile.data` is then a `penstock.Tensor`, ordered on `tile.stream`: queue work that uses it
        there. The request for the next tile takes the buffer back, after the work that the stream holds then.
    depth
        Tiles that are read, or ready, while the caller has one: memory for `depth` + 1 tiles is needed. 0 reads each
        tile when it is requested.
    check
        For devices: wait for each tile before it is returned, so that none has failed chunks. False: a failure on a
        device may be raised up to two rounds of the buffers later, and the tile's elements have all bits set.

    Returns
    -------
    Stream
        An iterator over tiles in C order of their positions, and a context manager.

    Raises
    ------
    InvalidArgumentError
        `tile` or `depth` is not valid.
    Error
        As for `Array.read`, when the tile is requested.

    Examples
    --------
    >>> a = ps.create_array("a.zarr", data=np.arange(10_000.0).reshape(100, 100), chunks=(50, 50))
    >>> total = 0.0
    >>> with ps.stream(a, depth=3) as tiles:
    ...     for tile in tiles:
    ...         total += tile.data.sum()
    >>> float(total) == float(np.arange(10_000).sum())
    True
    """
    if not hasattr(depth, "__index__") or depth < 0:
        raise InvalidArgumentError(f"depth must be 0 or more tiles, got {depth!r}")
    depth, tile = min(int(depth.__index__()), 2**63 - 1), as_list(tile)
    axis, edges = 0, None
    if tile == "shard" and array.shards is None and (shards := array._shard_lengths()) is not None:
        axis, lengths = shards
        edges = [0, *itertools.accumulate(each for each in lengths if each)]
        longest = (*array.shape[:axis], max(1, *lengths), *array.shape[axis + 1 :])
        shape = tuple(max(1, each) for each in longest)
    else:
        shape = _tile_shape(array, tile)
    if is_device(device):
        return DeviceStream(array, shape, depth, device, check, axis, edges)
    return Stream(array, shape, depth, axis, edges)


def _tile_shape(array: Array, tile: str | tuple[int, ...] | None) -> tuple[int, ...]:
    if tile is None:
        return array.shards or array.chunks
    if tile == "chunk":
        return array.chunks
    if tile == "shard":
        if array.shards is None:
            raise InvalidArgumentError("tile is 'shard' and the array has none", f"array '{array.uri}'")
        return array.shards
    lengths: Any = None if isinstance(tile, str) or not isinstance(tile, Sequence) else tile
    if lengths is None or len(lengths) != array.ndim or any(not hasattr(n, "__index__") or n < 1 for n in lengths):
        raise InvalidArgumentError(
            f"tile must be 'shard', 'chunk' or a size above 0 for each of {counted(array.ndim, 'dimension')}, "
            f"it is {tile!r}",
        )
    return tuple(int(each) for each in lengths)
