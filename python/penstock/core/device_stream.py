"""Tiles of an array, read ahead into device memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock import _core
from penstock.core import device as _device
from penstock.core.array import Array
from penstock.core.tile_stream import Stream, Tile


@dataclass(frozen=True)
class DeviceTile(Tile):
    """A tile in device memory. `data` is a `penstock.Tensor`, valid until the next tile is requested."""

    stream: int
    """The handle of the stream that the values are ordered on. Queue work that uses them there: the memory is written
    to again only after that work."""


class DeviceStream(Stream):
    """As `Stream`, with `depth` + 1 buffers in device memory, each with a stream of its own.

    A failure on the device is raised with its tile if it is known by then, otherwise as soon as it is known, and before
    the stream ends. Therefore the loop is at most two rounds of the buffers ahead of the device. With `check`, it waits
    for each tile.
    """

    def __init__(
        self,
        array: Array,
        shape: tuple[int, ...],
        depth: int,
        device: Any,
        check: bool,
        axis: int = 0,
        edges: Sequence[int] | None = None,
    ) -> None:
        super().__init__(array, shape, depth, axis, edges)
        number = _device.device_number(device)
        self._tiles = _core._DeviceTiles(array._opened(), shape, depth, axis, edges or (), number, check)

    def _tile(self, made: Any) -> DeviceTile:
        index, box, read, stream = made
        return DeviceTile(index, box, _device.DeviceTensor(read), stream)
