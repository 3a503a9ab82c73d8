"""Stores that are implemented in Python, or that Python passes in, can be written to: one suite for all of them."""

from __future__ import annotations

import asyncio
import collections
import re
import threading
from collections.abc import Callable
from typing import Any

import fsspec
import numpy as np
import obstore.store
import penstock as ps
import pytest
import zarr
from conftest import same, sharded, write
from penstock import _core
from penstock.target.stores import store_of

VALUES = np.random.default_rng(5).integers(-99, 99, (40, 30), dtype="<i4")


class Plain:
    """Only `get`, `set`, `delete` and `list`."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = bytes(value)

    def delete(self, key: str) -> None:
        del self.values[key]

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class Versioned(ps.Store):
    """Numbers its writes, and replaces objects under a lock."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[int, bytes]] = {}
        self.writes = 0
        self.gets = 0

    def get(self, key: str) -> bytes | None:
        self.gets += 1
        found = self.values.get(key)
        return None if found is None else found[1]

    def set(self, key: str, value: bytes) -> None:
        self.writes += 1
        self.values[key] = (self.writes, value)

    def delete(self, key: str) -> None:
        self.values.pop(key, None)

    def version(self, key: str) -> str | None:
        found = self.values.get(key)
        return None if found is None else str(found[0])

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class Sync:
    """The names of zarr-python's synchronous stores."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get_sync(self, key: str) -> bytes | None:
        return self.values.get(key)

    def set_sync(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def delete_sync(self, key: str) -> None:
        self.values.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class Async:
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    async def get(self, key: str) -> bytes | None:
        await asyncio.sleep(0)
        return self.values.get(key)

    async def put(self, key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        self.values[key] = value

    async def delete(self, key: str) -> None:
        self.values.pop(key, None)

    async def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]


class Wrapper(zarr.storage.WrapperStore):
    """A zarr-python store of a class that Penstock does not support natively."""


class OnlyAsync(Wrapper):
    _supports_sync_io = False


def memory_mapper(tmp_path: Any) -> Any:
    return fsspec.get_mapper(f"memory://{tmp_path}")


KINDS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda _: {},
    "ordered dict": lambda _: collections.OrderedDict(),
    "mapping": lambda _: collections.ChainMap({}),
    "object": lambda _: Plain(),
    "penstock store": lambda _: Versioned(),
    "sync names": lambda _: Sync(),
    "async object": lambda _: Async(),
    "zarr MemoryStore": lambda _: zarr.storage.MemoryStore(),
    "zarr LocalStore": lambda tmp_path: zarr.storage.LocalStore(tmp_path),
    "another zarr store": lambda _: Wrapper(zarr.storage.MemoryStore()),
    "an asynchronous zarr store": lambda _: OnlyAsync(zarr.storage.MemoryStore()),
    "zarr ObjectStore": lambda _: zarr.storage.ObjectStore(obstore.store.MemoryStore()),
    "zarr FsspecStore": lambda tmp_path: zarr.storage.FsspecStore.from_url(
        f"local://{tmp_path}", storage_options={"auto_mkdir": True}
    ),
    "fsspec memory": memory_mapper,
    "fsspec local": lambda tmp_path: fsspec.get_mapper(str(tmp_path)),
    "fsspec folder": lambda tmp_path: fsspec.filesystem(
        "dir", path=str(tmp_path), fs=fsspec.filesystem("file")
    ).get_mapper(""),
    "obstore memory": lambda _: obstore.store.MemoryStore(),
    "obstore local": lambda tmp_path: obstore.store.LocalStore(str(tmp_path)),
    "obstore prefix": lambda tmp_path: obstore.store.LocalStore(str(tmp_path), mkdir=True),
    "zip": lambda tmp_path: _core.zip_store(bytes(tmp_path / "x.zip"), ps.Context()),
}


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return KINDS[request.param](tmp_path)


@pytest.fixture
def store(target: Any) -> Any:
    found = store_of(target)
    assert found is not None
    assert found.writable
    return found


def test_put_objects_are_returned(store):
    assert store.get("a/b") is None
    assert store.put("a/b", b"one")
    assert store.get("a/b") == b"one"
    assert store.put("a/b", b"another")
    assert store.get("a/b") == b"another"
    assert store.put("a/empty", b"")
    assert store.get("a/empty") == b""


def test_erased_objects_are_absent_and_erasing_absent_ones_works(store):
    store.put("a/b", b"one")
    store.put("a/c", b"two")
    store.erase("a/b")
    store.erase("a/b")
    store.erase("never/there")
    assert store.get("a/b") is None
    assert store.get("a/c") == b"two"


def test_objects_and_children_are_listed(store):
    for key in ("zarr.json", "a/zarr.json", "a/c/0/0", "a/c/0/1", "ab/x"):
        store.put(key, b"x")
    assert store.list("") == ["a/c/0/0", "a/c/0/1", "a/zarr.json", "ab/x", "zarr.json"]
    assert store.list("a/") == ["a/c/0/0", "a/c/0/1", "a/zarr.json"]
    assert {"a/", "ab/", "zarr.json"} <= set(store.list("", children=True))
    assert {"a/c/", "a/zarr.json"} <= set(store.list("a/", children=True))
    assert store.list("nothing/") == []


def test_objects_that_must_be_absent_are_not_replaced(store):
    assert store.put("a/b", b"one", absent=True)
    assert not store.put("a/b", b"two", absent=True)
    assert store.get("a/b") == b"one"


def test_ranges_of_put_objects(store, target):
    values = write(VALUES, (16, 16), sharded((8, 4)))
    for key, value in values.items():
        store.put(key, value)
    store.flush()
    array = ps.open(target)
    assert same(array[...], VALUES)
    assert same(array[3:35:4, ::-2], VALUES[3:35:4, ::-2])
    assert same(array.read_async().wait(), VALUES)
    store.erase("c/1/0")
    want = VALUES.copy()
    want[16:32, :16] = 0
    assert same(ps.open(target)[...], want)


SWAPPING = ("dict", "ordered dict", "zarr MemoryStore", "zarr LocalStore", "zarr ObjectStore", "fsspec local", "zip")


@pytest.mark.parametrize("kind", [*SWAPPING, "obstore memory", "obstore local"])
def test_no_update_of_concurrent_writers_is_lost(kind, tmp_path):
    store = store_of(KINDS[kind](tmp_path))
    store.put("counter", b"0")

    def add() -> None:
        for _ in range(25):
            store.swap("counter", lambda old: b"%d" % (int(old) + 1))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.get("counter") == b"100"


def test_zarr_reads_what_was_put_into_its_stores(tmp_path):
    values = write(VALUES, (16, 16))
    stores = (
        zarr.storage.MemoryStore(),
        zarr.storage.LocalStore(tmp_path),
        zarr.storage.ObjectStore(obstore.store.MemoryStore()),
    )
    for store in stores:
        for key, value in values.items():
            store_of(store).put(key, value)
        assert same(zarr.open_array(store, mode="r")[...], VALUES)


def test_indexes_are_cached_by_version_and_see_every_write():
    target = Versioned()
    store = store_of(target)
    for key, value in write(VALUES, (16, 16), sharded((8, 4))).items():
        store.put(key, value)
    with ps.Context(threads=1):
        array = ps.open(target)
        assert array[0, 0] == VALUES[0, 0]
        for key, value in write(VALUES + 1, (16, 16), sharded((8, 4))).items():
            store.put(key, value)
        assert array[0, 0] == VALUES[0, 0] + 1
        assert same(array[...], VALUES + 1)


@pytest.mark.parametrize(
    "target",
    [
        zarr.storage.MemoryStore({}, read_only=True),
        zarr.storage.ObjectStore(obstore.store.MemoryStore(), read_only=True),
        type("OnlyGet", (), {"get": lambda self, key: None})(),
        type("Declared", (ps.Store,), {"get": lambda self, key: None})(),
    ],
    ids=["zarr memory", "zarr object", "only get", "declared"],
)
def test_read_only_stores_report_it(target):
    store = store_of(target)
    assert not store.writable
    with pytest.raises(ps.ReadOnlyError):
        store.put("k", b"x")
    with pytest.raises(ps.ReadOnlyError):
        store.erase("k")


class Broken(Plain):
    def set(self, key: str, value: bytes) -> None:
        raise PermissionError("not you")

    def delete(self, key: str) -> None:
        raise OSError("the cable is cut")


def test_exceptions_of_a_write_are_raised():
    store = store_of(Broken())
    with pytest.raises(PermissionError, match="not you"):
        store.put("k", b"x")
    with pytest.raises(OSError, match="the cable is cut"):
        store.erase("k")


def test_uris_of_fsspec_and_obstore_open(tmp_path, monkeypatch):
    values = write(VALUES, (16, 16), sharded((8, 4)))
    memory = fsspec.filesystem("memory")
    for key, value in values.items():
        memory.pipe_file(f"/for/uris/{key}", value)
    assert same(ps.open("memory://for/uris")[...], VALUES)
    assert same(ps.open("memory://for", "uris", storage_options={"skip_instance_cache": True})[...], VALUES)
    with pytest.raises(ps.NotFoundError):
        ps.open("memory://for/nobody")
    with pytest.raises(ps.UnsupportedError, match="gopher"):
        ps.open("gopher://x/y")
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    with pytest.raises(ps.UnsupportedError, match="fsspec is not installed; obstore is not installed"):
        ps.open("abfs://bucket/x")


def test_a_missing_bucket_is_an_error(tmp_path):
    with pytest.raises(ps.NotFoundError):
        ps.open(obstore.store.MemoryStore())
    with pytest.raises(ps.NotFoundError):
        ps.open(memory_mapper(tmp_path))


def test_a_file_system_without_folders_is_an_error():
    with pytest.raises(ps.StorageError, match="creating the folder failed: No such file or directory"):
        ps.create_array("/proc/penstock/x.zarr", shape=(4,), dtype="u1", chunks=(4,))


def like_icechunk() -> Any:
    """A store that refuses keys which are not Zarr's, and folders without a node, as Icechunk's does."""

    def checked(key: str) -> None:
        if not re.search(r"(^|/)(zarr\.json|c(/\d+)*)$", key):
            raise ValueError(f"invalid zarr key format `{key}`")

    class Refuses(zarr.storage.WrapperStore):
        async def get(self, key: str, *rest: Any, **more: Any) -> Any:
            checked(key)
            return await super().get(key, *rest, **more)

        async def set(self, key: str, *rest: Any, **more: Any) -> None:
            checked(key)
            await super().set(key, *rest, **more)

        async def set_if_not_exists(self, key: str, *rest: Any, **more: Any) -> None:
            checked(key)
            await super().set_if_not_exists(key, *rest, **more)

        async def list_prefix(self, prefix: str) -> Any:
            if not await self.exists(f"{prefix}zarr.json"):
                raise ValueError(f"bad key prefix ({prefix})")
            async for key in super().list_prefix(prefix):
                yield key

    Refuses.__module__ = "icechunk.store"
    return Refuses(zarr.storage.MemoryStore())


def test_new_nodes_are_copied_to_a_store_that_refuses_other_keys() -> None:
    values, store = np.arange(12).reshape(3, 4), like_icechunk()
    ps.save(store, a=values)
    with pytest.raises(ps.NotFoundError):
        ps.open(store, "b")
    source = ps.create_array({}, data=values, chunks=(2, 2))
    ps.copy(source, store, "b")
    ps.rechunk(source, store, (3, 1), path="in/c", memory="1MiB")
    ps.copy(source, store, "b", chunks=(1, 4), overwrite=True)
    assert list(ps.open(store)) == ["a", "b", "in"]
    for name in ("a", "b", "in/c"):
        np.testing.assert_array_equal(ps.open(store, name)[...], values)
