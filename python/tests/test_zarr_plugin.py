"""zarr-python with our pipeline: the same values, keys and errors, and every fallback is counted."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import penstock as ps
import penstock.zarr as pz
import pytest
import zarr
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import BytesCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.core.sync import sync
from zarr.storage import LocalStore, MemoryStore, WrapperStore

fused = pytest.importorskip("zarr.core.codec_pipeline", reason="needs zarr-python 3")
if not hasattr(fused, "FusedCodecPipeline"):
    pytest.skip("needs the synchronous pipeline of zarr-python 3.4", allow_module_level=True)

from zarr.testing.store import LatencyStore  # noqa: E402


class AsyncOnly(LatencyStore):
    """A store without synchronous methods."""

    @property
    def _supports_sync_io(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def _ours() -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": "penstock.zarr.CodecPipeline"}):
        pz.stats(reset=True)
        yield


def make_store(kind: str, path: Any) -> Any:
    if kind == "local":
        return LocalStore(path)
    if kind == "memory":
        return MemoryStore()
    if kind == "sync":
        return WrapperStore(MemoryStore())
    return AsyncOnly(MemoryStore(), get_latency=0.0, set_latency=0.0)


PATHS = {"local": "native", "memory": "native", "sync": "sync", "async": "async"}

SELECTIONS = [
    ...,
    (slice(3, 90, 7), slice(None)),
    (5, slice(2, 60)),
    (17, 23),
    (slice(10, 10), slice(None)),
    (slice(95, None), slice(90, None)),
]


@pytest.mark.parametrize("shards", [None, (50, 50)])
@pytest.mark.parametrize("kind", PATHS)
def test_every_selection_equals_numpys(tmp_path, kind, shards):
    values = np.random.default_rng(3).normal(size=(103, 97))
    a = zarr.create_array(make_store(kind, tmp_path), shape=values.shape, chunks=(10, 10), shards=shards, dtype="f8")
    a[...] = values
    for key in SELECTIONS:
        assert np.array_equal(a[key], values[key])
    rows, columns = [3, 1, 50, 3], [2, 90, 4, 2]
    assert np.array_equal(a.oindex[rows, columns], values[np.ix_(rows, columns)])
    assert np.array_equal(a.oindex[5, columns], values[5, columns])
    assert np.array_equal(a.vindex[rows, columns], values[rows, columns])
    mask = values > 1.5
    assert np.array_equal(a.vindex[mask], values[mask])
    blocks = values[10:30, 20:30] if shards is None else values[50:, :50]
    assert np.array_equal(a.blocks[1:3, 2] if shards is None else a.blocks[1:, 0], blocks)
    assert set(pz.stats()["read"]["paths"]) == {PATHS[kind]}


@pytest.mark.parametrize("shards", [None, (16, 16)])
@pytest.mark.parametrize("kind", PATHS)
def test_writes_merge_replace_and_erase(tmp_path, kind, shards):
    store = make_store(kind, tmp_path)
    values = np.zeros((30, 31))
    a = zarr.create_array(
        store, shape=values.shape, chunks=(8, 8), shards=shards, dtype="f8", compressors=ZstdCodec(level=1)
    )
    cases: list[tuple[Any, Any]] = [
        (..., np.random.default_rng(5).normal(size=values.shape)),
        ((slice(3, 20, 2), slice(5, 9)), 4.0),
        ((7, slice(None)), np.arange(31.0)),
        ((slice(0, 8), slice(0, 8)), 0.0),
    ]
    for key, value in cases:
        a[key] = value
        values[key] = value
        assert np.array_equal(a[...], values)
    a.oindex[[1, 20, 5], [3, 30]] = values[np.ix_([1, 20, 5], [3, 30])] = np.arange(6.0).reshape(3, 2)
    a.vindex[[1, 9], [3, 30]] = values[[1, 9], [3, 30]] = [-1, -2]
    assert np.array_equal(a[...], values)
    assert set(pz.stats()["write"]["paths"]) == {PATHS[kind]}
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        assert np.array_equal(zarr.open_array(store, mode="r")[...], values)


@pytest.mark.parametrize("wrap", [False, True])
def test_masked_elements_are_refused(wrap):
    values = np.arange(12.0).reshape(3, 4)
    a = zarr.create_array(MemoryStore(), shape=(3, 4), dtype="f8", chunks=(2, 2))
    a = pz.wrap(a) if wrap else a
    with pytest.raises(ValueError, match="masked elements"):
        a[...] = np.ma.masked_array(values, values > 9)
    a[...] = np.ma.masked_array(values)
    np.testing.assert_array_equal(a[...], values)


@pytest.mark.parametrize("dtype", ["bool", "i1", "u2", "i8", "f2", "f4", "c8", "c16", "M8[ns]", "S7", "U3"])
def test_items_of_every_kind(dtype):
    values = np.arange(1, 61).reshape(6, 10).astype("i8").astype(dtype)
    a = zarr.create_array(MemoryStore(), shape=values.shape, chunks=(4, 4), dtype=values.dtype)
    a[...] = values
    got = a[...]
    assert got.dtype == values.dtype
    assert np.array_equal(got, values)
    assert np.array_equal(a[1:5, 3], values[1:5, 3])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i4", ">f8", "u1"])
@pytest.mark.parametrize("compressor", [None, "zstd", "blosc", "gzip", "zlib"])
def test_chunks_of_zarr_v2(order, dtype, compressor):
    numcodecs = pytest.importorskip("numcodecs")
    values = np.arange(13 * 9).reshape(13, 9).astype(dtype)
    chosen = None if compressor is None else numcodecs.get_codec({"id": compressor})
    a = zarr.create_array(
        MemoryStore(), shape=(13, 9), chunks=(5, 4), dtype=values.dtype, zarr_format=2, order=order, compressors=chosen
    )
    a[...] = values
    a[3:6, 2] = values[3:6, 2] = 7
    assert a[...].dtype == values.dtype
    assert np.array_equal(a[...], values)
    assert set(pz.stats()["read"]["paths"]) == {"native"}
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.BatchedCodecPipeline"}):
        theirs = zarr.open_array(a.store, mode="r+")
        assert np.array_equal(theirs[...], values)
        theirs[...] = values + 1
    assert np.array_equal(a[...], values + 1)


@pytest.mark.parametrize("fill", [0.0, -0.0, np.nan, 1.5])
@pytest.mark.parametrize("keep", [False, True])
def test_empty_chunks_equal_those_of_zarr_python(fill, keep):
    keys = {}
    for path in ("penstock.zarr.CodecPipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"):
        with zarr.config.set({"codec_pipeline.path": path}):
            store = MemoryStore()
            a = zarr.create_array(
                store, shape=(16,), chunks=(4,), dtype="f8", fill_value=fill, config={"write_empty_chunks": keep}
            )
            a[:] = np.array([0.0] * 4 + [-0.0] * 4 + [np.nan] * 4 + [1.5] * 4)
            a[12:14] = 0.0
            keys[path] = sorted(store._store_dict)
    assert len({str(found) for found in keys.values()}) == 1


def test_missing_chunks_are_distinguished_from_present_ones():
    a = zarr.create_array(MemoryStore(), shape=(20,), chunks=(5,), dtype="i4", fill_value=-1)
    a[5:10] = 3
    assert a[:].tolist() == [-1] * 5 + [3] * 5 + [-1] * 10
    strict = zarr.open_array(a.store, config={"read_missing_chunks": False})
    assert strict[5:10].tolist() == [3] * 5
    with pytest.raises(zarr.errors.ChunkNotFoundError, match="grid position"):
        strict[:]


@pytest.mark.parametrize(
    "codecs",
    [
        [TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), GzipCodec(level=1)],
        [ShardingCodec(chunk_shape=(4, 4), codecs=[TransposeCodec(order=(1, 0)), BytesCodec()])],
        [ShardingCodec(chunk_shape=(8, 8), codecs=[ShardingCodec(chunk_shape=(4, 4))])],
    ],
)
def test_chains_with_transposes_and_nested_shards(codecs):
    values = np.arange(40 * 33, dtype="i4").reshape(40, 33)
    a = zarr.create(values.shape, chunks=(16, 16), dtype="i4", store=MemoryStore(), codecs=codecs, zarr_format=3)
    a[...] = values
    assert np.array_equal(a[3:30, ::5], values[3:30, ::5])
    a[5:20, 7] = values[5:20, 7] = -9
    assert np.array_equal(a[...], values)


@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("shards", [None, (10,)])
def test_a_corrupt_chunk_is_zarrs_error_with_ours_as_cause(wrap, shards):
    store = MemoryStore()
    a = zarr.create_array(store, shape=(20,), chunks=(5,), shards=shards, dtype="i4", compressors=ZstdCodec())
    a[:] = np.arange(20)
    for key in list(store._store_dict):
        if key.startswith("c/1"):
            store._store_dict[key] = type(store._store_dict[key]).from_bytes(b"nonsense")
    with zarr.config.set({"codec_pipeline.path": "zarr.core.codec_pipeline.FusedCodecPipeline"}):
        theirs = zarr.open_array(store)
        with pytest.raises(Exception) as wanted:  # noqa: PT011
            theirs[:]
    ours = pz.wrap(a) if wrap else a
    for call in (lambda: ours[:], lambda: ours.__setitem__(slice(6, 12), np.arange(6, dtype="i4"))):
        with pytest.raises(wanted.type, match=re.escape(str(wanted.value))) as failed:
            call()
        assert isinstance(failed.value.__cause__, ps.CorruptDataError)
        assert "c/1" in str(failed.value.__cause__)


class Failing(WrapperStore):
    """A store whose chunks cannot be read while `error` is set."""

    error: Exception | None = None

    def _check(self, key: str) -> None:
        if self.error is not None and "c/" in key:
            raise self.error

    def get_sync(self, key: str, **options: Any) -> Any:
        self._check(key)
        return super().get_sync(key, **options)

    async def get(self, key: str, *arguments: Any, **options: Any) -> Any:
        self._check(key)
        return await super().get(key, *arguments, **options)


class FailingAsync(Failing):
    @property
    def _supports_sync_io(self) -> bool:
        return False


@pytest.mark.parametrize("shards", [None, (8,)])
@pytest.mark.parametrize("kind", [Failing, FailingAsync])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("error", [KeyError("header"), FileNotFoundError("x.nc"), PermissionError(13, "no"), OSError()])
def test_exceptions_of_a_store_are_raised_as_they_are(error, wrap, kind, shards):
    store = kind(MemoryStore())
    a = zarr.create_array(store, shape=(16,), chunks=(2,), shards=shards, dtype="i4")
    a[:] = 7
    if wrap:
        a = pz.wrap(a)
    store.error = error
    for work in (lambda: a[:], lambda: a[1:5], lambda: a.__setitem__(slice(1, 5), 3)):
        with pytest.raises(type(error)) as raised:
            work()
        assert raised.value is error
    store.error = None
    assert a[:].tolist() == [7] * 16


def test_values_for_arrays_without_dimensions_are_converted_as_in_zarr():
    a = zarr.create_array(MemoryStore(), shape=(), dtype="f4")
    with pytest.raises(ValueError, match="sequence"):
        a[...] = [1.0, 2.0]


def test_a_value_with_the_shape_of_the_chunk_replaces_it():
    a = zarr.create_array(MemoryStore(), shape=(3,), chunks=(1,), dtype="U3")
    a[1] = np.array(["abc"])
    assert a[:].tolist() == ["", "abc", ""]


def test_a_read_only_store_refuses_writes(tmp_path):
    zarr.create_array(LocalStore(tmp_path), shape=(10,), chunks=(5,), dtype="i4")
    a = zarr.open_array(LocalStore(tmp_path, read_only=True), mode="r")
    with pytest.raises(ValueError, match="read-only"):
        a[:] = 1


def test_threads_share_an_array():
    values = np.random.default_rng(1).normal(size=(64, 64))
    a = zarr.create_array(MemoryStore(), shape=values.shape, chunks=(8, 8), dtype="f8")
    a[...] = values
    wrong: list[int] = []

    def work(row: int) -> None:
        for _ in range(20):
            if not np.array_equal(a[row : row + 9, ::3], values[row : row + 9, ::3]):
                wrong.append(row)
            a[row] = values[row]

    threads = [threading.Thread(target=work, args=(row,)) for row in range(0, 48, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("shards", [None, (50, 50)])
def test_inside_a_running_event_loop(tmp_path, kind, shards):
    values = np.random.default_rng(1).normal(size=(100, 100))

    async def work() -> None:
        made = await zarr.api.asynchronous.create_array(
            make_store(kind, tmp_path), shape=values.shape, chunks=(25, 25), shards=shards, dtype="f8"
        )
        await made.setitem(..., values)
        parts = await asyncio.gather(*(made.getitem((slice(i, i + 30), 7)) for i in range(0, 70, 10)))
        for i, part in zip(range(0, 70, 10), parts, strict=True):
            assert np.array_equal(part, values[i : i + 30, 7])

    asyncio.run(work())
    a = zarr.create_array(make_store(kind, tmp_path / "b"), shape=(10,), chunks=(5,), dtype="f8")

    async def blocking() -> None:
        a[:] = np.arange(10)
        assert a[3] == 3

    asyncio.run(blocking())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_after_a_fork():
    a = zarr.create_array(MemoryStore(), shape=(400, 400), chunks=(100, 100), dtype="f8")
    a[...] = 2
    assert a[...].sum() == 320000
    child = os.fork()
    if child == 0:
        os._exit(0 if a[...].sum() == 320000 and a[1, 1] == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_arrays_can_be_pickled(tmp_path):
    a = zarr.create_array(LocalStore(tmp_path), shape=(10,), chunks=(5,), dtype="i4")
    a[:] = np.arange(10)
    again = pickle.loads(pickle.dumps(a))
    assert again[:].tolist() == list(range(10))


class Custom(GzipCodec):
    """A user's codec under a known name."""


