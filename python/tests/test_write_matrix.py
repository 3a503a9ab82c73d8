"""Writes to every kind of store: when they succeed, when a put fails, and when they are cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import fsspec
import numpy as np
import obstore.store
import penstock as ps
import pytest
import zarr
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from penstock import _core
from penstock.target.adapters.obstore import ObstoreAdapter

OLD = np.arange(1, 97, dtype="<i4").reshape(8, 12)
NEW = -OLD


class Gate:
    """All puts of chunks pass it: it counts them, refuses some, and blocks them while it is closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.refused: dict[int, Exception] = {}
        self.is_open = True
        self.delay = 0.0
        self.restart()

    def restart(self) -> None:
        self.puts = self.under_way = self.most_together = 0
        self.refused_keys: list[str] = []

    def begin(self, key: str) -> None:
        if key.endswith(".json"):
            return
        with self.lock:
            number = self.puts
            self.puts += 1
            self.under_way += 1
            self.most_together = max(self.most_together, self.under_way)
            failure = self.refused.get(number)
            if failure is not None:
                self.under_way -= 1
                self.refused_keys.append(key)
                raise failure

    def end(self, key: str) -> None:
        if not key.endswith(".json"):
            with self.lock:
                self.under_way -= 1

    def waits(self, key: str, began: float) -> bool:
        late = time.monotonic() - began < self.delay
        return not key.endswith(".json") and (late or not self.is_open)

    @contextlib.contextmanager
    def passing(self, key: str) -> Any:
        self.begin(key)
        try:
            began = time.monotonic()
            while self.waits(key, began):
                time.sleep(0.001)
            yield
        finally:
            self.end(key)

    @contextlib.asynccontextmanager
    async def passing_async(self, key: str) -> Any:
        self.begin(key)
        try:
            began = time.monotonic()
            while self.waits(key, began):
                await asyncio.sleep(0.001)
            yield
        finally:
            self.end(key)


class Dict(dict):
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def __setitem__(self, key: str, value: Any) -> None:
        with self.gate.passing(key):
            super().__setitem__(key, value)

    def pop(self, key: str, *default: Any) -> Any:
        with self.gate.passing(key):
            return super().pop(key, *default)

    def __delitem__(self, key: str) -> None:
        with self.gate.passing(key):
            super().__delitem__(key)


class Sync:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        with self.gate.passing(key):
            self.values[key] = value

    def delete(self, key: str) -> None:
        with self.gate.passing(key):
            del self.values[key]


