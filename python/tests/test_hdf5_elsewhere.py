"""Elements of HDF5 datasets that are stored elsewhere in the file: text and lists in heaps, references to objects."""

from __future__ import annotations

import ctypes
import io
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import ROUND_TRIP, HttpServer

h5py = pytest.importorskip("h5py")

ITEMS = ["i1", "<u2", ">i4", "<i8", "<f4", ">f8", "<c8", "?", "S3"]
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (3, 4)},
    "gzip": {"chunks": (4, 3), "compression": "gzip", "shuffle": True},
    "unlimited": {"chunks": (2, 5), "maxshape": (None, None)},
}
SHAPE = (7, 10)


def words(count: int) -> list[str]:
    texts = ["", "a", "süß", "x" * 300, "日本語", "last"]
    return [f"{texts[i % len(texts)]}{i if i % 7 else ''}" for i in range(count)]


def lists(item: str, shape: tuple[int, ...]) -> np.ndarray:
    random = np.random.default_rng(3)
    out = np.empty(shape, object)
    for at in np.ndindex(shape):
        values = random.integers(0, 100, random.integers(0, 6))
        out[at] = values.astype(item) if item != "S3" else np.array([b"%d" % v for v in values], "S3")
    return out


def same_lists(got: np.ndarray, want: np.ndarray) -> bool:
    pairs = zip(got.ravel().tolist(), want.ravel().tolist(), strict=True)
    return got.shape == want.shape and all(
        a.dtype == b.dtype.newbyteorder("=") and np.array_equal(a, b) for a, b in pairs
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_text_in_every_layout(tmp_path: Path, layout: str, encoding: str) -> None:
    texts = words(70) if encoding == "utf-8" else [str(i) * (i % 9) for i in range(70)]
    values = np.array(texts, object).reshape(SHAPE)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=values, dtype=h5py.string_dtype(encoding), **LAYOUTS[layout])
    array = ps.open(tmp_path / "x.h5", "x")
    want = values if encoding == "utf-8" else np.vectorize(str.encode, otypes=[object])(values)
    assert array.chunks == LAYOUTS[layout].get("chunks", SHAPE)
    for which in [
        ...,
        (slice(2, 7, 2), slice(None, None, 3)),
        (3, 4),
        ([5, 0, 5], slice(1, 9)),
        (slice(0), slice(None)),
    ]:
        assert np.asarray(array[which], object).tolist() == np.asarray(want[which]).tolist()


@pytest.mark.parametrize(("item", "layout"), list(itertools.product(ITEMS, LAYOUTS)))
def test_lists_in_every_layout(tmp_path: Path, item: str, layout: str) -> None:
    values = lists(item, SHAPE)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", SHAPE, h5py.vlen_dtype(np.dtype(item)), **LAYOUTS[layout])
        for at in np.ndindex(SHAPE):
            made[at] = values[at]
        if np.dtype(item).isnative:  # h5py returns the stored bytes of others with a wrong dtype
            assert same_lists(made[...], values)
    array = ps.open(tmp_path / "x.h5", "x")
    assert array.dtype == np.dtype("O")
    assert same_lists(array[...], values)
    assert same_lists(array[1:6:2, ::3], values[1:6:2, ::3])
    one = array[4, 5]
    assert one.tolist() == values[4, 5].tolist()
    assert one.flags.writeable


def test_lists_of_structures_and_of_named_numbers(tmp_path: Path) -> None:
    pair = np.dtype([("a", "<i2"), ("b", ">f8")], align=True)
    colour = h5py.enum_dtype({"red": 1, "blue": 2}, "i2")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("pairs", (2,), h5py.vlen_dtype(pair))
        made[0] = np.array([(1, 2.5), (3, 4.5)], pair)
        named = file.create_dataset("colours", (2,), h5py.vlen_dtype(colour))
        named[1] = np.array([2, 1, 2], "i2")
    pairs = ps.open(tmp_path / "x.h5", "pairs")[...]
    assert pairs[0].tolist() == [(1, 2.5), (3, 4.5)]
    assert pairs[0].dtype.names == ("a", "b")
    assert pairs[1].shape == (0,)
    assert [each.tolist() for each in ps.open(tmp_path / "x.h5", "colours")[...]] == [[], [2, 1, 2]]