def test_a_users_codec_is_run_by_zarr_python_and_counted():
    a = zarr.create((10,), chunks=(5,), dtype="i4", store=MemoryStore(), codecs=[BytesCodec(), Custom()], zarr_format=3)
    # zarr-python's own class would be created for reading; this tests the chain itself.
    pipeline = type(a._async_array.codec_pipeline).from_codecs([BytesCodec(), Custom()])
    object.__setattr__(a._async_array, "codec_pipeline", pipeline)
    a[:] = np.arange(10)
    assert a[:].tolist() == list(range(10))
    assert "Custom" in str(pz.stats()["read"]["reasons"])


class OnlyLater(BytesBytesCodec):
    """A user's codec without synchronous methods."""

    is_fixed_size = False

    def to_dict(self):
        return {"name": "penstock_only_later"}

    def compute_encoded_size(self, input_byte_length, chunk_spec):
        raise NotImplementedError

    async def _decode_single(self, chunk_bytes, chunk_spec):
        return await asyncio.to_thread(GzipCodec()._decode_sync, chunk_bytes, chunk_spec)

    async def _encode_single(self, chunk_bytes, chunk_spec):
        return await asyncio.to_thread(GzipCodec()._encode_sync, chunk_bytes, chunk_spec)


@pytest.mark.parametrize("last", [Custom, OnlyLater])
@pytest.mark.parametrize("shards", [None, (6, 8)])
def test_chains_that_change_type_and_size_around_a_users_codec(last, shards):
    """In every pipeline, a codec receives the shape and the type that the codecs before it produce."""
    from zarr.codecs import numcodecs as v3

    items = [v3.FixedScaleOffset(offset=0, scale=4, dtype="<f8", astype="<i4"), BytesCodec()]
    chain = [*items, v3.Shuffle(elementsize=4), last()]
    codecs = chain if shards is None else [ShardingCodec(chunk_shape=(3, 4), codecs=chain)]
    values = np.arange(70.0).reshape(7, 10) / 4
    a = zarr.create((7, 10), chunks=shards or (3, 4), dtype="f8", store=MemoryStore(), codecs=codecs, zarr_format=3)
    pipeline = type(a._async_array.codec_pipeline).from_codecs(codecs)
    object.__setattr__(a._async_array, "codec_pipeline", pipeline)
    a[...] = values
    a[2:5, 3:] = values[2:5, 3:] + 1
    values[2:5, 3:] += 1
    np.testing.assert_array_equal(a[...], values)
    np.testing.assert_array_equal(a[1:6, ::3], values[1:6, ::3])
    assert last.__name__ in str(pz.stats()["read"]["reasons"])


