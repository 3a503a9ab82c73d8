"""The codec pipeline that zarr-python calls."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from zarr.abc.store import Store
from zarr.core import codec_pipeline
from zarr.core.buffer import cpu
from zarr.core.common import concurrent_map
from zarr.core.config import config
from zarr.core.sync import _get_loop, sync
from zarr.registry import register_pipeline
from zarr.storage import StorePath

from penstock import _core
from penstock.core.data_types import is_masked_array, unmasked
from penstock.core.errors import CorruptDataError, InvalidArgumentError
from penstock.interop.zarr import gpu as _gpu
from penstock.interop.zarr.batch import (
    Item,
    ReadPiece,
    WritePiece,
    keeping_edges,
    prepare_device_read,
    prepare_device_write,
    prepare_read,
    prepare_write,
)
from penstock.interop.zarr.program import Program, compile_program
from penstock.interop.zarr.recycled import exchange
from penstock.interop.zarr.route import Route
from penstock.interop.zarr.settings import count, current_context, delegated
from penstock.interop.zarr.waiting import Waits, fetch_all, store_all

# Before zarr-python 3.4 only the batched one exists.
_Base: Any = getattr(codec_pipeline, "FusedCodecPipeline", codec_pipeline.BatchedCodecPipeline)

_INLINE_BYTES = 512 << 10
"""Bytes that are decoded on the calling thread, even if it runs an event loop: well under a millisecond."""

_PRESENT: Any = {"status": "present"}
_MISSING: Any = {"status": "missing"}


class _Direct(threading.local):
    on = False


direct = _Direct()
"""Set while `wrap` drives the pipeline on the calling thread: no event loop is blocked, and CuPy's current stream is
the consumer's."""


class _Refused(Exception):
    """The engine does not handle this batch; the text has the reason."""


def _statuses(pieces: Sequence[ReadPiece], flags: Sequence[bytes | None]) -> tuple[Any, ...]:
    out: list[Any] = []
    for piece, missing in zip(pieces, flags, strict=True):
        if missing is None:
            out += [_PRESENT] * len(piece.items)
        else:
            out += [_MISSING if flag else _PRESENT for flag in missing]
    return tuple(out)


def _read_pieces(
    program: Program, batch: Sequence[Item], memory: Any, drop_axes: tuple[int, ...]
) -> Sequence[ReadPiece]:
    if _gpu.on_device(memory):
        return prepare_device_read(program, batch, memory, drop_axes, ordered=direct.on)
    return prepare_read(program, batch, memory, drop_axes)


