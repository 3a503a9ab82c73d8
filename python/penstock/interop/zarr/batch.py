"""Batches of chunks, prepared for the engine: the memory for each chunk's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock import _core
from penstock.core.data_types import cast
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.program import Program, exported

Item = tuple[Any, Any, Any, Any, bool]
"""In zarr-python's form: byte getter, spec, selection in the chunk, selection in memory, "replaces all"."""

_GROUP_BYTES = 64 << 20


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _box(selection: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], Any]:
    """A box of the chunk that holds all of `selection`, and the selection within that box."""
    whole = tuple(slice(0, length) for length in shape)
    parts = selection if isinstance(selection, tuple) else (selection,)
    if len(parts) != len(shape):
        return whole, selection
    box: list[slice] = []
    inner: list[Any] = []
    for part, length in zip(parts, shape, strict=True):
        if isinstance(part, slice):
            start, stop, step = part.indices(length)
            if step < 1 or stop <= start:
                return whole, selection
            box.append(slice(start, stop))
            inner.append(slice(0, stop - start, step))
        elif isinstance(part, np.ndarray) and part.dtype.kind in "iu" and part.size:
            low, high = int(part.min()), int(part.max())
            if low < 0 or high >= length:
                return whole, selection
            box.append(slice(low, high + 1))
            inner.append(part - low)
        elif isinstance(part, np.ndarray) and part.dtype.kind == "b" and part.shape == (length,):
            box.append(slice(0, length))
            inner.append(part)
        elif isinstance(part, int | np.integer) and not isinstance(part, bool) and 0 <= part < length:
            box.append(slice(int(part), int(part) + 1))
            inner.append(0)
        else:
            return whole, selection
    return tuple(box), tuple(inner)


def keeping_edges(batch: Sequence[Item]) -> list[Item]:
    """The same items, in which a shard at the edge of its array is not replaced as a whole.

    zarr-python keeps the elements that a shard has beyond the edge, as they remain after `resize` to a smaller shape.
    """
    return [(*item[:4], item[4] and _covers(item[2], item[1].shape)) for item in batch]


def _covers(selection: Any, shape: tuple[int, ...]) -> bool:
    """Whether an item's selection has all elements of a chunk, and not only those within the array."""
    if len(selection) != len(shape):
        return False
    for part, length in zip(selection, shape, strict=True):
        if isinstance(part, slice):
            start, stop, _ = part.indices(length)
            if start > 0 or stop < length:
                return False
        elif length > 1:
            return False
    return True


def _lengths(box: tuple[slice, ...]) -> tuple[int, ...]:
    return tuple(part.stop - part.start for part in box)


