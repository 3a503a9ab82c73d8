"""What `open` accepts in addition to a path."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import io
import mmap
import tarfile
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import as_bytes, same, sharded, write
from zarr.codecs import BytesCodec, ZstdCodec

VALUES = np.random.default_rng(5).integers(-99, 99, (40, 30), dtype="<i4")
CODECS = sharded((8, 4))


@pytest.fixture(scope="module")
def values() -> dict[str, bytes]:
    return write(VALUES, (16, 16), CODECS)


class Ranges(ps.Store):
    """Supports ranges; counts the bytes that it returned."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.given = 0

    def get(self, key: str) -> bytes | None:
        return self._count(self.values.get(key))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        value = self.values.get(key)
        return None if value is None else self._count(value[start : start + length])

    def get_suffix(self, key: str, length: int) -> bytes | None:
        value = self.values.get(key)
        return None if value is None else self._count(value[-length:])

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.values if key.startswith(prefix)]

    def _count(self, value: bytes | None) -> bytes | None:
        self.given += len(value or b"")
        return value


class OnlyGet:
    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)


class Async:
    """A store whose `get` is a coroutine; counts the calls in flight."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.now = self.most = 0

    async def get(self, key: str) -> bytes | None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return self.values.get(key)


class Wrapper(zarr.storage.WrapperStore):
    """A zarr-python store that the engine does not read natively."""


def zarr_memory(values: dict[str, bytes]) -> zarr.storage.MemoryStore:
    from zarr.core.buffer import cpu

    return zarr.storage.MemoryStore({key: cpu.Buffer.from_bytes(value) for key, value in values.items()})


KINDS = {
    "dict of bytes": dict,
    "dict of bytearrays": lambda values: {key: bytearray(value) for key, value in values.items()},
    "dict of memoryviews": lambda values: {key: memoryview(value) for key, value in values.items()},
    "dict of ndarrays": lambda values: {key: np.frombuffer(value, "u1") for key, value in values.items()},
    "ordered dict": collections.OrderedDict,
    "dict of zarr buffers": lambda values: zarr_memory(values)._store_dict,
    "zarr MemoryStore": zarr_memory,
    "another zarr store": lambda values: Wrapper(zarr_memory(values)),
    "zarr LoggingStore": lambda values: zarr.storage.LoggingStore(zarr_memory(values), log_level="CRITICAL"),
    "zarr array": lambda values: zarr.open_array(zarr_memory(values), mode="r"),
    "mapping": lambda values: collections.ChainMap({}, values),
    "penstock store": Ranges,
    "object with get": OnlyGet,
    "object with async get": Async,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_store_is_read_alike(kind, values):
    array = ps.open(KINDS[kind](values))
    assert same(array[...], VALUES)
    assert same(array[3:35:4, ::-2], VALUES[3:35:4, ::-2])
    assert array[-1, -1] == VALUES[-1, -1]
    assert same(array.read_async().wait(), VALUES)


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_that_a_store_lacks_are_the_fill_value(kind, values):
    fewer = {key: value for key, value in values.items() if key != "c/1/0"}
    want = VALUES.copy()
    want[16:32, :16] = 0
    assert same(ps.open(KINDS[kind](fewer))[...], want)


def test_parts_of_a_shard_are_read_as_ranges(values):
    store = Ranges(values)
    array = ps.open(store)
    store.given = 0
    assert same(array[3, :4], VALUES[3, :4])
    index_bytes = 8 * 16 + 4
    assert store.given < index_bytes + 2 * 8 * 4 * 4
    assert store.given < len(values["c/0/0"])


def test_requests_of_one_read_are_in_flight_together():
    store = Async(write(VALUES, (4, 30)))
    assert same(ps.open(store)[...], VALUES)
    assert store.most >= 5


def test_a_zarr_local_store_is_read_natively(tmp_path):
    write(VALUES, (16, 16), CODECS, store=tmp_path / "x")
    for target in (zarr.storage.LocalStore(tmp_path / "x"), zarr.open_array(tmp_path / "x"), str(tmp_path / "x")):
        array = ps.open(target)
        assert array.uri == f"file://{tmp_path}/x"
        assert same(array[...], VALUES)
    assert same(ps.open(f"file://{tmp_path}/x")[...], VALUES)
    assert same(ps.open(f"file:{tmp_path}/x")[...], VALUES)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("where", ["file", "memory"])
def test_metadata_are_not_members_of_a_group(tmp_path, version, where):
    """Also in stores that list a file as a child of itself, like fsspec's file systems."""
    pytest.importorskip("fsspec")
    store = zarr.storage.FsspecStore.from_url(f"{where}://{tmp_path}/g.zarr", storage_options={"auto_mkdir": True})
    group = zarr.create_group(store, zarr_format=version, attributes={"title": "t"})
    group.create_group("below").create_array("x", data=np.arange(3))
    found = ps.open(store)
    assert list(found) == ["below"]
    assert list(found["below"]) == ["x"]


