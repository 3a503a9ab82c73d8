"""Compounds with members that structured dtypes cannot represent: text and lists of variable length, references,
unusual numbers. The dataset is a group of its members. h5py writes the files and gives the expected values."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "fixed array": {"chunks": (3, 4)},
    "b-tree": {"chunks": (2, 5), "maxshape": (None, None), "compression": "gzip", "shuffle": True},
    "extensible array": {"chunks": (3, 3), "maxshape": (None, 9), "compression": "lzf", "fletcher32": True},
    "one chunk": {"chunks": (7, 9), "compression": "gzip"},
    "many chunks": {"chunks": (1, 1)},
}
SHAPE = (7, 9)


def table_dtype(order: str = "<") -> np.dtype[Any]:
    return np.dtype(
        [
            ("name", h5py.string_dtype()),
            ("x", f"{order}f4"),
            ("key", h5py.string_dtype("ascii")),
            ("at", f"{order}i2", (2, 3)),
            ("row", h5py.vlen_dtype(np.dtype(f"{order}i4"))),
            ("ok", "?"),
            ("code", "S5"),
            ("inner", [("note", h5py.string_dtype()), ("n", f"{order}u8")]),
            ("pair", [("a", "i1"), ("b", f"{order}f8")]),
        ]
    )


def table(shape: tuple[int, ...], order: str = "<") -> np.ndarray:
    random = np.random.default_rng(3)
    out = np.empty(shape, table_dtype(order))
    for i, at in enumerate(np.ndindex(shape)):
        row = random.integers(0, 100, i % 4).astype(f"{order}i4")
        name = "" if i % 5 == 0 else f"süß{i}" * (i % 3)
        out[at] = (
            name,
            i / 2,
            b"k%d" % i,
            np.arange(6).reshape(2, 3) * i,
            row,
            i % 2,
            b"c%d" % i,
            (f"n{i}", i),
            (i, -i),
        )
    return out


def as_text(values: Any) -> Any:
    flat = [each.decode() if isinstance(each, bytes) else each for each in np.asarray(values, object).ravel()]
    return np.array(flat, object).reshape(np.shape(values)).tolist()


def plain(value: Any) -> Any:
    """Structured values as Python objects, with text as `str`."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray) and value.dtype.names is None:
        return value.tolist()
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.void):
        return tuple(plain(value[name]) for name in value.dtype.names)
    return value.decode() if type(value) is bytes else value


def same_rows(got: Any, want: Any) -> None:
    """Whether elements of Penstock and of h5py are equal; h5py returns bytes where Penstock returns text."""
    assert type(got) is type(want)
    assert np.shape(got) == np.shape(want)
    assert plain(got) == plain(want)
    same_type(got.dtype, want.dtype)


def same_type(got: np.dtype[Any], want: np.dtype[Any]) -> None:
    assert got.shape == want.shape
    got, want = got.base, want.base
    assert got.names == want.names
    for name in got.names or ():
        same_type(got[name], want[name])
    if got.names is None:
        assert got.newbyteorder("=") == want.newbyteorder("=")
        assert h5py.check_vlen_dtype(got) == h5py.check_vlen_dtype(want)


