"""Tiles of an array, read ahead into device memory."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock import _core
from penstock.core import device as _device
from penstock.core.array import Array
from penstock.core.errors import Error
from penstock.core.tile_stream import Stream, Tile


@dataclass(frozen=True)
class DeviceTile(Tile):
    """A tile in device memory. `data` is a `penstock.Tensor`, valid until the next tile is requested."""

    stream: int
    """The handle of the stream that the values are ordered on. Queue what uses them there: the memory is written to
    again only after that."""


@dataclass
class _Buffer:
    stream: _core._DeviceStream
    lane: int  # its number
    memory: Any = None  # room for a whole tile
    read: Any = None  # the one that fills it now
    index: tuple[int, ...] = ()
    box: tuple[slice, ...] = ()


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
        self._waits = check
        self._device = _device.device_number(device)
        self._whole = tuple(min(each, size) for each, size in zip(shape, array.shape, strict=True))
        self._free = deque(_Buffer(_core._DeviceStream(self._device), lane) for lane in range(depth + 1))
        self._begun: deque[_Buffer] = deque()
        self._held: _Buffer | None = None
        self._unproven: deque[tuple[tuple[int, ...], Any]] = deque()  # tiles that can still fail on the device

    def __next__(self) -> DeviceTile:
        self._take_back()
        try:
            self._check(len(self._unproven) > 2 * self.depth + 1)
            self._begin()
            if not self._begun:
                while self._unproven:
                    self._check(True)
                raise StopIteration
            buffer = self._begun.popleft()
            buffer.read.order(buffer.stream.handle)
            self._unproven.append((buffer.index, buffer.read))
            self._check(self._waits)
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise
        self._held = buffer
        buffer.read.begin_work(buffer.stream.handle, buffer.lane)
        return DeviceTile(buffer.index, buffer.box, _device.DeviceTensor(buffer.read), buffer.stream.handle)

    def close(self) -> None:
        """Cancel pending reads; there are no more tiles then."""
        super().close()
        self._take_back()
        begun, self._begun = self._begun, deque()
        self._unproven.clear()
        for buffer in begun:
            buffer.read.cancel()
        for buffer in begun:
            with contextlib.suppress(Error):
                buffer.read.order(buffer.stream.handle)  # the memory is returned after the work that is already queued

    def _take_back(self) -> None:
        if self._held is not None:
            self._held.read.end_work(self._held.stream.handle)
            self._free.append(self._held)
            self._held = None

    def _begin(self) -> None:
        while self._free:
            index = next(self._places, None)
            if index is None:
                return
            buffer = self._free.popleft()
            handle = buffer.stream.handle
            if buffer.memory is None:
                context = _core._context_of(self.array)
                buffer.memory = _core._device_memory(context, self._device, self._whole, self.array.dtype)
                buffer.memory.order(handle)
            buffer.index, buffer.box = index, self._box(index)
            shape = tuple(part.stop - part.start for part in buffer.box)
            strides = tuple(self.array.dtype.itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape)))
            where = (buffer.memory.address, shape, strides, buffer.memory)
            buffer.read = _core._read_to_device(
                self.array, (*buffer.box, ...), self._device, handle, *where, threads=0, check=False
            )
            buffer.read.claim_outcome()
            self._begun.append(buffer)

    def _check(self, wait: bool) -> None:
        """Raise known failures of the device; `wait`: wait for the oldest."""
        left: deque[tuple[tuple[int, ...], Any]] = deque()
        for index, read in self._unproven:
            if not (read.done or (wait and not left)):
                left.append((index, read))
                continue
            try:
                read.outcome()
            except Error as error:
                raise type(error)(error.message, *error.notes, f"tile {index} of the stream") from error
        self._unproven = left