def test_the_engine_runs_filters_of_version_2():
    import numcodecs

    values = np.arange(40.0).reshape(8, 5)
    filters = [numcodecs.FixedScaleOffset(0, 1, "f8", "i4"), numcodecs.Delta("i4"), numcodecs.Shuffle(4)]
    with pz.enable():
        made = zarr.create_array(
            MemoryStore(), shape=(8, 5), chunks=(3, 3), dtype="f8", zarr_format=2, order="F", filters=filters
        )
        pz.stats(reset=True)
        made[...] = values
        assert np.array_equal(made[...], values)
        assert {way: found["paths"] for way, found in pz.stats().items()} == {
            "read": {"native": 1},
            "write": {"native": 1},
        }
    assert np.array_equal(zarr.open_array(made.store)[...], values)


class Counting(LatencyStore):
    """A store whose synchronous methods wait; it counts the calls that run at the same time."""

    def __init__(self, store: Any, **options: Any) -> None:
        super().__init__(store, **options)
        self.running = self.most = self.gets = 0
        self.lock = threading.Lock()

    def _enter(self) -> None:
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)

    def _leave(self) -> None:
        with self.lock:
            self.running -= 1

    def get_sync(self, key: str, **options: Any) -> Any:
        self._enter()
        self.gets += 1
        try:
            return super().get_sync(key, **options)
        finally:
            self._leave()

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        self.gets += 1
        return await super().get(key, *args, **options)

    def set_sync(self, key: str, value: Any) -> None:
        self._enter()
        try:
            super().set_sync(key, value)
        finally:
            self._leave()


