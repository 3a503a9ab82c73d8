"""`read` with out=, dtype=, threads=, progress=."""

from __future__ import annotations

import array as stdlib_array

import numpy as np
import penstock as ps
import pytest
from conftest import same, sharded, write

VALUES = np.random.default_rng(5).integers(-99, 99, (40, 30), dtype="<i4")


@pytest.fixture(scope="module")
def small() -> ps.Array:
    return ps.open(write(VALUES, (16, 16), sharded((8, 4))))


def test_read_without_options_is_indexing(small):
    assert same(small.read(), VALUES)
    assert same(small.read(np.s_[3:20:4, ::-1]), VALUES[3:20:4, ::-1])
    assert same(small.read(5), VALUES[5])
    assert type(small.read((1, 2))) is np.int32


def test_out_takes_memory_of_any_layout(small):
    base = np.zeros((80, 90), "<i4")
    views = [
        np.empty((40, 30), "<i4"),
        np.empty((40, 30), "<i4", order="F"),
        base[::2, ::3],
        base[::-2, 89::-3],
        np.empty((30, 40), "<i4").T,
        np.empty((40, 30, 2), "<i4")[..., 1],
        np.ndarray((40, 30), "<i4", buffer=bytearray(4801), offset=1),  # not aligned
        np.ma.masked_array(np.zeros((40, 30), "<i4")).data,
    ]
    for out in views:
        assert small.read(out=out) is out
        np.testing.assert_array_equal(out, VALUES)
    before = base.copy()
    small.read(np.s_[:2, :2], out=base[:2, :2])
    before[:2, :2] = VALUES[:2, :2]
    np.testing.assert_array_equal(base, before)


def test_out_takes_buffer_objects(small):
    row = bytearray(30 * 4)
    small.read(3, out=memoryview(row).cast("i"))
    np.testing.assert_array_equal(np.frombuffer(row, "<i4"), VALUES[3])
    numbers = stdlib_array.array("i", [0] * 30)
    assert small.read(4, out=numbers) is numbers
    np.testing.assert_array_equal(numbers, VALUES[4])


def test_out_of_another_dtype_is_cast(small):
    for dtype in ("f8", ">i4", "i8", "c16"):
        out = np.empty((40, 30), dtype)
        small.read(out=out)
        np.testing.assert_array_equal(out, VALUES)
    swapped = np.empty((30, 40), ">f4").T
    np.testing.assert_array_equal(small.read(out=swapped), VALUES)


@pytest.mark.parametrize(
    ("out", "word"),
    [
        (np.empty((30, 40), "<i4"), "shape"),
        (np.empty(1200, "<i4"), "shape"),
        (np.empty((40, 30), "u1"), "same_kind"),
        (np.empty((40, 30), "U3"), "same_kind"),
        (np.broadcast_to(np.int32(0), (40, 30)), "written"),
        (b"x" * 4800, "written"),
        ([0] * 30, "buffer"),
        (np.lib.stride_tricks.as_strided(np.zeros(30, "<i4"), (40, 30), (0, 4)), "share"),
    ],
)
def test_an_out_that_does_not_fit_is_refused_before_anything_is_read(small, out, word):
    with pytest.raises(ps.OutputError, match=word) as caught:
        small.read(out=out)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, BufferError)


def test_a_0d_out_takes_one_element(small):
    out = np.zeros((), "<i4")
    assert small.read((3, 4), out=out) is out
    assert out == VALUES[3, 4]


def test_dtype_casts_the_result(small):
    for dtype in ("f8", np.int64, ">i8", "i2"):
        got = small.read(np.s_[::3], dtype=dtype)
        assert got.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(got, VALUES[::3].astype(dtype))
    assert same(small.read(dtype="<i4"), VALUES)
    assert type(small.read((1, 2), dtype="f8")) is np.float64
    assert small.read((1, 2, ...), dtype="f8").shape == ()
    with pytest.raises(ps.InvalidArgumentError, match="same_kind"):
        small.read(dtype="u1")
    with pytest.raises(ps.InvalidArgumentError, match="dtype"):
        small.read(out=np.empty((40, 30)), dtype="f4")


def test_a_cast_read_allocates_only_the_result(big):
    import tracemalloc

    path, values = big
    array = ps.open(path)
    out = np.empty(array.shape, "f8")
    tracemalloc.start()
    array.read(out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    np.testing.assert_array_equal(out, values)


def test_threads_do_not_change_the_result(big):
    path, values = big
    for threads in (1, 2, 5):
        assert same(ps.open(path).read(np.s_[:2000], threads=threads), values[:2000])


def test_progress_grows_to_the_total(big):
    path, values = big
    calls: list[tuple[int, int]] = []
    ps.open(path).read(progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1] == (values.nbytes, values.nbytes)
    calls.clear()
    ps.open(path).read(dtype="f8", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (values.nbytes, values.nbytes)  # in bytes of the array's own dtype


def test_progress_is_reported_for_small_reads_too(small):
    calls = []
    small.read(np.s_[:1], progress=lambda done, total: calls.append((done, total)))
    assert len(calls) >= 1
    assert calls[-1][0] == calls[-1][1] > 0


def test_an_exception_of_progress_stops_the_read_and_is_raised(big):
    class MineError(Exception):
        pass

    def fail(done, total):
        raise MineError

    array = ps.open(big[0])
    for options in ({}, {"dtype": "f8"}):
        with pytest.raises(MineError):
            array.read(progress=fail, **options)
    assert same(array[:3], big[1][:3])


def test_progress_that_returns_false_cancels(slow):
    store, values = slow
    array = ps.open(store)
    with pytest.raises(ps.CancelledError):
        array.read(progress=lambda done, total: False)
    assert store.asked < 100
    store.asked = 0
    with pytest.raises(ps.CancelledError):
        array.read(dtype="f8", progress=lambda done, total: False)
    assert store.asked < 100
    assert same(array[:3], values[:3])


def test_large_results_return_to_the_contexts_pool(context):
    values = np.arange(1 << 20, dtype="<i4")
    array = ps.open(write(values, (1 << 17,)))
    first = array[:]
    assert first.flags.writeable
    assert first.flags.c_contiguous
    address = first.ctypes.data
    first[:] = 0
    kept = first[:7]
    del first
    assert (kept == 0).all()
    second = array[:]  # the view keeps its memory, so this is another block
    assert second.ctypes.data != address
    assert same(second, values)
    del kept
    third = array[:]
    assert third.ctypes.data == address
    assert same(third, values)
    del second, third
    assert context.usage()["output_pool_bytes"] >= values.nbytes
    context.clear()
    assert context.usage()["output_pool_bytes"] == 0


def test_results_outlive_their_array_and_context():
    context = ps.Context(threads=1)
    array = ps.open(write(np.arange(1 << 20, dtype="<i4"), (1 << 18,)), context=context)
    result = array[:]
    del array, context
    np.testing.assert_array_equal(result, np.arange(1 << 20))
