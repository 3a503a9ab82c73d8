"""Orthogonal, coordinate, mask and block selections, and fields, against NumPy and zarr-python."""

from __future__ import annotations

import functools

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION, as_bytes, same, sharded, write
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.codecs import BytesCodec

SHAPES = {
    1: ((31,), (12,), (4,)),
    2: ((13, 17), (6, 8), (3, 4)),
    3: ((7, 11, 5), (4, 6, 4), (2, 3, 4)),
    4: ((5, 3, 7, 2), (4, 2, 4, 2), (2, 2, 2, 1)),
}
DTYPES = ("<i4", "|u1", "<f8", ">i2", "<c16")


@functools.cache
def arrays(rank: int, dtype: str = "<i4") -> tuple[np.ndarray, list[tuple[ps.Array, zarr.Array]]]:
    shape, outer, inner = SHAPES[rank]
    values = np.arange(1, 1 + np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    made = []
    for chunks, codecs in ((inner, [BytesCodec()]), (inner, None), (outer, sharded(inner))):
        store = write(values, chunks, codecs)
        made.append((ps.open(store), zarr.open_array(as_store(store), mode="r")))
    return values.astype(np.dtype(dtype).newbyteorder("=")), made


def as_store(store: dict[str, bytes]) -> zarr.storage.MemoryStore:
    prototype = zarr.core.buffer.default_buffer_prototype()
    return zarr.storage.MemoryStore({key: prototype.buffer.from_bytes(value) for key, value in store.items()})


def positions(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(-size, size - 1), min_size=1, max_size=2 * size)


@st.composite
def index_array(draw: st.DrawFn, size: int) -> object:
    kind = draw(st.sampled_from(["list", "array", "sorted", "run", "uint", "mask"]))
    if kind == "mask":
        found = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        return found if draw(st.booleans()) else found.tolist()
    if kind == "run":
        start = draw(st.integers(0, size - 1))
        return np.arange(start, draw(st.integers(start + 1, size)))
    found = draw(positions(size))
    if kind == "list":
        return found
    if kind == "sorted":
        return np.sort(np.array(found) % size)
    if kind == "uint":
        return (np.array(found) % size).astype(draw(st.sampled_from(["u1", "u2", "u4", "u8"])))
    return np.array(found, draw(st.sampled_from(["i2", "i4", "i8"])))


@st.composite
def orthogonal_keys(draw: st.DrawFn) -> tuple[int, tuple[object, ...]]:
    rank = draw(st.integers(1, 4))
    items: list[object] = []
    for size in SHAPES[rank][0][: draw(st.integers(0, rank))]:
        kind = draw(st.integers(0, 3))
        if kind == 0:
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == 1:
            bound = st.none() | st.integers(-size - 3, size + 3)
            items.append(slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, size + 1))))
        else:
            items.append(draw(index_array(size)))
    return rank, tuple(items)


def numpy_orthogonal(values: np.ndarray, key: tuple[object, ...]) -> np.ndarray:
    """Selects in one dimension after the other, from the last, so that removed dimensions do not shift the others."""
    for axis in reversed(range(len(key))):
        values = values[(slice(None),) * axis + (np.asarray(key[axis]) if isinstance(key[axis], list) else key[axis],)]
    return values


@settings(max_examples=700)
@given(orthogonal_keys(), st.sampled_from(DTYPES))
def test_orthogonal_selections_equal_numpys_and_zarrs(case, dtype):
    rank, key = case
    values, opened = arrays(rank, dtype)
    want = np.asarray(numpy_orthogonal(values, key))
    for index, (array, reference) in enumerate(opened):
        got = array.oindex[key]
        assert isinstance(got, np.ndarray)
        assert same(got, want)
        assert same(array.get_orthogonal_selection(key), want)
        if index == 2 and ZARR_VERSION >= (3, 2):  # in earlier releases, small unsigned positions overflow
            theirs = reference.get_orthogonal_selection(key)
            assert np.asarray(theirs).shape == got.shape
            np.testing.assert_array_equal(theirs, got)


