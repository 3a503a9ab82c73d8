"""HDF5 files as the engine reads them, compared with h5py's reading of the same files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.core.array import Array
from penstock.core.context import current_context
from penstock.hdf5.file import open_node
from penstock.hdf5.group import Hdf5Group
from penstock.hdf5.source import Source

h5py = pytest.importorskip("h5py")

from h5py_oracle.open import H5pyGroup, open_by_h5py  # noqa: E402

CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", "/nonexistent")) / "hdf5"
SHAPES = ((), (1,), (3,), (2, 2), (0,))


def values(dtype: Any, shape: tuple[int, ...]) -> Any:
    numbers = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    if np.dtype(dtype).names is not None:
        out = np.zeros(shape, dtype)
        for name in out.dtype.names:
            out[name] = values(out.dtype[name].base, shape + out.dtype[name].shape)
        return out
    if np.dtype(dtype).kind == "S":
        return numbers.astype(dtype)
    return (numbers % 2 if dtype == np.bool_ else numbers).astype(dtype)


def write_attributes(of: Any) -> None:
    """Write attributes of every type that is supported, in every shape."""
    plain = [f"{order}{kind}" for order, kind in itertools.product("<>", ("i1", "u2", "i4", "u8", "f2", "f4", "f8"))]
    structure = np.dtype([("a", "<i2"), ("b", ">f8"), ("text", "S3"), ("pair", "<f4", (2,))], align=True)
    for dtype in [*plain, "?", "<c8", ">c16", "S5", structure]:
        for shape in SHAPES:
            of.attrs.create(f"{np.dtype(dtype).str if dtype is not structure else 'z'}{shape}", values(dtype, shape))
    for shape in SHAPES:
        texts = np.array([f"té{i}" for i in range(int(np.prod(shape)))], object).reshape(shape)
        of.attrs.create(f"text{shape}", texts, dtype=h5py.string_dtype())
        kinds = h5py.enum_dtype({"LOW": 0, "HIGH": 7}, "i2")
        of.attrs.create(f"enum{shape}", np.full(shape, 7, "i2"), dtype=kinds)
        times = np.full(shape, 5, "<M8[s]")
        of.attrs.create(f"time{shape}", times.astype(h5py.opaque_dtype(times.dtype)))
    of.attrs.create("lists", [np.arange(3.0), np.arange(2.0)], dtype=h5py.vlen_dtype("<f4"))
    of.attrs.create("one list", np.array([[1, 2, 3]], object)[0], dtype="i4")
    of.attrs["none"] = h5py.Empty("f4")
    of.attrs["no text"] = h5py.Empty("S1")


def write(path: Path, libver: str, track_order: bool) -> None:
    with h5py.File(path, "w", libver=libver, track_order=track_order) as file:
        write_attributes(file.create_group("z", track_order=track_order))
        data = file.create_dataset("y", data=np.arange(12, dtype="i2").reshape(3, 4), track_order=track_order)
        write_attributes(data)
        file["kind"] = h5py.enum_dtype({"A": 1, "B": 2}, "u1")
        file.create_dataset("x", (5, 6), h5py.enum_dtype({"A": 1, "B": 2}, "u1"), maxshape=(None, 6), chunks=(2, 3))
        file.create_dataset("filtered", (64, 64), ">f4", chunks=(8, 64), compression="gzip", shuffle=True, fletcher32=1)
        file.create_dataset("texts", data=["a", "bc"], dtype=h5py.string_dtype("ascii"))
        file.create_dataset("pairs", (3,), np.dtype(("<i4", (2,))))
        file["a/b c"] = np.arange(3.0)
        file["a/b c"].make_scale("b c")
        file["a/v"] = np.zeros((3, 7))
        file["a/v"].dims[0].attach_scale(file["a/b c"])
        file["a/w"] = np.zeros((7, 7))
        file["link"] = h5py.SoftLink("/a/b c")
        file["again"] = file["a"]
        file["a/loop"] = file["/"]
        file["gone"] = h5py.SoftLink("/nowhere")
        stand_in = file.create_dataset("a/alone", (7,), "f4")
        stand_in.make_scale("This is a netCDF dimension but not a netCDF variable.         7")


def same(a: Any, b: Any) -> bool:
    """Whether both are equal, with types, byte order and order of keys. The gaps of structures are not compared."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype.kind == "O":
            return all(same(x, y) for x, y in zip(a.flat, b.flat, strict=True))
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, np.dtype):
        return bool(a == b) and dict(a.metadata or {}) == dict(b.metadata or {})
    return bool(a == b) or (a != a and b != b)