def same_as_h5py(group: ps.Group, stored: Any) -> None:
    """Compare each member with the same member of h5py's structured values."""
    assert sorted(group) == sorted(stored.dtype.names)
    for name in stored.dtype.names:
        member, want = group[name], stored[name]
        if isinstance(member, ps.Group):
            same_as_h5py(member, want)
            continue
        got = member[...]
        assert np.shape(got) == np.shape(want), name
        if want.dtype.kind == "O" and isinstance(want.ravel()[0], np.ndarray):
            assert [each.tolist() for each in got.ravel()] == [each.tolist() for each in want.ravel()]
        elif want.dtype.kind == "O":
            assert as_text(got) == as_text(want), name
        else:
            assert member.dtype == want.dtype.newbyteorder("="), name
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_members_in_every_layout(tmp_path: Path, layout: str, libver: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        made = file.create_dataset("t", SHAPE, table_dtype(), **LAYOUTS[layout])
        made[...] = table(SHAPE)
        made.attrs["unit"] = "m"
        stored = made[...]
    opened = ps.open(tmp_path / "x.h5", "t")
    assert isinstance(opened, ps.Group)
    assert opened.attrs["unit"] == "m"
    same_as_h5py(opened, stored)
    same_rows(opened[...], stored)
    for selection in [3, (3, 4), (slice(2, 6, 2), 1), (..., 8), (slice(0, 0), ...), (slice(None, None, 3), [1, 5])]:
        same_rows(opened[selection], stored[selection])
    one = ps.open(tmp_path / "x.h5", "t/at")
    np.testing.assert_array_equal(one[2:6:2, ::3, 1], stored["at"][2:6:2, ::3, 1])
    assert ps.open(tmp_path / "x.h5", "t/inner/note")[3, 4] == stored["inner"]["note"][3, 4].decode()
    assert ps.open_array(tmp_path / "x.h5", "t/pair").dtype.names == ("a", "b")
    if layout in ("contiguous", "one chunk"):
        assert opened["x"].chunks == SHAPE
    else:
        assert opened["x"].chunks == opened["name"].chunks == LAYOUTS[layout]["chunks"]


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_orders(tmp_path: Path, order: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dtype = np.dtype(
            [("t", h5py.string_dtype()), ("f", f"{order}f8"), ("i", f"{order}i2", (2,)), ("c", f"{order}c8")]
        )
        made = file.create_dataset("t", (50,), dtype, chunks=(8,))
        values = np.empty(50, dtype)
        for i in range(50):
            values[i] = (str(i), i / 3, (i, -i), i + 2j)
        made[...] = values
        stored = made[...]
    group = ps.open_group(tmp_path / "x.h5", "t")
    same_as_h5py(group, stored)
    assert plain(group[5:40]) == plain(stored[5:40])
    assert group[0:1].dtype["i"] == np.dtype(("=i2", (2,)))


def test_compact_scalar_and_empty(tmp_path: Path) -> None:
    dtype = np.dtype([("t", h5py.string_dtype()), ("f", "f8"), ("i", "i2", (2,))])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_layout(h5py.h5d.COMPACT)
        space, kind = h5py.h5s.create_simple((3,)), h5py.h5t.py_create(dtype, logical=True)
        compact = h5py.Dataset(h5py.h5d.create(file.id, b"compact", kind, space, properties))
        compact[...] = np.array([(b"a", 1, (2, 3)), (b"bb", 4, (5, 6)), (b"", 7, (8, 9))], dtype)
        file.create_dataset("one", (), dtype)[()] = np.array((b"x", 2, (3, 4)), dtype)
        file.create_dataset("none", (0, 4), dtype, maxshape=(None, 4))
        file.create_dataset("never", (2, 2), dtype)
        want = {name: file[name][()] for name in file}
    group = ps.open_group(tmp_path / "x.h5")
    for name, stored in want.items():
        same_rows(group[name][()], stored)
    assert group["compact/t"][...].tolist() == ["a", "bb", ""]
    np.testing.assert_array_equal(group["compact/i"][...], want["compact"]["i"])
    np.testing.assert_array_equal(group["compact/f"][...], want["compact"]["f"])
    assert group["one/t"][()] == "x"
    assert group["one/f"][()] == 2
    assert group["one/i"][...].tolist() == [3, 4]
    assert group["none/t"].shape == group["none/f"].shape == (0, 4)
    assert group["none/i"].shape == (0, 4, 2)
    assert group["never/t"][...].tolist() == [["", ""], ["", ""]]
    assert group["never/f"][...].tolist() == [[0, 0], [0, 0]]


def test_fill_values(tmp_path: Path) -> None:
    """Next to numbers of 3 bytes, because h5py cannot read the fill value that it writes for text in a compound."""
    three = h5py.h5t.STD_I32BE.copy()
    three.set_precision(24)
    three.set_size(3)
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 15)
    kind.insert(b"n", 0, three)
    kind.insert(b"f", 3, h5py.h5t.IEEE_F64BE)
    kind.insert(b"i", 11, h5py.h5t.array_create(h5py.h5t.STD_I16LE, (2,)))
    values = np.array((-5, 2.5, (7, 7)), [("n", "<i4"), ("f", "<f8"), ("i", "<i2", (2,))])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2, 3))
        properties.set_fill_value(values)
        made = h5py.h5d.create(file.id, b"t", kind, h5py.h5s.create_simple((5, 4)), properties)
        one = h5py.h5s.create_simple((5, 4))
        one.select_hyperslab((0, 0), (1, 1))
        made.write(h5py.h5s.create_simple((1, 1)), one, np.array([[(-7, 1.0, (1, 2))]], values.dtype))
        stored = np.zeros((5, 4), values.dtype)
        made.read(h5py.h5s.ALL, h5py.h5s.ALL, stored)
    group = ps.open_group(tmp_path / "x.h5", "t")
    assert stored["f"][4, 3] == 2.5
    for name in values.dtype.names:
        np.testing.assert_array_equal(group[name][...], stored[name])
    assert group["n"].fill_value == -5


