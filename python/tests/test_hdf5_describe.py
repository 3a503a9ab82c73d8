"""The engine's parsers of HDF5 metadata return what h5py reads: links, types, shapes, storage, attributes."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from penstock import _core
from penstock.core.errors import UnsupportedError
from penstock.hdf5.types import netcdf_value

h5py = pytest.importorskip("h5py")

from h5py_oracle import types  # noqa: E402
from h5py_oracle.filters import codec_of  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("PENSTOCK_CORPUS", ROOT.parent / "shared" / "corpus")) / "hdf5"
ANY = object()
CLASSES = ["integer", "float", "time", "string", "bitfield", "opaque", "compound", "reference", "enum", "vlen", "array"]


def described(path: Path) -> tuple[dict[str, dict[str, Any]], int, int, int]:
    store = _core.file_store(os.fsencode(path.parent))
    text, rounds, requests, fetched = _core.hdf5_describe(store, os.fsencode(path.name))
    return {each["path"]: each for each in json.loads(text)["objects"]}, rounds, requests, fetched


def type_of(tid: Any) -> dict[str, Any]:
    """h5py's type in the form of hdf5_describe."""
    from h5py import h5t

    kind = tid.get_class()
    if kind == h5t.STRING and tid.is_variable_str():
        return {"class": "vlen", "text": True, "utf8": tid.get_cset() == h5t.CSET_UTF8}
    out: dict[str, Any] = {"class": CLASSES[kind] if kind < len(CLASSES) else "complex", "bytes": tid.get_size()}
    if kind in (h5t.INTEGER, h5t.FLOAT):
        order = {h5t.ORDER_LE: "little", h5t.ORDER_BE: "big"}.get(tid.get_order(), "vax")
        out |= {"order": order, "precision": tid.get_precision(), "offset": tid.get_offset()}
    if kind == h5t.INTEGER:
        out["signed"] = tid.get_sign() == h5t.SGN_2
    if kind == h5t.FLOAT:
        out["fields"] = [*tid.get_fields(), tid.get_ebias()]
    if kind == h5t.STRING:
        out |= {"padding": tid.get_strpad(), "utf8": tid.get_cset() == h5t.CSET_UTF8}
    if kind == h5t.OPAQUE:
        out["tag"] = tid.get_tag().decode("utf-8", "replace")
    if kind == h5t.REFERENCE and not (tid.equal(h5t.STD_REF_OBJ) or tid.equal(h5t.STD_REF_DSETREG)):
        out["bytes"] = ANY  # h5py returns the size in memory
    if tid.detect_class(h5t.VLEN) or tid.detect_class(h5t.REFERENCE) or tid.detect_class(h5t.STRING):
        out["bytes"] = ANY
    if kind == h5t.COMPOUND:
        out["members"] = [
            [
                text(tid.get_member_name(i)),
                ANY if out["bytes"] is ANY else tid.get_member_offset(i),
                type_of(tid.get_member_type(i)),
            ]
            for i in range(tid.get_nmembers())
        ]
    if kind == h5t.ENUM:
        out["names"] = [text(tid.get_member_name(i)) for i in range(tid.get_nmembers())]
    if kind == h5t.ARRAY:
        out["shape"] = list(tid.get_array_dims())
    if kind in (h5t.ENUM, h5t.ARRAY, h5t.VLEN):
        out["base"] = type_of(tid.get_super())
    if kind == h5t.VLEN:
        out |= {"bytes": ANY, "text": False}
    return out


def items_of(tid: Any) -> dict[str, Any]:
    """Python's reading of a type: an element type with its codecs, or the reason why it is not supported."""
    try:
        stored = types.stored_type(tid)
    except UnsupportedError as error:
        return {"error": error.message}
    return {"dtype": stored.dtype, "shape": list(stored.shape), "codecs": stored.codecs}


def codecs_of(filters: list[Any], item: int) -> list[Any]:
    out: list[Any] = []
    for number, _, values, name in filters:
        try:
            out.append(codec_of(number, tuple(int(v) & 0xFFFFFFFF for v in values), item, name))
        except UnsupportedError as error:
            out.append(error.message)
    return out


