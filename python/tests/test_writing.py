"""`a[...] = x` and similar writes: equal to NumPy, and read again by zarr-python."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
import zarr

LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": (5, 4)},
    "sharded": {"chunks": (5, 2), "shards": (10, 6)},
    "uncompressed": {"chunks": (4, 4), "compressors": None},
}


def _make(folder: Path, *, shape: Any = (23, 17), dtype: str = "int32", layout: str = "sharded") -> Any:
    return zarr.create_array(str(folder / "a.zarr"), shape=shape, dtype=dtype, **LAYOUTS[layout])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_assignment_equals_numpys(tmp_path: Path, layout: str) -> None:
    z = _make(tmp_path, layout=layout)
    a = ps.open(tmp_path / "a.zarr")
    n = np.zeros(a.shape, a.dtype)
    rng = np.random.default_rng(3)
    keys = [np.s_[...], np.s_[3], np.s_[:, 5], np.s_[2:20:3, ::-2], np.s_[-1, -1], np.s_[7:7], np.s_[1, None, 2:9]]
    for key in keys:
        x = rng.integers(-99, 99, n[key].shape)
        a[key] = x
        n[key] = x
        assert np.array_equal(a[...], n), key
        assert np.array_equal(z[...], n), key


def test_values_are_cast_and_repeated_as_numpy_does(tmp_path: Path) -> None:
    _make(tmp_path)
    a = ps.open(tmp_path / "a.zarr")
    n = np.zeros(a.shape, a.dtype)
    for key, value in [
        (np.s_[...], 7),
        (np.s_[2:5], np.arange(17)),
        (np.s_[:, 3], np.arange(23)),
        (np.s_[4:6, 1:3], [[1], [2]]),
        (np.s_[0], np.arange(17.0) + 0.9),
        (np.s_[1], np.arange(17, dtype=">i2")),
        (np.s_[1, 1], np.int64(3)),
        (np.s_[8:10], np.arange(34).reshape(1, 1, 2, 17)),
        (np.s_[10:20], np.asfortranarray(np.arange(170).reshape(10, 17))),
        (np.s_[20], np.arange(34)[::-2]),
    ]:
        a[key] = value
        n[key] = value
        assert np.array_equal(a[...], n), key
    with pytest.raises(ValueError, match="broadcast"):
        a[2:5] = np.zeros((2, 17))
    with pytest.raises(IndexError):
        a[23] = 0
    with pytest.raises(TypeError):
        del a[3]
    assert np.array_equal(a[...], n)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float64", "complex128"])
def test_dtypes(tmp_path: Path, dtype: str) -> None:
    z = _make(tmp_path, dtype=dtype)
    a = ps.open(z)
    n = np.zeros(a.shape, dtype)
    n[3:12, 2:9] = np.arange(63).reshape(9, 7) % 5
    a[...] = n
    a[1, 1] = n[1, 1] = 1
    assert np.array_equal(z[...], n)
    assert np.array_equal(a[...], n)


@pytest.mark.parametrize("threads", [2**31, 2**40, 2**63 - 1])
def test_any_number_of_threads_is_accepted(threads: int) -> None:
    a = ps.create_array({}, shape=(6,), dtype="i4", chunks=(2,))
    a.write(..., np.arange(6), threads=threads)
    a.write_async(..., np.arange(6), threads=threads).wait()
    np.testing.assert_array_equal(a.read(..., threads=threads), np.arange(6))
    np.testing.assert_array_equal(a.read_async(..., threads=threads).wait(), np.arange(6))
    np.testing.assert_array_equal(ps.copy(a, {}, threads=threads)[...], np.arange(6))
    with a.appender(threads=threads) as to:
        to.append([6, 7])
    assert a.shape == (8,)


class Rows(np.ndarray[Any, Any]):
    """As `numpy.matrix`, a subclass whose items are not those of an ndarray."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the elements of a subclass are its memory")


def test_arrays_of_subclasses_are_written_as_ndarrays() -> None:
    a = ps.create_array({}, shape=(3, 4), dtype="i4")
    for dtype in ("i4", "f8"):
        for shape in ((1, 1, 4), (3, 1), (1, 1), ()):
            values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
            a[...] = values.view(Rows)
            np.testing.assert_array_equal(a[...], np.broadcast_to(values.reshape(shape[-2:]), (3, 4)))
    a.append(np.full((2, 4), 7, "f8").view(Rows))
    with a.appender() as to:
        to.append(np.full((2, 4), 8, "f8").view(Rows))
    np.testing.assert_array_equal(a[3:, 0], [7, 7, 8, 8])