def test_relative_paths_are_resolved_when_opened(tmp_path, monkeypatch):
    write(VALUES, (16, 16), store=tmp_path / "x")
    monkeypatch.chdir(tmp_path)
    array = ps.open("x")
    monkeypatch.chdir("/")
    assert same(array[...], VALUES)


def test_a_zarr_group_and_its_paths_open():
    store = zarr.storage.MemoryStore({})
    group = zarr.create_group(store)
    made = group.create_array("inner/x", shape=(4,), chunks=(2,), dtype="i2")
    made[:] = [1, 2, 3, 4]
    for target, path in (
        (group, "inner/x"),
        (group["inner"], "x"),
        (made, ""),
        (store, "/inner//x/"),
        (as_bytes(store), "inner/x"),
    ):
        np.testing.assert_array_equal(ps.open(target, path)[:], [1, 2, 3, 4])


class Broken(OnlyGet):
    error: BaseException = OSError("the cable is cut")

    def get(self, key: str) -> bytes | None:
        if key != "zarr.json":
            raise self.error
        return super().get(key)


class BrokenAsync(Broken):
    async def get(self, key: str) -> bytes | None:
        return Broken.get(self, key)


@pytest.mark.parametrize("store_class", [Broken, BrokenAsync])
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("the cable is cut"), OSError),
        (PermissionError("no"), PermissionError),
        (TimeoutError("late"), TimeoutError),
        (RuntimeError("odd"), OSError),
        (MemoryError("full"), MemoryError),
    ],
)
def test_an_exception_of_a_store_is_an_error_and_never_the_fill_value(store_class, error, kind, values):
    store = store_class(values)
    store.error = error
    with pytest.raises(ps.Error) as caught:
        ps.open(store)[...]
    assert isinstance(caught.value, kind)
    assert f"{type(error).__name__}: {error}" in str(caught.value)
    assert "reading 'c/" in str(caught.value)
    assert "array '" in str(caught.value)


@pytest.mark.parametrize("how", ["coroutine", "iterator", "list"])
def test_an_asynchronous_store_may_list_its_keys_in_every_way(how):
    class Listed:
        def __init__(self) -> None:
            self.values: dict[str, bytes] = {}

        async def get(self, key):
            return self.values.get(key)

        async def set(self, key, value):
            self.values[key] = bytes(value)

        def list(self, prefix):
            found = [key for key in self.values if key.startswith(prefix)]

            async def one_by_one():
                for key in found:
                    yield key

            async def together():
                return found

            return {"coroutine": together, "iterator": one_by_one, "list": lambda: found}[how]()

    store = Listed()
    ps.save(store, x=np.arange(3), y=np.arange(4))
    assert sorted(ps.open(store)) == ["x", "y"]


def test_an_absent_shard_may_have_no_size(values):
    class Sized(OnlyGet):
        def get_range(self, key, start, length):
            value = self.values.get(key)
            return None if value is None else value[start : start + length]

        def getsize(self, key):
            value = self.values.get(key)
            return None if value is None else len(value)

    left = {key: value for key, value in values.items() if key != "c/1/1"}
    np.testing.assert_array_equal(ps.open(Sized(left))[:], ps.open(left)[:])


class BrokenZarr(zarr.storage.WrapperStore):
    """A virtual store whose source is absent."""

    error: Exception = FileNotFoundError("source.nc")

    def get_sync(self, key, **options):
        if key != "zarr.json":
            raise self.error
        return super().get_sync(key, **options)

    async def get(self, key, *arguments, **options):
        if key != "zarr.json":
            raise self.error
        return await super().get(key, *arguments, **options)


class BrokenAsyncZarr(BrokenZarr):
    @property
    def _supports_sync_io(self):
        return False