@pytest.mark.parametrize("wrap", [False, True])
def test_calls_overlap_if_a_stores_synchronous_methods_wait(wrap: bool) -> None:
    values = np.arange(400, dtype="i4")
    inner = MemoryStore()
    zarr.create_array(inner, shape=values.shape, chunks=(10,), dtype="i4")
    store = Counting(inner, get_latency=0.02, set_latency=0.02)
    a = zarr.open_array(store)
    a = pz.wrap(a) if wrap else a
    store.most = 0
    a[:] = values
    assert 4 < store.most <= zarr.config.get("async.concurrency")
    assert a[:].tolist() == values.tolist()
    again = Counting(inner, get_latency=0.02)
    a = zarr.open_array(again)
    a = pz.wrap(a) if wrap else a
    again.most = again.gets = 0
    assert a[:].tolist() == values.tolist()
    assert again.gets == 42  # the first two showed that the store waits
    assert a[:].tolist() == values.tolist()
    assert 4 < again.most <= zarr.config.get("async.concurrency")
    assert a[5:25].tolist() == values[5:25].tolist()
    a[5:25] = 0
    a[10:20] = 0  # a chunk that is erased
    expected = values.copy()
    expected[5:25] = 0
    assert zarr.open_array(inner)[:].tolist() == expected.tolist()


