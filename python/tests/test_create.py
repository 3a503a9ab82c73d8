"""New arrays and groups, read again by Penstock and by independent readers."""

from __future__ import annotations

import json

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import ZARR_VERSION, same
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import Delta, Zlib
from zarr.codecs import BytesCodec, GzipCodec, ZstdCodec

# Creating an array with values needs arrays that can be written.
writes = pytest.mark.skipif(not hasattr(ps.Array, "__setitem__"), reason="arrays are read-only")
VALUES = np.arange(60, dtype="<i4").reshape(12, 5)
TYPES = [
    "?",
    "i1",
    "u2",
    "<i4",
    ">i8",
    "u8",
    "f2",
    "<f4",
    ">f8",
    "c8",
    "c16",
    "S5",
    "<U3",
    ">U3",
    "V3",
    "M8[ns]",
    "m8[10s]",
]
STRUCTURE = np.dtype([("a", "<i4"), ("b", "<f8"), ("c", "S3")])


def sample(dtype: np.dtype, count: int = 30) -> np.ndarray:
    rng = np.random.default_rng(5)
    if dtype.names is not None:
        out = np.zeros(count, dtype)
        for name in dtype.names:
            out[name] = sample(dtype[name], count)
        return out
    if dtype.kind == "U":
        return np.array(["", "a", "\u00e9\u4e16", "xyz"] * count, dtype)[:count]
    if dtype.kind in "Mm":
        return rng.integers(-(10**9), 10**9, count).astype("i8").astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(dtype)
    if dtype.kind in "fc":
        return rng.normal(size=count).astype(dtype)
    return rng.integers(0, 256, count * dtype.itemsize, dtype="u1").view(dtype)


def documents(store: dict[str, bytes]) -> dict[str, object]:
    return {
        key: json.loads(value) for key, value in store.items() if key.rsplit("/")[-1].startswith((".z", "zarr.json"))
    }


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", [*TYPES, STRUCTURE], ids=str)
def test_zarr_python_reads_arrays_of_create_array(tmp_path, dtype, zarr_format):
    if np.dtype(dtype).names and zarr_format == 3 and ZARR_VERSION < (3, 2):
        pytest.skip("this zarr-python does not know structures of Zarr v3 by their registered name")
    values = sample(np.dtype(dtype))
    path = tmp_path / "x.zarr"
    a = ps.create_array(path, data=values, chunks=7, zarr_format=zarr_format, attributes={"k": [1, None]})
    native = values.astype(values.dtype.newbyteorder("="))
    assert a.format == f"zarr{zarr_format}"
    assert same(a[...], native)
    z = zarr.open_array(path, mode="r")
    assert z.metadata.zarr_format == zarr_format
    assert z.chunks == (7,)
    assert same(np.asarray(z[...]).astype(native.dtype), native)
    assert dict(z.attrs) == {"k": [1, None]}
    if np.dtype(dtype).names is None:
        np.testing.assert_equal(a.fill_value, z.fill_value)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", np.nan), ("f8", -np.inf), ("f2", 1.5), ("i8", -(2**63)), ("u8", 2**64 - 1), ("i8", 2**53 + 1),
        ("?", True), ("c8", 1 - 2j), ("S4", b"ab"), ("U3", "h\u00e9"), ("V2", b"\x01\xff"),
        ("M8[s]", np.datetime64("NaT")), ("m8[ns]", 7), (STRUCTURE, (1, 2.5, b"x")),
    ],
    ids=str,
)  # fmt: skip
def test_fill_values_are_the_same_for_zarr_python(tmp_path, dtype, fill, zarr_format):
    if np.dtype(dtype).names and zarr_format == 3 and ZARR_VERSION < (3, 2):
        pytest.skip("this zarr-python does not know structures of Zarr v3 by their registered name")
    path = tmp_path / "x.zarr"
    a = ps.create_array(path, shape=3, dtype=dtype, chunks=2, fill_value=fill, zarr_format=zarr_format)
    z = zarr.open_array(path, mode="r")
    assert same(a[...], np.asarray(z[...]))
    assert same(ps.open(path)[...], np.full(3, np.array(fill, dtype)))