@pytest.mark.parametrize("store_class", [BrokenZarr, BrokenAsyncZarr])
@pytest.mark.parametrize("error", [FileNotFoundError("source.nc"), KeyError("header")])
def test_an_exception_of_a_zarr_store_is_not_an_absent_chunk(store_class, error):
    inner = zarr.storage.MemoryStore()
    zarr.create_array(inner, data=np.arange(4))
    store = store_class(inner)
    store.error = error
    with pytest.raises(ps.StorageError, match=type(error).__name__):
        ps.open(store)[...]


@pytest.mark.parametrize("answer", [b"", b"short", 7, "text", [1]])
def test_invalid_answers_of_a_store_are_errors(answer, values):
    class Nonsense(OnlyGet):
        def get(self, key: str) -> object:
            return answer if key != "zarr.json" else super().get(key)

    with pytest.raises(ps.Error):
        ps.open(Nonsense(values))[...]


@pytest.mark.parametrize("answer", [False, True, (b"bytes", "version")], ids=str)
def test_only_bytes_and_none_are_answers_of_get(answer, values):
    class Sync(OnlyGet):
        def get(self, key: str) -> object:
            return answer if key != "zarr.json" else super().get(key)

    class Async(OnlyGet):
        async def get(self, key: str) -> object:
            return answer if key != "zarr.json" else super().get(key)

    for kind in (Sync, Async):
        with pytest.raises(ps.StorageError, match=r"get must return bytes or None, not (bool|tuple)"):
            ps.open(kind(values))[...]


class Temporary:
    """Memory whose contents are lost when its export ends."""

    def __init__(self, value: bytes) -> None:
        self.memory = bytearray(value)

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self.memory)

    def __release_buffer__(self, view: memoryview) -> None:
        view.release()
        self.memory[:] = bytes(len(self.memory))


def mapped(value: bytes) -> mmap.mmap:
    made = mmap.mmap(-1, len(value))
    made[:] = value
    return made


@pytest.mark.parametrize("kind", [Temporary, bytearray, mapped])
def test_memory_that_a_store_returned_is_valid_until_it_was_read(kind):
    values = write(VALUES, (8, 8), [BytesCodec(), ZstdCodec(level=0)])

    class Reuses(OnlyGet):
        """Clears or closes what it returned before on the same thread."""

        before = threading.local()

        def get(self, key: str) -> object:
            value = self.values.get(key)
            if value is None or key == "zarr.json":
                return value
            made = kind(value)
            last = getattr(self.before, "made", None)
            with contextlib.suppress(BufferError):  # it is exported
                if last is not None and kind is not Temporary:
                    last.clear() if kind is bytearray else last.close()
            self.before.made = made
            return made

    for threads in (1, 8):
        assert same(ps.open(Reuses(values)).read(threads=threads), VALUES)


def test_ranges_are_of_bytes_for_memory_of_any_items():
    values = write(VALUES, (16, 16), sharded((8, 4), [BytesCodec()]))

    class Wide(OnlyGet):
        def get(self, key: str) -> object:
            value = self.values.get(key)
            return np.frombuffer(value, "<i4").reshape(-1, 1) if key.startswith("c/") else value

    class WideStore(ps.Store):
        get = Wide.get

        def __init__(self, values: dict[str, bytes]) -> None:
            self.values = values

    for kind in (Wide, WideStore):
        assert same(ps.open(kind(values))[3:5], VALUES[3:5])


def test_a_keyboard_interrupt_within_a_store_is_raised(values):
    store = Broken(values)
    store.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        ps.open(store).read(threads=1)


def test_dict_values_that_are_not_bytes_are_an_error(values):
    with pytest.raises(ps.StorageError, match="int"):
        ps.open({"zarr.json": values["zarr.json"], "c/0/0": 5})[0]


def test_references_to_values_are_released(values):
    import gc
    import sys

    store = {key: bytes(bytearray(value)) for key, value in values.items()}
    before = {key: sys.getrefcount(value) for key, value in store.items()}
    with ps.Context(threads=2) as context:
        array = ps.open(store)
        for _ in range(5):
            array[...]
            array[1]
            array.read(threads=2)
            array.read_async().wait()
        context.clear()
    del array, context
    gc.collect()
    end = time.monotonic() + 10
    # References that threads without the GIL dropped are released by one of the interpreter's next pending calls.
    while {key: sys.getrefcount(value) for key, value in store.items()} != before and time.monotonic() < end:
        time.sleep(0.01)
    assert {key: sys.getrefcount(value) for key, value in store.items()} == before


