"""Basic indexing compared with NumPy: the same result, or an error of the same class."""

from __future__ import annotations

import functools

import numpy as np
import penstock as ps
import pytest
from conftest import examples, same, sharded, write
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BytesCodec

# Prime shapes with chunks that leave ragged edges; rank 0 to 6.
SHAPES = {
    0: ((), (), ()),
    1: ((31,), (12,), (4,)),
    2: ((13, 17), (6, 8), (3, 4)),
    3: ((7, 11, 5), (4, 6, 4), (2, 3, 4)),
    4: ((5, 3, 7, 2), (4, 2, 4, 2), (2, 2, 2, 1)),
    5: ((3, 5, 2, 3, 5), (2, 4, 2, 2, 4), (1, 2, 2, 2, 2)),
    6: ((3, 2, 3, 2, 5, 3), (2, 2, 2, 2, 4, 2), (2, 1, 2, 2, 2, 1)),
}


@functools.cache
def arrays(rank: int) -> tuple[np.ndarray, list[ps.Array]]:
    shape, outer, inner = SHAPES[rank]
    values = np.arange(1, 1 + np.prod(shape, dtype=int), dtype="<i4").reshape(shape)
    stores = [write(values, inner, [BytesCodec()])]
    if rank:
        stores.append(write(values, outer, sharded(inner)))
    return values, [ps.open(store) for store in stores]


@st.composite
def keys(draw: st.DrawFn) -> tuple[int, object]:
    rank = draw(st.integers(0, 6))
    shape = SHAPES[rank][0]
    taken = draw(st.integers(0, rank))
    items: list[object] = []
    for size in shape[:taken]:
        bound = st.none() | st.integers(-size - 3, size + 3)
        if draw(st.integers(0, 3)) == 0:
            # Sometimes out of range.
            items.append(draw(st.integers(-size - (draw(st.integers(0, 19)) == 0), size - 1)))
        else:
            step = draw(st.none() | st.integers(-size - 1, size + 1).filter(lambda value: value != 0))
            items.append(slice(draw(bound), draw(bound), step))
    if draw(st.booleans()):
        # The Ellipsis selects the other dimensions whole, so items after it count from the end.
        items.insert(draw(st.integers(0, len(items))), ...)
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if len(items) == 1 and draw(st.booleans()):
        return rank, items[0]
    return rank, tuple(items)


def outcome(array: object, key: object) -> object:
    try:
        return array[key]
    except (IndexError, ValueError) as error:
        return IndexError if isinstance(error, IndexError) else ValueError


@settings(max_examples=examples(2500))
@given(keys())
def test_selections_equal_numpys(case):
    rank, key = case
    values, opened = arrays(rank)
    want = outcome(values, key)
    for array in opened:
        got = outcome(array, key)
        if isinstance(want, type):
            assert got is want
        else:
            assert type(got) is type(want)
            assert same(got, want)


@settings(max_examples=300)
@given(keys())
def test_reads_into_memory_of_any_layout_are_equal(case):
    rank, key = case
    values, opened = arrays(rank)
    want = outcome(values, key)
    if isinstance(want, type):
        return
    want = np.asarray(want)
    for array in opened:
        flipped = np.zeros(want.shape, want.dtype)[(..., *(slice(None, None, -1) for _ in want.shape))]
        fortran = np.zeros(want.shape, want.dtype, order="F")
        for out in (flipped, fortran):
            assert array.read(key, out=out) is out
            np.testing.assert_array_equal(out, want)
        cast = array.read(key, dtype="f8")
        np.testing.assert_array_equal(cast, want.astype("f8"))
        assert cast.dtype == np.float64


@pytest.mark.parametrize("step", [s for s in range(-33, 34) if s])
def test_every_step_of_one_dimension(step):
    values, opened = arrays(1)
    for array in opened:
        for key in (np.s_[::step], np.s_[3:29:step], np.s_[29:3:step], np.s_[-2:-30:step]):
            assert same(array[key], values[key])


class Index:
    def __index__(self) -> int:
        return 2


@pytest.mark.parametrize("key", [np.int8(2), np.uint64(2), np.int64(-3), np.array(2), Index(), (np.intp(1), Index())])
def test_every_integer_type_is_an_index(key):
    values, opened = arrays(2)
    for array in opened:
        assert same(array[key], values[key])
    assert same(opened[0][np.int64(1) : Index()], values[1:2])


def test_ints_give_a_scalar_and_an_ellipsis_a_0d_array():
    values, opened = arrays(2)
    zero, opened_zero = arrays(0)
    for array in opened:
        assert type(array[1, 2]) is np.int32
        assert array[1, 2] == values[1, 2]
        assert array[1, 2, ...].shape == ()
        assert isinstance(array[1, 2, ...], np.ndarray)
        assert array[1, 2, None].shape == (1,)
    assert type(opened_zero[0][()]) is np.int32
    assert isinstance(opened_zero[0][...], np.ndarray)
    assert opened_zero[0][None].shape == (1,)
    assert opened_zero[0][()] == zero[()]


@pytest.mark.parametrize("key", [True, np.True_, "x", 1.0, (0, 1.5), {}])
def test_invalid_indexes_are_refused_with_a_message(key):
    _, opened = arrays(2)
    with pytest.raises(IndexError, match=r"vindex|fields") as caught:
        opened[0][key]
    assert isinstance(caught.value, ps.Error)


@pytest.mark.parametrize("key", [13, -14, (0, 17), (0, 0, 0), (..., ...), 2**70, -(2**70), (0, -(2**63))])
def test_an_index_outside_the_array_is_an_index_error(key):
    _, opened = arrays(2)
    for array in opened:
        with pytest.raises(ps.Error) as caught:
            array[key]
        assert isinstance(caught.value, IndexError)


def test_a_step_of_zero_is_a_value_error():
    _, opened = arrays(2)
    with pytest.raises(ValueError, match="step") as caught:
        opened[0][::0]
    assert isinstance(caught.value, ps.InvalidArgumentError)


def test_slices_without_integers_are_a_type_error():
    _, opened = arrays(2)
    with pytest.raises(TypeError, match="slice indices"):
        opened[0][1.5:]


def test_an_exception_of_an_index_object_is_raised():
    class Bad:
        def __index__(self) -> int:
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        arrays(2)[1][0][Bad()]


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0), (0, 0, 3)])
def test_arrays_without_elements_are_read(shape):
    values = np.zeros(shape, "i2")
    array = ps.open(write(values, tuple(max(1, n) for n in shape)))
    assert same(array[...], values)
    assert same(array[:0], values[:0])
    assert same(array.read(dtype="f4"), values.astype("f4"))


def test_steps_at_the_edge_of_64_bits_do_not_overflow():
    values, opened = arrays(1)
    for key in (np.s_[:: 2**63 - 1], np.s_[:: -(2**63 - 1)], np.s_[-(2**63) : 2**63 - 1], np.s_[5 :: 2**62]):
        assert same(opened[0][key], values[key])