def test_masked_elements_are_refused() -> None:
    a = ps.create_array({}, data=np.arange(4.0))
    items = ps.create_array({}, data=np.zeros(4, [("x", "f8"), ("y", "f8")]))
    masked = np.ma.masked_less(np.arange(4.0), 2)
    in_field = np.ma.masked_array(np.ones(4, items.dtype), mask=[(False, True)] + [(False, False)] * 3)
    with a.appender() as to:
        for write in (
            lambda: a.__setitem__(..., masked),
            lambda: a.__setitem__(0, np.ma.masked),
            lambda: a.write([3, 2, 1, 0], masked),
            lambda: a.write_async(..., masked),
            lambda: a.append(masked),
            lambda: to.append(masked),
            lambda: items.__setitem__("x", masked),
            lambda: items.__setitem__(..., in_field),
            lambda: items.append(in_field),
        ):
            with pytest.raises(ps.InvalidArgumentError, match="masked elements"):
                write()
    np.testing.assert_array_equal(a[...], np.arange(4.0))
    a[...] = np.ma.masked_array(np.arange(4, 8))  # nothing is masked
    np.testing.assert_array_equal(a[...], np.arange(4, 8))
    items[1:] = np.ma.masked_array(np.ones(3, items.dtype))  # structures always have a mask
    items[0] = np.ma.masked_array(np.ones(1, items.dtype))
    np.testing.assert_array_equal(items[...], np.ones(4, items.dtype))
    saved = ps.create_array({}, data=np.ma.masked_array(np.ones(3, items.dtype)))
    np.testing.assert_array_equal(saved[...], np.ones(3, items.dtype))


def test_lists_are_appended_as_they_are_assigned() -> None:
    a = ps.create_array({}, shape=(0, 1), dtype="u4", chunks=(4, 1))
    with a.appender() as to:
        for append in (a.append, to.append):
            for wrong in ([[2**40]], [[-1]], [[float("nan")]]):
                with pytest.raises((OverflowError, ValueError)):
                    append(wrong)
    a.append([[1], [2.5]])
    np.testing.assert_array_equal(a[:, 0], [1, 2])
    items = ps.create_array({}, shape=(0,), dtype=[("x", "i4"), ("y", "f8")], chunks=(4,))
    items.append([(1, 2.5), (3, 4.5)])
    assert items[...].tolist() == [(1, 2.5), (3, 4.5)]


def test_a_chunk_of_fill_value_is_omitted_bit_for_bit(tmp_path: Path) -> None:
    z = zarr.create_array(str(tmp_path / "a.zarr"), shape=(8,), chunks=(4,), dtype="float64", fill_value=0.0)
    a = ps.open(tmp_path / "a.zarr")
    a[...] = 0.0
    assert z.nchunks_initialized == 0
    a[0] = -0.0
    assert z.nchunks_initialized == 1
    assert np.signbit(a[0])
    a[0] = 0.0
    assert z.nchunks_initialized == 0
    a.write(np.s_[:4], 0.0, write_empty_chunks=True)
    assert z.nchunks_initialized == 1

    z = zarr.create_array(str(tmp_path / "b.zarr"), shape=(8,), chunks=(4,), dtype="float64", fill_value="NaN")
    b = ps.open(tmp_path / "b.zarr")
    b[2:6] = 1
    b[...] = np.nan
    assert z.nchunks_initialized == 0


def test_write_with_options(tmp_path: Path) -> None:
    _make(tmp_path, shape=(100, 50))
    a = ps.open(tmp_path / "a.zarr")
    x = np.arange(5_000, dtype="int32").reshape(a.shape)
    calls: list[tuple[int, int]] = []
    a.write(..., x, threads=2, durable=True, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] > 0
    assert np.array_equal(a[...], x)
    with pytest.raises(ps.InvalidArgumentError):
        a.write(..., x, threads=0)


def test_a_cancelled_write_reports_its_progress(tmp_path: Path) -> None:
    z = zarr.create_array(str(tmp_path / "a.zarr"), shape=(4_000_000,), chunks=(1000,), dtype="int32")
    a = ps.open(z)
    with pytest.raises(ps.CancelledError) as failed:
        a.write(..., np.arange(4_000_000, dtype="int32"), progress=lambda done, total: False)
    assert "of 4000 objects were written before" in str(failed.value)