class CodecPipeline(_Base):  # type: ignore[misc]
    """A zarr-python codec pipeline that fetches, decodes and scatters in C++.

    Set it with `penstock.zarr.enable()`, or `zarr.config.set({"codec_pipeline.path": "penstock.zarr.CodecPipeline"})`.
    Chunks that C++ does not support (see `penstock.zarr.explain`) go through zarr-python's own pipeline.
    """

    # zarr-python's dataclasses are frozen, and their pickles should not contain compiled programs.
    _penstock_programs: list[tuple[Any, Program]] | None = None
    _penstock_route: Route | None = None
    _penstock_zarr: Any = None
    _penstock_default: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_penstock_")}

    @property
    def supports_sync_io(self) -> bool:
        """`read_sync` and `write_sync` may be called if the store has synchronous methods."""
        programs = self._penstock_programs
        compiled = programs is not None and any(program.core is not None for _, program in programs)
        return compiled or getattr(self, "sync_transform", None) is not None

    # --- compiled once ---

    def _program(self, spec: Any) -> Program:
        programs = self._penstock_programs
        if programs is None:
            programs = []
            object.__setattr__(self, "_penstock_programs", programs)
        for known, program in programs:
            if (
                known.shape == spec.shape
                and known.dtype is spec.dtype
                and known.fill_value is spec.fill_value
                and known.config.order == spec.config.order
            ):
                return program
        program = compile_program(tuple(self), spec)
        if len(programs) >= 64:  # a rectilinear grid has many shapes
            del programs[0]
        programs.append((spec, program))
        return program

    def _route(self, store: Any) -> Route:
        route = self._penstock_route
        if route is None or not route.serves(store):
            route = Route(store)
            object.__setattr__(self, "_penstock_route", route)
        return route

    @property
    def _zarr(self) -> Any:
        """zarr-python's own pipeline of the same codecs."""
        if self._penstock_zarr is None:
            values = {field.name: getattr(self, field.name) for field in dataclasses.fields(_Base)}
            object.__setattr__(self, "_penstock_zarr", _Base(**values))
        return self._penstock_zarr

    @property
    def _zarrs_default(self) -> Any:
        """zarr-python's default pipeline of the same codecs."""
        if self._penstock_default is None:
            made = codec_pipeline.BatchedCodecPipeline(
                array_array_codecs=self.array_array_codecs,
                array_bytes_codec=self.array_bytes_codec,
                bytes_bytes_codecs=self.bytes_bytes_codecs,
                batch_size=self.batch_size,
            )
            object.__setattr__(self, "_penstock_default", made)
        return self._penstock_default

    def _other(self, batch: Sequence[Item]) -> Any:
        """The pipeline for refused batches. Objects that are not stores get the default pipeline."""
        getter = batch[0][0]
        if type(getter) is StorePath and not issubclass(type(getter.store), Store):
            return self._zarrs_default
        return self._zarr

    def _admit(self, batch: Sequence[Item], memory: Any) -> tuple[Program, Route, Any]:
        """The program that serves the batch, and the array behind `memory`, which may be on a device; raises
        `_Refused`.
        """
        getter, spec = batch[0][:2]
        if type(getter) is not StorePath:
            raise _Refused(f"{type(getter).__name__} is not a place in a store")
        store = getter.store
        for item in batch:
            # zarr-python before 3.2 creates a new specification for each chunk.
            if (item[1] is not spec and item[1] != spec) or item[0].store is not store:
                raise _Refused("the chunks differ in shape or store")
        if not issubclass(type(store), Store):
            raise _Refused(f"{type(store).__name__} is not a zarr.abc.store.Store")
        program = self._program(spec)
        if program.core is None:
            raise _Refused(program.reason)
        array = memory.as_ndarray_like()
        if not isinstance(array, np.ndarray) and not _gpu.on_device(array):
            raise _Refused(f"memory is a {type(array).__name__}")
        wanted: Any = program.dtype
        if array.dtype != wanted and array.dtype.newbyteorder("=") != wanted.newbyteorder("="):
            raise _Refused(f"memory has dtype {array.dtype}, the chunks {program.dtype}")
        return program, self._route(store), array

    def _admit_read(self, batch: Sequence[Item], out: Any) -> tuple[Program, Route, Any]:
        program, route, memory = self._admit(batch, out)
        if _gpu.on_device(memory):
            if not program.native:
                raise _Refused(f"memory of a device has dtype {memory.dtype}, in the other byte order")
            return program, route, memory
        del memory
        exchange(out, (item[3] for item in batch))
        return program, route, out.as_ndarray_like()

    async def _raise_theirs(self, batch: Sequence[Item], ours: CorruptDataError) -> None:
        """Raise zarr-python's own error for chunks that the engine found corrupt, if it has one."""
        for getter, spec, *_ in batch:
            room = spec.prototype.nd_buffer.create(shape=spec.shape, dtype=spec.dtype.to_native_dtype())
            whole = tuple(slice(0, length) for length in spec.shape)
            items = [(getter, spec, whole, whole, True)]
            try:
                if direct.on:
                    self._zarr.read_sync(items, room)
                else:
                    await self._zarr.read(items, room)
            except Exception as theirs:
                raise theirs from ours

    # --- reads ---

    async def read(self, batch_info: Iterable[Item], out: Any, drop_axes: tuple[int, ...] = ()) -> tuple[Any, ...]:
        batch = batch_info if type(batch_info) is list else list(batch_info)
        if not batch:
            return ()
        try:
            program, route, memory = self._admit_read(batch, out)
            device = _gpu.on_device(memory)
            pieces = _read_pieces(program, batch, memory, drop_axes)
        except _Refused as refused:
            delegated("read", str(refused))
            if direct.on:
                return self._zarr.read_sync(batch, out, drop_axes)  # type: ignore[no-any-return]
            _gpu.wait_for_target()
            found: tuple[Any, ...] = await self._other(batch).read(batch, out, drop_axes)
            _gpu.wait_for_target()
            return found
        count("read", "device" if device else route.path, route.reason)
        try:
            if device:
                return await self._read_on_device(route, program, pieces)
            if route.path == "async":
                return await self._read_async(route, program, pieces)
            if direct.on or (route.path == "native" and sum(piece.core.bytes for piece in pieces) <= _INLINE_BYTES):
                return self._read_here(route, program, pieces)
            if route.path == "sync" and program.core is not None and program.core.sharded:
                return await self._read_shards_of_sync_store(route, pieces)
            return await asyncio.to_thread(self._read_here, route, program, pieces)
        except CorruptDataError as ours:
            await self._raise_theirs(batch, ours)
            raise

    def read_sync(
        self, batch_info: Iterable[Item], out: Any, drop_axes: tuple[int, ...] = (), max_workers: int = 1
    ) -> tuple[Any, ...]:
        """Read on this thread; needs a store with synchronous methods."""
        batch = list(batch_info)
        if not batch:
            return ()
        try:
            program, route, memory = self._admit_read(batch, out)
            if route.path == "async":
                raise _Refused(route.reason)
            device = _gpu.on_device(memory)
            pieces = _read_pieces(program, batch, memory, drop_axes)
        except _Refused as refused:
            delegated("read", str(refused))
            return self._zarr.read_sync(batch, out, drop_axes, max_workers)  # type: ignore[no-any-return]
        count("read", "device" if device else route.path, route.reason)
        return self._read_here(route, program, pieces)

    @staticmethod
    def _read_here(route: Route, program: Program, pieces: Sequence[ReadPiece]) -> tuple[Any, ...]:
        assert program.core is not None
        flags = []
        for piece in pieces:
            if route.path == "sync" and not program.core.sharded:
                flags.append(_read_chunks(route, piece))
            elif route.path == "sync" and not piece.on_device:
                flags.append(_read_shards_here(route, piece))
            else:
                flags.append(_read_piece(route, piece))
            piece.finish()
        return _statuses(pieces, flags)

    @staticmethod
    async def _read_shards_of_sync_store(route: Route, pieces: Sequence[ReadPiece]) -> tuple[Any, ...]:
        """As `_read_shards_here`, from zarr-python's event loop."""
        flags: list[bytes | None] = []
        for piece in pieces:
            try:
                flags.append(await asyncio.to_thread(_read_unless_waiting, route, piece))
            except Waits:
                with route.overlapping():
                    flags.append(await _read_shards(route, piece, config.get("async.concurrency")))
            await asyncio.to_thread(piece.finish)
        return _statuses(pieces, flags)

    async def _read_on_device(self, route: Route, program: Program, pieces: Sequence[ReadPiece]) -> tuple[Any, ...]:
        """Read on the device. `finish` is CuPy's work, on this thread's current stream.

        On an event loop the call waits for the device unless the consumer's stream is known (`gpu.target_of`).
        """
        assert program.core is not None
        if direct.on:
            return self._read_here(route, program, pieces)
        flags = []
        for piece in pieces:
            if route.path != "async":
                flags.append(await asyncio.to_thread(_read_piece, route, piece))
            elif program.core.sharded:
                with route.on_loop(asyncio.get_running_loop()) as store:
                    flags.append(await asyncio.to_thread(piece.read, current_context(), store, 1))
            else:
                store = await _fetched(piece.items, config.get("async.concurrency"), True)
                flags.append(await asyncio.to_thread(piece.read, current_context(), store, 0))
            piece.finish()
        return _statuses(pieces, flags)

    async def _read_async(self, route: Route, program: Program, pieces: Sequence[ReadPiece]) -> tuple[Any, ...]:
        assert program.core is not None
        limit = config.get("async.concurrency")
        flags = []
        for piece in pieces:
            if program.core.sharded:
                flags.append(await _read_shards(route, piece, limit))
                await asyncio.to_thread(piece.finish)
            else:
                store = await _fetched(piece.items, limit)
                flags.append(await asyncio.to_thread(_read_and_finish, piece, store))
        return _statuses(pieces, flags)

    # --- writes ---

    def _prepare_write(
        self, batch: Sequence[Item], value: Any, drop_axes: tuple[int, ...]
    ) -> tuple[Route, list[WritePiece]]:
        program, route, array = self._admit(batch, value)
        if is_masked_array(array):
            array = unmasked(array)
        if program.write_reason:
            raise _Refused(program.write_reason)
        if self.supports_partial_encode:
            batch = keeping_edges(batch)
        if _gpu.on_device(array):  # encoded on the host
            pieces = prepare_device_write(program, batch, array, drop_axes, ordered=direct.on)
            if pieces is not None:
                return route, pieces
            if not direct.on:
                _gpu.wait_for_device(array)
            array = value.as_numpy_array()
        return route, prepare_write(program, batch, array, drop_axes)

    async def write(self, batch_info: Iterable[Item], value: Any, drop_axes: tuple[int, ...] = ()) -> None:
        batch = batch_info if type(batch_info) is list else list(batch_info)
        if not batch:
            return
        try:
            route, pieces = self._prepare_write(batch, value, drop_axes)
        except _Refused as refused:
            delegated("write", str(refused))
            if direct.on:
                self._zarr.write_sync(batch, value, drop_axes)
            else:
                await self._other(batch).write(batch, value, drop_axes)
            return
        count("write", route.path, route.reason)
        try:
            if route.path == "async" or (route.waits and not direct.on):  # old chunks are read in parallel, too
                await _write_async(pieces)
            elif direct.on or (route.path == "native" and _decoded(pieces) <= _INLINE_BYTES):
                _write_here(route, pieces)
            else:
                await asyncio.to_thread(_write_here, route, pieces)
        except CorruptDataError as ours:
            await self._raise_theirs(batch, ours)
            raise
        except InvalidArgumentError as ours:  # a codec refuses the values: zarr-python has its own message for that
            delegated("write", f"a codec refuses the values ({ours})")
            if direct.on:
                self._zarr.write_sync(batch, value, drop_axes)
            else:
                await self._other(batch).write(batch, value, drop_axes)

    def write_sync(
        self, batch_info: Iterable[Item], value: Any, drop_axes: tuple[int, ...] = (), max_workers: int = 1
    ) -> None:
        """Write on this thread; needs a store with synchronous methods."""
        batch = list(batch_info)
        if not batch:
            return
        try:
            route, pieces = self._prepare_write(batch, value, drop_axes)
            if route.path == "async":
                raise _Refused(route.reason)
        except _Refused as refused:
            delegated("write", str(refused))
            self._zarr.write_sync(batch, value, drop_axes, max_workers)
            return
        count("write", route.path, route.reason)
        _write_here(route, pieces)