class Versioned(ps.Store):
    """A store with versions, so that puts are conditional."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.values: dict[str, tuple[int, bytes]] = {}
        self.writes = 0

    def get(self, key: str) -> bytes | None:
        return self.values.get(key, (0, None))[1]

    def set(self, key: str, value: bytes) -> None:
        with self.gate.passing(key):
            self.writes += 1
            self.values[key] = (self.writes, value)

    def delete(self, key: str) -> None:
        with self.gate.passing(key):
            self.values.pop(key, None)

    def version(self, key: str) -> str | None:
        return str(self.values[key][0]) if key in self.values else None


class Async:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.values: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    async def set(self, key: str, value: bytes) -> None:
        async with self.gate.passing_async(key):
            self.values[key] = value

    async def delete(self, key: str) -> None:
        async with self.gate.passing_async(key):
            del self.values[key]


class ZarrSync(zarr.storage.WrapperStore):
    gate: Gate

    def set_sync(self, key: str, value: Any) -> None:
        with self.gate.passing(key):
            self._store.set_sync(key, value)

    def delete_sync(self, key: str) -> None:
        with self.gate.passing(key):
            self._store.delete_sync(key)


class ZarrAsync(zarr.storage.WrapperStore):
    _supports_sync_io = False
    gate: Gate

    async def set(self, key: str, value: Any) -> None:
        async with self.gate.passing_async(key):
            await self._store.set(key, value)

    async def delete(self, key: str) -> None:
        async with self.gate.passing_async(key):
            await self._store.delete(key)


def zarr_store(kind: type, gate: Gate) -> Any:
    made = kind(zarr.storage.MemoryStore())
    made.gate = gate
    return made


class FsspecSync(MemoryFileSystem):
    protocol = "gatedsync"
    cachable = False
    gate: Gate

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        with self.gate.passing(path):
            super().pipe_file(path, value, mode, **kwargs)

    def rm_file(self, path: str) -> None:
        with self.gate.passing(path):
            super().rm_file(path)


class FsspecAsync(AsyncFileSystem):
    """Objects in memory that are accessed through an event loop."""

    protocol = "gatedasync"
    cachable = False
    gate: Gate

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        if path not in self.values:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.values[path]), "type": "file"}

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        raise FileNotFoundError(path)

    async def _cat_file(self, path: str, start: Any = None, end: Any = None, **kwargs: Any) -> bytes:
        if path not in self.values:
            raise FileNotFoundError(path)
        return self.values[path][start:end]

    async def _pipe_file(self, path: str, value: bytes, **kwargs: Any) -> None:
        async with self.gate.passing_async(path):
            self.values[path] = value

    async def _rm_file(self, path: str, **kwargs: Any) -> None:
        async with self.gate.passing_async(path):
            if self.values.pop(path, None) is None:
                raise FileNotFoundError(path)


def mapper(kind: type, gate: Gate, root: str) -> Any:
    fs = kind()
    fs.gate = gate
    return fsspec.FSMap(root, fs)


class GatedObstore(ObstoreAdapter):
    gate: Gate

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Any:
        async with self.gate.passing_async(key):
            return await super().set_value(key, value, absent, expected)

    async def delete(self, key: str) -> None:
        async with self.gate.passing_async(key):
            await super().delete(key)


def object_store(gate: Gate) -> Any:
    adapter = GatedObstore(obstore.store.MemoryStore())
    adapter.gate = gate
    return _core.object_store(adapter, "memory", True)


KINDS: dict[str, Callable[[Gate, Any], Any]] = {
    "dict": lambda gate, _: Dict(gate),
    "object": lambda gate, _: Sync(gate),
    "penstock store": lambda gate, _: Versioned(gate),
    "async object": lambda gate, _: Async(gate),
    "zarr store": lambda gate, _: zarr_store(ZarrSync, gate),
    "async zarr store": lambda gate, _: zarr_store(ZarrAsync, gate),
    "fsspec": lambda gate, path: mapper(FsspecSync, gate, str(path)),
    "async fsspec": lambda gate, path: mapper(FsspecAsync, gate, "root"),
    "obstore": lambda gate, _: object_store(gate),
}
ASYNC = ("async object", "async zarr store", "async fsspec", "obstore")
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (2, 3)},
    "sharded": {"chunks": (1, 3), "shards": (2, 3)},
}
OBJECTS = 16


class Scene:
    def __init__(self, kind: str, layout: str, path: Any, threads: int = 2, io_concurrency: int = 4) -> None:
        self.gate = Gate()
        with ps.Context(threads=threads, io_concurrency=io_concurrency) as self.context:
            self.array = ps.create_array(
                KINDS[kind](self.gate, path), shape=OLD.shape, dtype=OLD.dtype, fill_value=0, **LAYOUTS[layout]
            )
        self.array[...] = OLD
        self.gate.restart()

    def write(self, how: str, value: Any = NEW) -> None:
        if how == "write":
            self.array[...] = value
        else:
            self.array.write_async(..., value).wait(60)

    def is_old_or_new(self, new: np.ndarray = NEW) -> bool:
        """Whether each object is whole: the old one or the new one."""
        now = self.array[...]
        for row in range(0, 8, 2):
            for column in range(0, 12, 3):
                at = (slice(row, row + 2), slice(column, column + 3))
                if not (np.array_equal(now[at], OLD[at]) or np.array_equal(now[at], new[at])):
                    return False
        return True


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["write", "write_async"])
def how(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_object_is_put_once(kind, layout, how, tmp_path):
    scene = Scene(kind, layout, tmp_path)
    scene.write(how)
    np.testing.assert_array_equal(scene.array[...], NEW)
    assert scene.gate.puts == OBJECTS
    assert scene.gate.under_way == 0
    scene.write(how, np.zeros_like(OLD))  # every object is erased
    np.testing.assert_array_equal(scene.array[...], 0)
    assert scene.gate.puts == 2 * OBJECTS


@pytest.mark.parametrize("which", [0, 7, OBJECTS - 1])
@pytest.mark.parametrize("value", [NEW, np.zeros_like(OLD)], ids=["puts", "erases"])
def test_a_put_that_fails_is_named_once(kind, layout, how, which, value, tmp_path):
    scene = Scene(kind, layout, tmp_path)
    scene.gate.refused = {which: PermissionError("the bucket is locked")}
    with pytest.raises(PermissionError, match="the bucket is locked") as failed:
        scene.write(how, value)
    assert len(scene.gate.refused_keys) == 1
    key = "c/" + scene.gate.refused_keys[0].rpartition("c/")[2]
    assert str(failed.value).count(f"writing '{key}'") == 1
    assert f"of {OBJECTS} objects were written before" in str(failed.value)
    scene.array.flush()
    scene.context.synchronize()  # it was reported before
    assert scene.gate.under_way == 0
    assert scene.is_old_or_new(value)
    scene.gate.refused = {}
    scene.write(how, value)
    np.testing.assert_array_equal(scene.array[...], value)


def test_one_of_many_failures_is_raised(kind, layout, how, tmp_path):
    scene = Scene(kind, layout, tmp_path)
    scene.gate.refused = {number: OSError(f"cable {number} is cut") for number in range(OBJECTS)}
    with pytest.raises(OSError, match="is cut") as failed:
        scene.write(how)
    assert str(failed.value).count("is cut") == 1
    scene.context.synchronize()
    np.testing.assert_array_equal(scene.array[...], OLD)


def test_a_part_of_each_object_changes(kind, layout, how, tmp_path):
    scene = Scene(kind, layout, tmp_path)
    want = OLD.copy()
    want[1:7, 1:11] = NEW[1:7, 1:11]
    if how == "write":
        scene.array[1:7, 1:11] = NEW[1:7, 1:11]
    else:
        scene.array.write_async((slice(1, 7), slice(1, 11)), NEW[1:7, 1:11]).wait(60)
    np.testing.assert_array_equal(scene.array[...], want)
    assert scene.gate.puts == OBJECTS


def test_a_cancelled_write_leaves_whole_objects(kind, layout, tmp_path):
    """A worker that waits for a synchronous store rarely checks for cancellation: the write may end before."""
    scene = Scene(kind, layout, tmp_path)
    scene.gate.is_open = False
    job = scene.array.write_async(..., NEW)
    end = time.monotonic() + 30
    while scene.gate.under_way == 0 and time.monotonic() < end:
        time.sleep(0.001)
    job.cancel()
    time.sleep(0.05)
    scene.gate.is_open = True
    with pytest.raises(ps.CancelledError) if kind in ASYNC else contextlib.suppress(ps.CancelledError):
        job.wait(60)
    assert scene.gate.under_way == 0
    assert scene.is_old_or_new()
    scene.context.synchronize()
    scene.write("write")
    np.testing.assert_array_equal(scene.array[...], NEW)


@pytest.mark.parametrize("kind", ASYNC)
@pytest.mark.parametrize("threads", [1, 2])
def test_requests_in_flight_are_not_threads(kind, layout, how, threads, tmp_path):
    scene = Scene(kind, layout, tmp_path, threads=threads, io_concurrency=8)
    scene.gate.delay = 0.05
    scene.write(how)
    np.testing.assert_array_equal(scene.array[...], NEW)
    assert scene.gate.most_together == 8
    scene.gate.restart()
    scene.write(how, np.zeros_like(OLD))
    assert scene.gate.most_together == 8


@pytest.mark.parametrize("kind", ASYNC)
def test_a_cancelled_write_does_not_wait_for_the_store(kind, layout, tmp_path):
    scene = Scene(kind, layout, tmp_path)
    scene.gate.is_open = False
    job = scene.array.write_async(..., NEW)
    end = time.monotonic() + 30
    while scene.gate.under_way < 4 and time.monotonic() < end:
        time.sleep(0.001)
    job.cancel()
    with pytest.raises(ps.CancelledError):
        job.wait(30)  # the gate is still closed
    np.testing.assert_array_equal(scene.array[...], OLD)