@given(bits=st.integers(0, 2**32 - 1), zarr_format=st.just(3))
def test_every_float_bit_pattern_is_a_fill_value(bits, zarr_format):
    store: dict[str, bytes] = {}
    value = np.array(bits, "u4").view("f4")
    ps.create_array(store, shape=2, dtype="f4", fill_value=value, zarr_format=zarr_format)
    assert same(ps.open(store)[...], np.full(2, value))
    fill = json.loads(store["zarr.json"])["fill_value"]
    assert isinstance(fill, float | str)


@given(value=st.integers(-(2**63), 2**63 - 1), zarr_format=st.sampled_from([2, 3]))
def test_every_integer_is_a_fill_value(value, zarr_format):
    store: dict[str, bytes] = {}
    ps.create_array(store, shape=2, dtype="i8", fill_value=value, zarr_format=zarr_format)
    assert ps.open(store)[0] == value
    assert ps.open(store).fill_value == value


@given(text=st.text(max_size=6), zarr_format=st.sampled_from([2, 3]))
def test_every_text_is_a_fill_value(text, zarr_format):
    text = text.rstrip("\0")
    store: dict[str, bytes] = {}
    ps.create_array(store, shape=2, dtype="U6", fill_value=text, zarr_format=zarr_format)
    assert ps.open(store)[0] == text


def test_defaults_are_small_chunks_and_zstd_with_a_shuffle_for_floats():
    store: dict[str, bytes] = {}
    a = ps.create_array(store, shape=(10_000, 3000), dtype="f4", shards="auto")
    assert 2**19 < np.prod(a.chunks) * 4 <= 2**20
    assert a.shards is not None
    assert np.prod(a.shards) * 4 <= 2**28
    assert a.codecs[0]["name"] == "sharding_indexed"
    assert [codec["name"] for codec in a.codecs[0]["configuration"]["codecs"]] == ["bytes", "blosc"]
    assert [codec["name"] for codec in ps.create_array({}, shape=9, dtype="i4").codecs] == ["bytes", "zstd"]
    assert [codec["id"] for codec in ps.create_array({}, shape=9, dtype="f4", zarr_format=2).codecs] == ["blosc"]
    assert ps.create_array({}, shape=(10,), dtype="f4", shards="auto").shards is None
    assert ps.create_array({}, shape=(), dtype="f4").chunks == ()
    assert ps.create_array({}, shape=(0, 5), dtype="f4").chunks == (1, 5)


@writes
def test_shards_of_given_sizes(tmp_path):
    a = ps.create_array(tmp_path / "x", data=VALUES, chunks=(3, 2), shards=(6, 4), codecs=["gzip", "crc32c"])
    assert (a.chunks, a.shards) == ((3, 2), (6, 4))
    z = zarr.open_array(tmp_path / "x")
    assert (z.chunks, z.shards) == ((3, 2), (6, 4))
    np.testing.assert_array_equal(z[...], VALUES)


@writes
def test_codecs_as_names_json_and_objects():
    for codecs in (
        ["zstd"],
        [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
        [BytesCodec(endian="big"), ZstdCodec(level=3)],
        [BytesCodec(), GzipCodec(level=1)],
        [Zlib(level=1)],
        [],
    ):
        store: dict[str, bytes] = {}
        ps.create_array(store, data=VALUES, chunks=(5, 5), codecs=codecs)
        np.testing.assert_array_equal(ps.open(store)[...], VALUES)
        z = zarr.open_array(
            zarr.storage.MemoryStore({k: zarr.core.buffer.cpu.Buffer.from_bytes(v) for k, v in store.items()})
        )
        np.testing.assert_array_equal(z[...], VALUES)


@writes
def test_codecs_in_parts_as_in_zarr_python(tmp_path):
    options = {"serializer": BytesCodec(endian="big"), "compressors": GzipCodec(level=2)}
    ours = ps.create_array(tmp_path / "a", data=VALUES, chunks=(5, 5), **options)
    theirs = zarr.create_array(tmp_path / "b", data=VALUES, chunks=(5, 5), **options)
    assert ours.codecs == ps.open(tmp_path / "b").codecs
    np.testing.assert_array_equal(theirs[...], ours[...])
    v2 = ps.create_array(tmp_path / "c", data=VALUES, filters=[Delta("i4")], compressors=Zlib(1), zarr_format=2)
    assert [codec["id"] for codec in v2.codecs] == ["delta", "zlib"]
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "c")[...], VALUES)


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fortran_order_and_separators(tmp_path, zarr_format):
    separator = {"name": "v2", "separator": "/"}
    a = ps.create_array(
        tmp_path / "x", data=VALUES, chunks=(5, 3), order="F", chunk_key_encoding=separator, zarr_format=zarr_format
    )
    assert (tmp_path / "x" / "2" / "1").exists()
    np.testing.assert_array_equal(a[...], VALUES)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x")[...], VALUES)