@pytest.mark.parametrize("wrap", [False, True])
def test_shards_overlap_if_a_stores_synchronous_methods_wait(wrap: bool) -> None:
    values = np.arange(400, dtype="i4")
    inner = MemoryStore()
    zarr.create_array(inner, shape=values.shape, chunks=(5,), shards=(20,), dtype="i4")[:] = values
    for read in (lambda a: a[3:397], lambda a: a.oindex[np.arange(3, 397)]):
        store = Counting(inner, get_latency=0.05, set_latency=0.05)
        a = zarr.open_array(store)
        a = pz.wrap(a) if wrap else a
        for _ in range(2):
            begin = time.perf_counter()
            assert read(a).tolist() == values[3:397].tolist()
            taken = time.perf_counter() - begin
            assert taken < 20 * 0.05, taken  # less than one request for each shard, one after the other
    a = zarr.open_array(Counting(inner, get_latency=0.05, set_latency=0.05))  # not known to wait
    a = pz.wrap(a) if wrap else a
    begin = time.perf_counter()
    a[3:397:2] = values[3:397:2] + 1
    taken = time.perf_counter() - begin
    assert taken < 20 * 0.05, taken
    values[3:397:2] += 1
    assert zarr.open_array(inner)[:].tolist() == values.tolist()


