"""HDF5 and NetCDF4 files: h5py writes them in every layout and type, and Penstock reads the same from any location."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import sys
import threading
import time
from typing import Any, ClassVar

import numpy as np
import penstock as ps
import pytest
from hdf5_values import same, values
from penstock import _core
from penstock.core.group import wrap
from penstock.target import stores as _stores

h5py = pytest.importorskip("h5py")

STRUCTURE = np.dtype({"names": ["a", "b", "c"], "formats": ["<i2", ">f8", ("<u4", (3,))], "offsets": [0, 4, 16]})
TYPES = [
    *("|b1", "|i1", "|u1", "<i2", ">i2", "<u2", ">u4", "<i4", "<i8", ">i8", ">u8"),
    *("<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "<c8", ">c16", "|S1", "|S7", "|V5"),
    STRUCTURE,
]
LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    ("contiguous", {}),
    ("chunked", {"chunks": (4, 5)}),
    ("whole", {"chunks": (13, 11)}),
    ("shuffle", {"chunks": (4, 5), "shuffle": True}),
    ("gzip", {"chunks": (4, 5), "compression": "gzip"}),
    ("all", {"chunks": (4, 5), "compression": "gzip", "shuffle": True, "fletcher32": True}),
    ("lzf", {"chunks": (4, 5), "compression": "lzf", "shuffle": True}),
]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("layout", [name for name, _ in LAYOUTS])
def test_every_type_is_read_in_every_layout(tmp_path, layout, libver):
    options = dict(LAYOUTS)[layout]
    path = tmp_path / "x.h5"
    wanted = {}
    with h5py.File(path, "w", libver=libver) as file:
        for i, dtype in enumerate(TYPES):
            wanted[f"t{i}"] = values(dtype, (13, 11), i)
            file.create_dataset(f"t{i}", data=wanted[f"t{i}"], **options)
    group = ps.open(path)
    assert sorted(group.keys()) == sorted(wanted)
    for name, expected in wanted.items():
        array = group[name]
        assert array.format == "hdf5"
        assert array.read_only
        assert same(array[...], expected), (name, expected.dtype)
        assert same(array[2:12:3, ::-1], expected[2:12:3, ::-1]), name
        assert same(array.oindex[[9, 0, 12], 3:], expected[[9, 0, 12], 3:]), name


def test_an_unlimited_dimension_after_others(tmp_path):
    """HDF5 2.0 reports wrong places for the chunks of such datasets."""
    path = tmp_path / "x.h5"
    data = {"two": values("<i4", (7, 22)), "three": values("<i4", (5, 9, 13)), "same": np.ones((7, 22), "<i4")}
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("two", data=data["two"], chunks=(2, 3), maxshape=(10, None))
        file.create_dataset("three", data=data["three"], chunks=(2, 2, 3), maxshape=(8, None, 20), compression="gzip")
        file.create_dataset("same", data=data["same"], chunks=(2, 3), maxshape=(10, None))
    for name, wanted in data.items():
        assert same(ps.open(path, name)[...], wanted), name


def test_user_blocks_and_files_in_memory(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", userblock_size=2048) as file:
        file["plain"] = np.arange(100)
        file.create_dataset("packed", data=np.arange(100), chunks=(30,), compression="gzip")
        file.create_dataset("never", (5,), "i4", fillvalue=9)
    for target in (path, path.read_bytes()):
        group = ps.open(target)
        for name in ("plain", "packed"):
            assert same(group[name][...], np.arange(100)), name
        assert group["never"][...].tolist() == [9] * 5
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["x"] = 5
    array = ps.open(stream.getvalue(), dataset="x")
    assert array[()] == 5
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(array)


def test_compact_scalars_and_empty_datasets(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, h5py.h5s.create_simple((3, 5)), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(15, dtype="i4").reshape(3, 5))
        file["scalar"] = np.float32(2.5)
        file["none"] = np.zeros((0, 4))
        file.create_dataset("none_chunked", (4, 0), "f4", chunks=(2, 3), maxshape=(4, None))
        file["null"] = h5py.Empty("f4")
    group = ps.open(path)
    assert group["compact"][...].tolist() == np.arange(15).reshape(3, 5).tolist()
    assert group["scalar"][()] == 2.5
    assert group["none"][...].shape == (0, 4)
    assert group["none_chunked"][...].shape == (4, 0)
    with pytest.raises(ps.UnsupportedError, match="H5S_NULL"):
        group["null"]


def test_large_plain_datasets_are_divided_into_blocks(tmp_path):
    path = tmp_path / "x.h5"
    wanted = {
        name: values("<f4", shape) for name, shape in {"a": (1_000_003,), "b": (3, 700_001), "c": (257, 4099)}.items()
    }
    with h5py.File(path, "w") as file:
        for name, data in wanted.items():
            file[name] = data
    for name, data in wanted.items():
        array = ps.open(path, name)
        assert same(array[...], data), name
        assert same(array[..., ::1001], data[..., ::1001]), name
        assert array.nbytes / np.prod([-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]) < 2 << 20


@pytest.mark.parametrize("fill", [None, "", "NA", "größer"])
def test_text_that_was_never_written_is_the_fill_value(tmp_path, fill):
    how = {} if fill is None else {"fillvalue": fill}
    with h5py.File(tmp_path / "x.h5", "w") as f:
        kind = h5py.string_dtype()
        f.create_dataset("chunks", (4, 3), kind, chunks=(1, 3), **how)[1] = ["a", "", "ccc"]
        f.create_dataset("nothing", (2,), kind, chunks=(2,), **how)
        f.create_dataset("no chunks", (2,), kind, **how)
        f.create_dataset("empty", (0, 3), kind, chunks=(1, 3), maxshape=(None, 3), **how)
    expected = [[fill or ""] * 3, ["a", "", "ccc"], [fill or ""] * 3, [fill or ""] * 3]
    group = ps.open(tmp_path / "x.h5")
    assert group["chunks"][...].tolist() == expected
    assert group["nothing"][...].tolist() == [fill or ""] * 2
    assert group["no chunks"][...].tolist() == [fill or ""] * 2
    assert group["empty"].shape == (0, 3)
    assert group["empty"][...].size == 0
    ps.save_manifest(group, tmp_path / "x.manifest")
    assert ps.open(tmp_path / "x.manifest", "chunks")[...].tolist() == expected


def test_text(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["utf8"] = np.array([["a", "süß"], ["", "x" * 300]], h5py.string_dtype())
        file.create_dataset("ascii", data=[b"a", b"bc"], dtype=h5py.string_dtype("ascii"))
        file["fixed"] = np.array([b"ab", b"abc"])
        for name, padding in (("zero", h5py.h5t.STR_NULLTERM), ("space", h5py.h5t.STR_SPACEPAD)):
            stored = h5py.h5t.C_S1.copy()
            stored.set_size(6)
            stored.set_strpad(padding)
            made = h5py.h5d.create(file.id, name.encode(), stored, h5py.h5s.create_simple((2,)))
            made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.frombuffer(b"ab\0xyzab  cd", "S6"), mtype=stored)
    group = ps.open(path)
    assert group["utf8"][...].tolist() == [["a", "süß"], ["", "x" * 300]]
    assert group["ascii"][...].tolist() == [b"a", b"bc"]
    assert group["fixed"][...].tolist() == [b"ab", b"abc"]
    with h5py.File(path) as file:
        for name in ("zero", "space"):
            assert same(group[name][...], file[name][...]), name


def test_attributes_groups_and_dimension_names(tmp_path):
    path = tmp_path / "x.nc"
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "a file"
        file["time"] = np.arange(3)
        file["x"] = np.arange(4.0)
        file["t2m"] = np.zeros((3, 4), "<i2")
        for name in ("time", "x"):
            file[name].make_scale(name)
        for d, name in enumerate(("time", "x")):
            file["t2m"].dims[d].attach_scale(file[name])
        file["t2m"].dims[0].label = "when"
        file["t2m"].attrs.update({"scale_factor": np.float32(0.1), "_FillValue": np.int16(-1), "units": "K"})
        file["t2m"].attrs["valid"] = np.array([1, 2], "i4")
        file["inner/deep/y"] = 1
    group = ps.open(path)
    assert isinstance(group, ps.Group)
    assert group.format == "hdf5"
    assert group.attrs["title"] == "a file"
    assert group.keys() == ["inner", "t2m", "time", "x"]
    t2m = group["t2m"]
    assert t2m.dimension_names == ("time", "x")
    assert group["x"].dimension_names == ("x",)
    assert t2m.attrs["_FillValue"] == -1
    assert t2m.attrs["units"] == "K"
    assert t2m.attrs["valid"] == [1, 2]
    assert t2m.attrs["scale_factor"] == float(np.float32(0.1))
    assert "DIMENSION_LIST" not in t2m.attrs
    assert t2m.attrs["DIMENSION_LABELS"] == ["when", ""]
    assert "CLASS" not in group["x"].attrs
    assert t2m.typed_attributes["scale_factor"].dtype == np.float32
    assert [name for name, _ in group["inner"].members(None)] == ["deep", "deep/y"]
    assert group["inner/deep"]["y"][()] == 1
    assert "inner/deep/y" in group
    assert "inner/z" not in group
    assert "t2m (3, 4) int16" in group.tree()
    assert ps.open(f"file://{path}", dataset="t2m").shape == (3, 4)
    for node in (group, t2m, group["inner"]):
        again = pickle.loads(pickle.dumps(node))
        assert again.uri == node.uri
        assert type(again) is type(node)
    with pytest.raises(ps.NotFoundError):
        group["nothing"]
    with pytest.raises(ps.InvalidArgumentError, match="a group of the file"):
        ps.open(path, dataset="inner")
    with pytest.raises(ps.Error):
        t2m[0] = 1
    with pytest.raises(ps.Error):
        t2m.attrs["units"] = "C"
    assert sorted(os.listdir(tmp_path)) == ["x.nc"]


def test_unsupported_datasets_are_refused_by_name(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        texts = h5py.h5t.array_create(h5py.h5t.py_create(h5py.string_dtype(), logical=True), (2,))
        h5py.h5d.create(file.id, b"lists", h5py.h5t.vlen_create(texts), h5py.h5s.create_simple((3,)))
        h5py.h5d.create(file.id, b"times", h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((3,)))
        file["number"] = np.zeros(2, "i2")
        layout = h5py.VirtualLayout((4,), h5py.string_dtype())
        layout[::2] = h5py.VirtualSource("x.h5", "number", (2,))
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("rows", (2,), h5py.vlen_dtype("u1"))
        layout = h5py.VirtualLayout((4,), h5py.string_dtype())
        layout[::2] = h5py.VirtualSource("x.h5", "rows", (2,))
        file.create_virtual_dataset("of_lists", layout)
        file["kind"] = np.dtype("i4")
    for name, words in {
        "lists": "lists of arrays of text",
        "times": "H5T_TIME",
        "virtual": "text of variable length cannot show a source of int16",
        "of_lists": r"text of variable length cannot show a source of variable_length_list\[uint8\]",
        "kind": "named type",
    }.items():
        with pytest.raises(ps.UnsupportedError, match=words) as caught:
            ps.open(path, name)
        assert name in str(caught.value)


@pytest.mark.parametrize(
    "options", [{}, {"chunks": (4, 5)}, {"chunks": (4, 5), "compression": "gzip", "shuffle": True}]
)
@pytest.mark.parametrize("stacked", [False, True])
def test_virtual_datasets_are_their_sources(tmp_path, options, stacked):
    """Sources next to each other, overlapping, with gaps between them, or missing."""
    parts = [values("<f4", (9, 11), seed) for seed in range(4)]
    (tmp_path / "parts").mkdir()
    for number, part in enumerate(parts):
        with h5py.File(tmp_path / "parts" / f"{number}.h5", "w") as file:
            file.create_dataset("x", data=part, **options)
    path = tmp_path / "all.h5"
    shape = (6, 9, 11) if stacked else (60, 11)
    with h5py.File(path, "w", libver="latest") as file:
        file["own"] = np.full((9, 11), 7, "<f4") if not options else np.zeros(1)
        layout = h5py.VirtualLayout(shape, "<f4")
        for number, at in enumerate([0, 1, 3, 4]):
            source = h5py.VirtualSource(f"parts/{number}.h5", "x", (9, 11))
            layout[at if stacked else slice(10 * at, 10 * at + 9)] = source
        if not options:
            layout[5 if stacked else slice(50, 59)] = h5py.VirtualSource(".", "own", (9, 11))
        file.create_virtual_dataset("v", layout, fillvalue=-3)
    (tmp_path / "parts" / "3.h5").unlink()
    with h5py.File(path) as file:
        wanted = file["v"][()]
    array = ps.open(path, dataset="v")
    assert same(array[...], wanted)
    assert (wanted == -3).any()
    for key in (np.s_[1:5], np.s_[::-3, 2:7], np.s_[3, 2]):
        assert same(array[key], wanted[key])
    ps.save_manifest(array, tmp_path / "m")
    assert same(ps.open(tmp_path / "m")[...], wanted)
    (tmp_path / "parts" / "1.h5").write_bytes(b"other")
    with pytest.raises(ps.ConflictError, match=r"1\.h5"):
        array[...]


def test_external_datasets_are_read_from_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = values(">i4", (30, 7), 3)
    raw = whole.tobytes()
    (tmp_path / "a.raw").write_bytes(b"head" + raw[: 10 * 28])
    (tmp_path / "b.raw").write_bytes(raw[10 * 28 :])
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("two", (30, 7), ">i4", external=[("a.raw", 4, 10 * 28), ("b.raw", 0, h5py.h5f.UNLIMITED)])
        file.create_dataset("one", (20, 7), ">i4", external=[(str(tmp_path / "b.raw"), 0, 20 * 28)])
    array = ps.open("x.h5", dataset="two")
    assert same(array[...], whole)
    assert same(array[9:12, ::-2], whole[9:12, ::-2])
    assert same(ps.open("x.h5", dataset="one")[...], whole[10:])
    (tmp_path / "b.raw").unlink()
    with pytest.raises(ps.ConflictError, match=r"b\.raw"):
        array[...]


def test_links_into_other_files_are_followed_into_those(tmp_path):
    """As detectors write NeXus: a master file with links data_000001, ..., each to a file of its own."""
    (tmp_path / "below").mkdir()
    parts, plain = [], np.arange(600.0).reshape(30, 20)
    with h5py.File(tmp_path / "master.h5", "w") as master:
        master["own"] = np.zeros((1000, 100))  # so that offsets of other files are also within this one
        for i in range(3):
            parts.append(values("<i4", (5 + i, 40, 30), i))
            with h5py.File(tmp_path / "below" / f"data_{i}.h5", "w") as file:
                file.create_dataset("entry/x", data=parts[i], chunks=(2, 40, 30), compression="gzip")
                file.create_dataset("entry/plain", data=plain + i)
                layout = h5py.VirtualLayout((30, 20), "<f8")
                layout[:] = h5py.VirtualSource(".", "entry/plain", (30, 20))
                file.create_virtual_dataset("virtual", layout)
            master[f"data_{i:06d}"] = h5py.ExternalLink(f"below/data_{i}.h5", "entry/x")
        master["plain"] = h5py.ExternalLink("below/data_1.h5", "entry/plain")
        master["group"] = h5py.ExternalLink(str(tmp_path / "below" / "data_2.h5"), "entry")
        master["twice"] = h5py.ExternalLink("master.h5", "group/plain")
        master["itself"] = h5py.ExternalLink("master.h5", "own")
        master["virtual"] = h5py.ExternalLink("below/data_1.h5", "virtual")
        master["nowhere"] = h5py.ExternalLink("below/data_9.h5", "entry/x")
    path = tmp_path / "master.h5"
    group = ps.open(path)
    for name, wanted in [
        ("data_000001", parts[1]),
        ("plain", plain + 1),
        ("group/x", parts[2]),
        ("twice", plain + 2),
        ("itself", np.zeros((1000, 100))),
        ("virtual", plain + 1),
    ]:
        array = ps.open(path, name)
        assert same(array[...], wanted), name
        assert same(group[name][...], wanted)
        assert same(pickle.loads(pickle.dumps(array))[...], wanted)
        ps.save_manifest(array, tmp_path / "one.manifest")
        assert same(ps.open(tmp_path / "one.manifest")[...], wanted)
    assert group["group"].keys() == ["plain", "x"]
    assert "nowhere" not in group
    joined = ps.open_shards(path, dataset="data_*")
    assert same(joined[...], np.concatenate(parts))
    assert same(pickle.loads(pickle.dumps(joined))[...], np.concatenate(parts))
    layout = h5py.VirtualLayout((30, 20), "<f8")
    layout[:] = h5py.VirtualSource("master.h5", "plain", (30, 20))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    assert same(ps.open(tmp_path / "virtual.h5", "x")[...], plain + 1)
    for i in range(2):
        with h5py.File(tmp_path / f"link_{i}.h5", "w") as file:
            file["x"] = h5py.ExternalLink(f"below/data_{i}.h5", "entry/plain")
    assert same(ps.open_shards(str(tmp_path / "link_*.h5"), dataset="x")[...], np.concatenate([plain, plain + 1]))
    with pytest.raises(ps.Error, match="a link leads into the file"):
        ps.open(path.read_bytes(), "plain")
    array = ps.open(path, "plain")
    with h5py.File(tmp_path / "below" / "data_1.h5", "r+") as file:
        file["more"] = 1
    with pytest.raises(ps.ConflictError, match=r"data_1\.h5"):
        array[...]


def test_a_file_that_changes_is_noticed(tmp_path):
    path = tmp_path / "x.h5"

    def write(seed: int) -> np.ndarray[Any, Any]:
        data = values("<f8", (40, 40), seed)
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=data, chunks=(7, 9), compression="gzip")
        return data

    first = write(1)
    array = ps.open(path, "x")
    assert same(array[...], first)
    second = write(2)
    with pytest.raises(ps.ConflictError, match="changed since") as caught:
        array[...]
    assert str(path) in str(caught.value)
    assert same(ps.open(path, "x")[...], second)
    array = ps.open(path, "x")
    path.unlink()
    with pytest.raises(ps.ConflictError):
        array[...]


def test_a_remote_file_that_changes_is_noticed(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    there = fsspec.filesystem("memory")

    def write(name: str, seed: int) -> np.ndarray[Any, Any]:
        data = values("<f8", (40, 40), seed)
        stream = io.BytesIO()
        with h5py.File(stream, "w") as file:
            file.create_dataset("x", data=data, chunks=(7, 9))
        there.pipe(f"/hdf5/{name}", stream.getvalue())  # of the same size, with chunks at the same places
        return data

    try:
        parts = [write(f"{i}.h5", i) for i in range(2)]
        array = ps.open("memory://hdf5/0.h5", "x")
        joined = ps.open_shards(["memory://hdf5/0.h5", "memory://hdf5/1.h5"], dataset="x")
        ps.save_manifest(joined, tmp_path / "m")
        opened = [(array, parts[0])]
        for each in (joined, pickle.loads(pickle.dumps(joined)), ps.open_shards(tmp_path / "m")):
            opened.append((each, np.concatenate(parts)))
        for each, wanted in opened:
            assert same(each[...], wanted)
        again = write("0.h5", 7)
        for each, _ in opened:
            with pytest.raises(ps.ConflictError, match=r"0\.h5' has changed since the array was opened"):
                each[3:5]
        assert same(joined[40:], parts[1])
        assert same(ps.open("memory://hdf5/0.h5", "x")[...], again)
        array = ps.open("memory://hdf5/0.h5", "x")
        there.rm("/hdf5/0.h5")
        with pytest.raises(ps.ConflictError, match=r"0\.h5' was removed"):
            array[...]
    finally:
        there.rm("/hdf5", recursive=True)


def test_damaged_chunks_are_named(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset(
            "x", data=values("<f8", (40, 40)), chunks=(10, 10), compression="gzip", fletcher32=True
        )
        where = made.id.get_chunk_info(5)
    with open(path, "r+b") as stream:
        stream.seek(where.byte_offset + 20)
        stream.write(b"\xaa\xbb\xcc")
    array = ps.open(path, "x")
    with pytest.raises(ps.CorruptDataError) as caught:
        array[...]
    for words in ("chunk (1, 1)", "fletcher32", str(path), f"[{where.byte_offset}, {where.byte_offset + where.size})"):
        assert words in str(caught.value), words
    assert same(array[20:], values("<f8", (40, 40))[20:])
    path.write_bytes(path.read_bytes()[: where.byte_offset + 10])
    with pytest.raises(ps.Error):
        ps.open(path, "x")[...]


def test_remote_data_needs_no_h5py(tmp_path, monkeypatch):
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["y"] = [3, 4]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = 1
        file["link"] = h5py.ExternalLink("y.h5", "y")
        file["nowhere"] = h5py.ExternalLink("z.h5", "y")
        layout = h5py.VirtualLayout((2,), "i8")
        layout[:] = h5py.VirtualSource("y.h5", "y", (2,))
        file.create_virtual_dataset("virtual", layout)
    monkeypatch.setitem(sys.modules, "h5py", None)
    group = ps.open(tmp_path / "x.h5")
    assert group.keys() == ["link", "virtual", "x"]
    assert group["x"][()] == 1
    assert group["virtual"][...].tolist() == group["link"][...].tolist() == [3, 4]
    assert group.dimension_names("link") == ("phony_dim_1",)


def test_chunks_are_found_through_a_manifest(tmp_path):
    path, manifest = tmp_path / "x.h5", tmp_path / "x.manifest"
    count = 20_000
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=np.arange(count * 4, dtype="<i4"), chunks=(4,))
    array = ps.open(path, "x")
    ps.save_manifest(array, manifest)
    again = ps.open(manifest)
    assert again.shape == (count * 4,)
    assert again.format == "hdf5"
    assert again.uri == array.uri
    assert same(again[4 * 777 : 4 * 779], np.arange(4 * 777, 4 * 779, dtype="i4"))
    assert same(again[...], np.arange(count * 4, dtype="i4"))
    assert same(pickle.loads(pickle.dumps(again))[:9], np.arange(9, dtype="i4"))
    data = manifest.read_bytes()
    for i in (5, len(data) // 2, len(data) - 1):
        manifest.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
        with pytest.raises(ps.Error):
            ps.open(manifest)[...]
    manifest.write_bytes(data)
    os.utime(path, ns=(1, 1))
    with pytest.raises(ps.ConflictError, match="changed since the manifest was saved"):
        ps.open(manifest)


@pytest.mark.parametrize("how", ["threads", "loop"])
def test_ranges_of_a_remote_file_share_one_query_of_its_version(tmp_path, how):
    pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    lock, asked = threading.Lock(), {"info": 0, "range": 0}

    class Slow(MemoryFileSystem):
        """Answers late, and counts requests."""

        store: ClassVar[dict[str, Any]] = {}
        protocol = "slow"
        cachable = False

        def _count(self, what):
            with lock:
                asked[what] += 1
            time.sleep(0.05 if what == "info" else 0.01)  # ranges arrive before the answer

        def info(self, path, **options):
            self._count("info")
            return super().info(path, **options)

        def cat_file(self, path, start=None, end=None, **options):
            self._count("range")
            return super().cat_file(path, start, end, **options)

    data = np.arange(40 * 4096.0).reshape(40, 4096)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 4096), shuffle=True)
    plain = Slow()
    plain.pipe_file("/x.h5", path.read_bytes())
    filesystem = plain
    if how == "loop":
        filesystem = pytest.importorskip("fsspec.implementations.asyn_wrapper").AsyncFileSystemWrapper(plain)
    stamp = _stores.remote_stamp(plain, "/x.h5")
    store = _stores.pinned_store(filesystem, "/x.h5", stamp)
    array = wrap(_core.open_hdf5(store, ps.Context(threads=8), b"x.h5", b"x"))
    asked.update(info=0, range=0)
    assert np.array_equal(array[::2], data[::2])
    assert 1 <= asked["range"] <= 20, "at most one for each chunk: neighbours are one request"
    assert 1 <= asked["info"] <= 10, "not one after each"
    plain.pipe_file("/x.h5", path.read_bytes() + b"more")
    with pytest.raises(ps.ConflictError, match="has changed"):
        array[::2]
    plain.rm_file("/x.h5")
    with pytest.raises(ps.Error):
        array[::2]


def test_names_of_dimensions_ignore_damaged_neighbours(tmp_path):
    """Types that NumPy does not have, groups with two names, and groups that contain themselves."""
    quad = h5py.h5t.IEEE_F64LE.copy()
    quad.set_size(16)
    quad.set_precision(128)
    quad.set_fields(127, 112, 15, 0, 112)
    quad.set_ebias(16383)
    with h5py.File(tmp_path / "x.h5", "w") as made:
        made["a/x"] = np.arange(6.0).reshape(2, 3)
        made["b"] = made["a"]
        made["a/loop"] = made["/"]
        h5py.h5d.create(made.id, b"quad", quad, h5py.h5s.create_simple((4,)))
    group = ps.open(tmp_path / "x.h5")
    wanted = group["a"].dimension_names("x")
    assert wanted == ("phony_dim_0", "phony_dim_1")
    assert group["b"].dimension_names("x") == wanted
    assert group["a/loop/b"].dimension_names("x") == wanted
    with pytest.raises(ps.NotFoundError, match="has no 'y'"):
        group.dimension_names("y")


def test_times_in_opaque_types_have_h5pys_types(tmp_path):
    """HDF5 has no times with a unit; h5py stores them as opaque bytes with a tag."""
    path = tmp_path / "t.h5"
    dtypes = ["<M8[s]", "<M8[ns]", ">M8[ms]", "<m8[us]", "<M8[D]", "<M8[25s]"]
    with h5py.File(path, "w") as file:
        for i, (dtype, chunks) in enumerate(itertools.product(dtypes, (None, (3,)))):
            values = np.array([0, 1, 2**40, -5, np.iinfo("i8").min], "i8").astype(dtype)
            file.create_dataset(f"{i}", data=values.astype(h5py.opaque_dtype(dtype)), chunks=chunks)
        file.create_dataset("sparse", (4,), h5py.opaque_dtype("<M8[s]"), chunks=(2,))
        file.create_dataset("bytes", data=np.zeros(2, "V5"))
        for name, tag in (
            ("generic", b"NUMPY:<M8"),
            ("short", b"NUMPY:<M8[s]"),
            ("wrong", b"NUMPY:x("),
            ("not", b"\xff"),
        ):
            tid = h5py.h5t.create(h5py.h5t.OPAQUE, 4 if name == "short" else 8)
            tid.set_tag(tag)
            h5py.h5d.create(file.id, name.encode(), tid, h5py.h5s.create_simple((2,)))
    with h5py.File(path) as file:
        for i in range(12):
            found = ps.open(path, str(i))
            assert found.dtype == file[str(i)].dtype.newbyteorder("=")
            np.testing.assert_array_equal(found[:], file[str(i)][:].astype(found.dtype))
        np.testing.assert_array_equal(ps.open(path, "sparse")[:], file["sparse"][:])
    assert ps.open(path, "bytes").dtype == "V5"
    assert [ps.open(path, name).dtype for name in ("generic", "short", "wrong", "not")] == ["V8", "V4", "V8", "V8"]


def test_attributes_that_are_not_utf8_have_replacement_characters(tmp_path):
    """Instruments write attributes and names in Latin-1."""
    text = h5py.string_dtype("utf-8")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=np.arange(3.0))
        for name, value in {"variable": b"\xb0C", "list": [b"\xb0C", b"ok"], "fixed": np.bytes_(b"\xb0C")}.items():
            made.attrs.create(name, value, dtype=None if name == "fixed" else text)
        h5py.h5a.create(made.id, b"n\xe9", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple((1,)))
        file.create_group(b"g\xe9")["y"] = np.arange(2)
        file.attrs.create("title", b"caf\xe9", dtype=text)
    group = ps.open(tmp_path / "a.h5")
    assert group.attrs["title"] == "caf\ufffd"
    wanted = {"variable": "\ufffdC", "list": ["\ufffdC", "ok"], "fixed": "\ufffdC", "n\ufffd": 0}
    assert dict(group["x"].attrs) == wanted
    assert group.keys() == ["g\udce9", "x"]
    np.testing.assert_array_equal(group["g\udce9/y"][:], [0, 1])
    assert group["g\udce9/y"].uri.endswith("/g%E9/y")
    xr = pytest.importorskip("xarray")
    with xr.open_dataset(tmp_path / "a.h5", engine="penstock") as shown:
        assert shown.attrs["title"] == "caf\ufffd"
        assert shown["x"].attrs["variable"] == "\ufffdC"


def test_the_last_of_several_scales_names_the_dimension(tmp_path):
    """The same name that netCDF4 and h5netcdf give it."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("x", data=np.zeros(3))
        for name in ("first", "second"):
            file[name] = np.arange(3)
            file[name].make_scale(name)
            made.dims[0].attach_scale(file[name])
    assert ps.open(tmp_path / "a.h5")["x"].dimension_names == ("second",)
    h5netcdf = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "a.h5", "r") as file:
        assert file["x"].dimensions == ("second",)