@st.composite
def point_keys(draw: st.DrawFn) -> tuple[int, tuple[object, ...]]:
    rank = draw(st.integers(1, 4))
    sizes = SHAPES[rank][0]
    shape = draw(st.sampled_from([(1,), (7,), (3, 4), (2, 1, 3), (60,)]))
    items: list[object] = []
    for size in sizes:
        kind = draw(st.integers(0, 3))
        if kind == 0:
            items.append(draw(st.integers(-size, size - 1)))
            continue
        seed = draw(st.integers(0, 2**32 - 1))
        mine = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape)
        found = np.random.default_rng(seed).integers(-size, size, mine)
        items.append(np.sort(found % size, axis=None).reshape(mine) if kind == 1 else found)
    return rank, tuple(items)


@settings(max_examples=500)
@given(point_keys(), st.sampled_from(DTYPES))
def test_points_equal_numpys_and_zarrs(case, dtype):
    rank, key = case
    values, opened = arrays(rank, dtype)
    want = values[key]
    if np.ndim(want) == 0:
        want = np.asarray(want).reshape(1)  # as in zarr-python, ints alone are one point
    for index, (array, reference) in enumerate(opened):
        assert same(array.vindex[key], want)
        assert same(array.get_coordinate_selection(key), want)
        if index == 2:
            theirs = reference.get_coordinate_selection(key)
            assert np.asarray(theirs).shape == want.shape
            np.testing.assert_array_equal(theirs, want)


@settings(max_examples=300)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.floats(0, 1), st.booleans())
def test_masks_equal_numpys_and_zarrs(rank, seed, share, in_runs):
    values, opened = arrays(rank)
    random = np.random.default_rng(seed)
    if in_runs:
        edges = np.sort(random.integers(0, values.size, 6))
        mask = ((np.arange(values.size)[:, None] >= edges).sum(axis=1) % 2 == 1).reshape(values.shape)
    else:
        mask = random.random(values.shape) < share
    want = values[mask]
    for array, reference in opened:
        assert same(array.vindex[mask], want)
        assert same(array[mask], want)
        assert same(array.get_mask_selection(mask), want)
        np.testing.assert_array_equal(reference.get_mask_selection(mask), want)
    order = np.asfortranarray(mask)
    assert same(opened[0][0][order], want)