def _read_piece(route: Route, piece: ReadPiece, leaves: bool = False) -> bytes | None:
    assert route.core is not None
    threads = 0 if route.path == "native" else 1  # a Python store is called on this thread
    with route.errors(leaves):
        return piece.read(current_context(), route.core, threads)


def _read_unless_waiting(route: Route, piece: ReadPiece) -> bytes | None:
    """One request after the other. Raises `Waits` if the store waits and another request is needed."""
    if route.waits:
        raise Waits
    return _read_piece(route, piece, True)


def _read_chunks(route: Route, piece: ReadPiece) -> bytes | None:
    """Read whole objects by the store's synchronous methods: one after the other, or several at a time if they wait."""
    try:
        return _read_unless_waiting(route, piece)
    except Waits:
        with route.overlapping():
            objects = _core.dict_store(fetch_all(piece.items))
        return piece.read(current_context(), objects, 0)


def _read_shards_here(route: Route, piece: ReadPiece) -> bytes | None:
    """One shard after the other, by the store's synchronous methods; if they wait, all at once, by its coroutines."""
    try:
        return _read_unless_waiting(route, piece)
    except Waits:
        if asyncio._get_running_loop() is _get_loop():  # which cannot run coroutines meanwhile
            return _read_piece(route, piece)
        with route.overlapping():
            found: bytes | None = sync(_read_shards(route, piece, config.get("async.concurrency")))
        return found