@writes
@pytest.mark.skipif(ZARR_VERSION < (3, 2), reason="this zarr-python does not know rectilinear grids")
def test_rectilinear_chunks(tmp_path):
    a = ps.create_array(tmp_path / "x", data=VALUES, chunks=[[5, 3, 4], [[2, 2], 1]])
    grid = json.loads((tmp_path / "x" / "zarr.json").read_text())["chunk_grid"]
    assert grid == {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": [[5, 3, 4], [[2, 2], 1]]},
    }
    np.testing.assert_array_equal(a[...], VALUES)
    np.testing.assert_array_equal(a[4:9, ::-1], VALUES[4:9, ::-1])
    with zarr.config.set({"array.rectilinear_chunks": True}):
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "x")[...], VALUES)
        zarr.create_array(tmp_path / "y", data=VALUES, chunks=[[1, 11], [4, 1]])
    np.testing.assert_array_equal(ps.open(tmp_path / "y")[...], VALUES)
    with pytest.raises(ValueError, match="chunks for 11 elements"):
        ps.create_array({}, shape=(12, 5), dtype="i4", chunks=[[5, 6], [5]])


@writes
@pytest.mark.parametrize("base", ["default", {"name": "v2", "configuration": {"separator": "/"}}])
@pytest.mark.parametrize("count", [4, 2000])
def test_keys_with_a_suffix(base, count):
    encoding = {"name": "suffix", "configuration": {"suffix": ".7.tiff", "base_encoding": base}}
    store: dict[str, bytes] = {}
    a = ps.create_array(store, data=np.arange(1, count + 1), chunks=1, chunk_key_encoding=encoding)
    first = "c/0" if base == "default" else "0"
    assert f"{first}.7.tiff" in store
    np.testing.assert_array_equal(ps.open(store)[...], np.arange(1, count + 1))
    again = json.loads(store["zarr.json"])["chunk_key_encoding"]["configuration"]
    assert again["suffix"] == ".7.tiff"
    assert again["base_encoding"]["name"] == ("default" if base == "default" else "v2")
    store["notes.7.tiff"] = b"mine"  # not a chunk: it stays
    a.resize((2,))
    assert len(store) == 4
    with pytest.raises(ValueError, match="suffix"):
        ps.create_array({}, shape=2, dtype="i4", chunk_key_encoding={"name": "suffix", "configuration": {}})
    with pytest.raises(ps.Error, match="without '/' can end a key"):
        ps.create_array(
            {},
            shape=2,
            dtype="i4",
            chunk_key_encoding={
                "name": "suffix",
                "configuration": {"suffix": "/../x", "base_encoding": "default"},
            },
        )


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nodes_of_a_group_have_its_format(zarr_format):
    group = ps.create_group({}, zarr_format=zarr_format)
    for number, how in enumerate(({}, {"zarr_format": zarr_format})):
        assert ps.create_array(group, f"a{number}", shape=3, dtype="i4", **how).format == f"zarr{zarr_format}"
        assert ps.create_group(group, f"g{number}", **how).format == f"zarr{zarr_format}"
    for other in (4, *([2] if zarr_format == 3 else [])):
        with pytest.raises(ps.InvalidArgumentError, match="zarr_format"):
            ps.create_array(group, "b", shape=3, dtype="i4", zarr_format=other)
        with pytest.raises(ps.InvalidArgumentError, match="zarr_format"):
            ps.create_group(group, "b", zarr_format=other)
    assert sorted(group) == ["a0", "a1", "g0", "g1"]
    assert group.get(3, "none") == "none"