@settings(max_examples=200)
@given(st.data())
def test_blocks_equal_zarrs(data):
    rank = data.draw(st.integers(1, 4))
    values, opened = arrays(rank)
    for index, (array, reference) in enumerate(opened):
        unit = SHAPES[rank][1] if index == 2 else SHAPES[rank][2]
        key: list[object] = []
        for size, length in zip(values.shape[: data.draw(st.integers(0, rank))], unit, strict=False):
            count = -(-size // length)
            start = data.draw(st.integers(0, count - 1))
            if data.draw(st.booleans()):
                key.append(start if data.draw(st.booleans()) else start - count)
            else:
                key.append(slice(start, data.draw(st.integers(start, count + 2))))
        want = reference.blocks[tuple(key)]
        assert same(array.blocks[tuple(key)], want)
        assert same(array.get_block_selection(tuple(key)), want)


def keys_of_brackets() -> list[object]:
    row = np.array([True, False] * 6 + [True])
    return [
        np.s_[[1, 2], [3, 4]],
        np.s_[[1, 2]],
        np.s_[1, [3, 4]],
        np.s_[:, [3, 4]],
        np.s_[[5, 5, -1], 2:9:3],
        np.s_[[5, 5, -1], 4],
        np.s_[np.array([[0, 1], [2, 3]]), np.array([4, 5])],
        np.s_[row.tolist()],
        np.s_[row, [1, 2, 3]],
        np.s_[np.array([1, 2], "u8")],
    ]


@pytest.mark.parametrize("key", keys_of_brackets(), ids=str)
def test_lists_in_brackets_have_zarrs_meaning(key):
    if ZARR_VERSION < (3, 2):
        pytest.skip("this zarr-python takes fewer forms of positions")
    _, opened = arrays(2)
    for array, reference in opened:
        assert same(array[key], reference[key])


def test_a_list_with_an_ellipsis_has_numpys_meaning():
    values, opened = arrays(3)
    array = opened[0][0]
    row = np.array([True, False, True, True, False, False, True])
    assert same(array[..., [3, 1]], values[..., [3, 1]])
    assert same(array[[3, 1], ...], values[[3, 1], ...])
    assert same(array[row], values[row])
    assert same(array[row, 2:5], values[row, 2:5])
    assert same(array[[], :], values[np.array([], int), :])
    assert same(array.vindex[[], [], []], values[np.array([], int), np.array([], int), np.array([], int)])
    assert same(array.oindex[[], 1:3, []], values[:0, 1:3, :0])


@pytest.mark.parametrize(
    "key",
    [
        np.s_[[0, 1], [0, 1], :],
        np.s_[..., [0, 1], [0, 1]],
        np.s_[None, [0, 1]],
        [1.5],
        ["x"],
        [[0, 1], [2]],
        True,
        np.True_,
        1.0,
        "x",
        pytest.param(object(), id="an object"),
        np.array([True, False]),
        np.ones((2, 2), bool),
    ],
    ids=str,
)
def test_invalid_selections_are_index_errors(key):
    array = arrays(3)[1][0][0]
    with pytest.raises((IndexError, ValueError)) as caught:
        array[key]
    if not isinstance(caught.value, ValueError):
        assert isinstance(caught.value, ps.Error)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda a: a.oindex[[13], :], IndexError),
        (lambda a: a.oindex[[-14], :], IndexError),
        (lambda a: a.oindex[0, 0, 0], IndexError),
        (lambda a: a.oindex[[[0]], :], IndexError),
        (lambda a: a.oindex[[True, False]], IndexError),
        (lambda a: a.oindex[np.array([2**64 - 1], "u8")], IndexError),
        (lambda a: a.oindex[None], IndexError),
        (lambda a: a.vindex[[0], [17]], IndexError),
        (lambda a: a.vindex[[0]], IndexError),
        (lambda a: a.vindex[1, :], IndexError),
        (lambda a: a.vindex[[0, 1], [0, 1, 2]], ValueError),
        (lambda a: a.vindex[np.ones((13, 16), bool)], IndexError),
        (lambda a: a.get_mask_selection(np.ones((13,), bool)), IndexError),
        (lambda a: a.get_mask_selection([[1, 2]]), IndexError),
        (lambda a: a.blocks[99], IndexError),
        (lambda a: a.blocks[::2], IndexError),
        (lambda a: a.blocks[[0]], IndexError),
        (lambda a: a.get_basic_selection(fields="x"), IndexError),
        (lambda a: a["x", 1], IndexError),
    ],
)
def test_errors_equal_zarrs(call, kind):
    _, opened = arrays(2)
    for array, reference in opened:
        with pytest.raises(kind) as caught:
            call(array)
        assert isinstance(caught.value, ps.Error)
        with pytest.raises(kind):
            call(reference)


def test_results_are_written_to_memory_of_any_layout():
    values, opened = arrays(3)
    key = ([3, 3, 0], slice(1, 9, 2), [4, 0])
    want = numpy_orthogonal(values, key)
    points = (np.array([[0, 1], [6, 2]]), np.array([[0, 10], [5, 5]]), np.array([0, 4]))
    mask = values % 3 == 0
    for array, _ in opened:
        for order in "CF":
            out = np.zeros(want.shape, want.dtype, order=order)
            assert array.get_orthogonal_selection(key, out=out) is out
            np.testing.assert_array_equal(out, want)
            out = np.zeros((2, 2), want.dtype, order=order)
            array.get_coordinate_selection(points, out=out)
            np.testing.assert_array_equal(out, values[points])
        out = np.zeros(2 * int(mask.sum()), want.dtype)[::-2]
        array.get_mask_selection(mask, out=out)
        np.testing.assert_array_equal(out, values[mask])
        out = np.zeros(want.shape, "f8")
        array.get_orthogonal_selection(key, out=out)
        np.testing.assert_array_equal(out, want)
        with pytest.raises(ps.OutputError):
            array.get_orthogonal_selection(key, out=np.zeros((3, 4, 1), want.dtype))