def test_a_store_with_a_repr_of_many_lines_has_a_name_of_one():
    class Described(zarr.storage.MemoryStore):
        def __str__(self):
            return "<Described>\n  branch: main\n  read_only: False"

    store = Described()
    zarr.create_array(store, name="x", shape=(4,), dtype="i4", chunks=(2,))
    array = ps.open(store, "x")
    assert array.uri == "<Described>, branch: main, read_only: False/x"
    with pytest.raises(ps.OutOfRangeError) as caught:
        array[9]
    assert len(str(caught.value).splitlines()) == 1 + len(caught.value.notes)


def test_an_fsspec_file_system_is_a_store_of_its_files(tmp_path: Path):
    fsspec = pytest.importorskip("fsspec")
    h5py = pytest.importorskip("h5py")
    memory = fsspec.filesystem("memory")
    folder = f"/of_all{uuid.uuid4().hex}"
    made = ps.create_array(memory, f"{folder}/x.zarr", data=np.arange(6))
    assert made.uri == f"memory://{folder}/x.zarr"
    bytes_of_file = io.BytesIO()
    with h5py.File(bytes_of_file, "w") as file:
        file["v"] = np.arange(5.0)
    memory.pipe(f"{folder}/x.nc", bytes_of_file.getvalue())
    for begin in (folder, folder[1:]):
        assert ps.open(memory, f"{begin}/x.zarr")[3] == 3
        assert ps.open(memory, f"{begin}/x.nc")["v"][4] == 4
        assert ps.open(memory, f"{begin}/x.nc/v").uri == f"memory://{folder}/x.nc/v"
    with pytest.raises(ps.NotFoundError):
        ps.open(memory, f"{folder}/nothing")
    ps.create_array(tmp_path / "y", data=np.arange(3))
    assert ps.open(fsspec.filesystem("file"), str(tmp_path / "y"))[2] == 2


@pytest.mark.parametrize("kind", ["tar", "dir", "filecache"])
def test_file_systems_for_one_thread_are_read_by_one_thread_at_a_time(tmp_path: Path, kind: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    values = np.random.default_rng(7).integers(0, 99, (200, 200), dtype="i4")
    ps.create_array(tmp_path / "a.zarr", data=values, chunks=(10, 10))
    if kind == "filecache":
        cached = fsspec.filesystem("filecache", target_protocol="file", cache_storage=str(tmp_path / "cache"))
        target = cached.get_mapper(str(tmp_path / "a.zarr"))
    else:
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            archive.add(tmp_path / "a.zarr", "a.zarr")
        tar = fsspec.filesystem("tar", fo=str(tmp_path / "a.tar"))
        inner = fsspec.filesystem("dir", path="a.zarr", fs=tar)
        target = tar.get_mapper("a.zarr") if kind == "tar" else inner.get_mapper("")
    a = ps.open(target)
    for _ in range(3):
        np.testing.assert_array_equal(a[:], values)


@pytest.mark.timeout(60)
def test_a_call_that_would_wait_for_its_own_event_loop_is_refused() -> None:
    """zarr-python reads `data` on its event loop, which also serves its asynchronous stores."""
    zarr_sync = pytest.importorskip("zarr.core.sync")

    class OnlyCoroutines(zarr.storage.WrapperStore):
        _supports_sync_io = False

    stored = zarr.create_array(zarr.storage.MemoryStore(), data=VALUES, chunks=(8, 10), shards=(16, 20))
    a = ps.open(OnlyCoroutines(stored.store))
    with pytest.raises(ps.UnsupportedError, match="would wait for the event loop"):
        zarr.create_array(zarr.storage.MemoryStore(), data=a, chunks=(8, 10))
    assert same(zarr.create_array(zarr.storage.MemoryStore(), data=a[...])[...], VALUES)

    async def work() -> None:
        with pytest.raises(ps.UnsupportedError, match="would wait for the event loop"):
            ps.open(OnlyCoroutines(stored.store))
        assert same(await a.read_async(np.s_[3:30]), VALUES[3:30])
        assert same(await asyncio.to_thread(lambda: a[5]), VALUES[5])

    zarr_sync.sync(work())
    assert same(a[...], VALUES)
