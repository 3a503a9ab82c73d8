"""Every element type: names, NumPy's dtypes, and reads that equal zarr-python's."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION
from penstock import _core

pytestmark = pytest.mark.filterwarnings("ignore")

NESTED = np.dtype([("id", "<i4"), ("at", [("x", "<f8"), ("y", "<f8")]), ("tag", "S3")])
NAMES = [
    *("bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn"),
    *("float6_e3m2fn", "float4_e2m1fn", "complex64", "complex128", "complex_float16", "complex_bfloat16", "r24"),
]
NUMPY = [
    "?",
    "i1",
    "u8",
    "f2",
    "c16",
    "S1",
    "S5",
    "U7",
    "V9",
    "M8",
    "M8[s]",
    "M8[10ns]",
    "m8[D]",
    "m8[25us]",
    NESTED,
    "O",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_numpy_and_ml_dtypes(name):
    dtype = _core.numpy_dtype(name)
    assert _core.data_type_name(dtype) == name
    assert _core.round_trip_dtype(dtype) == dtype
    if hasattr(ml_dtypes, name):
        assert dtype == np.dtype(getattr(ml_dtypes, name))
    elif hasattr(np, name):
        assert dtype == np.dtype(name)


def test_unknown_complex_numbers_are_two_fields():
    assert _core.numpy_dtype("complex_float8_e5m2").names == ("real", "imag")


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
def test_numpys_types_are_returned_in_native_order(dtype):
    native = np.dtype(dtype)
    assert _core.round_trip_dtype(native) == native
    assert _core.round_trip_dtype(native.newbyteorder(">")) == native


def test_structures_keep_their_layout():
    for dtype in (
        np.dtype([("a", "i1"), ("b", "f8")], align=True),
        np.dtype({"names": ["b", "a"], "formats": ["f4", "u2"], "offsets": [8, 2], "itemsize": 20}),
        np.dtype([("a", "<f4", (2, 3)), ("b", [("c", "u1", (4,))], (2,))]),
    ):
        back = _core.round_trip_dtype(dtype)
        assert back.itemsize == dtype.itemsize
        assert {n: back.fields[n][:2] for n in back.names} == {n: dtype.fields[n][:2] for n in dtype.names}


def test_types_that_no_dtype_represents_are_refused():
    with pytest.raises(ps.UnsupportedError, match="there is no data type for NumPy's"):
        _core.data_type_name("c32")
    with pytest.raises(ps.UnsupportedError, match="'int128'"):
        _core.numpy_dtype("int128")


def values_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(7)
    count = int(np.prod(shape))
    if dtype.kind == "U":
        return np.array(
            ["".join(map(chr, rng.integers(32, 0x2FF, dtype.itemsize // 4))) for _ in range(count)], dtype
        ).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)


ZARR_TYPES = [
    "?",
    "i1",
    "<u2",
    ">i4",
    ">f8",
    "<c8",
    ">c16",
    "S5",
    "<U4",
    ">U4",
    "V7",
    "M8[s]",
    ">M8[10ns]",
    "m8[ms]",
    NESTED,
    NESTED.newbyteorder(">"),
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ZARR_TYPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F"])
def test_reads_equal_zarr_pythons(zarr_format, dtype, order):
    dtype = np.dtype(dtype)
    if zarr_format == 3 and dtype.names and ZARR_VERSION < (3, 2):
        pytest.skip("this zarr-python does not write down the byte order of structures")
    values = values_of(dtype, (11, 7))
    store: dict[str, Any] = {}
    options = {"order": order} if zarr_format == 2 else {}
    made = zarr.create_array(store, shape=values.shape, chunks=(4, 3), dtype=dtype, zarr_format=zarr_format, **options)
    made[...] = values
    a = ps.open(store)
    assert a.dtype == dtype.newbyteorder("=")
    native = values.astype(a.dtype)
    for key in (np.s_[...], np.s_[2], np.s_[::-3, 1:6:2], np.s_[3, 4], np.s_[4:4]):
        got = a[key]
        assert np.asarray(got, a.dtype).tobytes() == np.asarray(native[key], a.dtype).tobytes()
    out = np.zeros((7, 11), a.dtype).T
    a.read(out=out)
    assert out.tobytes() == native.tobytes()
    assert a.read_async().wait().tobytes() == native.tobytes()
    assert np.asarray(a.fill_value, a.dtype).tobytes() == np.asarray(made.fill_value).astype(a.dtype).tobytes()


def test_structures_of_zarr_2_with_fields_in_both_byte_orders():
    dtype = np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", [("x", ">u2"), ("y", "i1")])])
    values = values_of(dtype, (9,))
    metadata = {
        "zarr_format": 2,
        "shape": [9],
        "chunks": [4],
        "dtype": [["a", "<i4"], ["b", ">f8", [2]], ["c", [["x", ">u2"], ["y", "|i1"]]]],
        "order": "C",
        "fill_value": None,
        "filters": None,
        "compressor": None,
    }
    keys = {".zarray": json.dumps(metadata).encode()}
    padded = np.zeros(12, dtype)
    padded[:9] = values
    for i in range(3):
        keys[str(i)] = padded[4 * i : 4 * i + 4].tobytes()
    got = ps.open(keys)[...]
    assert got.tobytes() == values.astype(got.dtype).tobytes()
    np.testing.assert_array_equal(got["a"], values["a"])
    np.testing.assert_array_equal(got["c"]["x"], values["c"]["x"])


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(ml_dtypes, n)])
def test_types_of_ml_dtypes_read(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    wide = int(name.removeprefix("u").removeprefix("int")) if "int" in name else 0
    if wide:
        values = (np.arange(12) % 2).astype(dtype).reshape(3, 4)
    else:
        values = (np.arange(12) % 4 / 2).astype("f4").astype(dtype).reshape(3, 4)
    endian = {"endian": "little"} if dtype.itemsize > 1 else {}
    metadata = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [3, 4],
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": endian}],
    }
    keys = {"zarr.json": json.dumps(metadata).encode(), "c/0/0": values.tobytes()}
    a = ps.open(keys)
    assert a.dtype == dtype
    got = a[...]
    assert got.dtype == dtype
    assert got.tobytes() == values.tobytes()
    assert a[1:, ::2].tobytes() == values[1:, ::2].tobytes()
    out = np.zeros((4, 3), dtype).T
    a.read(out=out)
    assert out.tobytes() == values.tobytes()
    np.testing.assert_array_equal(a.read(dtype="f4"), values.astype("f4"))


def test_large_results_of_types_that_numpy_exports_no_memory_of():
    """Large results are in the context's pool, small ones are not."""
    for dtype in ("M8[s]", "S5", NESTED):
        values = values_of(np.dtype(dtype), (300_000,))
        store: dict[str, Any] = {}
        made = zarr.create_array(store, shape=values.shape, chunks=(50_000,), dtype=dtype)
        made[...] = values
        a = ps.open(store)
        assert a[...].tobytes() == values.tobytes()
        assert a[:10].tobytes() == values[:10].tobytes()