def test_references_in_compounds_are_paths(tmp_path: Path) -> None:
    """As in netCDF's DIMENSION_LIST and in the tables of NWB."""
    dtype = np.dtype([("index", "i4"), ("target", h5py.ref_dtype), ("part", h5py.regionref_dtype)])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("g/data", data=np.arange(20).reshape(4, 5))
        made = file.create_dataset("t", (3,), dtype)
        made[0] = np.array((1, data.ref, data.regionref[1:3, 2:4]), dtype)
        made[1] = np.array((2, file["g"].ref, data.regionref[...]), dtype)
    group = ps.open_group(tmp_path / "x.h5", "t")
    assert group["index"][...].tolist() == [1, 2, 0]
    assert group["target"][...].tolist() == ["/g/data", "/g", ""]
    assert group["part"][0] == "/g/data[1:3, 2:4]"
    assert group["part"][2] == ""
    assert group[...].tolist() == [
        (1, "/g/data", "/g/data[1:3, 2:4]"),
        (2, "/g", "/g/data[...]"),
        (0, "", ""),
    ]
    assert group[1]["target"] == "/g"
    dtype = group[...].dtype["target"]
    assert dtype.kind == "O"
    assert dtype.metadata == {"vlen": str, "reference": True}


def test_rows_are_selections_of_the_dataset(tmp_path: Path) -> None:
    """A selection applies to the dataset's axes, not to axes within its elements."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/t"] = table((4,))
    group = ps.open_group(tmp_path / "x.h5", "g/t")
    for selection in [(1, 2), (..., 0, 0), (..., ...)]:
        with pytest.raises(ps.OutOfRangeError, match="dataset has 1 dimension"):
            group[selection]
    with pytest.raises(IndexError):
        group[4]
    assert group[-1]["x"] == 1.5
    assert plain(group["inner"][2]) == ("n2", 2)
    with pytest.raises(TypeError, match="children have names"):
        ps.open_group(tmp_path / "x.h5", "g")[0]


def test_attributes_are_lists_of_their_members(tmp_path: Path) -> None:
    dtype = np.dtype([("n", "i4"), ("text", h5py.string_dtype()), ("list", h5py.vlen_dtype("i2"))])
    values = np.empty(2, dtype)
    values[0], values[1] = (1, "a", np.array([1, 2], "i2")), (2, "ü", np.array([], "i2"))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs.create("two", values)
        file.attrs.create("one", values[0])
        file.attrs.create("plain", np.array((1, 2.5), [("a", "i4"), ("b", "f8")]))
    group = ps.open_group(tmp_path / "x.h5")
    for found in (group.attrs, group.typed_attributes):
        assert found["two"] == [[1, "a", [1, 2]], [2, "ü", []]]
        assert found["one"] == [1, "a", [1, 2]]
    assert group.typed_attributes["plain"]["b"] == 2.5


def test_members_that_are_not_readable_are_named(tmp_path: Path) -> None:
    """The unreadable member has lists of arrays of text; the others are readable."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        text = h5py.h5t.py_create(h5py.string_dtype(), logical=True)
        inner = h5py.h5t.vlen_create(h5py.h5t.array_create(text, (2,)))
        kind = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
        kind.insert(b"n", 0, h5py.h5t.STD_I32LE)
        kind.insert(b"lists", 8, inner)
        h5py.h5d.create(file.id, b"t", kind, h5py.h5s.create_simple((4,)))
    group = ps.open_group(tmp_path / "x.h5", "t")
    assert sorted(group) == ["lists", "n"]
    assert group["n"][...].tolist() == [0] * 4
    for key in ("lists", slice(2)):
        with pytest.raises(ps.UnsupportedError, match="lists of arrays"):
            group[key]
    with pytest.warns(UserWarning, match="lists"):
        ps.copy(tmp_path / "x.h5", tmp_path / "y.zarr")
    assert ps.open_group(tmp_path / "y.zarr")["t/n"][...].tolist() == [0] * 4