def test_one_long_call_does_not_show_that_a_store_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Once(Counting):
        def get_sync(self, key: str, **options: Any) -> Any:
            self._get_latency = 0.25 if self.gets == 5 else 0.0
            return super().get_sync(key, **options)

    monkeypatch.setattr("penstock.interop.zarr.route.is_long", lambda seconds: seconds >= 0.2)  # on a busy machine, too
    inner = MemoryStore()
    zarr.create_array(inner, shape=(400,), chunks=(10,), dtype="i4")[:] = 7
    a = pz.wrap(zarr.open_array(Once(inner)))
    a.store.gets = a.store.most = 0
    assert a[:].tolist() == [7] * 400
    assert (a.store.gets, a.store.most) == (40, 1)


def test_reads_on_the_event_loop_of_zarr_python() -> None:
    inner = MemoryStore()
    zarr.create_array(inner, shape=(40,), chunks=(5,), shards=(20,), dtype="i4")[:] = 7
    a = pz.wrap(zarr.open_array(Counting(inner, get_latency=0.01)))

    async def read() -> list[int]:
        return [*a[:].tolist(), *a[3:30].tolist()]

    assert sync(read()) == [7] * 67


@pytest.mark.parametrize("shards", [None, (8,)])
def test_one_request_is_not_repeated_when_the_store_waits(shards: Any) -> None:
    inner = MemoryStore()
    zarr.create_array(inner, shape=(16,), chunks=(2,), shards=shards, dtype="i4", compressors=None)[:] = 7
    store = Counting(inner, get_latency=0.006)
    a = pz.wrap(zarr.open_array(store))
    store.gets = 0
    assert a[3:4].tolist() == [7]
    assert store.gets == (1 if shards is None else 2)  # an index, then a chunk: the store is known to wait afterwards


@pytest.mark.parametrize("shards", [None, (8,)])
@pytest.mark.parametrize("wrap", [False, True])
def test_exceptions_of_stores_that_wait_are_raised_as_they_are(wrap: bool, shards: Any) -> None:
    class Slow(Failing):
        def get_sync(self, key: str, **options: Any) -> Any:
            time.sleep(0.006)
            return super().get_sync(key, **options)

        def set_sync(self, key: str, value: Any) -> None:
            time.sleep(0.006)
            self._check(key)
            super().set_sync(key, value)

        async def set(self, key: str, value: Any) -> None:
            self._check(key)
            await super().set(key, value)

    store = Slow(MemoryStore())
    a = zarr.create_array(store, shape=(16,), chunks=(2,), shards=shards, dtype="i4")
    a[:] = 7
    a = pz.wrap(a) if wrap else a
    store.error = KeyError("header")
    for work in (lambda: a[:], lambda: a[1:15], lambda: a.__setitem__(slice(None), 3)):
        with pytest.raises(KeyError) as raised:
            work()
        assert raised.value is store.error
    store.error = None
    assert a[:].tolist() == [7] * 16
