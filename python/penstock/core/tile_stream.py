"""Tiles of an array, read ahead into host memory."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from penstock import _core
from penstock.core.array import Array
from penstock.core.job import cancel_at_exit


@dataclass(frozen=True)
class Tile:
    """One tile of a stream. Made by `Stream`.

    Attributes
    ----------
    index : tuple of int
        Its position in the grid of tiles.
    box : tuple of slice
        Its part of the array.
    data : numpy.ndarray or Tensor
        Its values, of the box's shape. The caller owns an ndarray, and later tiles do not change it. A tensor is in the
        device's memory, which is used again for a later tile: see `penstock.stream`.

    Examples
    --------
    >>> a = ps.create_array({}, data=np.arange(12.0).reshape(3, 4), chunks=(2, 4))
    >>> tile = next(ps.stream(a))
    >>> tile.index, tile.box, tile.data.shape
    ((0, 0), (slice(0, 2, None), slice(0, 4, None)), (2, 4))
    """

    index: tuple[int, ...]
    box: tuple[slice, ...]
    data: Any


class Stream:
    """The tiles of an array in C order, of which `depth` are read ahead. Made by `penstock.stream`; a context manager.

    One iteration yields every tile once. Leaving the block, or dropping the stream, cancels pending reads.

    Attributes
    ----------
    array, depth
        As given to `penstock.stream`.
    tile_shape
        The shape of a tile, in elements; tiles at the end are shorter.
    grid
        The number of tiles along each dimension.

    Examples
    --------
    Stop at the first tile with a large value:

    >>> a = ps.create_array({}, data=np.arange(100.0), chunks=(10,))
    >>> tiles = ps.stream(a, (20,), depth=1)
    >>> len(tiles), tiles.grid
    (5, (5,))
    >>> next(tile.index for tile in tiles if tile.data.max() > 50)
    (2,)
    >>> tiles.close()
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
        self._axis, self._edges = axis, edges  # ends of tiles along the axis of shards with unequal lengths
        grid = [-(-size // each) for size, each in zip(array.shape, shape, strict=True)]
        if edges is not None:
            grid[axis] = len(edges) - 1
        self.grid = tuple(grid)
        self._tiles: _core._Stream | _core._DeviceTiles | None = None  # of the host: made by the first tile
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of tiles."""
        return math.prod(self.grid)

    def __iter__(self) -> Iterator[Tile]:
        return self

    def __next__(self) -> Tile:
        tiles = self._tiles or self._begun()
        try:
            made = tiles.next()
        except BaseException:
            self.close()
            raise
        if made is None:
            raise StopIteration
        return self._tile(made)

    def _begun(self) -> Any:
        with self._lock:  # several threads may want the first tile
            if self._tiles is None:
                if self._closed:
                    raise StopIteration
                self._tiles = self._start()
            return self._tiles

    def close(self) -> None:
        """Cancel pending reads and end the stream."""
        with self._lock:
            self._closed = True
        if self._tiles is not None:
            self._tiles.cancel()

    def _start(self) -> _core._Stream:
        made = _core._Stream(self.array._opened(), self.tile_shape, self.depth, self._axis, self._edges or ())
        cancel_at_exit(made)
        return made

    def _tile(self, made: Any) -> Tile:
        return Tile(*made)

    def __repr__(self) -> str:
        return f"<penstock.Stream of {self.array.uri!r}, tiles of {self.tile_shape}>"

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