def test_lengths_may_be_arrays_of_numpy():
    shape = np.array([8, 6])
    a = ps.create_array({}, shape=shape, dtype="f4", chunks=shape // 2, shards=shape)
    assert (a.shape, a.chunks, a.shards) == ((8, 6), (4, 3), (8, 6))
    assert ps.create_array({}, shape=np.array(8), dtype="f4", chunks=np.int64(2)).chunks == (2,)
    assert ps.create_array({}, shape=shape, dtype="f4", chunks=np.array([-1, 2])).chunks == (8, 2)
    edges = [np.array([3, 5]), 6]
    grid = {}
    ps.create_array(grid, shape=shape, dtype="f4", chunks=edges)
    assert b"rectilinear" in grid["zarr.json"]
    assert ps.copy(a, {}, chunks=np.array([2, -1])).chunks == (2, 6)
    assert ps.rechunk(a, {}, np.array([2, 3])).chunks == (2, 3)
    b = ps.create_array({}, shape=(2, 2), dtype="f4")
    b.resize(np.array([3, 5]))
    assert b.shape == (3, 5)
    for wrong in ((2, 2.5), np.array([2, 2.5]), ("2", "2")):
        with pytest.raises(ps.InvalidArgumentError, match="int or a list of ints"):
            ps.create_array({}, shape=(4, 4), dtype="f4", chunks=wrong)


FIELDS = np.dtype([("a", "<i2"), ("b", "<f4")])
STRUCT = {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int16"},
                                                          {"name": "b", "data_type": "float32"}]}}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("as_object", [True, False], ids=["zarr-python's object", "JSON"])
@pytest.mark.parametrize(
    ("described", "fill", "values"),
    [
        ("variable_length_bytes", b"x", np.array([b"q", b"rr"], object)),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, b"abc", np.array([b"pqr", b"xyz"], "V3")),
        ({"name": "raw_bytes", "configuration": {"length_bytes": 3}}, np.void(b"abc"), np.array([b"pqr", b"x"], "V3")),
        (STRUCT, (1, 2.5), np.array([(3, 4), (5, 6)], FIELDS)),
        (STRUCT, np.array((1, 2.5), FIELDS)[()], np.array([(3, 4), (5, 6)], FIELDS)),
        (STRUCT, {"a": 1, "b": 2.5}, np.array([(3, 4), (5, 6)], FIELDS)),
    ],
    ids=str,
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_data_types_of_zarr_python_have_fill_values(described, fill, values, zarr_format, as_object):
    dtype = zarr.core.dtype.get_data_type_from_json(described, zarr_format=3) if as_object else described
    stored: dict[str, bytes] = {}
    a = ps.create_array(stored, shape=3, dtype=dtype, fill_value=fill, chunks=2, zarr_format=zarr_format)
    a[:2] = values
    wanted = (1, 2.5) if described is STRUCT else b"x" if isinstance(described, str) else b"abc"
    read = ps.open(stored)[...].tolist()
    assert read == [*values.tolist(), wanted]


@pytest.mark.parametrize("described", [
    {"name": "struct", "configuration": {"fields": [["a"]]}}, {"name": "struct"}, {"name": "fixed_length_utf32"},
    {"name": "numpy.datetime64", "configuration": {"unit": "x", "scale_factor": 1}},
])  # fmt: skip
def test_incomplete_data_types_are_refused_by_the_engine(described):
    with pytest.raises((ps.InvalidArgumentError, ps.UnsupportedError)):
        ps.create_array({}, shape=3, dtype=described)


@pytest.mark.parametrize("fill_value", [np.int64(-1), np.int16(256), np.array(256), -1, 256, 0.5, np.float32(256)])
def test_a_fill_value_that_integers_do_not_have_is_refused(fill_value):
    with pytest.raises(ps.InvalidArgumentError, match="fill_value"):
        ps.create_array({}, shape=3, dtype="u1", fill_value=fill_value)
    assert ps.create_array({}, shape=3, dtype="u1", fill_value=np.int64(255)).fill_value == 255
    assert ps.create_array({}, shape=3, dtype="u1", fill_value=np.array(255)).fill_value == 255