def library() -> ctypes.CDLL:
    found = list((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*.so*"))
    if not found:
        pytest.skip("h5py has no HDF5 library of its own")
    return ctypes.CDLL(str(found[0]))


def item_types() -> dict[str, tuple[Any, str]]:
    """Stored types of items that differ from those in memory, and NumPy's types for them."""
    h5t = h5py.h5t

    def changed(base: Any, **settings: Any) -> Any:
        made = base.copy()
        for name, values in settings.items():
            getattr(made, f"set_{name}")(*values)
        return made

    return {
        "text that ends with zero": (changed(h5t.C_S1, size=(5,), strpad=(h5t.STR_NULLTERM,)), "S5"),
        "text with spaces": (changed(h5t.C_S1, size=(5,), strpad=(h5t.STR_SPACEPAD,)), "S5"),
        "integers of 3 bytes": (changed(h5t.STD_I32LE, precision=(24,), size=(3,)), "i4"),
        "integers of 12 bits": (changed(h5t.STD_I16BE, precision=(12,)), "i2"),
        "floats of 3 bytes": (
            changed(h5t.IEEE_F32LE, fields=(23, 15, 8, 0, 15), precision=(24,), size=(3,)),
            "f4",
        ),
    }


def write_lists(made: Any, lists: list[np.ndarray], item: Any) -> None:
    """Writes lists of items of an HDF5 type in memory: h5py converts no items and has no lists of arrays, but its
    library does, from its own structures."""
    structures = np.array([(len(each), each.ctypes.data) for each in lists], "u8")
    kind = h5py.h5t.vlen_create(item)
    everything = ctypes.c_int64(0)
    handles = ctypes.c_int64(made.id), ctypes.c_int64(kind.id)
    memory = structures.ctypes.data_as(ctypes.c_void_p)
    assert library().H5Dwrite(*handles, everything, everything, everything, memory) >= 0


@pytest.mark.parametrize("name", ["<i4", ">f8", "integers of 3 bytes", "text with spaces"])
def test_lists_of_arrays(tmp_path: Path, name: str) -> None:
    types = item_types()
    stored, item = types[name] if name in types else (h5py.h5t.py_create(np.dtype(name)), name[1:])
    values = np.arange(-9, 33).reshape(7, 2, 3)
    values = np.char.mod("%d", values).astype("S5") if item == "S5" else values.astype(item)
    want = [values[:3], values[:0], values[3:4], values[2:]]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        kind = h5py.h5t.vlen_create(h5py.h5t.array_create(stored, (2, 3)))
        made = h5py.h5d.create(file.id, b"x", kind, h5py.h5s.create_simple((2, 2)))
        write_lists(made, want, h5py.h5t.array_create(h5py.h5t.py_create(np.dtype(item)), (2, 3)))
        if name == "<i4":
            assert [each.tolist() for each in file["x"][...].ravel()] == [each.tolist() for each in want]
    array = ps.open(tmp_path / "x.h5", "x")
    got = array[...]
    assert got.shape == (2, 2)
    assert [(each.shape, each.dtype) for each in got.ravel()] == [(each.shape, each.dtype) for each in want]
    assert [each.tolist() for each in got.ravel()] == [each.tolist() for each in want]
    assert array[1, 0].tolist() == want[2].tolist()
    assert array.dtype.metadata == {"vlen": np.dtype((item, (2, 3)))}
    ps.save_manifest(array, tmp_path / "x.manifest")
    again = ps.open(tmp_path / "x.manifest")[...]
    assert [each.tolist() for each in again.ravel()] == [each.tolist() for each in want]
    with pytest.raises(ps.UnsupportedError, match="lists in Zarr have single items of a fixed size"):
        ps.copy(array, tmp_path / "y.zarr", zarr_format=2)
    with pytest.warns(UserWarning, match="single items of a fixed size"):
        ps.copy(tmp_path / "x.h5", tmp_path / "z.zarr", zarr_format=2)


@pytest.mark.parametrize("name", item_types())
@pytest.mark.parametrize("chunks", [None, (3,)])
def test_items_of_lists_are_converted(tmp_path: Path, name: str, chunks: tuple[int, ...] | None) -> None:
    stored, item = item_types()[name]
    numbers = [[], [1, -2, 3], [100] * 50, [0], [], [7, 8, -9, 10]]
    want = [np.array([b"%d" % abs(v) for v in each] if item == "S5" else each, item) for each in numbers]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if chunks is not None:
            properties.set_chunk(chunks)
        space = h5py.h5s.create_simple((len(want),))
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.vlen_create(stored), space, properties)
        write_lists(made, want, h5py.h5t.py_create(np.dtype(item)))
    array = ps.open(tmp_path / "x.h5", "x")
    assert [each.tolist() for each in array[...]] == [each.tolist() for each in want]
    assert [each.dtype for each in array[...]] == [np.dtype(item)] * len(want)
    assert array[5].tolist() == want[5].tolist()


@pytest.mark.parametrize("kind", ["text", "list"])
def test_unwritten_elements_are_empty_or_the_fill_value(tmp_path: Path, kind: str) -> None:
    dtype = h5py.string_dtype() if kind == "text" else h5py.vlen_dtype("i4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("never", (3, 2), dtype)
        file.create_dataset("chunks", (5, 4), dtype, chunks=(2, 3))[3, 2] = "x" if kind == "text" else [1, 2]
        file.create_dataset("none", (0, 3), dtype, maxshape=(None, 3))
        file.create_dataset("one", (), dtype)[()] = "y" if kind == "text" else [5]
        cut = file.create_dataset("cut", (10,), dtype, chunks=(4,), maxshape=(None,))
        for i in range(10):
            cut[i] = str(i) if kind == "text" else [i]
        cut.resize((6,))
        if kind == "text":
            file.create_dataset("filled", (5, 4), dtype, chunks=(2, 3), fillvalue="süß")[0, 1] = "x"
            file.create_dataset("all filled", (3,), dtype, fillvalue="süß")
        want = {name: file[name][()] for name in file}
    group = ps.open_group(tmp_path / "x.h5")
    assert sorted(group) == sorted(want)
    for name, values in want.items():
        got = group[name][()]
        if kind == "list":
            assert same_lists(np.asarray(got, object), values) if name != "one" else got.tolist() == [5]
        else:
            texts = np.vectorize(lambda each: each.decode(), otypes=[object])(values) if np.size(values) else values
            assert np.asarray(got, object).tolist() == np.asarray(texts, object).tolist(), name


def test_values_are_read_when_they_are_needed(tmp_path: Path) -> None:
    """In a remote file: opening it does not read all values, and a chunk does not take a round trip of its own."""
    texts = [f"{i:06} " + "x" * 200 for i in range(20_000)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=texts, dtype=h5py.string_dtype(), chunks=(500,))
        rows = file.create_dataset("rows", (400,), h5py.vlen_dtype("f8"), chunks=(50,))
        for i in range(400):
            rows[i] = np.arange(i % 50, dtype="f8")
    content = (tmp_path / "x.h5").read_bytes()
    with HttpServer({"x.h5": content}, latency=ROUND_TRIP) as server:

        def fetched() -> int:
            ranges = [each.headers["range"].removeprefix("bytes=").split("-") for each in server.requests]
            return sum(int(end) - int(begin) + 1 for begin, end in ranges)

        array = ps.open(f"{server.url}/x.h5", "x")
        assert fetched() < len(content) // 4
        assert array[7000] == texts[7000]
        assert fetched() < len(content) // 2
        server.requests.clear()
        assert array[:].tolist() == texts
        waves = {each.wave for each in server.requests}
        assert len(waves) <= 8
        server.requests.clear()
        lists = ps.open(f"{server.url}/x.h5", "rows")[:]
        assert [len(each) for each in lists] == [i % 50 for i in range(400)]


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    for text in ("before", "behind"):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("x", data=[text] * 3, dtype=h5py.string_dtype())
            file["more"] = np.arange(len(text) * 100)
        if text == "before":
            array = ps.open(tmp_path / "x.h5", "x")
            assert array[0] == "before"
    with pytest.raises(ps.Error, match="changed"):
        array[0]


def test_a_damaged_value_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (4,), h5py.vlen_dtype("i4"), chunks=(2,))
        for i in range(4):
            made[i] = [i] * 3
        place = made.id.get_chunk_info(1).byte_offset
    content = bytearray((tmp_path / "x.h5").read_bytes())
    content[place] = 250  # the heap has 3 of these 250 items
    array = ps.open(bytes(content), "x")
    assert array[0].tolist() == [0, 0, 0]
    with pytest.raises(ps.CorruptDataError, match=r"chunk.*\b1\b") as caught:
        array[2]
    assert "1000 bytes in an object of 12" in str(caught.value)


@pytest.mark.parametrize("target", ["zarr 2", "manifest", "numpy"])
def test_lists_are_copied_and_saved(tmp_path: Path, target: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (7, 4), h5py.vlen_dtype(">i4"), chunks=(3, 4), compression="gzip")
        want = lists(">i4", (7, 4))
        want[6] = [np.zeros(0, "i4")] * 4
        for at in np.ndindex(6, 4):
            made[at] = want[at]
    source = ps.open(tmp_path / "x.h5", "x")
    if target == "zarr 2":
        ps.copy(source, tmp_path / "y.zarr", zarr_format=2)
        assert same_lists(ps.open(tmp_path / "y.zarr")[...], want)
        with pytest.raises(ps.UnsupportedError, match="no data type in Zarr v3"):
            ps.copy(source, tmp_path / "z.zarr", zarr_format=3)
    elif target == "manifest":
        ps.save_manifest(source, tmp_path / "x.json")
        assert same_lists(ps.open(tmp_path / "x.json")[...], want)
    else:
        assert same_lists(np.asarray(source), want)


def test_lists_of_zarr_2_equal_those_of_numcodecs(tmp_path: Path) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    for item in ("<i4", ">f8", "|u1"):
        values = lists(item, (5, 3))
        where = tmp_path / item[1:]
        options: dict[str, Any] = {"filters": [numcodecs.VLenArray(item)], "compressors": None}
        array = ps.create_array(where, shape=(5, 3), chunks=(2, 2), dtype=object, zarr_format=2, **options)
        array[...] = values
        assert same_lists(ps.open(where)[...], values)
        chunk = numcodecs.VLenArray(item).decode((where / "0.0").read_bytes())
        assert [each.tolist() for each in chunk] == [each.tolist() for each in values[:2, :2].ravel()]
        wrong = np.empty(1, object)
        wrong[0] = np.zeros((2, 2), item)
        with pytest.raises(TypeError, match="one dimension"):
            array[0, :1] = wrong
        array[0, 0] = [1, 2, 3]
        assert array[0, 0].tolist() == [1, 2, 3]


def test_references_are_paths(tmp_path: Path) -> None:
    """MATLAB stores cell arrays like this, with the objects in `#refs#`."""
    with h5py.File(tmp_path / "x.mat", "w", libver="latest", userblock_size=512) as file:
        inner = file.create_group("#refs#")
        for i in range(5):
            inner[f"cell{i}"] = np.arange(i)
        file["deep/er/group/x"] = np.zeros(3)
        file["again"] = file["deep/er/group/x"]
        file["soft"] = h5py.SoftLink("/deep")
        refs = file.create_dataset("refs", (3, 3), h5py.ref_dtype, chunks=(2, 2))
        for i in range(5):
            refs[i // 3, i % 3] = inner[f"cell{i}"].ref
        refs[2, 0] = file["deep"].ref
        refs[2, 1] = file.ref
        refs[2, 2] = file["deep/er/group/x"].ref
        gone = file.create_dataset("gone", data=1)
        file.create_dataset("dangling", (1,), h5py.ref_dtype)[0] = gone.ref
        file["kept"] = gone
        del file["gone"], file["kept"]
    root = ps.open_group(tmp_path / "x.mat")
    got = root["refs"][...]
    cells = [f"/#refs#/cell{i}" for i in range(5)]
    assert np.asarray(got, object).ravel().tolist() == [*cells, "", "/deep", "/", "/again"]
    for i, path in enumerate(cells):
        assert root[path][...].tolist() == list(range(i))
    assert "without a path" in root["dangling"][0]


def test_paths_of_deep_groups_do_not_exhaust_memory(tmp_path: Path) -> None:
    """A long name above nested groups: all paths together would be hundreds of times as large as the file."""
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        refs = file.create_dataset("refs", (2,), h5py.ref_dtype)
        group = first = file.create_group("n" * 60_000)
        for _ in range(3000):
            group = group.create_group("g")
        refs[0], refs[1] = first.ref, group.ref
    assert 32 * (tmp_path / "x.h5").stat().st_size < 3000 * 60_000
    got = ps.open(tmp_path / "x.h5", "refs")[...]
    assert got[0] == "/" + "n" * 60_000
    assert "without a path" in got[1]


def test_references_to_regions_name_the_elements(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("a/data", data=np.arange(60).reshape(6, 10))
        refs = file.create_dataset("x", (6,), h5py.regionref_dtype)
        mask = np.zeros((6, 10), bool)
        mask[1, 2] = mask[5, 7] = True
        refs[0] = data.regionref[1:3, 4:9]
        refs[1] = data.regionref[::2, 3]
        refs[2] = data.regionref[mask]
        refs[3] = data.regionref[...]
        refs[4] = data.regionref[2:4, [1, 2, 7]]
    got = ps.open(tmp_path / "x.h5", "x")[...]
    assert got[0] == "/a/data[1:3, 4:9]"
    assert got[1] in ("/a/data[0:5:2, 3:4]", "/a/data[0:1, 3:4] + [2:3, 3:4] + [4:5, 3:4]")
    assert got[2] == "/a/data[(1, 2), (5, 7)]"
    assert got[3] in ("/a/data[...]", "/a/data[0:6, 0:10]")
    assert got[5] == ""
    numbers = [[int(n) for n in re.findall(r"\d+", box)] for box in got[4].split("+")]
    data = np.arange(60).reshape(6, 10)
    boxes = [data[a:b, c:d].ravel() for a, b, c, d in numbers]
    assert sorted(np.concatenate(boxes).tolist()) == [21, 22, 27, 31, 32, 37]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damaged_files_are_refused_or_read(tmp_path: Path, libver: str) -> None:
    """Damaged bytes in chunks of references, in heaps or in links never cause a crash or an unexpected exception."""
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        file.create_dataset("text", data=words(30), dtype=h5py.string_dtype(), chunks=(8,))
        rows = file.create_dataset("rows", (6,), h5py.vlen_dtype(">i4"), chunks=(4,))
        for i in range(6):
            rows[i] = np.arange(i, dtype=">i4")
        file.create_dataset("refs", data=[rows.ref, file["text"].ref], dtype=h5py.ref_dtype)
        regions = file.create_dataset("regions", (2,), h5py.regionref_dtype)
        regions[0], regions[1] = rows.regionref[1:3], rows.regionref[::2]
    sound = (tmp_path / "x.h5").read_bytes()
    random = np.random.default_rng(5)
    read = refused = 0
    for _ in range(300):
        content = bytearray(sound)
        for at in random.integers(0, len(sound), random.integers(1, 6)):
            content[at] = random.integers(0, 256)
        for name in ("text", "rows", "refs", "regions"):
            try:
                ps.open(bytes(content), name)[...]
                read += 1
            except ps.Error:
                refused += 1
    assert read > 100
    assert refused > 20


@pytest.mark.parametrize("source", ["path", "bytes", "file object", "fsspec", "http"])
def test_every_kind_of_source(tmp_path: Path, source: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("text", data=words(50), dtype=h5py.string_dtype(), chunks=(8,))
        rows = file.create_dataset("rows", (5,), h5py.vlen_dtype("i4"))
        for i in range(5):
            rows[i] = range(i)
        refs = file.create_dataset("refs", (1,), h5py.ref_dtype)
        refs[0] = rows.ref

    def check(target: Any) -> None:
        assert ps.open(target, "text")[...].tolist() == words(50)
        assert [each.tolist() for each in ps.open(target, "rows")[...]] == [list(range(i)) for i in range(5)]
        assert ps.open(target, "refs")[0] == "/rows"

    content = (tmp_path / "x.h5").read_bytes()
    if source == "path":
        check(tmp_path / "x.h5")
    elif source == "bytes":
        check(content)
    elif source == "file object":
        check(io.BytesIO(content))
    elif source == "fsspec":
        fsspec = pytest.importorskip("fsspec")
        with fsspec.open(f"file://{tmp_path}/x.h5") as stream:
            check(stream)
    else:
        with HttpServer({"x.h5": content}) as server:
            check(f"{server.url}/x.h5")


@pytest.mark.parametrize("source", ["path", "http"])
def test_references_in_attributes_are_paths(tmp_path: Path, source: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("deep/down/data", data=np.arange(12).reshape(3, 4))
        about = file.create_dataset("about", data=1)
        about.attrs["object"] = data.ref
        about.attrs["root"] = file.ref
        about.attrs["region"] = data.regionref[1:3, :3]
        about.attrs["several"] = np.array([data.ref, about.ref], h5py.ref_dtype)
        about.attrs["none"] = h5py.Reference()
        file.attrs["about"] = about.ref
        file["gone"] = 1
        about.attrs["gone"] = file["gone"].ref
        del file["gone"]
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        target = tmp_path / "x.h5" if source == "path" else f"{server.url}/x.h5"
        group = ps.open(target)
        found = group["about"].attrs.asdict()
        assert group.attrs["about"] == "/about"
        assert group[found["object"]][1, 2] == 6
    assert found["object"] == "/deep/down/data"
    assert found["root"] == "/"
    assert found["region"] == "/deep/down/data[1:3, 0:3]"
    assert found["several"] == ["/deep/down/data", "/about"]
    assert found["none"] == ""
    assert re.fullmatch(r"<object without a path at \d+>", found["gone"])


def test_regions_are_read_by_their_texts(tmp_path: Path) -> None:
    values = np.arange(70).reshape(7, 10)
    selections: list[Any] = [
        (slice(1, 3), slice(2, 9, 2)),
        (slice(0, 7), slice(3, 4)),
        (slice(None), slice(None)),
        (slice(2, 6), [1, 4, 5]),
        np.isin(values, [3, 33, 69]),
    ]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("group/data [1]", data=values)
        regions = file.create_dataset("group/regions", (len(selections) + 1,), h5py.regionref_dtype)
        for i, each in enumerate(selections):
            regions[i] = data.regionref[each]
        regions[-1] = h5py.RegionReference()
        want = [data[regions[i]] for i in range(len(selections))]
    group = ps.open(tmp_path / "x.h5", "group")
    texts = group["regions"][...].tolist()
    assert texts.pop() == ""
    for text, wanted in zip(texts, want, strict=True):
        found = group.region(text)
        assert sorted(found.ravel().tolist()) == sorted(np.ravel(wanted).tolist()), text
    assert group.region(texts[1]).shape == (7, 1)
    with pytest.raises(ps.InvalidArgumentError, match="not a region"):
        group.region("/group/regions")
    with pytest.raises(ps.InvalidArgumentError, match="a group"):
        group.region("/group[0:1]")


NEW = Path(__file__).parents[2] / "tests" / "data" / "hdf5" / "made" / "new_references.h5"
TARGETS = [
    "/data",
    "/data[1:4, 2:6]",
    "/data@units",
    "",
    "/group/inner",
    "/data[0:1, 1:2] + [0:1, 3:4] + [0:1, 5:6] + [2:3, 1:2] + [2:3, 3:4] + [2:3, 5:6]",
    "/data[(0, 1), (4, 7)]",
    "<object at 800 of other.h5>",
]


@pytest.mark.parametrize("where", ["local", "bytes", "http"])
def test_references_of_hdf5_1_12(tmp_path: Path, where: str) -> None:
    """H5T_STD_REF. The expected texts are what `tests/data/hdf5/made/new_references.py` refers to."""
    with HttpServer({"x.h5": NEW.read_bytes()}) as server:
        source: Any = {"local": NEW, "bytes": NEW.read_bytes(), "http": f"{server.url}/x.h5"}[where]
        group = ps.open_group(source)
        for name in ("contiguous", "chunked"):
            assert group[name][...].tolist() == TARGETS
            assert group[name][2] == TARGETS[2]
            assert group[name].storage["dtype"].metadata["reference"] is True
        assert list(group["data"].attrs["references"]) == TARGETS
        values = group["data"][...]
        np.testing.assert_array_equal(group[TARGETS[0]][...], values)
        np.testing.assert_array_equal(group.region(TARGETS[1]), values[1:4, 2:6])
    ps.copy(ps.open(NEW, "chunked"), tmp_path / "copy.zarr")
    assert ps.open(tmp_path / "copy.zarr")[...].tolist() == TARGETS


@pytest.mark.parametrize("kind", ["text", "list", "reference", "region"])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_arrays_of_text_lists_and_references(tmp_path: Path, kind: str, compression: str | None) -> None:
    """An array type adds its axes. h5py cannot write these, so the chunks are copied from an ordinary dataset."""
    base = {
        "text": h5py.string_dtype(),
        "list": h5py.vlen_dtype("i2"),
        "reference": h5py.ref_dtype,
        "region": h5py.regionref_dtype,
    }[kind]
    shape, chunks, inner = (5, 4), (3, 2), (2, 3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["data"] = np.arange(10)
        plain = file.create_dataset("plain", shape + inner, base, chunks=chunks + inner, compression=compression)
        want = np.empty(plain.shape, object)
        for number, at in enumerate(np.ndindex(*plain.shape)):
            if kind == "text":
                plain[at] = want[at] = "x" * (number % 5) + str(number)
            elif kind == "list":
                plain[at] = want[at] = np.arange(number % 4, dtype="i2")
            elif kind == "reference":
                plain[at], want[at] = file["data"].ref, "/data"
            else:
                plain[at], want[at] = file["data"].regionref[number % 7 : 8], f"/data[{number % 7}:8]"
        file.flush()
        create = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        create.set_chunk(chunks)
        if compression:
            create.set_deflate(4)
        item = h5py.h5t.array_create(h5py.h5t.py_create(base, logical=True), inner)
        made = h5py.h5d.create(file.id, b"x", item, h5py.h5s.create_simple(shape), create)
        for i in range(plain.id.get_num_chunks()):
            offset = plain.id.get_chunk_info(i).chunk_offset
            mask, content = plain.id.read_direct_chunk(offset)
            made.write_direct_chunk(offset[:2], content, mask)
    a = ps.open(tmp_path / "x.h5", "x")
    assert a.shape == shape + inner
    assert a.chunks == chunks + inner
    for which in (..., (slice(1, 4), slice(None), 1), (4, 3, 1, slice(None, None, 2))):
        got = a[which]
        if kind == "list":
            assert same_lists(got, want[which])
        else:
            assert got.tolist() == want[which].tolist()


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_members_that_are_arrays_of_text_or_lists(tmp_path: Path, chunks: tuple[int, ...] | None) -> None:
    fields = [
        ("number", "<i4"),
        ("names", h5py.string_dtype(), (3,)),
        ("lists", h5py.vlen_dtype("<u2"), (2,)),
        ("last", ">f8"),
    ]
    values = np.zeros(5, np.dtype(fields))
    for i in range(5):
        values[i]["number"] = i
        values[i]["names"] = [f"{i} {k}" * k for k in range(3)]
        values[i]["lists"][0] = np.arange(i, dtype="<u2")
        values[i]["lists"][1] = np.arange(3, dtype="<u2") + i
        values[i]["last"] = i / 2
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("table", data=values, dtype=np.dtype(fields), chunks=chunks)
    table = ps.open(tmp_path / "x.h5", "table")
    assert table["names"].shape == (5, 3)
    assert table["names"][...].tolist() == values["names"].tolist()
    assert same_lists(table["lists"][...], values["lists"])
    assert same_lists(table["lists"][3:, 1:], values["lists"][3:, 1:])
    rows = table[1:4]
    assert rows["number"].tolist() == [1, 2, 3]
    assert rows["names"].tolist() == values["names"][1:4].tolist()
    assert same_lists(rows["lists"], values["lists"][1:4])