def named_by_torch(name: str) -> Any:
    kind = type("dtype", (), {"__str__": lambda _: f"torch.{name}"})
    kind.__module__ = "torch"
    return kind()


@pytest.mark.parametrize("name", ["float32", "bool", "complex64", "bfloat16", "float8_e4m3fn"])
def test_dtypes_of_other_libraries_are_accepted_wherever_one_is(tmp_path, name):
    """PyTorch's have a text only; JAX's and those of ml_dtypes have NumPy's protocol."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    values = np.ones((4, 6), dtype)
    values.tofile(tmp_path / "a.raw")
    jax = pytest.importorskip("jax.numpy")
    for given in (named_by_torch(name), dtype.type, getattr(jax, name.replace("bool", "bool_"), dtype)):
        for zarr_format in (3, 2) if name in np.sctypeDict else (3,):
            made = ps.create_array({}, shape=(4, 6), dtype=given, zarr_format=zarr_format)
            assert made.dtype == dtype
        assert ps.create_array({}, data=np.zeros((4, 6), "?"), dtype=given).dtype == dtype
        assert ps.create_group({}).create_array("x", shape=3, dtype=given).dtype == dtype
        assert made.read(dtype=given).dtype == made.read_async(dtype=given).wait().dtype == dtype
        assert ps.open_shards(str(tmp_path / "*.raw"), dtype=given, row_shape=(6,)).dtype == dtype
        chunk = ps.encode("zstd", values, given)
        assert ps.decode("zstd", chunk, given, (4, 6)).tobytes() == values.tobytes()
        batch = next(iter(ps.loader(made, batch_size=2, dtype=given)))
        assert batch["x"].dtype == dtype if isinstance(batch, dict) else batch.dtype == dtype


def test_a_dtype_of_torch_keeps_what_values_bring():
    source = ps.create_array({}, shape=(3,), dtype="f4", fill_value=5)
    assert ps.create_array({}, data=source, dtype=named_by_torch("float32")).fill_value == 5