@pytest.mark.parametrize(
    ("dtype", "fill_value"),
    [("int4", 9), ("int4", np.int8(-9)), ("uint2", -1), ("S3", "abcd"), ("U2", "abc"), ("V2", b"abc"),
     ("i4", np.ma.masked)],
    ids=str,
)  # fmt: skip
def test_a_fill_value_that_other_types_do_not_have_is_refused(dtype, fill_value):
    if dtype in ("int4", "uint2"):
        pytest.importorskip("ml_dtypes")
    with pytest.raises(ps.InvalidArgumentError, match="does not fit dtype"):
        ps.create_array({}, shape=3, dtype=dtype, fill_value=fill_value)


def test_times_are_no_attributes():
    day = np.datetime64("2020-01-01", "ns")
    for attributes in ({"day": day}, {"days": np.array([day])}, {"span": day - day}):
        with pytest.raises(ps.InvalidArgumentError, match="must be JSON"):  # they would become numbers
            ps.create_array({}, shape=3, dtype="u1", attributes=attributes)
    a = ps.create_array({}, shape=3, dtype="u1", attributes={"n": np.int8(1), "l": np.array([1.5]), "b": np.True_})
    assert dict(a.attrs) == {"n": 1, "l": [1.5], "b": True}


def test_long_doubles_in_attributes_are_doubles_or_refused():
    values = {"a": np.longdouble(1.5), "b": np.array([0.25, 2], np.longdouble)}
    assert dict(ps.create_array({}, shape=3, dtype="u1", attributes=values).attrs) == {"a": 1.5, "b": [0.25, 2.0]}
    for value in (np.clongdouble(1), np.array(1j, np.clongdouble)):
        with pytest.raises(ps.InvalidArgumentError, match="must be JSON"):
            ps.create_array({}, shape=3, dtype="u1", attributes={"a": value})


@pytest.mark.parametrize("kind", ["string", "bytes"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_types_of_variable_length_have_their_codec(kind, zarr_format):
    store: dict[str, bytes] = {}
    a = ps.create_array(store, shape=3, dtype=kind, fill_value="ab", zarr_format=zarr_format)
    names = [codec.get("name", codec.get("id")) for codec in a.codecs]
    assert names == ["vlen-utf8" if kind == "string" else "vlen-bytes", "zstd"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunks": (2,)}, r"chunks has 1 dimension, shape \(12, 5\) has 2"),
        ({"chunks": (2, 0)}, r"chunks \(2, 0\) has a length of 0"),
        ({"chunks": (2, 2), "shards": (3, 2)}, r"shards \(3, 2\) are not a multiple of chunks \(2, 2\)"),
        ({"dimension_names": ["y"]}, "dimension_names has 1 dimension,"),
        ({"zarr_format": 4}, "zarr_format must be 2 or 3"),
        ({"zarr_format": 2, "shards": (2, 2), "chunks": (1, 1)}, "shards need zarr_format 3"),
        ({"zarr_format": 2, "dimension_names": ["y", None]}, "names every dimension"),
        ({"order": "K"}, "order must be 'C' or 'F'"),
        ({"fill_value": 2**40}, "fill_value"),
        pytest.param({"attributes": {"a": object()}}, "attributes", id="an attribute that is not JSON"),
        ({"chunk_key_encoding": "hash"}, "chunk_key_encoding"),
        ({"codecs": [3]}, "codecs"),
        ({"codecs": ["zstd"], "compressors": ["gzip"]}, "codecs"),
    ],
    ids=str,
)
def test_wrong_members_are_named_and_nothing_is_written(options, message):
    store: dict[str, bytes] = {}
    with pytest.raises(ValueError, match=message):
        ps.create_array(store, **{"shape": (12, 5), "dtype": "i4", **options})
    assert store == {}


@pytest.mark.parametrize("length", [2**64, 2**70])
def test_lengths_beyond_64_bits_are_refused(length):
    for options in ({"shape": (length,)}, {"shape": 4, "chunks": length}, {"shape": 4, "chunks": 1, "shards": length}):
        with pytest.raises(ps.InvalidArgumentError, match=str(length)):
            ps.create_array({}, dtype="i4", **options)
    a = ps.create_array({}, shape=4, dtype="i4")
    with pytest.raises(ps.InvalidArgumentError, match=str(length)):
        a.resize(length)
    with pytest.raises(ps.InvalidArgumentError, match="less than"):
        ps.Context(memory_limit=length)


def test_unknown_codecs_are_refused_by_name():
    with pytest.raises(ps.UnsupportedError, match="'rot13'"):
        ps.create_array({}, shape=3, dtype="i4", codecs=["rot13"])


@writes
def test_an_existing_node_is_kept_unless_overwritten(tmp_path):
    path = tmp_path / "x.zarr"
    ps.create_array(path, data=VALUES, chunks=(3, 3))
    with pytest.raises(ValueError, match="already exists"):
        ps.create_array(path, shape=3, dtype="u1")
    np.testing.assert_array_equal(ps.open(path)[...], VALUES)
    a = ps.create_array(path, shape=(2, 2), dtype="u1", overwrite=True, zarr_format=2)
    assert sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()) == [".zarray", ".zattrs"]
    np.testing.assert_array_equal(a[...], np.zeros((2, 2), "u1"))


