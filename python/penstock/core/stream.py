"""Tiles of an array, read ahead while the caller computes."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from penstock import _core
from penstock.core.array import Array
from penstock.core.device import is_device
from penstock.core.errors import InvalidArgumentError
from penstock.core.job import Job


@dataclass(frozen=True)
class Tile:
    """One tile of a stream."""

    index: tuple[int, ...]
    """Its place in the grid of tiles."""
    box: tuple[slice, ...]
    """What of the array it is."""
    data: Any
    """Its values: an ndarray of the box's shape. It is the caller's, and stays as it is."""


class Stream:
    """The tiles of an array in C order, of which `depth` are read ahead. Made by `penstock.stream`; a context manager.

    Iterating once gives every tile once. Leaving the block, or dropping the stream, cancels what is under way.
    """

    def __init__(
        self,
        array: Array,
        shape: tuple[int, ...],
        depth: int,
        axis: int = 0,
        edges: Sequence[int] | None = None,
    ) -> None:
        self.array, self.tile_shape, self.depth = array, shape, depth
        self._axis, self._edges = axis, edges  # where tiles end along the axis that shards of unequal lengths share
        grid = [-(-size // each) for size, each in zip(array.shape, shape, strict=True)]
        if edges is not None:
            grid[axis] = len(edges) - 1
        self.grid = tuple(grid)
        self._places: Iterator[tuple[int, ...]] = itertools.product(*map(range, self.grid))
        self._ahead: deque[tuple[tuple[int, ...], tuple[slice, ...], Job]] = deque()

    def __len__(self) -> int:
        """Tiles in all."""
        return math.prod(self.grid)

    def __iter__(self) -> Iterator[Tile]:
        return self

    def __next__(self) -> Tile:
        self._read_ahead(self.depth + 1)
        if not self._ahead:
            raise StopIteration
        index, box, job = self._ahead.popleft()
        try:
            data = job.wait()
        except BaseException:
            self.close()
            raise
        self._read_ahead(self.depth)
        return Tile(index, box, data)

    def close(self) -> None:
        """Cancel what is under way; there are no more tiles then."""
        self._places = iter(())
        ahead, self._ahead = self._ahead, deque()
        for _, _, job in ahead:
            job.cancel()

    def _read_ahead(self, upto: int) -> None:
        while len(self._ahead) < upto:
            index = next(self._places, None)
            if index is None:
                return
            box = self._box(index)
            self._ahead.append((index, box, self.array.read_async((*box, ...))))

    def _box(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        box = [
            slice(i * each, min((i + 1) * each, size))
            for i, each, size in zip(index, self.tile_shape, self.array.shape, strict=True)
        ]
        if self._edges is not None:
            at = index[self._axis]
            box[self._axis] = slice(self._edges[at], self._edges[at + 1])
        return tuple(box)

    def __repr__(self) -> str:
        return f"<penstock.Stream of {self.array.uri!r}, tiles of {self.tile_shape}>"

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stream(
    array: Array,
    tile: str | tuple[int, ...] | None = None,
    device: str | None = None,
    depth: int = 3,
    check: bool = False,
) -> Stream:
    """Read an array tile by tile, ahead of the loop that computes on it.

        with ps.stream(a, depth=3) as tiles:
            for tile in tiles:
                f(tile.data)          # tile.index, tile.box

    Parameters
    ----------
    tile
        "shard", "chunk", or a shape, cut where the array ends; None: shards where there are some, else chunks. Shards
        of many files are what each file holds, also of unequal lengths (a device's buffers have room for the longest);
        files without rows are no tiles.
    device
        None or "cpu"; "cuda" or "cuda:0" and its like: tiles are in that device's memory, in `depth` + 1 buffers that
        are used again. `tile.data` is then a `penstock.Tensor`, ordered on `tile.stream`: queue there what uses it; the
        next tile asked for takes the buffer back, once that stream is through with what it had then.
    depth
        Tiles that are read, or wait, while the caller has one: the memory is that of `depth` + 1 tiles. 0 reads each
        when it is asked for.
    check
        Of devices: wait for each tile before it is handed out, so that none is whose chunks failed. False: what fails
        on a device may be raised up to two rounds of the buffers later, and the tile's elements have all bits set.
    """
    if not isinstance(depth, int) or depth < 0:
        raise InvalidArgumentError(f"depth must be 0 or more tiles, it is {depth!r}")
    axis, edges = 0, None
    if tile == "shard" and array.shards is None and (shards := shard_lengths(array)) is not None:
        axis, lengths = shards
        edges = [0, *itertools.accumulate(each for each in lengths if each)]
        longest = (*array.shape[:axis], max(1, *lengths), *array.shape[axis + 1 :])
        shape = tuple(max(1, each) for each in longest)
    else:
        shape = _tile_shape(array, tile)
    if is_device(device):
        from penstock.core.device_stream import DeviceStream

        return DeviceStream(array, shape, depth, device, check, axis, edges)
    return Stream(array, shape, depth, axis, edges)


def shard_lengths(array: Array) -> tuple[int, list[int]] | None:
    """The axis along which an array's files follow each other, and the length of each; None: it is not of many."""
    from penstock.references.objects import ReferencedArray
    from penstock.shards.readers import JoinedArray
    from penstock.tabular.shards import JoinedTables

    if not array.shape:
        return None
    if files := _core.shard_files(array):
        return _core.shard_axis(array), [length for _, length, _, _ in files]
    if isinstance(array, JoinedArray):
        return array._joined_along, [part.shape[array._joined_along] for part in array._parts]
    if isinstance(array, JoinedTables):
        return 0, [sum(table.rows) for table in array.tables]
    joined = array._described.joined if isinstance(array, ReferencedArray) else None
    lengths = None if joined is None else joined.shards.get("lengths")
    return None if joined is None or lengths is None else (joined.axis, [int(each) for each in lengths])


def _tile_shape(array: Array, tile: str | tuple[int, ...] | None) -> tuple[int, ...]:
    if tile is None:
        return array.shards or array.chunks
    if tile == "chunk":
        return array.chunks
    if tile == "shard":
        if array.shards is None:
            raise InvalidArgumentError("tile is 'shard' and the array has none", f"array '{array.uri}'")
        return array.shards
    if isinstance(tile, str) or len(tile) != array.ndim or any(each < 1 for each in tile):
        raise InvalidArgumentError(
            f"tile must be 'shard', 'chunk' or a size above 0 for each of {array.ndim} dimensions, it is {tile!r}",
        )
    return tuple(int(each) for each in tile)