def test_set_basic_selection(tmp_path: Path) -> None:
    z = _make(tmp_path)
    a = ps.open(z)
    a.set_basic_selection(np.s_[2:4, ::3], 5)
    assert np.array_equal(z[2:4, ::3], np.full((2, 6), 5))
    with pytest.raises(IndexError, match="field"):
        a.set_basic_selection(..., 5, fields="x")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_other_selections_are_written(tmp_path: Path, layout: str) -> None:
    z = _make(tmp_path, layout=layout)
    a = ps.open(tmp_path / "a.zarr")
    n = np.zeros(a.shape, a.dtype)
    rng = np.random.default_rng(8)

    def check(what: str) -> None:
        assert np.array_equal(a[...], n), what
        assert np.array_equal(z[...], n), what

    for _ in range(12):
        rows, columns = rng.integers(-23, 23, 9), rng.integers(0, 17, 5)
        x = rng.integers(1, 99, (9, 5))
        a.oindex[rows, columns] = x
        n[np.ix_(rows, columns)] = x
        check("oindex")
        a.set_orthogonal_selection((rows[:3], slice(None, None, 4)), 7)
        n[rows[:3], ::4] = 7
        check("orthogonal")

        points = rng.integers(0, 17, (2, 60))
        x = rng.integers(1, 99, 60)
        a.vindex[points[0], points[1]] = x
        n[points[0], points[1]] = x
        check("vindex, the later of two values stays")
        a.set_coordinate_selection((points[0, :4], points[1, :4]), -1)
        n[points[0, :4], points[1, :4]] = -1
        check("coordinates")

        mask = rng.random(n.shape) < 0.2
        a.vindex[mask] = 3
        n[mask] = 3
        a.set_mask_selection(~mask, np.arange((~mask).sum()))
        n[~mask] = np.arange((~mask).sum())
        check("mask")

    unit = a.shards or a.chunks
    a.blocks[1, 0] = 5
    n[unit[0] : 2 * unit[0], : unit[1]] = 5
    a.set_block_selection(slice(0, 1), 6)
    n[: unit[0]] = 6
    check("blocks")
    a[[3, 1, 3], :] = np.arange(3)[:, None]
    n[[3, 1, 3], :] = np.arange(3)[:, None]
    a.write(ps.oindex[[0, 2], 1], [8, 9])
    n[[0, 2], 1] = [8, 9]
    check("brackets")
    with pytest.raises(IndexError):
        a.oindex[[23], 0] = 1
    with pytest.raises(ValueError, match="broadcast"):
        a.vindex[[1, 2], [3, 4]] = [1, 2, 3]
    check("refused")


def test_fields_are_written(tmp_path: Path) -> None:
    dtype = np.dtype([("x", "<i4"), ("y", "<f8")])
    try:
        z = zarr.create_array(
            str(tmp_path / "a.zarr"), shape=(20,), chunks=(6,), dtype=dtype, zarr_format=3, compressors=None
        )
        a = ps.open(tmp_path / "a.zarr")
    except (ps.UnsupportedError, ValueError) as error:
        pytest.skip(str(error))
    n = np.zeros(20, dtype)
    a[...] = n
    a["x"] = np.arange(20)
    n["x"] = np.arange(20)
    a["y", 3:9] = 2.5
    n["y"][3:9] = 2.5
    a.set_coordinate_selection(([1, 4],), [7, 8], fields="x")
    n["x"][[1, 4]] = [7, 8]
    assert np.array_equal(a[...], n)
    assert np.array_equal(z[...], n)


def test_a_dict_is_written_to() -> None:
    store: dict[str, Any] = {}
    zarr.create_array(zarr.storage.MemoryStore(store), shape=(10,), chunks=(3,), dtype="int32")
    a = ps.open({key: value.to_bytes() for key, value in store.items()})
    if a.read_only:
        pytest.skip("dicts are read-only")
    a[2:8] = np.arange(6)
    assert np.array_equal(a[...], [0, 0, 0, 1, 2, 3, 4, 5, 0, 0])


