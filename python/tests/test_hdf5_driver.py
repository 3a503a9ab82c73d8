"""HDF5 files that C++ opens without h5py: datasets, groups, names and attributes are those that Python opens."""

from __future__ import annotations

import itertools
import json
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from hdf5_values import same, values
from penstock import _core
from penstock.__main__ import main
from penstock.core.array import Array
from penstock.core.context import current_context
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
MOST_BYTES = 1 << 26

# Files that libhdf5 refuses because of parts that these arrays do not need.
READ_HERE = ("cve_2020_10810.h5", "cve_2020_10812.h5", "h5stat_err_old_layout.h5")

# Datasets that only h5py reads so far.
LEFT_TO_H5PY = ("virtual HDF5 datasets", "in other files", "in the file")


def opened(path: Path, inner: str = "") -> Any:
    """The node that C++ opens at a path of a file."""
    store = _core.file_store(os.fsencode(path.parent))
    found = _core.open_hdf5(store, current_context(), os.fsencode(path.name), inner.encode("utf-8", "surrogateescape"))
    return Array(found) if isinstance(found, _core.Array) else found


def is_left(error: Exception) -> bool:
    return isinstance(error, ps.UnsupportedError) and any(part in str(error) for part in LEFT_TO_H5PY)


def arrays_below(path: Path, inner: str, group: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The arrays of a group and its subgroups, or the errors that opening them raises."""
    try:
        names = list(group.keys())
    except ps.Error:  # a group is listed when its names are needed
        with pytest.raises(ps.Error):
            list(ps.open(path, inner) if inner else ps.open(path))
        return
    for name in names:
        at = f"{inner}/{name}".strip("/")
        try:
            found = opened(path, at)
        except ps.Error as error:
            yield at, error
            continue
        if isinstance(found, Array):
            yield at, found
        elif depth < 8:
            yield from arrays_below(path, at, found, depth + 1)


def differences(found: Array, wanted: Array) -> list[str]:
    """The properties in which two arrays differ."""
    out = []
    for what in ("shape", "dtype", "dimension_names", "fill_value", "attrs"):
        a, b = getattr(found, what), getattr(wanted, what)
        if what == "attrs":
            unread = [name for name, value in b.items() if str(value).startswith("<not readable")]
            a, b = ({k: v for k, v in each.asdict().items() if k not in unread} for each in (a, b))
        if what == "dimension_names":
            a, b = list(a or []), list(b or [])
        if repr(a) != repr(b) and not (
            what == "attrs" and sorted(map(repr, a.items())) == sorted(map(repr, b.items()))
        ):
            out.append(f"{what}: {a!r}, not {b!r}")
    return out


def equal(found: Any, wanted: Any) -> bool:
    """As `same`, with support for text and lists of variable length."""
    if np.asarray(wanted).dtype.kind in "OT":
        one, other = (np.asarray(each, object) for each in (found, wanted))
        return one.shape == other.shape and repr(one.tolist()) == repr(other.tolist())
    return same(found, wanted)


TYPES = ["u1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "?", "S5"]
TYPES.append(np.dtype([("a", "<i4"), ("b", ">f8", (2,)), ("c", "S3")]))
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (4, 3)},
    "filtered": {"chunks": (4, 3), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "unlimited": {"chunks": (4, 3), "maxshape": (None, 8)},
    "unlimited twice": {"chunks": (3, 5), "maxshape": (None, None), "compression": "lzf"},
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_every_type_is_read_in_every_layout(tmp_path, libver):
    path = tmp_path / "x.h5"
    wanted = {}
    with h5py.File(path, "w", libver=libver) as file:
        for number, (dtype, layout) in enumerate(itertools.product(TYPES, LAYOUTS)):
            name = f"g{number % 3}/{layout}/{number}"
            wanted[name] = values(dtype, (11, 8), number)
            file.create_dataset(name, data=wanted[name], **LAYOUTS[layout])
    for name, value in wanted.items():
        found = opened(path, name)
        assert same(found[...], value), name
        assert same(found[3:9, ::2], value[3:9, ::2]), name
        assert not differences(found, ps.open(path, name)), name
    assert opened(path).keys() == ["g0", "g1", "g2"]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("block", [0, 512, 4096])
def test_user_blocks_scalars_and_empty_datasets(tmp_path, libver, block):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=block) as file:
        file["scalar"] = np.float32(2.5)
        file["empty"] = np.zeros((0, 3), "i4")
        file["large"] = np.arange(700_000, dtype="i8").reshape(700, 1000)
        file.create_dataset("unwritten", (5, 4), "f4", fillvalue=7)
        file.create_dataset("holes", (10, 4), "i2", chunks=(3, 4), fillvalue=-3)[3:6] = 1
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        made = h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32BE, h5py.h5s.create_simple((6,)), plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(6, dtype=">i4"))
        wanted = {name: node[()] for name, node in file.items()}
    for name, value in wanted.items():
        found = opened(path, name)
        assert same(found[...], value), name
        assert not differences(found, ps.open(path, name)), name


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("widths", [(8, 4), (4, 8), (4, 4), (2, 4), (2, 2)])  # of addresses, and of lengths
def test_addresses_and_lengths_of_every_width(tmp_path, libver, widths):
    h5f, h5p = h5py.h5f, h5py.h5p
    path = tmp_path / "x.h5"
    create, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)
    create.set_sizes(*widths)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST if libver == "earliest" else h5f.LIBVER_LATEST, h5f.LIBVER_LATEST)
    wanted = np.arange(35).reshape(5, 7)
    texts = ["a", "longer than eight", ""]
    with h5py.File(h5f.create(os.fsencode(path), h5f.ACC_TRUNC, create, access)) as file:
        file["group/below/x"] = wanted
        file["link"] = h5py.SoftLink("/group/below/x")
        file.create_dataset("chunked", data=wanted, chunks=(2, 3), compression="gzip")
        file.create_dataset("text", data=texts, dtype=h5py.string_dtype())
        file.attrs["texts"] = texts
    group = ps.open(path)
    for name in ("group/below/x", "link", "chunked"):
        assert same(group[name][...], wanted), name
    assert group["text"][...].tolist() == texts
    assert group.attrs["texts"] == texts


def test_fill_values_of_every_type(tmp_path):
    path = tmp_path / "x.h5"
    record = np.dtype([("a", "<i4"), ("s", "S3")])
    fills: list[tuple[Any, Any]] = [
        *(("<i2", -5), (">u8", 2**63 + 1), ("<f4", np.nan), (">f8", -np.inf), ("<f2", 1.5), ("S4", b"ab")),
        *(("?", True), ("<c8", 1 + 2j), (record, np.array((3, b"xyz"), record))),
    ]
    with h5py.File(path, "w") as file:
        for number, (dtype, fill) in enumerate(fills):
            file.create_dataset(str(number), (4,), dtype, chunks=(2,), fillvalue=fill)
        wanted = {name: node[()] for name, node in file.items()}
    for name, value in wanted.items():
        found = opened(path, name)
        assert same(found[...], value), name
        assert not differences(found, ps.open(path, name)), name


@pytest.mark.parametrize("options", [{}, {"chunks": (3, 2), "compression": "gzip"}, {"chunks": (3, 2)}])
def test_text_of_variable_length(tmp_path, options):
    path = tmp_path / "x.h5"
    words = np.array([[f"wörd {i} {j}" * (i % 3) for j in range(5)] for i in range(7)], object)
    with h5py.File(path, "w") as file:
        file.create_dataset("utf8", data=words, dtype=h5py.string_dtype(), **options)
        file.create_dataset("bytes", data=[[b"ab", b""]], dtype=h5py.string_dtype("ascii"))
        file.create_dataset("unwritten", (3, 2), h5py.string_dtype(), **({"chunks": (1, 2)} if options else {}))
        file["scalar"] = "one"
    assert (opened(path, "utf8")[...] == words).all()
    for name in ("utf8", "bytes", "unwritten", "scalar"):
        found, wanted = opened(path, name), ps.open(path, name)
        assert equal(found[...], wanted[...]), name
        assert not differences(found, wanted), name


def test_filter_masks_are_applied(tmp_path):
    path = tmp_path / "x.h5"
    data = np.arange(64, dtype="<i4").reshape(8, 8)
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (8, 8), "<i4", chunks=(4, 4), compression="gzip", shuffle=True)
        made[:4] = data[:4]
        made.id.write_direct_chunk((4, 0), data[4:, :4].tobytes(), filter_mask=3)
        made.id.write_direct_chunk((4, 4), zlib.compress(data[4:, 4:].tobytes()), filter_mask=1)
    with h5py.File(path) as file:
        wanted = file["x"][...]
    assert (wanted == data).all()
    assert same(opened(path, "x")[...], wanted)


def test_links_lead_to_their_objects(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["a/b/x"] = np.arange(4)
        file["soft"] = h5py.SoftLink("/a/b/x")
        file["a/relative"] = h5py.SoftLink("b/x")
        file["hard"] = file["a/b"]
        file["dangling"] = h5py.SoftLink("/nothing")
        file["loop"] = h5py.SoftLink("/loop")
        file["elsewhere"] = h5py.ExternalLink("y.h5", "/x")
        file["type"] = np.dtype("i4")
    for name in ("soft", "a/relative", "hard/x", "a/b/x", "/a//b/x"):
        assert same(opened(path, name)[...], np.arange(4)), name
    assert opened(path).keys() == ["a", "hard", "soft"]
    for name in ("dangling", "loop", "a/b/x/y", "nothing", "elsewhere"):
        with pytest.raises(ps.NotFoundError):
            opened(path, name)
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["x/deep"] = np.arange(3)
    assert opened(path).keys() == ["a", "elsewhere", "hard", "soft"]
    assert same(opened(path, "elsewhere/deep")[...], np.arange(3))
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["x"] = h5py.ExternalLink("x.h5", "elsewhere")
    with pytest.raises(ps.NotFoundError, match="over more than 16 links"):
        opened(path, "elsewhere")
    with pytest.raises(ps.UnsupportedError, match="a named type"):
        opened(path, "type")


def test_sixteen_soft_links_lead_to_an_object(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["s00"] = np.arange(3)
        for number in range(1, 18):
            file[f"s{number:02}"] = h5py.SoftLink(f"s{number - 1:02}")
    with h5py.File(path) as file:
        assert same(file["s16"][...], np.arange(3))
    assert opened(path).keys() == [f"s{number:02}" for number in range(17)]
    assert same(opened(path, "s16")[...], np.arange(3))
    with pytest.raises(ps.NotFoundError):
        opened(path, "s17")


def test_groups_that_several_links_lead_to_are_visited_once(tmp_path, monkeypatch, capfd):
    """41 groups with 2^40 paths to the last one."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("top")
        for number in range(40):
            below = group.create_group("a")
            group["b"] = h5py.SoftLink("a") if number % 2 else below
            group = below
        group["x"] = np.arange(5)

    def run(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        return main(), *capfd.readouterr()

    status, out, _ = run("tree", path)
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 1 + 1 + 2 * 40 + 1)
    assert lines[-1].endswith("└── b/  -> /top/a")
    status, out, _ = run("info", "--json", path)
    again = json.loads(out)["children"][0]["children"][1]
    assert status == 0
    assert [again[key] for key in ("name", "kind", "same_as")] == ["b", "group", "/top/a"]
    status, out, _ = run("check", "--json", path)
    assert (status, len(json.loads(out)["arrays"])) == (0, 1)
    status, _, err = run("copy", path, tmp_path / "y.zarr")
    assert status == 1
    assert "more than 1000 further links" in err
    assert not (tmp_path / "y.zarr").exists()


def test_an_attribute_of_an_unknown_type_leaves_the_rest_readable(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="earliest") as file:
        for node in (file, file.create_dataset("x", data=np.arange(5)), file.create_group("g")):
            node.attrs["before"] = 1.5
            node.attrs.create("odd", 7, dtype="<i4")
            node.attrs["units"] = "K"
    content = path.read_bytes()
    odd, unknown = b"odd".ljust(8, b"\0") + b"\x10", b"odd".ljust(8, b"\0") + b"\x1f"
    assert content.count(odd) == 3
    path.write_bytes(content.replace(odd, unknown))
    for inner in ("", "x", "g"):
        found = opened(path, inner)
        attrs = found.attrs.asdict() if isinstance(found, Array) else json.loads(found._attributes_json)
        assert attrs == {"before": 1.5, "odd": "<not readable: HDF5: a datatype of class 15>", "units": "K"}, inner
    assert same(opened(path, "x")[...], np.arange(5))


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_dimension_scales_name_dimensions(tmp_path, libver):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        for name, length in (("time", 3), ("lat", 4)):
            file[name] = np.arange(length)
            file[name].make_scale(name)
        file["far/away/height"] = np.arange(5)
        file["far/away/height"].make_scale()
        x = file.create_dataset("g/x", data=np.zeros((3, 4, 5, 2)))
        x.attrs["units"] = "K"
        for d, name in enumerate(("time", "lat", "far/away/height")):
            x.dims[d].attach_scale(file[name])
    found = opened(path, "g/x")
    assert list(found.dimension_names) == ["time", "lat", "height", None]
    assert found.attrs.asdict() == {"units": "K"}
    assert not differences(found, ps.open(path, "g/x"))
    assert list(opened(path, "time").dimension_names) == ["time"]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_is_what_python_opens():
    """Every dataset of every file has the values, types, names and attributes that `ps.open` returns, or is refused."""
    suffixes = (".h5", ".hdf5", ".nc", ".nc4", ".he5")
    wrong: list[str] = []
    read = left = 0
    for path in sorted(each for each in CORPUS.rglob("*") if each.suffix in suffixes and "cve_hdf5" not in str(each)):
        with path.open("rb") as file:
            if file.read(3) == b"CDF":
                continue  # NetCDF of the classic format
        try:
            root = opened(path)
        except ps.Error as error:
            try:
                ps.open(path)
            except ps.Error:
                continue
            wrong.append(f"{path}: {error}")
            continue
        for name, found in arrays_below(path, "", root):
            try:
                wanted = ps.open(path, name)
            except ps.Error as error:
                if not isinstance(found, ps.Error) and path.name not in READ_HERE:
                    wrong.append(f"{path} {name}: opened, Python refuses it: {error}")
                continue
            if isinstance(found, ps.Error):
                left += is_left(found)
                if not is_left(found):
                    wrong.append(f"{path} {name}: {found}")
                continue
            wrong += [f"{path} {name}: {each}" for each in differences(found, wanted)]
            if found.nbytes <= MOST_BYTES:
                try:
                    value = wanted[...]
                except ps.Error:
                    with pytest.raises(ps.Error):
                        found[...]
                    continue
                if not equal(found[...], value):
                    wrong.append(f"{path} {name}: values")
            read += 1
    assert not wrong, "\n".join(wrong)
    assert read > 1000, read
    assert left < 250, left


def test_user_defined_links_are_refused_by_name(tmp_path: Path) -> None:
    """h5py cannot make such links, so the class of an external one is changed."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["good"] = np.arange(3)
        file["strange"] = h5py.ExternalLink("other.h5", "/x")
        file["over"] = h5py.SoftLink("/strange/inner")
    content = bytearray(path.read_bytes())
    external = b"\x40\x07strange"  # the class and the length of the name
    assert content.count(external) == 1
    content[content.index(external)] = 200
    path.write_bytes(content)
    group = ps.open(path)
    assert "good" in list(group)
    for name in ("strange", "strange/inner", "over"):
        with pytest.raises(ps.UnsupportedError, match="'strange' is a user-defined link of class 200"):
            group[name]
    np.testing.assert_array_equal(group["good"][...], np.arange(3))


@pytest.mark.parametrize("name", ["file", "data.v1", "x.hdf", "x.h5ad"])
def test_paths_into_files_of_any_name_in_stores_that_cost_requests(tmp_path: Path, name: str) -> None:
    """Paths with a known suffix are tried first as files; other names are tried last, when nothing else exists."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["group/var"] = np.arange(5)
    obstore = pytest.importorskip("obstore")
    store = obstore.store.MemoryStore()
    obstore.put(store, f"folder/{name}", path.read_bytes())
    np.testing.assert_array_equal(ps.open(store, f"folder/{name}/group/var")[...], np.arange(5))
    with pytest.raises(ps.NotFoundError):
        ps.open(store, "folder/nothing/group/var")


@pytest.mark.parametrize("name", ["x.hdf", "x.h5ad", "x.nxs"])
def test_other_names_of_files_in_urls(tmp_path: Path, name: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["group/var"] = np.arange(5)
    with HttpServer({f"folder/{name}": (tmp_path / "x.h5").read_bytes()}) as server:
        np.testing.assert_array_equal(ps.open(f"{server.url}/folder/{name}/group/var")[...], np.arange(5))


def test_files_of_any_name_in_urls(tmp_path: Path) -> None:
    """A web server does not list folders: the object above the last part of a path is tried last."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["group/deep/var"] = np.arange(5)
    content = (tmp_path / "x.h5").read_bytes()
    with HttpServer({"file": content, "folder/data.v1": content}) as server:
        for path in ("file/group/deep/var", "folder/data.v1/group/deep/var"):
            np.testing.assert_array_equal(ps.open(f"{server.url}/{path}")[...], np.arange(5))
        assert list(ps.open(f"{server.url}/folder/data.v1/group")) == ["deep"]
        with pytest.raises(ps.NotFoundError):
            ps.open(f"{server.url}/folder/nothing/group/deep/var")