def text(raw: str | bytes) -> str:
    return (raw.encode("utf-8", "surrogateescape") if isinstance(raw, str) else raw).decode("utf-8", "replace")


def includes(found: Any, wanted: Any) -> bool:
    """Whether `found` includes `wanted`; NaNs are equal, and numbers are compared by value."""
    if wanted is ANY:
        return True
    if isinstance(found, dict) and "boxes" in found and isinstance(wanted, dict) and "start" in wanted:
        return sorted(found["boxes"]) == sorted(n for box in boxes_of(wanted) for n in box)
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(k in found and includes(found[k], v) for k, v in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(includes, found, wanted))
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)


def attributes_of(node: Any) -> dict[str, Any]:
    """The attributes as Zarr metadata writes them; None for those that h5py does not read."""
    out = {}
    for name in node.attrs:
        try:
            value = types.attribute(node, name)
        except Exception:  # h5py raises exceptions of any type
            out[text(name)] = None
            continue
        if isinstance(value, h5py.Empty):
            value = "" if value.dtype.kind in "SO" else None
        out[text(name)] = types.attributes_json({"x": netcdf_value(value)})["x"]
    return out


def mapping_of(plist: Any, number: int) -> list[Any]:
    """A mapping of a virtual dataset. For selections that HDF5 writes in several forms, only their kind."""
    from h5py import h5s

    def selection(space: Any) -> Any:
        kind = space.get_select_type()
        if kind == h5s.SEL_ALL:
            return "all"
        if kind != h5s.SEL_HYPERSLABS or not space.is_regular_hyperslab():
            return ANY
        parts = [[None if n == h5s.UNLIMITED else int(n) for n in part] for part in space.get_regular_hyperslab()]
        return dict(zip(("start", "stride", "count", "block"), parts, strict=True))

    return [
        text(plist.get_virtual_filename(number)),
        text(plist.get_virtual_dsetname(number)),
        selection(plist.get_virtual_srcspace(number)),
        selection(plist.get_virtual_vspace(number)),
    ]


def boxes_of(regular: dict[str, list[Any]]) -> list[list[int]]:
    """The blocks of a regular selection as HDF5 before 1.10 writes them: first and last positions."""
    axes = zip(*(regular[key] for key in ("start", "stride", "count", "block")), strict=True)
    starts = [[(a + i * step, block) for i in range(count)] for a, step, count, block in axes]
    return [[*(a for a, _ in at), *(a + n - 1 for a, n in at)] for at in itertools.product(*starts)]


def links_of(group: Any) -> dict[str, tuple[Any, ...]]:
    from h5py import h5l

    out = {}
    for raw in group.id:
        kind = group.id.links.get_info(raw).type
        if kind == h5l.TYPE_HARD:
            out[text(raw)] = ("hard",)
        elif kind == h5l.TYPE_SOFT:
            out[text(raw)] = ("soft", text(group.id.links.get_val(raw)))
        elif kind == h5l.TYPE_EXTERNAL:
            file, target = group.id.links.get_val(raw)
            out[text(raw)] = ("external", text(file), text(target))
        else:
            out[text(raw)] = ("user",)
    return out