@writes
def test_overwriting_never_erases_a_folder_that_is_not_a_node(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    ps.create_array(tmp_path, data=VALUES, overwrite=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_parents_are_created_as_groups(tmp_path, zarr_format):
    ps.create_array(tmp_path / "r.zarr", "a/b/x", data=VALUES, zarr_format=zarr_format)
    root = zarr.open_group(tmp_path / "r.zarr", mode="r", zarr_format=zarr_format)
    assert [path for path, _ in root.members(max_depth=None)] == ["a", "a/b", "a/b/x"]
    np.testing.assert_array_equal(root["a/b/x"][...], VALUES)
    with pytest.raises(ValueError, match="is an array"):
        ps.create_group(tmp_path / "r.zarr", "a/b/x/y", zarr_format=zarr_format)


@pytest.mark.parametrize("path", ["..", "a/../../b", "__x", "zarr.json", "a/.zarray", "."])
def test_invalid_names_of_nodes_are_refused(path):
    with pytest.raises(ValueError, match="cannot be named"):
        ps.create_group({}, path)


def test_xarrays_name_of_an_unnamed_array_is_allowed():
    group = ps.create_group({})
    group.create_array("__xarray_dataarray_variable__", data=VALUES)
    np.testing.assert_array_equal(group["__xarray_dataarray_variable__"][...], VALUES)


@pytest.mark.parametrize("kind", ["i4", "U3", str])
def test_required_arrays_are_those_of_zarr_python(tmp_path, kind):
    g, z = ps.create_group(tmp_path / "g"), zarr.create_group(tmp_path / "z")
    for dtype, shape, exact in [
        (kind, 3, True),
        (kind, (3,), False),
        (kind, 4, False),
        ("i2", 3, False),
        ("f8", 3, False),
    ]:
        outcomes = []
        for group in (g, z):
            try:
                made = group.require_array("a/b", shape=shape, dtype=dtype, exact=exact)
                outcomes.append((made.shape, made.dtype))
            except (TypeError, ValueError):
                outcomes.append(None)
        assert outcomes[0] == outcomes[1], (dtype, shape, exact)
    for group in (g, z):
        with pytest.raises(ValueError, match="dtype"):
            group.require_array("c", shape=2)
    with pytest.raises(ps.InvalidArgumentError, match="is a group"):
        g.require_array("a", shape=3, dtype=kind)


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_groups_hold_nodes(tmp_path, zarr_format):
    g = ps.open_group(tmp_path / "g.zarr", mode="w", zarr_format=zarr_format, attributes={"a": 1})
    g.create_array("x", data=VALUES)
    g["y"] = VALUES * 2
    g["y"] = VALUES * 3
    sub = g.create_group("s", attributes={"b": 2})
    sub.create_array("z", shape=3, dtype="f4")
    assert g.keys() == ["s", "x", "y"]
    assert list(g.array_keys()) == ["x", "y"]
    assert list(g.group_keys()) == ["s"]
    assert [path for path, _ in g.members(max_depth=None)] == ["s", "s/z", "x", "y"]
    assert g["s/z"].format == f"zarr{zarr_format}"
    assert g.require_group("s").attrs == {"b": 2}
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "g.zarr")["y"][...], VALUES * 3)
    assert "z (3,) float32" in g.tree()
    del g["s"]
    assert g.keys() == ["x", "y"]
    assert "s" not in g
    with pytest.raises(KeyError):
        del g["s"]
    assert ps.open_group(tmp_path / "g.zarr", mode="a").attrs == {"a": 1}
    with pytest.raises(ValueError, match="already exists"):
        ps.open_group(tmp_path / "g.zarr", mode="w-")