def _read_and_finish(piece: ReadPiece, store: _core.Store) -> bytes | None:
    flags = piece.core.read(current_context(), store, 0)
    piece.finish()
    return flags


async def _fetched(items: Iterable[Item], limit: int | None, host: bool = False) -> _core.Store:
    """The objects of all items, requested together; `host`: in host memory, independent of the items' prototype."""
    asked = [(item[0], cpu.buffer_prototype if host else item[1].prototype) for item in items]
    found = await concurrent_map(asked, lambda getter, prototype: getter.get(prototype), limit)
    values = {getter.path: value for (getter, _), value in zip(asked, found, strict=True) if value is not None}
    return _core.dict_store(values)


async def _read_shards(route: Route, piece: ReadPiece, limit: int | None) -> bytes | None:
    """Each shard is a read of its own: its index, then the selected parts, on the running event loop."""
    loop, context = asyncio.get_running_loop(), current_context()

    async def one(which: int, store: _core.Store) -> None:
        done = loop.create_future()
        ticket = _core._ChunkTicket(piece.core, store, which, context)

        def ended() -> None:
            # Holds the ticket: if it were dropped on this loop before its end, it would wait for the loop itself.
            loop.call_soon_threadsafe(settle, ticket)

        def settle(_: Any) -> None:
            if not done.done():
                done.set_result(None)

        ticket.on_done(ended)
        await done
        ticket.finish()

    with route.on_loop(loop) as store:
        await concurrent_map([(i, store) for i in range(len(piece.core))], one, limit)
    return piece.core.missing()