def found_links(links: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {each["name"]: tuple(each[key] for key in ("kind", "file", "target") if key in each) for each in links}


def differences(path: Path, objects: dict[str, dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The differences between the description and what h5py reads of the file."""
    by_address = {each["address"]: each for each in objects.values()}
    out: list[tuple[Any, ...]] = []
    seen = set()

    def compare(what: str, where: str, found: Any, wanted: Any) -> None:
        if not includes(found, wanted):
            out.append((where, what, found, wanted))

    def visit(node: Any, where: str) -> None:
        info = h5py.h5o.get_info(node.id)
        if info.addr in seen:
            return
        seen.add(info.addr)
        found = by_address.get(info.addr)
        if found is None:
            out.append((where, "is missing"))
            return
        kind = {h5py.Group: "group", h5py.File: "group", h5py.Dataset: "dataset", h5py.Datatype: "type"}[type(node)]
        compare("kind", where, found.get("kind"), kind)
        try:
            wanted = attributes_of(node)
        except Exception:
            wanted = None
        for name, value in (wanted or {}).items():
            if value is None:
                compare("attribute", where, name in found.get("attributes", {}), True)
            else:
                compare("attribute " + name, where, found.get("attributes", {}).get(name, "(missing)"), value)
        if wanted is not None:
            compare("attributes", where, sorted(found.get("attributes", {})), sorted(wanted))
        if kind == "group":
            wanted_links = links_of(node)
            compare(
                "links",
                where,
                [[k, *v] for k, v in sorted(found_links(found.get("links", [])).items())],
                [[k, *v] for k, v in sorted(wanted_links.items())],
            )
            for raw in node.id:
                if node.id.links.get_info(raw).type == h5py.h5l.TYPE_HARD:
                    try:
                        child = node[raw]
                    except Exception:
                        continue
                    visit(child, f"{where.rstrip('/')}/{text(raw)}")
        elif kind == "type":
            compare("type", where, found.get("type"), type_of(node.id))
            compare("items", where, found.get("items"), items_of(node.id))
        else:
            compare_dataset(node, found, where)

    def compare_dataset(node: Any, found: dict[str, Any], where: str) -> None:
        compare("type", where, found.get("type"), type_of(node.id.get_type()))
        compare("items", where, found.get("items"), items_of(node.id.get_type()))
        grows = node.is_virtual and None in node.maxshape  # the library computes the shape from the sources
        if not grows:
            compare("shape", where, found.get("shape"), None if node.shape is None else list(node.shape))
        if node.shape is not None:
            compare("maxshape", where, found.get("maxshape"), list(node.maxshape))
        plist = node.id.get_create_plist()
        layouts = ["compact", "contiguous", "chunked", "virtual"]
        compare("layout", where, found.get("layout"), layouts[plist.get_layout()])
        if node.chunks is not None:
            compare("chunks", where, found.get("chunks"), list(node.chunks))
        filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        compare("filters", where, found.get("filters"), [[f[0], [int(v) & 0xFFFFFFFF for v in f[2]]] for f in filters])
        if node.chunks is not None:
            compare("codecs", where, found.get("codecs"), codecs_of(filters, node.id.get_type().get_size()))
        external = [
            [text(name), offset, size]
            for name, offset, size in map(plist.get_external, range(plist.get_external_count()))
        ]
        if external and not any(size > 1 << 62 for _, _, size in external):
            compare("external", where, found.get("external"), external)
        if node.is_virtual:
            compare(
                "mappings",
                where,
                found.get("mappings"),
                [mapping_of(plist, i) for i in range(plist.get_virtual_count())],
            )
        defined = plist.fill_value_defined()
        fill = found.get("fill")
        compare("fill", where, {"undefined": 0, "zeros": 1}.get(fill, 2) if isinstance(fill, str) else 2, int(defined))
        if defined == h5py.h5d.FILL_VALUE_USER_DEFINED:
            try:
                value = types.attributes_json({"x": node.fillvalue})["x"]
            except Exception:
                return
            compare("fill", where, found.get("fill"), [value])

    with h5py.File(path, "r") as file:
        visit(file, "/")
    return out


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("many", [0, 40, 3000])
def test_groups_of_all_sizes(tmp_path, libver, many):
    """Links in object headers, symbol tables, and fractal heaps of one block and of many rows."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["x"] = np.arange(5)
        file["soft"] = h5py.SoftLink("/x")
        file["gone"] = h5py.SoftLink("nowhere/x")
        file["other"] = h5py.ExternalLink("other.h5", "/a/b")
        group = file.create_group("group", track_order=True)
        for i in range(many):
            group[f"{i * 7919 % 10007:05}" + "n" * (i % 50)] = h5py.SoftLink(f"/x{i}")
            group.attrs[f"a{i}"] = i
        file["again"] = group
    objects, *_ = described(path)
    assert differences(path, objects) == []
    names = [each["name"] for each in objects["/again"]["links"]]
    assert len(names) == many
    if libver == "latest":
        assert names[:3] == ["00000", "07919n", "05831nn"][: len(names)]  # in the order of creation


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_of_every_type(tmp_path, libver):
    path = tmp_path / "x.h5"
    structure = np.dtype({"names": ["a", "b", "c"], "formats": ["<i2", ">f8", ("<u4", (3,))], "offsets": [0, 4, 16]})
    values: dict[str, Any] = {
        "text": "grün",
        "texts": ["a", "", "ccc"],
        "bytes": np.bytes_(b"ab"),
        "fixed": np.array([b"ab", b"c"], "S4"),
        "one": np.array([3.5], ">f4"),
        "nan": np.float64("nan"),
        "big": np.arange(20000, dtype=">i4"),  # more than an object header holds
        "small": np.int8(-3),
        "unsigned": np.uint64(2**64 - 1),
        "half": np.float16([1.5, 6e-8, -np.inf]),
        "flag": np.bool_(True),
        "complex": np.complex64(1 - 2j),
        "structure": np.array([(1, 2.5, [1, 2, 3])], structure),
        "void": np.void(b"abc"),
        "none": np.zeros((0, 3), "i4"),
        "grid": np.arange(6, dtype="u2").reshape(2, 3),
        "empty": h5py.Empty("f4"),
        "no text": h5py.Empty("S3"),
    }
    with h5py.File(path, "w", libver=libver) as file:
        for name, value in values.items():
            if libver == "earliest" and name == "big":
                continue  # beyond the old limit of 64 KiB
            file.attrs[name] = value
        lists = np.empty(2, object)
        lists[:] = [np.arange(3, dtype="i4"), np.arange(1, dtype="i4")]
        file.attrs.create("lists", lists, dtype=h5py.vlen_dtype("i4"))
        file.attrs.create("enum", 2, dtype=h5py.enum_dtype({"A": 1, "B": 2}))
        file["named"] = np.dtype("<f8")
        file.attrs.create("named", 2.5, dtype=file["named"])
        file.create_dataset("shared", (3,), dtype=file["named"], fillvalue=7)
        file.attrs["ref"] = file["shared"].ref
        file.attrs["region"] = file["shared"].regionref[1:]
    objects, *_ = described(path)
    assert differences(path, objects) == []
    assert objects["/"]["attributes"]["texts"] == ["a", "", "ccc"]
    assert objects["/shared"]["fill"] == [7.0]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_items_and_codecs_of_every_type_and_filter(tmp_path, libver):
    """The engine derives the same from types and filters as Python does, refusals included."""
    from h5py import h5s, h5t

    path = tmp_path / "x.h5"
    gaps = {"names": ["t", "n", "s"], "formats": ["S3", ">f8", ("S2", (2,))], "offsets": [1, 8, 20], "itemsize": 32}
    inner = np.dtype([("a", "S4"), ("b", "<i2")])
    kinds: list[Any] = ["i1", ">u2", "<f2", ">f4", "c8", ">c16", "S7", "V5", "?", "M8[s]", np.dtype(gaps)]
    kinds += [np.dtype([("x", inner, (2,)), ("r", "f4"), ("i", "f4")]), np.dtype(("<i4", (2, 3))), h5py.string_dtype()]
    kinds += [h5py.enum_dtype({"A": 1, "B": 2}), h5py.vlen_dtype("i4"), h5py.ref_dtype, np.longdouble]
    bits = h5t.STD_I16BE.copy()
    bits.set_precision(10)
    bits.set_offset(3)
    spaces = h5t.C_S1.copy()
    spaces.set_size(6)
    spaces.set_strpad(h5t.STR_SPACEPAD)
    odd = h5t.STD_U32LE.copy()
    odd.set_size(3)
    holder = h5t.create(h5t.COMPOUND, 12)
    holder.insert(b"bits", 4, bits)
    with h5py.File(path, "w", libver=libver) as file:
        for i, kind in enumerate(kinds):
            stored = h5py.opaque_dtype(np.dtype(kind)) if kind == "M8[s]" else kind
            file.create_dataset(f"type {i}", (4,), dtype=stored)
        for i, tid in enumerate([bits, spaces, odd, holder, h5t.STD_B16LE, h5t.UNIX_D32LE]):
            h5py.h5d.create(file.id, b"own %d" % i, tid, h5s.create_simple((4,)))
        options: list[dict[str, Any]] = [{"compression": "gzip", "compression_opts": 3, "shuffle": True}]
        options += [{"compression": "lzf", "fletcher32": True}, {"scaleoffset": 4}]
        for i, each in enumerate(options):
            file.create_dataset(f"filter {i}", (40,), ">i4", chunks=(10,), **each)
        for number, values in [(5, ()), (307, (12,)), (32001, ()), (32001, (2, 2, 8, 0, 5, 2, 5)), (32008, (0, 4))]:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk((10,))
            plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, values)
            name = b"optional %d %d" % (number, len(values))
            h5py.h5d.create(file.id, name, h5t.STD_I32LE, h5s.create_simple((40,)), plist)
    objects, *_ = described(path)
    assert differences(path, objects) == []
    errors = [each["items"]["error"] for each in objects.values() if "error" in each.get("items", {})]
    assert {"HDF5 elements of H5T_TIME are not readable"} <= {*errors}
    assert len([each for each in objects.values() if each.get("codecs")]) >= 4


@pytest.mark.parametrize("libver", ["earliest", ("v110", "v110"), "latest"])
def test_virtual_datasets_of_every_kind_of_mapping(tmp_path, libver):
    """Names that mappings share, the same file, steps, points, gaps, and dimensions without a limit."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["y"] = np.arange(10)
        layout = h5py.VirtualLayout((40, 10), "i4", maxshape=(None, 10))
        for i, (name, dataset) in enumerate(
            [("a.h5", "long/name"), ("a.h5", "other"), ("b.h5", "long/name"), (".", "y")]
        ):
            layout[2 * i] = h5py.VirtualSource(name, dataset, (10,))
        layout[20, ::2] = h5py.VirtualSource("a.h5", "steps", (3, 10))[1, ::2]
        file.create_virtual_dataset("x", layout)
        grows = h5py.VirtualLayout((5, 10), "i4", maxshape=(None, 10))
        grows[: h5py.h5s.UNLIMITED] = h5py.VirtualSource("c.h5", "x", (5, 10), maxshape=(None, 10))[
            : h5py.h5s.UNLIMITED
        ]
        file.create_virtual_dataset("grows", grows)
    objects, *_ = described(path)
    assert differences(path, objects) == []
    assert [each[:2] for each in objects["/x"]["mappings"]][:4] == [
        ["a.h5", "long/name"],
        ["a.h5", "other"],
        ["b.h5", "long/name"],
        [".", "y"],
    ]


def test_a_deep_file_needs_few_rounds(tmp_path):
    """Objects of one level are fetched together: the number of rounds depends on the depth only."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        for i in range(300):
            group = file.create_group(f"g{i}")
            group.create_dataset("x", data=np.arange(4096), chunks=(100,))  # values between the objects
            group.attrs["units"] = "K"
    objects, rounds, requests, fetched = described(path)
    assert differences(path, objects) == []
    assert len(objects) == 601
    assert rounds <= 12, (rounds, requests, fetched)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="PENSTOCK_CORPUS is not here")
def test_the_corpus_is_described_as_h5py_reads_it():
    """Every link, type, shape, fill value, filter and attribute of every file that h5py opens."""
    compared = 0
    for path in sorted(CORPUS.rglob("*")):
        if path.suffix not in (".h5", ".hdf5", ".nc", ".nc4", ".he5") or "cve_hdf5" in str(path):
            continue
        try:
            h5py.File(path, "r").close()
        except (OSError, RuntimeError):
            continue
        objects, *_ = described(path)
        assert differences(path, objects) == [], path
        compared += 1
    assert compared > 360