def test_odd_names(tmp_path: Path) -> None:
    names = ["a/b", ".", "..", "ü %b", "a", "[x]"]
    dtype = np.dtype([("t", h5py.string_dtype()), *[(name, "i4") for name in names]])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        values = np.empty(2, dtype)
        values[0], values[1] = ("p", *range(6)), ("q", *range(6, 12))
        file["t"] = values
    group = ps.open_group(tmp_path / "x.h5", "t")
    shown = {"a/b": r"a\x2fb", ".": r"\x2e", "..": r"\x2e\x2e"}
    assert sorted(group) == sorted(["t", *[shown.get(name, name) for name in names]])
    for i, name in enumerate(names):
        assert group[shown.get(name, name)][...].tolist() == [i, i + 6]
    assert "none" not in group
    with pytest.raises(ps.NotFoundError):
        group["t/none"]


def test_structures_that_numpy_supports_stay_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["plain"] = np.zeros(3, [("a", "i4"), ("b", "S4"), ("c", [("d", "f8")])])
    assert ps.open_array(tmp_path / "x.h5", "plain").dtype.names == ("a", "b", "c")
    with pytest.raises(ps.NotFoundError):
        ps.open(tmp_path / "x.h5", "plain/a")


def test_numbers_with_unused_bits(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        three = h5py.h5t.STD_U32LE.copy()
        three.set_precision(20)
        three.set_size(3)
        kind = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
        kind.insert(b"n", 1, three)
        kind.insert(b"m", 4, h5py.h5t.STD_I32BE)
        made = h5py.Dataset(h5py.h5d.create(file.id, b"t", kind, h5py.h5s.create_simple((1000,))))
        values = np.zeros(1000, [("n", "<u4"), ("m", "<i4")])
        values["n"], values["m"] = np.arange(1000) * 1000, -np.arange(1000)
        made.id.write(h5py.h5s.ALL, h5py.h5s.ALL, values)
    group = ps.open_group(tmp_path / "x.h5", "t")
    np.testing.assert_array_equal(group["n"][...], values["n"])
    np.testing.assert_array_equal(group["m"][...], values["m"])


def test_virtual_tables(tmp_path: Path) -> None:
    dtype = np.dtype([("t", h5py.string_dtype()), ("f", "f4")])
    for i in range(2):
        with h5py.File(tmp_path / f"{i}.h5", "w") as file:
            values = np.empty(5, dtype)
            for k in range(5):
                values[k] = (f"{i}-{k}", i * 5 + k)
            file["t"] = values
    with h5py.File(tmp_path / "v.h5", "w") as file:
        layout = h5py.VirtualLayout((10,), dtype)
        for i in range(2):
            layout[5 * i : 5 * i + 5] = h5py.VirtualSource(f"{i}.h5", "t", (5,))
        file.create_virtual_dataset("v", layout)
    group = ps.open_group(tmp_path / "v.h5", "v")
    assert group["t"][...].tolist() == [f"{i}-{k}" for i in range(2) for k in range(5)]
    assert group["f"][...].tolist() == list(range(10))


POINT = np.dtype([("name", h5py.string_dtype()), ("x", ">f4", (2,)), ("row", h5py.vlen_dtype("i2")), ("code", "S3")])
WITH_ARRAYS: dict[str, np.dtype[Any]] = {
    "a member": np.dtype([("n", "i4"), ("points", POINT, (2, 3))]),
    "the element": np.dtype((POINT, (2,))),
    "arrays in arrays": np.dtype([("pairs", [("points", POINT, (2,)), ("n", "u1")], (3,)), ("k", "f8")]),
    "a compound between": np.dtype([("one", [("points", POINT, (2,)), ("n", "u1")]), ("k", "f8")]),
    "only compounds": np.dtype([("points", POINT, (2,)), ("more", POINT, (1, 2))]),
}


def filled(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> Any:
    """Different values in all members, at any depth."""
    shape = (*shape, *dtype.shape)
    out = np.zeros(shape, dtype.base)
    if dtype.base.names is not None:
        for i, name in enumerate(dtype.base.names):
            out[name] = filled(dtype.base[name], shape, seed + 100 * i)
        return out
    for i, at in enumerate(np.ndindex(shape)):
        if h5py.check_string_dtype(dtype.base) is not None and dtype.base.kind == "O":
            out[at] = f"ü{seed + i}" * (i % 3)
        elif dtype.base.kind == "O":
            out[at] = np.arange(i % 4, dtype="i2") + seed
        else:
            out[at] = f"{i % 1000}" if dtype.base.kind == "S" else (seed + i) % 256
    return out


@pytest.mark.parametrize("layout", ["contiguous", "chunked"])
@pytest.mark.parametrize("name", WITH_ARRAYS)
def test_arrays_of_compounds_with_text(tmp_path: Path, name: str, layout: str) -> None:
    dtype = WITH_ARRAYS[name]
    options = {} if layout == "contiguous" else {"chunks": (2, 2), "compression": "gzip", "shuffle": True}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        # The last row is never written.
        file.create_dataset("t", (5, 4), dtype, **options)[:4] = filled(dtype, (4, 4))
    group = ps.open_group(tmp_path / "x.h5", "t")
    with h5py.File(tmp_path / "x.h5") as file:
        for selection in (slice(None), (1, 2), (slice(0, 5, 2), 3), (slice(2), slice(1, 3))):
            same_rows(group[selection], file["t"][selection])


def test_members_of_arrays_of_compounds_are_arrays(tmp_path: Path) -> None:
    dtype = WITH_ARRAYS["arrays in arrays"]
    values = filled(dtype, (4,))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("t", data=values, dtype=dtype, chunks=(3,))
    points = ps.open(tmp_path / "x.h5", "t/pairs/points")
    assert points["x"].shape == (4, 3, 2, 2)
    np.testing.assert_array_equal(points["x"][...], values["pairs"]["points"]["x"])
    assert points["name"][2, 1].tolist() == values["pairs"]["points"]["name"][2, 1].tolist()
    assert ps.open(tmp_path / "x.h5", "t/pairs/n")[...].tolist() == values["pairs"]["n"].tolist()
    ps.copy(tmp_path / "x.h5", tmp_path / "x.zarr", zarr_format=2)
    copied = ps.open(tmp_path / "x.zarr", "t/pairs/points")
    np.testing.assert_array_equal(copied["x"][...], values["pairs"]["points"]["x"])
    assert copied["name"][...].tolist() == values["pairs"]["points"]["name"].tolist()
    ps.save_manifest(ps.open_group(tmp_path / "x.h5"), tmp_path / "x.manifest")
    saved = ps.open_group(tmp_path / "x.manifest")["t/pairs/points/name"]
    assert saved[...].tolist() == values["pairs"]["points"]["name"].tolist()


def test_fill_values_of_members_within_arrays(tmp_path: Path) -> None:
    """A number of 20 bits makes the compound a group of its members."""
    odd = h5py.h5t.STD_I32LE.copy()
    odd.set_precision(20)
    inner = h5py.h5t.create(h5py.h5t.COMPOUND, 8)
    inner.insert(b"x", 0, h5py.h5t.IEEE_F32LE)
    inner.insert(b"odd", 4, odd)
    kind = h5py.h5t.create(h5py.h5t.COMPOUND, 20)
    kind.insert(b"k", 0, h5py.h5t.STD_I32LE)
    kind.insert(b"pair", 4, h5py.h5t.array_create(inner, (2,)))
    fill = np.array((3, [(2.5, -7)] * 2), [("k", "<i4"), ("pair", [("x", "<f4"), ("odd", "<i4")], (2,))])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((2,))
        properties.set_fill_value(fill)
        h5py.h5d.create(file.id, b"t", kind, h5py.h5s.create_simple((3,)), properties)
        want = file["t"][...]
    group = ps.open_group(tmp_path / "x.h5", "t")
    assert group["pair/x"][...].tolist() == [[2.5, 2.5]] * 3
    same_rows(group[...], want)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "x.h5", "w") as made:
        made.create_dataset("g/t", data=table((20,)), dtype=table_dtype(), chunks=(6,), compression="gzip")
        made["g/plain"] = np.arange(4.0)
        made["again"] = made["g/t"]
        made["link"] = h5py.SoftLink("/g/t")
    with h5py.File(tmp_path / "master.h5", "w") as made:
        made["beyond"] = h5py.ExternalLink("x.h5", "/g/t")
    return tmp_path / "x.h5"


def test_links_lead_to_members(file: Path) -> None:
    want = ps.open(file, "g/t/name")[...].tolist()
    for path in ("again/name", "link/name"):
        assert ps.open(file, path)[...].tolist() == want
    assert ps.open(file.parent / "master.h5", "beyond/name")[...].tolist() == want
    assert sorted(ps.open_group(file.parent / "master.h5", "beyond")) == sorted(table_dtype().names)


def test_copies_and_manifests_have_all_members(file: Path, tmp_path: Path) -> None:
    with h5py.File(file) as opened:
        stored = opened["g/t"][...]
    ps.copy(ps.open_group(file, "g"), tmp_path / "x.zarr", zarr_format=2)
    same_as_h5py(ps.open_group(tmp_path / "x.zarr", "t"), stored)
    ps.save_manifest(ps.open_group(file, "g"), tmp_path / "x.manifest")
    same_as_h5py(ps.open_group(tmp_path / "x.manifest")["t"], stored)


def test_xarray_reads_members_as_variables(file: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with h5py.File(file) as opened:
        stored = opened["g/t"][...]
    with pytest.warns(UserWarning, match="'t' of .* is omitted: its members are variables of the group 't'"):
        assert list(xarray.open_dataset(file, engine="penstock", group="g")) == ["plain"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = xarray.open_dataset(file, engine="penstock", group="g/t")
    np.testing.assert_array_equal(made["x"].values, stored["x"])
    assert made["name"].dims == made["x"].dims
    assert made["name"].values.tolist() == as_text(stored["name"])


def test_over_http(file: Path) -> None:
    with HttpServer({"x.h5": file.read_bytes()}) as server:
        group = ps.open(f"{server.url}/x.h5", "g/t")
        with h5py.File(file) as opened:
            same_as_h5py(group, opened["g/t"][...])
            same_rows(group[3:8], opened["g/t"][3:8])
        assert ps.open(f"{server.url}/x.h5/g/t/inner/n")[3] == 3


@pytest.mark.parametrize("kind", ["bytes", "BytesIO", "read-only file"])
def test_rows_from_every_kind_of_source(file: Path, kind: str) -> None:
    with h5py.File(file) as opened:
        stored = opened["g/t"][...]
    if kind == "read-only file":
        file.chmod(0o400)
    source = {"bytes": file.read_bytes(), "BytesIO": io.BytesIO(file.read_bytes()), "read-only file": file}[kind]
    same_rows(ps.open(source, "g/t")[2:], stored[2:])
    same_rows(ps.open(source)["link"][2:], stored[2:])


def test_damaged_files_are_refused_or_read(file: Path) -> None:
    sound = file.read_bytes()
    random = np.random.default_rng(11)
    read = refused = 0
    for _ in range(150):
        content = bytearray(sound)
        for at in random.integers(0, len(sound), random.integers(1, 6)):
            content[at] = random.integers(0, 256)
        for name in ("name", "x", "row", "at", "inner/note"):
            try:
                ps.open(bytes(content), f"g/t/{name}")[...]
                read += 1
            except ps.Error:
                refused += 1
    assert read > 100
    assert refused > 20