@writes
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_attributes_are_written_through(tmp_path, zarr_format):
    path = tmp_path / "x.zarr"
    a = ps.create_array(path, data=VALUES, zarr_format=zarr_format, attributes={"a": 1, "b": 2})
    other = ps.open(path)
    a.attrs["c"] = {"d": np.float64(1.5), "e": np.arange(2)}
    other.attrs.update(b=3)
    del a.attrs["a"]
    stored = {"b": 3, "c": {"d": 1.5, "e": [0, 1]}}
    assert a.attrs == stored
    assert ps.open(path).attrs == stored
    assert dict(zarr.open_array(path).attrs) == stored
    a.attrs.put({"z": None})
    assert dict(zarr.open_array(path).attrs) == {"z": None}
    np.testing.assert_array_equal(a[...], VALUES)
    g = ps.create_group(tmp_path / "g", zarr_format=zarr_format)
    g.attrs = {"n": float("nan")}
    assert np.isnan(ps.open(tmp_path / "g").attrs["n"])
    with pytest.raises(KeyError):
        del g.attrs["missing"]
    with pytest.raises(ValueError, match="JSON"):
        g.attrs["x"] = object()


@writes
def test_save_and_load(tmp_path):
    ps.save(tmp_path / "x.zarr", VALUES)
    np.testing.assert_array_equal(ps.load(tmp_path / "x.zarr"), VALUES)
    ps.save(tmp_path / "g.zarr", a=VALUES, b=VALUES[0])
    ps.open(tmp_path / "g.zarr").create_array("s/c", data=VALUES[1])
    loaded = ps.load(tmp_path / "g.zarr")
    assert sorted(loaded) == ["a", "b", "s"]
    np.testing.assert_array_equal(loaded["s"]["c"], VALUES[1])
    ps.save(tmp_path / "g.zarr", VALUES[2])
    np.testing.assert_array_equal(ps.load(tmp_path / "g.zarr"), VALUES[2])
    with pytest.raises(ValueError, match="one array"):
        ps.save({})
    with pytest.raises(ValueError, match=r"create_array\(target, data=x, chunk=\.\.\.\)"):
        ps.save({}, VALUES, chunk=(2, 2))


@writes
def test_dicts_and_zip_archives_take_new_arrays(tmp_path):
    for target in ({}, tmp_path / "x.zip"):
        ps.create_array(target, "g/x", data=VALUES, chunks=(5, 5))
        np.testing.assert_array_equal(ps.open(target, "g/x")[...], VALUES)


def test_shards_are_written_as_in_zarr_python(tmp_path):
    for where in ("start", "end"):
        a = ps.create_array(
            tmp_path / where,
            shape=(16, 16),
            dtype="i4",
            chunks=(4, 4),
            shards={"shape": (8, 8), "index_location": where},
        )
        a[...] = np.arange(256).reshape(16, 16)
        theirs = zarr.open_array(tmp_path / where, mode="r")
        assert theirs.shards == (8, 8)
        location = theirs.metadata.codecs[0].index_location
        assert getattr(location, "value", location) == where  # an enumeration before zarr-python 3.2
        np.testing.assert_array_equal(theirs[...], np.arange(256).reshape(16, 16))
    for wrong in ({"shape": (8, 8), "index_location": "middle"}, {"index_location": "end"}, {"shape": 8, "x": 1}):
        with pytest.raises(ps.InvalidArgumentError, match="shards as a mapping"):
            ps.create_array({}, shape=(16, 16), dtype="i4", chunks=(4, 4), shards=wrong)