def test_resize(tmp_path: Path) -> None:
    z = _make(tmp_path, layout="plain")
    a = ps.open(tmp_path / "a.zarr")
    other = ps.open(tmp_path / "a.zarr")
    n = np.arange(23 * 17, dtype="int32").reshape(23, 17)
    a[...] = n
    a.resize((30, 3))
    assert a.shape == (30, 3)
    assert other.shape == (23, 17)  # an array opened before keeps its shape
    again = zarr.open_array(str(tmp_path / "a.zarr"))
    assert again.shape == (30, 3)
    assert again.metadata.codecs == z.metadata.codecs
    assert np.array_equal(a[:23], n[:, :3])
    assert not a[23:].any()
    a.resize((4, 4))
    assert np.array_equal(a[...], n[:4, :4])  # what the edge's chunks held beyond it
    assert again.nchunks_initialized == 1
    with pytest.raises(ps.InvalidArgumentError):
        a.resize((4,))
    with pytest.raises(ps.InvalidArgumentError):
        a.resize((-1, 4))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_append(tmp_path: Path, axis: int) -> None:
    _make(tmp_path)
    a = ps.open(tmp_path / "a.zarr")
    other = ps.open(tmp_path / "a.zarr")
    n = np.arange(23 * 17, dtype="int32").reshape(23, 17)
    a[...] = n
    for k in range(3):
        shape = list(n.shape)
        shape[axis] = 4 * k
        rows = np.full(shape, k)
        n = np.concatenate([n, rows.astype("int32")], axis)
        assert (a if k % 2 else other).append(rows, axis) == n.shape  # each object knows the current end
    assert np.array_equal(zarr.open_array(str(tmp_path / "a.zarr"))[...], n)
    assert sorted(os.listdir(tmp_path / "a.zarr")) == ["c", "zarr.json"]
    with pytest.raises(ValueError, match="cannot be appended"):
        a.append(np.zeros((3, 3, 3)))


def test_a_resize_under_reads_of_other_threads(tmp_path: Path) -> None:
    _make(tmp_path, shape=(1000, 17))
    a = ps.open(tmp_path / "a.zarr")
    a[...] = 5
    stop = threading.Event()
    failed: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                x = a[:500]
                assert (x == 5).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for t in threads:
        t.start()
    for k in range(40):
        a.resize((500 + k, 17))
    stop.set()
    for t in threads:
        t.join()
    assert not failed


def test_a_read_only_store_is_refused(tmp_path: Path) -> None:
    _make(tmp_path)
    if os.geteuid() == 0:
        pytest.skip("root may write everything")
    os.chmod(tmp_path / "a.zarr", 0o555)
    a = ps.open(tmp_path / "a.zarr")
    with pytest.raises(ps.PermissionDeniedError):
        a[...] = 1


@pytest.mark.parametrize("kib", [255, 256, 384, 512, 513, 1024])
def test_writes_of_any_size_into_a_dict_end(kib):
    # Some hold the GIL, some have several workers; never both, since writing to a dict needs the GIL.
    values = np.random.default_rng(kib).integers(0, 200, kib << 10, dtype="u1")
    for _ in range(5):
        a = ps.create_array({}, shape=values.shape, dtype="u1", chunks=(4096,))
        a[...] = values
        np.testing.assert_array_equal(a[...], values)
        a.oindex[np.arange(values.size)[::-1]] = values
        np.testing.assert_array_equal(a[...], values[::-1])


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle"])
def test_chunks_near_the_memory_limit_are_written_by_fewer_workers(tmp_path: Path, shuffle: str) -> None:
    blosc = {"cname": "lz4", "clevel": 1, "shuffle": shuffle, "typesize": 8}
    context = ps.Context(threads=4, memory_limit=64 << 20)
    array = ps.create_array(
        tmp_path / "a.zarr",
        shape=(8, 3 << 20),
        dtype="float64",
        chunks=(1, 3 << 20),
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": blosc}],
        context=context,
    )
    values = np.random.default_rng(3).random((8, 3 << 20)).astype("float32").astype("float64")
    array[...] = values
    np.testing.assert_array_equal(ps.open(tmp_path / "a.zarr")[...], values)


def test_large_objects_are_replaced_again_and_again(tmp_path: Path) -> None:
    """Their bytes are flushed on a separate thread, which must keep up and end."""
    array = ps.create_array(tmp_path / "a.zarr", shape=(1 << 20,), dtype="float32", chunks=(1 << 20,), compressors=None)
    for i in range(12):
        array[...] = np.full(1 << 20, i, "float32")
    np.testing.assert_array_equal(ps.open(tmp_path / "a.zarr")[...], np.full(1 << 20, 11, "float32"))