def _decoded(pieces: Sequence[WritePiece]) -> int:
    items = pieces[0].items
    spec = items[0][1]
    size = spec.dtype.to_native_dtype().itemsize
    for length in spec.shape:
        size *= length
    return int(size) * sum(len(piece.items) for piece in pieces)


def _encode_here(route: Route, piece: WritePiece) -> list[bytes | None]:
    """Merge and encode. Old objects are read one after the other, or several at a time if the store waits."""
    assert route.core is not None
    if not route.waits:
        try:
            with route.errors(leaves=True):
                return piece.write(current_context(), route.core, None, 0 if route.path == "native" else 1)
        except Waits:
            pass
    present: dict[str, Any] = {}
    if merged := [item for item in piece.items if not item[4]]:
        with route.overlapping():
            present = fetch_all(merged)
    return piece.write(current_context(), _core.dict_store(present), None, 0)


def _write_here(route: Route, pieces: Sequence[WritePiece]) -> None:
    store = route.store
    store._check_writable()
    context = current_context()
    assert route.core is not None
    for piece in pieces:
        spec = piece.items[0][1]
        if route.native_writes:
            store._ensure_open_sync()
            piece.write(context, route.core, route.core, 0)
            continue
        objects = _encode_here(route, piece)
        make = _buffer_of(spec)
        if route.values is not None:
            store._is_open = True
            for item, encoded in zip(piece.items, objects, strict=True):
                if encoded is None:
                    route.values.pop(item[0].path, None)
                else:
                    route.values[item[0].path] = make(encoded)
        else:
            getters = (item[0] for item in piece.items)
            values = (None if encoded is None else make(encoded) for encoded in objects)
            store_all(zip(getters, values, strict=True), route.waits, route.note_time)


def _buffer_of(spec: Any) -> Callable[[bytes], Any]:
    """Make a zarr Buffer of an encoded chunk: in host memory, which stores require."""
    made: type = cpu.Buffer if _gpu.gpu_buffers() else spec.prototype.buffer
    return made.from_bytes  # type: ignore[attr-defined,no-any-return]


def _encode(piece: WritePiece, old: _core.Store) -> list[bytes | None]:
    return piece.write(current_context(), old, None, 0)


async def _write_async(pieces: Sequence[WritePiece]) -> None:
    limit = config.get("async.concurrency")

    async def store(item: Item, encoded: bytes | None) -> None:
        if encoded is None:
            await item[0].delete()
        else:
            await item[0].set(_buffer_of(item[1])(encoded))

    for piece in pieces:
        old = await _fetched((item for item in piece.items if not item[4]), limit, _gpu.gpu_buffers())
        objects = await asyncio.to_thread(_encode, piece, old)
        await concurrent_map(list(zip(piece.items, objects, strict=True)), store, limit)


CodecPipeline.__module__ = "penstock.zarr"
CodecPipeline.__qualname__ = "CodecPipeline"
register_pipeline(CodecPipeline)
