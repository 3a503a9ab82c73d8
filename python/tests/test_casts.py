"""Reads and writes of another dtype: bit for bit the result of NumPy's "same_kind" casting of the array's elements."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import penstock as ps
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
PAIRS = [
    (a, b) for a, b in itertools.product(NAMES, NAMES) if a != b and np.can_cast(np.dtype(a), np.dtype(b), "same_kind")
]


def items(dtype: str, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Values of many magnitudes, including the edges of the type."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return random.integers(0, 2, shape).astype("?")
    if kind.kind in "iu":
        made = random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, dtype=kind, endpoint=True)
        made.flat[:4] = [np.iinfo(kind).min, np.iinfo(kind).max, 0, 1]
        return made
    with np.errstate(all="ignore"):
        made = (random.standard_normal(shape) * 10.0 ** random.integers(-8, 9, shape)).astype(kind)
        if kind.kind == "c":
            made = made + (random.standard_normal(shape) * 1j).astype(kind)
    made.flat[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 65504.0]
    return made


def bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def cast(values: np.ndarray, dtype: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # values that the smaller float does not have
        return np.asarray(values).astype(dtype, casting="same_kind")


@pytest.mark.parametrize(("of", "to"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_every_pair_is_cast_as_in_numpy(of, to):
    values = items(of, (70, 45))
    for options in ({"codecs": []}, {"chunks": (16, 10), "shards": (32, 20)}, {"zarr_format": 2, "order": "F"}):
        store: dict[str, bytes] = {}
        made = {"chunks": (16, 10), **options}
        a = ps.create_array(store, shape=values.shape, dtype=of, **made)
        a[...] = values
        assert bits(a.read(dtype=to)) == bits(cast(values, to)), options
        assert bits(a.read(np.s_[5:60:3, ::-2], dtype=to)) == bits(cast(values[5:60:3, ::-2], to)), options


@pytest.mark.parametrize(("of", "to"), PAIRS, ids=[f"{a}-{b}" for a, b in PAIRS])
def test_every_pair_is_written_as_numpy_assigns_it(of, to):
    values = items(of, (70, 45))
    expected = np.zeros(values.shape, to)
    expected[...] = cast(values, to)
    a = ps.create_array({}, shape=values.shape, dtype=to, chunks=(16, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        a[...] = values
        assert bits(a[...]) == bits(expected)
        a[3:50:2, ::-1] = values[3:50:2]
        expected[3:50:2, ::-1] = cast(values[3:50:2], to)
        assert bits(a[...]) == bits(expected)
        a.oindex[[1, 60, 2], [7, 7, 0]] = values[:3, :3]
        ours = a[...]
    other = np.array(expected)
    for i, row in enumerate((1, 60, 2)):
        for j, column in enumerate((7, 7, 0)):
            other[row, column] = cast(values[i, j], to)
    assert bits(ours) == bits(other)


def targets(shape: tuple[int, ...], dtype: str):
    """Memory of the given shape, in the layouts that callers use."""
    yield np.zeros(shape, dtype)
    yield np.zeros(shape[::-1], dtype).T
    yield np.zeros(tuple(2 * n for n in shape), dtype)[tuple(slice(None, None, 2) for _ in shape)]
    yield np.zeros(shape, dtype)[tuple(slice(None, None, -1) for _ in shape)]
    yield np.zeros(shape, np.dtype(dtype).newbyteorder())
    yield np.zeros(shape, [("a", "u1"), ("b", dtype)])["b"]  # not aligned


@pytest.mark.parametrize(("of", "to"), [("<i2", "f4"), (">i2", "f4"), (">f8", "f4"), ("u1", "c8"), (">c8", "c16")])
def test_memory_of_any_strides_is_read_into(of, to, tmp_path):
    values = items(of.lstrip("<>"), (61, 40, 3))
    file = tmp_path / "a.npy"
    np.save(file, values.astype(of))
    zarr = ps.create_array({}, shape=values.shape, dtype=values.dtype, chunks=(16, 16, 3), zarr_format=2)
    zarr[...] = values
    for a in (ps.open(file), zarr):
        for out in targets(values.shape, to):
            assert a.read(out=out) is out
            assert bits(out.astype(to)) == bits(cast(values, to))
        for out in targets((20, 40), to):
            a.read((slice(0, 60, 3), slice(None), 1), out=out)
            assert bits(out.astype(to)) == bits(cast(values[0:60:3, :, 1], to))


KEYS = st.sampled_from(["slice", "oindex", "points", "mask", "blocks"])


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(PAIRS), KEYS, st.integers(0, 2**32 - 1), st.booleans())
def test_all_selections_return_what_numpy_returns(pair, kind, seed, sharded):
    of, to = pair
    random = np.random.default_rng(seed)
    values = items(of, (53, 31), seed)
    layout = {"chunks": (8, 4), "shards": (16, 16)} if sharded else {"chunks": (9, 7)}
    a = ps.create_array({}, shape=values.shape, dtype=of, fill_value=values.flat[7], **layout)
    a[:30] = values[:30]
    values[30:] = values.flat[7]  # chunks that were never written
    stored = np.asarray(a[...])
    rows, columns = random.integers(0, 53, 20), random.integers(0, 31, 20)
    if kind == "slice":
        key = (slice(int(rows[0]), None, int(random.choice([-3, -1, 1, 2]))), slice(None, None, -1))
        got, wanted = a.read(key, dtype=to), stored[key]
    elif kind == "oindex":
        got, wanted = a.read(ps.oindex[rows, columns], dtype=to), stored[np.ix_(rows, columns)]
    elif kind == "points":
        got, wanted = a.read(ps.vindex[rows, columns], dtype=to), stored[rows, columns]
    elif kind == "mask":
        mask = random.random(values.shape) < 0.2
        got, wanted = a.read(ps.vindex[mask], dtype=to), stored[mask]
    else:
        got = a.read(ps.blocks[0, 1], dtype=to)
        unit = layout.get("shards", layout["chunks"])
        wanted = stored[: unit[0], unit[1] : 2 * unit[1]]
    assert got.dtype == np.dtype(to)
    assert bits(got) == bits(cast(wanted, to))


def test_reads_in_the_background_cast_too():
    values = items("i2", (100, 50))
    a = ps.create_array({}, shape=values.shape, dtype="i2", chunks=(10, 10))
    a[...] = values
    assert bits(a.read_async(dtype="f4").wait()) == bits(values.astype("f4"))
    out = np.zeros((50, 100), "f8").T
    assert a.read_async(out=out).wait() is out
    assert bits(out) == bits(values.astype("f8"))
    with pytest.raises(ps.InvalidArgumentError, match="same_kind"):
        a.read_async(dtype="u1")


@pytest.mark.parametrize("dtype", ["i4", "u1", "?", "f4", ">f8", "S4", "U5", str, object])
def test_asarray_casts_as_numpy_does(dtype):
    values = np.array([[1.75, 2.5, 0.0], [3.0, 4.25, 200.0]])
    a = ps.create_array({}, data=values, chunks=(1, 2))
    made = np.asarray(a, dtype=dtype)
    assert made.dtype == np.asarray(values, dtype=dtype).dtype
    np.testing.assert_array_equal(made, np.asarray(values, dtype=dtype))
    alone = np.asarray(ps.create_array({}, data=np.float64(3.5)), dtype="i4")
    assert (alone.shape, alone.dtype, int(alone)) == ((), np.dtype("i4"), 3)
    with pytest.raises(ValueError, match="copy"):
        np.array(a, dtype="i4", copy=False)


def test_types_unknown_to_the_engine_are_cast_by_numpy():
    days = np.array(["2020-01-01", "2021-06-05"], "M8[D]")
    a = ps.create_array({}, shape=(2,), dtype="M8[D]", chunks=(1,))
    a[...] = days
    np.testing.assert_array_equal(a.read(dtype="M8[s]"), days.astype("M8[s]"))
    wide = ps.create_array({}, shape=(3,), dtype="i4", chunks=(2,))
    wide[...] = [1, 2, 3]
    np.testing.assert_array_equal(wide.read(dtype=np.longdouble), np.array([1, 2, 3], np.longdouble))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    small = ps.create_array({}, shape=(3,), dtype="f4", chunks=(2,))
    small[...] = [1.5, -2.25, 3]
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        got = small.read(dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.astype("f4"), small[...].astype(dtype).astype("f4"))


def test_cached_chunks_are_cast_like_others():
    values = items("i2", (64, 64))
    with_cache = ps.Context(chunk_cache=1 << 20)
    store: dict[str, bytes] = {}
    ps.create_array(store, shape=values.shape, dtype="i2", chunks=(64, 64))[...] = values
    a = ps.open(store, context=with_cache)
    for row in range(6):
        assert bits(a.read(row, dtype="f8")) == bits(values[row].astype("f8"))
        assert bits(a[row]) == bits(values[row])


def test_fields_are_cast_by_the_rule_of_elements() -> None:
    objects: dict[str, bytes] = {}
    values = np.array([(1, 2.5, b"ab"), (3, 4.5, b"c")], dtype=[("a", "<i4"), ("b", "<f8"), ("c", "S2")])
    ps.create_array(objects, data=values)
    a = ps.open(objects)
    np.testing.assert_array_equal(a.read("b", dtype="f4"), values["b"].astype("f4"))
    assert a.read("a", dtype="i2").dtype == "i2"
    np.testing.assert_array_equal(a.read("a", dtype="f8"), values["a"])
    np.testing.assert_array_equal(a.read((0, "a"), dtype="f8"), 1.0)
    for key in [key for key in objects if not key.endswith("zarr.json")]:
        objects[key] = b""  # a refusal comes before the read
    for field, dtype in (("b", "i4"), ("c", "S1"), ("c", "f4"), ("a", "U3")):
        with pytest.raises(ps.InvalidArgumentError, match=r"cannot be cast to .* 'same_kind' casting"):
            a.read(field, dtype=dtype)