def differences(source: Source, path: str = "", depth: int = 0) -> list[str]:
    """The differences between the engine's and h5py's description of a node and all nodes below it."""
    ours, theirs = open_node(source, path), open_by_h5py(source, path, open_node)
    names = ["uri", "typed_attributes"]
    if isinstance(ours, Array):
        names += ["storage", "shape", "dtype", "chunks", "dimension_names", "fill_value"]
    else:
        assert isinstance(ours, Hdf5Group)
        assert not isinstance(ours, H5pyGroup)
        names += ["names_in_file_order", "hidden_scales"]
    out = [f"{path}: {each}" for each in names if not same(getattr(ours, each), getattr(theirs, each))]
    plain, known = ours.attrs.asdict(), theirs.attrs.asdict()
    times = [each for each in plain if each.startswith("time")]
    assert all(plain.pop(each) in (5, [5] * 3, [[5, 5]] * 2, []) for each in times)  # these are text for h5py
    if not same(plain, {each: known[each] for each in known if each not in times}):
        out.append(f"{path}: attrs")
    if isinstance(ours, Array) or depth > 3:
        return out
    for name in ours.names_in_file_order:
        below = f"{path}/{name}".strip("/")
        if isinstance(ours[name], Array) and ours.dimension_names(name) != theirs.dimension_names(name):
            out.append(f"{below}: dimension names")
        out += differences(source, below, depth + 1)
    return out


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("track_order", [False, True])
def test_the_engine_describes_nodes_as_h5py_does(tmp_path: Path, libver: str, track_order: bool) -> None:
    path = tmp_path / "x.h5"
    write(path, libver, track_order)
    assert differences(Source.of(str(path), current_context(), None)) == []