def test_deleted_scales_do_not_name_dimensions(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("kept", "gone"):
            file[name] = np.arange(3)
            file[name].make_scale(name)
        made = file.create_dataset("x", data=np.zeros((3, 3)))
        made.dims[0].attach_scale(file["kept"])
        made.dims[1].attach_scale(file["gone"])
        null = np.empty(1, object)
        null[0] = np.array([h5py.Reference()], h5py.ref_dtype)
        file["y"] = np.zeros(3)
        file["y"].attrs.create("DIMENSION_LIST", null, dtype=h5py.vlen_dtype(h5py.ref_dtype))
        del file["gone"]
    group = ps.open(tmp_path / "a.h5")
    assert group["x"].dimension_names == ("kept", None)
    assert group["y"].dimension_names is None


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "bits", ["7e01", "7fc00123", "ffc00000", "7ff8000000000abc", "fff8000000000000", "7ff8000000000000"]
)
def test_the_bits_of_a_fill_value_that_is_nan_are_kept(tmp_path, bits, order):
    size = len(bits) // 2
    fill = np.array([int(bits, 16)], f"{order}u{size}").view(f"{order}f{size}")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (4,), f"{order}f{size}", chunks=(2,), fillvalue=fill[0])
    array = ps.open(tmp_path / "a.h5")["x"]
    assert np.isnan(array.fill_value)
    assert array[:].view(f"u{size}").tolist() == [int(bits, 16)] * 4
    copied = ps.copy(array, tmp_path / "a.zarr")
    assert copied[:].view(f"u{size}").tolist() == [int(bits, 16)] * 4


def test_groups_in_themselves_are_walked_once(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        inner = file.create_group("a/b")
        inner["top"], inner["again"] = file["/"], file["a"]
        file["same"] = file["a/b"]
        inner["x"] = np.zeros(3, "f4")
    group = ps.open(tmp_path / "x.h5")
    assert group.tree().splitlines() == [
        "/",
        "├── a",
        "│   └── b",
        "│       ├── again -> /a",
        "│       ├── top -> /",
        "│       └── x (3,) float32",
        "└── same -> /a/b",
    ]
    paths = [path for path, _ in group.members(max_depth=None)]
    assert {"a/b/x", "a/b/top", "a/b/again", "same/x", "same/again/b"} <= set(paths)
    assert not any(path.startswith(("a/b/top/", "a/b/again/")) for path in paths)