def test_read_takes_selections_of_every_kind():
    values, opened = arrays(2)
    rows, columns = [5, 0, 12], [3, 16]
    mask = values > 100
    for array, _ in opened:
        want = values[np.ix_(rows, columns)]
        assert same(array.read(ps.oindex[rows, columns]), want)
        assert same(array.read(ps.oindex[rows, columns], dtype="f8"), want.astype("f8"))
        assert same(array.read(ps.oindex[rows, columns], threads=2), want)
        assert same(array.read_async(ps.oindex[rows, columns]).wait(), want)
        assert same(array.read_async(ps.vindex[rows, [1, 2, 3]]).wait(), values[rows, [1, 2, 3]])
        assert same(array.read_async(ps.vindex[mask], dtype="f4").wait(), values[mask].astype("f4"))
        assert same(array.read(mask), values[mask])
        assert same(array.read_async([1, 2]).wait(), values[[1, 2]])
        assert same(array.read(ps.blocks[0, 0]), array.blocks[0, 0])
        assert "listed" in array.plan(ps.oindex[rows, columns])
        assert f"{mask.sum()} of {mask.size} elements" in array.plan(ps.vindex[mask])
        assert "3 points" in array.plan(ps.vindex[rows, [1, 2, 3]])
    seen = []
    opened[0][0].read(ps.oindex[rows], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    assert repr(ps.oindex[1, 2]) == "penstock.oindex[(1, 2)]"


def test_only_the_selected_chunks_are_read():
    class Counted(ps.Store):
        def __init__(self, values):
            self.values, self.asked = values, []

        def get(self, key):
            self.asked.append(key)
            return self.values.get(key)

    values = np.arange(10000, dtype="<i4").reshape(100, 100)
    store = Counted(write(values, (10, 10)))
    array = ps.open(store)
    store.asked.clear()
    assert same(array.oindex[[5, 95, 7], [99, 0]], values[np.ix_([5, 95, 7], [99, 0])])
    assert sorted(store.asked) == ["c/0/0", "c/0/9", "c/9/0", "c/9/9"]
    store.asked.clear()
    assert same(array.vindex[[5, 95, 7, 5], [99, 0, 98, 91]], values[[5, 95, 7, 5], [99, 0, 98, 91]])
    assert sorted(store.asked) == ["c/0/9", "c/9/0"]
    store.asked.clear()
    mask = np.zeros((100, 100), bool)
    mask[42, 42] = mask[43:45, 40:49] = True
    assert same(array[mask], values[mask])
    assert store.asked == ["c/4/4"]


def test_chunks_that_were_never_written_are_the_fill_value():
    store = zarr.storage.MemoryStore({})
    made = zarr.create_array(store, shape=(20, 20), chunks=(5, 5), dtype="i2", fill_value=7)
    made[0:5, 0:5] = 1
    array = ps.open(as_bytes(store))
    values = made[...]
    rows, columns = [4, 4, 19, 5], [0, 17, 4]
    assert same(array.oindex[rows, columns], values[np.ix_(rows, columns)])
    assert same(array.oindex[rows], values[rows])
    assert same(array.vindex[rows, [0, 19, 4, 4]], values[rows, [0, 19, 4, 4]])
    mask = np.random.default_rng(1).random((20, 20)) < 0.5
    assert same(array[mask], values[mask])


def test_an_array_without_dimensions():
    store = zarr.storage.MemoryStore({})
    zarr.create_array(store, shape=(), chunks=(), dtype="i4")[...] = 5
    array = ps.open(as_bytes(store))
    assert array.oindex[()].shape == ()
    assert array.oindex[...] == 5
    assert array.blocks[()].shape == ()
    assert type(array.get_basic_selection()) is np.int32
    assert type(array.get_basic_selection(())) is np.int32
    with pytest.raises(IndexError):
        array.vindex[()]


@pytest.mark.parametrize("chosen", [True, False])
def test_a_mask_of_an_array_without_dimensions(chosen):
    array, values, mask = ps.create_array({}, data=np.float64(3)), np.array(3.0), np.array(chosen)
    for got in (array[mask], array.read(mask), array.read_async(mask).wait(), array.vindex[mask]):
        np.testing.assert_array_equal(got, values[mask])
    array[mask] = values[mask] = 5
    assert array[()] == values
    with pytest.raises(ps.OutOfRangeError):
        ps.create_array({}, data=np.arange(3))[mask]


def test_a_million_points():
    random = np.random.default_rng(3)
    values = random.integers(0, 1000, (1000, 1000), dtype="i4")
    array = ps.open(write(values, (128, 128)))
    rows, columns = random.integers(0, 1000, (2, 1_000_000))
    assert same(array.vindex[rows, columns], values[rows, columns])


def test_a_selection_is_reusable_for_arrays_of_its_shape():
    values, opened = arrays(2)
    array = opened[0][0]
    which = array._orthogonal((np.array([4, 1, 1]),))
    assert which.shape == (3, 17)
    assert same(array.read(which), values[[4, 1, 1]])
    assert same(array.read(which), values[[4, 1, 1]])
    sharded_array = opened[2][0]
    assert sharded_array.chunks == array.chunks
    assert same(sharded_array.read(which), values[[4, 1, 1]])
    other = ps.open(write(values, (4, 4)))
    points = array._points((np.array([4, 1]), np.array([0, 16])), (2,))
    for selection in (which, points):
        with pytest.raises(ps.InvalidArgumentError, match="made for an array"):
            other.read(selection)
        with pytest.raises(ps.InvalidArgumentError, match="made for an array"):
            arrays(3)[1][0][0].read(selection)


@pytest.mark.parametrize("shape", [(11,), (7, 5), (6, 4, 3), (0, 3), (3, 0), (2, 0, 4)])
def test_iteration_yields_the_rows_of_numpy(shape, tmp_path):
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    array = ps.create_array(tmp_path / "x", data=values, chunks=tuple(max(1, length // 2) for length in shape))
    rows = list(array)
    assert len(rows) == len(values)
    for found, expected in zip(rows, values, strict=True):
        assert np.shape(found) == expected.shape
        np.testing.assert_array_equal(found, expected)


class Tensor:
    """As PyTorch's and CuPy's: of one element it has `__index__`, whatever its type and shape."""

    def __init__(self, values: object) -> None:
        self._values = np.asarray(values)
        self.shape, self.ndim = self._values.shape, self._values.ndim
        self.dtype = type("dtype", (), {"__str__": lambda _: f"torch.{self._values.dtype}"})()

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self._values

    def __index__(self) -> int:
        return int(self._values.item())


@pytest.mark.parametrize("key", [3, [3], [[3]], [3, 0], [True] + 6 * [False], ([3], [2]), ([3], 2), (3, [2])])
def test_tensors_of_one_element_select_as_ndarrays_do(key):
    """NumPy takes such a tensor for an int if it has one element, so that a batch of one row loses its dimension."""
    values = np.arange(35).reshape(7, 5)
    array = ps.create_array({}, data=values, chunks=(2, 2))
    items = key if isinstance(key, tuple) else (key,)
    tensors, ndarrays = (tuple(map(kind, items)) for kind in (Tensor, np.asarray))
    if len(items) == 1 and np.ndim(key) == 2:
        with pytest.raises(ps.OutOfRangeError, match="one-dimensional"):
            array[tensors]
        return
    assert same(array[tensors], array[ndarrays])
    assert same(array[tensors], values[ndarrays])
    array[tensors] = -1
    values[ndarrays] = -1
    assert same(array[...], values)


def test_a_mask_without_dimensions_is_not_an_int():
    array = ps.create_array({}, data=np.arange(4))
    for mask in (True, np.True_, np.array(True), Tensor(True), Tensor(False)):
        with pytest.raises(ps.OutOfRangeError, match="only integers"):
            array[mask]
    scalar = ps.create_array({}, data=np.int64(7))
    assert same(scalar[Tensor(True)], scalar[np.array(True)])
