"""Tiles of an array, read ahead into device memory."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock import _core, _device
from penstock._array import Array
from penstock._stream import Stream, Tile


@dataclass(frozen=True)
class DeviceTile(Tile):
    """A tile in device memory. `data` is a `penstock.Tensor`, good until the next tile is asked for."""

    stream: int
    """The handle of the stream that the values are ordered on. Queue what uses them there: the memory is written to
    again only after that."""


@dataclass
class _Buffer:
    stream: _core._DeviceStream
    base: Any = None  # the read that took the memory
    read: Any = None  # the one that fills it now
    index: tuple[int, ...] = ()
    box: tuple[slice, ...] = ()


class DeviceStream(Stream):
    """As `Stream`, with `depth` + 1 buffers in device memory, each with a stream of its own."""

    def __init__(self, array: Array, shape: tuple[int, ...], depth: int, device: Any) -> None:
        super().__init__(array, shape, depth)
        self._device = _device.device_number(device)
        self._free = deque(_Buffer(_core._DeviceStream(self._device)) for _ in range(depth + 1))
        self._begun: deque[_Buffer] = deque()
        self._held: _Buffer | None = None

    def __next__(self) -> DeviceTile:
        if self._held is not None:
            self._free.append(self._held)
            self._held = None
        try:
            self._begin()
            if not self._begun:
                self._check_all()
                raise StopIteration
            buffer = self._begun.popleft()
            buffer.read.order(buffer.stream.handle)
        except StopIteration:
            raise
        except BaseException:
            self.close()
            raise
        self._held = buffer
        return DeviceTile(buffer.index, buffer.box, _device.DeviceTensor(buffer.read), buffer.stream.handle)

    def close(self) -> None:
        """Cancel what is under way; there are no more tiles then."""
        super().close()
        begun, self._begun = self._begun, deque()
        for buffer in begun:
            buffer.read.cancel()

    def _begin(self) -> None:
        while self._free:
            index = next(self._places, None)
            if index is None:
                return
            buffer = self._free.popleft()
            if buffer.read is not None and buffer.read.done:
                buffer.read.synchronize()  # waits for nothing: raises what failed on the device
            buffer.index, buffer.box = index, self._box(index)
            shape = tuple(part.stop - part.start for part in buffer.box)
            strides = np.empty((0, *shape[1:]), self.array.dtype).strides if shape else ()
            address = 0 if buffer.base is None else buffer.base.address
            where = (address, shape, strides, buffer.base)
            buffer.read = _core._read_to_device(
                self.array, (*buffer.box, ...), self._device, buffer.stream.handle, *where, threads=0, check=False
            )
            buffer.base = buffer.base or buffer.read
            self._begun.append(buffer)

    def _check_all(self) -> None:
        for buffer in self._free:
            if buffer.read is not None:
                buffer.read.synchronize()