def _groups(batch: Sequence[Item], chunk_bytes: int) -> Iterator[Sequence[Item]]:
    """Parts of a batch whose chunks fit into a temporary array together."""
    size = max(1, _GROUP_BYTES // max(1, chunk_bytes))
    for first in range(0, len(batch), size):
        yield batch[first : first + size]


class ReadPiece:
    """Chunks that one call of the engine reads, and the work that follows."""

    __slots__ = ("core", "items")
    on_device = False

    def __init__(self, core: _core._ChunkBatch, items: Sequence[Item]) -> None:
        self.core, self.items = core, items

    def read(self, context: _core.Context, store: _core.Store, threads: int) -> bytes | None:
        """Read, and return which chunks are missing."""
        return self.core.read(context, store, threads)

    def finish(self) -> None:
        """Move the values to their destination."""


class _SwappedPiece(ReadPiece):
    """Memory in the other byte order: read into a native array, then copied."""

    __slots__ = ("memory", "native")

    def __init__(
        self, core: _core._ChunkBatch, items: Sequence[Item], native: npt.NDArray[Any], memory: npt.NDArray[Any]
    ) -> None:
        super().__init__(core, items)
        self.native, self.memory = native, memory

    def finish(self) -> None:
        self.memory[...] = cast(self.native, self.memory.dtype)


class _IndexedPiece(ReadPiece):
    """Index arrays: boxes are read, and NumPy selects the elements."""

    __slots__ = ("boxes", "drop_axes", "inner", "memory", "room")

    def __init__(
        self,
        program: Program,
        items: Sequence[Item],
        memory: npt.NDArray[Any],
        drop_axes: tuple[int, ...],
        make: Callable[[Program, Sequence[Item], Any], _core._ChunkBatch | None],
        empty: Callable[[tuple[int, ...], np.dtype[Any]], Any] = np.empty,
    ) -> None:
        found = [_box(chunk_selection, spec.shape) for _, spec, chunk_selection, _, _ in items]
        self.boxes, self.inner = [box for box, _ in found], [inner for _, inner in found]
        lengths = [_lengths(box) for box in self.boxes]
        assert program.dtype is not None
        largest = tuple(max(each) for each in zip(*lengths, strict=True))
        self.room = empty((len(items), *largest), _native(program.dtype))
        wanted = [
            (item[0], item[1], box, (i, *(slice(0, n) for n in length)), False)
            for i, (item, box, length) in enumerate(zip(items, self.boxes, lengths, strict=True))
        ]
        core = make(program, wanted, self.room)
        assert core is not None
        super().__init__(core, items)
        self.memory, self.drop_axes = memory, drop_axes

    def finish(self) -> None:
        for i, (item, box, inner) in enumerate(zip(self.items, self.boxes, self.inner, strict=True)):
            whole = tuple(slice(0, length) for length in _lengths(box))
            values = self.room[i][whole][inner]
            if self.drop_axes:
                values = values.reshape([n for d, n in enumerate(values.shape) if d not in self.drop_axes])
            self.memory[item[3]] = cast(values, self.memory.dtype)


class DevicePiece(ReadPiece):
    """Chunks that are decoded in GPU memory."""

    __slots__ = ("memory",)
    on_device = True

    def __init__(self, core: _core._ChunkBatch, items: Sequence[Item], memory: _gpu.DeviceMemory) -> None:
        super().__init__(core, items)
        self.memory = memory

    def read(self, context: _core.Context, store: _core.Store, threads: int) -> bytes | None:
        return self.core.read_to_device(context, store, self.memory.device, self.memory.stream, threads)


class _IndexedDevicePiece(_IndexedPiece):
    """Index arrays: boxes are decoded in GPU memory, and CuPy selects the elements."""

    __slots__ = ("place",)
    on_device = True

    def __init__(
        self, program: Program, items: Sequence[Item], memory: Any, drop_axes: tuple[int, ...], ordered: bool
    ) -> None:
        super().__init__(program, items, memory, drop_axes, _device_batch, _gpu.empty)
        self.place = _gpu.memory_of(self.room, ordered)

    def read(self, context: _core.Context, store: _core.Store, threads: int) -> bytes | None:
        return self.core.read_to_device(context, store, self.place.device, self.place.stream, threads)

    def finish(self) -> None:
        if self.place.stream is None:
            _gpu.wait_for_target()
        super().finish()
        if self.place.stream is None:
            _gpu.wait_for_current_stream()


def _host_batch(program: Program, items: Sequence[Item], memory: npt.NDArray[Any]) -> _core._ChunkBatch | None:
    assert program.core is not None
    return program.core.batch(items, exported(memory))


def _device_batch(program: Program, items: Sequence[Item], memory: Any) -> _core._ChunkBatch | None:
    assert program.core is not None
    place = _gpu.memory_of(memory)
    return program.core.device_batch(items, place.address, place.shape, place.strides)


def prepare_device_read(
    program: Program, batch: Sequence[Item], memory: Any, drop_axes: tuple[int, ...], ordered: bool
) -> list[ReadPiece]:
    """The parts that together read `batch` into `memory`, which is on a device and has the machine's byte order.

    `ordered`: as in `gpu.memory_of`.
    """
    assert program.core is not None
    core = None if drop_axes else _device_batch(program, batch, memory)
    if core is not None:
        return [DevicePiece(core, batch, _gpu.target_of(memory, ordered))]
    groups = _groups(batch, program.core.chunk_bytes)
    return [_IndexedDevicePiece(program, group, memory, drop_axes, ordered) for group in groups]


def prepare_read(
    program: Program, batch: Sequence[Item], memory: npt.NDArray[Any], drop_axes: tuple[int, ...]
) -> list[ReadPiece]:
    """The parts that together read `batch` into `memory`."""
    assert program.core is not None
    if not drop_axes:
        if memory.dtype.isnative:  # of memory that a caller passed, independent of the array's
            core = program.core.batch(batch, exported(memory))
            if core is not None:
                return [ReadPiece(core, batch)]
        else:
            native = cast(memory, _native(memory.dtype))
            core = program.core.batch(batch, exported(native))
            if core is not None:
                return [_SwappedPiece(core, batch, native, memory)]
    chunk_bytes = program.core.chunk_bytes
    return [_IndexedPiece(program, group, memory, drop_axes, _host_batch) for group in _groups(batch, chunk_bytes)]


class WritePiece:
    """Chunks that one call of the engine merges and encodes."""

    __slots__ = ("core", "items")

    def __init__(self, core: _core._ChunkBatch | None, items: Sequence[Item]) -> None:
        self.core, self.items = core, items

    def ready(self, context: _core.Context, store: _core.Store) -> _core._ChunkBatch:
        """The batch to be encoded; `store` has the present objects."""
        assert self.core is not None
        return self.core

    def write(
        self, context: _core.Context, old: _core.Store, to: _core.Store | None, threads: int
    ) -> list[bytes | None]:
        """Merge and encode all, and store them in `to`; without it, they are returned (None: empty)."""
        return self.ready(context, old).write(context, old, to, self._keeps_empty(), threads) or []

    def _keeps_empty(self) -> bool:
        return bool(self.items[0][1].config.write_empty_chunks)


class _DeviceWrite(WritePiece):
    """Values in GPU memory, which are transferred chunk by chunk through page-locked memory and encoded on the host."""

    __slots__ = ("memory",)

    def __init__(self, core: _core._ChunkBatch, items: Sequence[Item], memory: _gpu.DeviceMemory) -> None:
        super().__init__(core, items)
        self.memory = memory

    def write(
        self, context: _core.Context, old: _core.Store, to: _core.Store | None, threads: int
    ) -> list[bytes | None]:
        assert self.core is not None
        device, stream = self.memory.device, self.memory.stream
        return self.core.write(context, old, to, self._keeps_empty(), threads, device, stream) or []


class _IndexedWrite(WritePiece):
    """Index arrays: whole chunks are read, NumPy changes them, and they are written."""

    __slots__ = ("drop_axes", "program", "value")

    def __init__(
        self, program: Program, items: Sequence[Item], value: npt.NDArray[Any], drop_axes: tuple[int, ...]
    ) -> None:
        super().__init__(None, items)
        self.program, self.value, self.drop_axes = program, value, drop_axes

    def ready(self, context: _core.Context, store: _core.Store) -> _core._ChunkBatch:
        program = self.program
        assert program.core is not None
        assert program.dtype is not None
        spec = self.items[0][1]
        whole = tuple(slice(0, n) for n in spec.shape)
        room = np.empty((len(self.items), *spec.shape), _native(program.dtype))
        shown = exported(room)
        every = [(item[0], spec, whole, (i, *whole), True) for i, item in enumerate(self.items)]
        old = [part for part, item in zip(every, self.items, strict=True) if not item[4]]
        if len(old) != len(every):
            fill = spec.fill_value if spec.fill_value is not None else spec.dtype.default_scalar()
            for i, item in enumerate(self.items):
                if item[4]:
                    room[i] = fill
        if old:
            reading = program.core.batch(old, shown)
            assert reading is not None
            reading.read(context, store, 0)
        for i, (_, _, chunk_selection, value_selection, replaces) in enumerate(self.items):
            if chunk_selection == () or self.value.shape == ():
                part = self.value
            else:
                part = self.value[value_selection]
                if replaces and part.shape == spec.shape:  # zarr-python takes it as the chunk
                    chunk_selection = whole
                elif self.drop_axes:
                    part = part[tuple(None if d in self.drop_axes else slice(None) for d in range(len(spec.shape)))]
            room[i, ...][chunk_selection] = part
        core = program.core.batch(every, shown)
        assert core is not None
        return core


def prepare_device_write(
    program: Program, batch: Sequence[Item], value: Any, drop_axes: tuple[int, ...], ordered: bool
) -> list[WritePiece] | None:
    """The parts that together write `value`, which is on a device; None if it must be copied to the host first.

    `ordered`: as in `gpu.memory_of`.
    """
    if drop_axes or not program.native or not value.dtype.isnative:
        return None
    core = _device_batch(program, batch, value)
    return None if core is None else [_DeviceWrite(core, batch, _gpu.memory_of(value, ordered))]


def prepare_write(
    program: Program, batch: Sequence[Item], value: npt.NDArray[Any], drop_axes: tuple[int, ...]
) -> list[WritePiece]:
    """The parts that together write `value`, which has the program's dtype except for byte order."""
    assert program.core is not None
    value = cast(value, _native(value.dtype))
    chunk_bytes = program.core.chunk_bytes
    pieces: list[WritePiece] = []
    shown = exported(value)
    for group in _groups(batch, chunk_bytes):
        core = None if drop_axes else program.core.batch(group, shown)
        pieces.append(WritePiece(core, group) if core is not None else _IndexedWrite(program, group, value, drop_axes))
    return pieces