def test_members_of_remote_groups_at_every_depth(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    write(tmp_path / "x.h5", "latest", False)
    fsspec.filesystem("memory").pipe("/hdf5_engine/x.h5", (tmp_path / "x.h5").read_bytes())
    group = ps.open("memory://hdf5_engine/x.h5")
    assert group.keys() == ps.open(tmp_path / "x.h5").keys()
    assert group["a"]["b c"][...].tolist() == group["a/b c"][...].tolist() == [0, 1, 2]
    assert group["a"]["loop"]["a"]["v"].shape == (3, 7)
    assert group["a"].dimension_names("v") == ("b c", "alone")
    with pytest.raises(ps.NotFoundError, match="nothing"):
        group["a"]["nothing"]


def test_a_tree_omits_datasets_that_are_not_arrays(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file["a/x"] = np.arange(3)
        h5py.h5d.create(file.id, b"times", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((2,)))
    with pytest.warns(UserWarning, match="H5T_TIME are not readable"):
        assert xarray.open_datatree(tmp_path / "x.nc", engine="penstock").groups == ("/", "/a")


def test_manifests_of_files_that_are_not_local(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    write(tmp_path / "x.h5", "latest", False)
    data = (tmp_path / "x.h5").read_bytes()
    memory = fsspec.filesystem("memory")
    memory.pipe("/hdf5_manifest/x.h5", data)
    for number, target in enumerate((data, "memory://hdf5_manifest/x.h5", tmp_path / "x.h5")):
        for name in ("y", "filtered"):
            array = ps.open(target, name)
            manifest = tmp_path / f"{number}{name}.manifest"
            ps.save_manifest(array, manifest)
            assert np.array_equal(ps.open(manifest, allow_local=True)[...], array[...])
    memory.pipe("/hdf5_manifest/x.h5", data + b"more")
    with pytest.raises(ps.ConflictError):
        ps.open(tmp_path / "1filtered.manifest")[...]


def test_attributes_of_scales_are_hidden_only_there(tmp_path: Path) -> None:
    """PyTables and the specification of images have a CLASS, and users a NAME."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["CLASS"] = np.bytes_("GROUP")
        file["t"] = np.arange(3)
        file["t"].attrs.update({"CLASS": np.bytes_("IMAGE"), "NAME": "probe 3"})
        file["scale"] = np.arange(3)
        file["scale"].make_scale("scale")
    group = ps.open_group(tmp_path / "x.h5")
    assert group.attrs.asdict() == {"CLASS": "GROUP"}
    assert group["t"].attrs.asdict() == {"CLASS": "IMAGE", "NAME": "probe 3"}
    assert group["scale"].attrs.asdict() == {}
    ps.copy(group, tmp_path / "x.zarr")
    assert ps.open(tmp_path / "x.zarr", "t").attrs["NAME"] == "probe 3"


def test_long_doubles_are_attributes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs["one"] = np.longdouble("1.1")
        file.attrs["three"] = np.full(3, np.longdouble("1.1"))
    group = ps.open(tmp_path / "x.h5")
    assert group.attrs.asdict() == {"one": 1.1, "three": [1.1] * 3}
    typed = group.typed_attributes
    if np.finfo(np.longdouble).nmant == 63:
        assert typed["one"] == np.longdouble("1.1")
        assert typed["three"].dtype == np.longdouble


def test_attributes_are_lists_of_complex_numbers_text_or_bytes(tmp_path: Path) -> None:
    """Text of lists is `str`, as that of other attributes. Bytes that are not UTF-8 do not hide other attributes."""
    complex_numbers, texts, opaque = (np.empty(2, object) for _ in range(3))
    complex_numbers[:] = [np.array([1 + 2j, 3 - 1j], "<c8"), np.array([5j], "<c8")]
    texts[:] = [np.array(["é".encode(), b"\xff"], "S3"), np.array([], "S3")]
    opaque[:] = [np.frombuffer(b"abcd", "V2"), np.frombuffer(b"\xff\xfe", "V2")]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs.create("complex", complex_numbers, dtype=h5py.vlen_dtype("<c8"))
        file.attrs.create("one", complex_numbers[:1], dtype=h5py.vlen_dtype("<c8"))
        file.attrs.create("square", complex_numbers[[0, 1, 1, 0]].reshape(2, 2), dtype=h5py.vlen_dtype("<c8"))
        file.attrs.create("texts", texts, dtype=h5py.vlen_dtype("S3"))
        file.attrs.create("opaque", opaque, dtype=h5py.vlen_dtype("V2"))
        file.attrs["other"] = 1.5
        want = {name: file.attrs[name] for name in ("complex", "one", "square")}
    typed = ps.open(tmp_path / "x.h5").typed_attributes
    assert [each.tolist() for each in typed["complex"]] == [each.tolist() for each in want["complex"]]
    assert all(each.dtype == np.complex64 for each in typed["complex"])
    assert typed["one"].tolist() == want["one"][0].tolist()
    assert typed["square"].shape == (2, 2)
    assert typed["square"][1, 1].tolist() == want["square"][1, 1].tolist()
    assert typed["texts"] == [["é", "\ufffd"], []]
    assert typed["opaque"] == [["ab", "cd"], "\ufffd\ufffd"]
    assert typed["other"] == 1.5


def test_lists_of_one_item_in_an_attribute_of_several_lists_are_arrays(tmp_path: Path) -> None:
    lists = np.empty(3, object)
    lists[:] = [np.array([1], "<i4"), np.array([2, 3], "<i4"), np.array([], "<i4")]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.attrs.create("lists", lists, dtype=h5py.vlen_dtype("<i4"))
        want = file.attrs["lists"]
    found = ps.open(tmp_path / "x.h5").typed_attributes["lists"]
    assert [each.shape for each in found] == [(1,), (2,), (0,)]
    assert [each.tolist() for each in found] == [each.tolist() for each in want]


def test_a_group_can_be_kept_while_the_file_grows(tmp_path: Path) -> None:
    """Each member of a local file is opened in its state at that time."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
    group = ps.open(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "a") as file:
        file["y"] = 2
    assert group["y"][()] == 2
    assert group.keys() == ["x", "y"]


def test_h5py_opens_nothing_that_the_engine_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "x.h5", "latest", False)

    def refuse(*unused: Any, **unused_too: Any) -> Any:
        raise AssertionError("h5py was used")

    monkeypatch.setattr(h5py, "File", refuse)
    data = (tmp_path / "x.h5").read_bytes()
    for target in (tmp_path / "x.h5", data):
        group = ps.open(target)
        assert (group["y"][1:] == np.arange(12, dtype="i2").reshape(3, 4)[1:]).all()
        assert group["texts"][...].tolist() == [b"a", b"bc"]
        assert group["a"].dimension_names("w") == ("alone", "phony_dim_3")
