"""Virtual datasets and external files: every kind of mapping, as h5py reads it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest
from support.http_server import ROUND_TRIP, HttpServer

h5py = pytest.importorskip("h5py")

SOURCES: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (3, 4)},
    "gzip": {"chunks": (4, 7), "compression": "gzip", "shuffle": True},
    "one chunk": {"chunks": (24, 18), "compression": "gzip"},
    "rows": {"chunks": (1, 18), "compression": "lzf"},
}


def _values(number: int, shape: tuple[int, ...] = (24, 18), dtype: Any = "<i4") -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) + 1000 * (number + 1)).astype(dtype)


def _sources(folder: Path, count: int, **options: Any) -> None:
    for i in range(count):
        with h5py.File(folder / f"s{i}.h5", "w") as file:
            file.create_dataset("x", data=_values(i), **options)


def _same(path: Path, name: str = "v") -> penstock.Array:
    """The dataset is what h5py reads, as a whole and in parts."""
    with h5py.File(path) as file:
        expected = file[name][...]
    a = penstock.open(path, name)
    assert isinstance(a, penstock.Array)
    assert a.shape == expected.shape
    np.testing.assert_array_equal(a[...], expected)
    random = np.random.default_rng(5)
    for _ in range(8):
        where = []
        for length in expected.shape:
            first, last = sorted(random.integers(0, length + 1, 2))
            where.append(slice(first, last, int(random.integers(1, 4))))
        np.testing.assert_array_equal(a[tuple(where)], expected[tuple(where)])
    if expected.size:
        points = tuple(random.integers(0, length, 20) for length in expected.shape)
        if points:
            np.testing.assert_array_equal(a.vindex[points], expected[points])
            rows = random.integers(0, expected.shape[0], 5)
            np.testing.assert_array_equal(a.oindex[rows], expected[rows])
    return a


@pytest.mark.parametrize("options", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    "mapping",
    [
        "stacked",
        "behind",
        "next to each other",
        "parts",
        "interleaved",
        "every other",
        "mosaic",
        "gaps",
        "overlapping blocks",
    ],
)
def test_mappings_of_boxes(tmp_path: Path, options: dict[str, Any], mapping: str) -> None:
    _sources(tmp_path, 4, **options)
    sources = [h5py.VirtualSource(f"s{i}.h5", "x", (24, 18)) for i in range(4)]
    if mapping == "stacked":
        layout = h5py.VirtualLayout((4, 24, 18), "<i4")
        for i, source in enumerate(sources):
            layout[i] = source
    elif mapping == "behind":
        layout = h5py.VirtualLayout((96, 18), "<i4")
        for i, source in enumerate(sources):
            layout[24 * i : 24 * (i + 1)] = source
    elif mapping == "next to each other":
        layout = h5py.VirtualLayout((24, 72), "<i4")
        for i, source in enumerate(sources):
            layout[:, 18 * i : 18 * (i + 1)] = source
    elif mapping == "parts":
        layout = h5py.VirtualLayout((30, 11), "<i4")
        for i, source in enumerate(sources):
            layout[7 * i : 7 * (i + 1)] = source[5 + i : 12 + i, 3:14]
    elif mapping == "interleaved":
        layout = h5py.VirtualLayout((96, 18), "<i4")
        for i, source in enumerate(sources):
            layout[i::4] = source
    elif mapping == "every other":
        layout = h5py.VirtualLayout((4, 12, 6), "<i4")
        for i, source in enumerate(sources):
            layout[i] = source[::2, ::3]
    elif mapping == "mosaic":
        layout = h5py.VirtualLayout((48, 36), "<i4", maxshape=(None, None))
        for i, source in enumerate(sources):
            row, column = divmod(i, 2)
            layout[24 * row : 24 * row + 24, 18 * column : 18 * column + 18] = source
    elif mapping == "gaps":
        layout = h5py.VirtualLayout((120, 20), "<i4")
        for i, source in enumerate(sources):
            layout[30 * i + 2 : 30 * i + 26, 1:19] = source
    else:  # the same source several times
        layout = h5py.VirtualLayout((3, 10, 18), "<i4")
        for i in range(3):
            layout[i] = sources[0][3 * i : 3 * i + 10]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
    _same(tmp_path / "v.h5")


def test_frames_that_come_by_turns_are_parts_of_chunks(tmp_path: Path) -> None:
    """Frames of four writers, ten in a chunk, by turns: each frame of the dataset is a part of a chunk."""
    _sources(tmp_path, 4, chunks=(8, 18), compression="gzip", shuffle=True)
    layout = h5py.VirtualLayout((96, 18), "<i4")
    for i in range(4):
        layout[i::4] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    a = _same(tmp_path / "v.h5")
    assert a.nchunks == 96
    plan = a.plan(...)
    assert plan.requests == 4
    reversed_rows = a[::-1]
    np.testing.assert_array_equal(reversed_rows[::-1], a[...])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">u2", "|u1", "<c8", [("a", "<i2"), ("b", ">f8")], ("<f4", (3, 2))])
def test_types(tmp_path: Path, dtype: Any) -> None:
    dtype = np.dtype(dtype)
    values = np.zeros((12, 10), dtype if dtype.subdtype is None else dtype.base)
    if dtype.subdtype is not None:
        values = np.arange(12 * 10 * 6).reshape(12, 10, 3, 2).astype(dtype.base)
    elif dtype.names:
        values["a"] = np.arange(120).reshape(12, 10)
        values["b"] = values["a"] / 3
    else:
        values = np.arange(120).reshape(12, 10).astype(dtype)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        x = file.create_dataset("x", (12, 10), dtype, chunks=(5, 4), compression="gzip")
        x[...] = values
        layout = h5py.VirtualLayout((6, 2, 10), dtype)
        source = h5py.VirtualSource(x)
        layout[:, 0] = source[::2]
        layout[:, 1] = source[1::2]
        file.create_virtual_dataset("v", layout)
    _same(tmp_path / "v.h5")


def test_a_source_of_the_other_byte_order(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["big"] = _values(0, dtype=">i4")
        file["little"] = _values(1)
        layout = h5py.VirtualLayout((2, 24, 18), "<i4")
        layout[0] = h5py.VirtualSource(file["big"])
        layout[1] = h5py.VirtualSource(file["little"])
        file.create_virtual_dataset("v", layout)
    _same(tmp_path / "v.h5")


NUMBERS = ["i1", "<u2", ">i4", "<i8", "<u8", "<f2", ">f4", "<f8"]


@pytest.mark.parametrize("layout", ["contiguous", "gzip"])
@pytest.mark.parametrize("to", [each for each in NUMBERS if each != "<f2"])
def test_sources_of_another_type_are_converted(tmp_path: Path, to: str, layout: str) -> None:
    """As the HDF5 library does: integers end at the limits of the type, floats lose what is behind the point."""
    values = np.array([0, 1, -1, 2.5, -2.5, 3.99, 127, 128, -129, 255, 40000, -40000, 2**31 - 1, 2**31, 1e9, 6e4])
    for number, kind in enumerate(NUMBERS):
        dtype = np.dtype(kind)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        stored = np.clip(values, float(limits.min), float(limits.max) * (1 if dtype.itemsize < 8 else 0.5)).astype(kind)
        if kind == "<f2" and np.dtype(to).kind == "u":  # of negative float16, the library makes large numbers
            stored = np.abs(stored)
        path = tmp_path / f"{number}.h5"
        with h5py.File(path, "w", libver="latest") as file:
            options = {"chunks": (3, 3), "compression": "gzip"} if layout == "gzip" else {}
            file.create_dataset("x", data=stored.reshape(4, 4), **options)
            shown = h5py.VirtualLayout((4, 6), to)
            shown[:, 1:5] = h5py.VirtualSource(file["x"])
            file.create_virtual_dataset("v", shown, fillvalue=7)
        assert _same(path).dtype == np.dtype(to).newbyteorder("=")


def test_conversion_of_chunks_that_were_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        made = file.create_dataset("x", (6, 6), "<i4", chunks=(3, 3), fillvalue=70000)
        made[:3, :3] = -70000
        layout = h5py.VirtualLayout((6, 9), "<i2")
        layout[:, 2:8] = h5py.VirtualSource(made)
        file.create_virtual_dataset("v", layout, fillvalue=-1)
    _same(tmp_path / "v.h5")


def test_a_source_of_another_kind_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file["x"] = _values(0).astype("S8")
        layout = h5py.VirtualLayout((24, 18), "<i4")
        layout[...] = h5py.VirtualSource(file["x"])
        file.create_virtual_dataset("v", layout)
    with pytest.raises(penstock.UnsupportedError, match=r"of int32 that show .* of '/?x'"):
        penstock.open(tmp_path / "v.h5", "v")


def _text(number: int) -> np.ndarray:
    return np.array([[f"{number} {row} {column} ä" * column for column in range(4)] for row in range(6)], dtype=object)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_text_of_variable_length(tmp_path: Path, encoding: str) -> None:
    text = h5py.string_dtype(encoding)
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            values = _text(i) if encoding == "utf-8" else np.char.encode(_text(i).astype(str), "latin-1").astype(object)
            file.create_dataset("x", data=values, dtype=text, chunks=(4, 3) if i else None)
            file["other"] = np.zeros((6, 4), "S3")
    layout = h5py.VirtualLayout((4, 6, 4), text)
    layout[0] = h5py.VirtualSource("s0.h5", "x", (6, 4), text)
    layout[1, ::2] = h5py.VirtualSource("s1.h5", "x", (6, 4), text)[3:]
    layout[2, 1:3, 3] = h5py.VirtualSource("s2.h5", "x", (6, 4), text)[5, :2]
    layout[3] = h5py.VirtualSource("absent.h5", "x", (6, 4), text)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
        again = h5py.VirtualLayout((6, 4), text)
        again[...] = h5py.VirtualSource(file["v"])[0]
        file.create_virtual_dataset("of virtual", again)
        wrong = h5py.VirtualLayout((6, 4), text)
        wrong[...] = h5py.VirtualSource("s0.h5", "other", (6, 4), text)
        file.create_virtual_dataset("wrong", wrong)
    for name in ("v", "of virtual"):
        with h5py.File(tmp_path / "v.h5") as file:
            expected = file[name][...]
        made = penstock.open(tmp_path / "v.h5", name)[...]
        assert made.shape == expected.shape
        stored = [each.encode() if isinstance(each, str) else bytes(each) for each in made.ravel()]
        assert stored == [each.split(b"\0")[0] for each in expected.ravel()]
    with pytest.raises(penstock.UnsupportedError, match="text of variable length shows a source of"):
        penstock.open(tmp_path / "v.h5", "wrong")


def test_lists_of_variable_length(tmp_path: Path) -> None:
    kind = h5py.vlen_dtype(np.dtype("<i4"))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        for number in range(2):
            made = file.create_dataset(f"x{number}", (5,), kind, chunks=(2,) if number else None)
            for i in range(5):
                made[i] = np.arange(i) + 10 * number
        file.create_dataset("big", (5,), h5py.vlen_dtype(np.dtype(">i4")))
        layout = h5py.VirtualLayout((3, 5), kind)
        layout[0] = h5py.VirtualSource(file["x0"])
        layout[1, 1:4] = h5py.VirtualSource(file["x1"])[2:]
        file.create_virtual_dataset("v", layout)
        wrong = h5py.VirtualLayout((5,), kind)
        wrong[...] = h5py.VirtualSource(file["big"])
        file.create_virtual_dataset("wrong", wrong)
        refs = h5py.VirtualLayout((2,), h5py.ref_dtype)
        file.create_dataset("refs", (2,), h5py.ref_dtype)
        refs[...] = h5py.VirtualSource(file["refs"])
        file.create_virtual_dataset("of refs", refs)
        expected = [each.tolist() for each in file["v"][...].ravel()]
    made = penstock.open(tmp_path / "v.h5", "v")[...]
    assert made.shape == (3, 5)
    assert [each.tolist() for each in made.ravel()] == expected
    for name, words in {"wrong": "lists of .* show a source of lists of", "of refs": "datasets of references"}.items():
        with pytest.raises(penstock.UnsupportedError, match=words):
            penstock.open(tmp_path / "v.h5", name)


def _same_text(path: Path, name: str = "v") -> penstock.Array:
    """As `_same`, of text."""
    with h5py.File(path) as file:
        expected = file[name].asstr()[...]
    a = penstock.open(path, name)
    assert isinstance(a, penstock.Array)
    assert a.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(a[...], object), expected)
    random = np.random.default_rng(3)
    for _ in range(12):
        where = tuple(
            slice(*sorted(random.integers(0, length + 1, 2)), int(random.integers(1, 4))) for length in expected.shape
        )
        np.testing.assert_array_equal(np.asarray(a[where], object), expected[where])
    return a


@pytest.mark.parametrize("options", [{}, {"chunks": (7, 3)}, {"chunks": (40, 1), "compression": "gzip"}], ids=str)
@pytest.mark.parametrize("kind", ["stacked", "joined", "interleaved", "overlapping", "turned", "boxes", "one of each"])
def test_text_is_read_by_cells(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    """Cells of the dataset and of its sources end at different places."""
    text = h5py.string_dtype()
    values = [[[f"{i}:{row}:{k}" * (k % 3) for k in range(11)] for row in range(90)] for i in range(3)]
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file.create_dataset("x", (90, 11), text, **options)[...] = np.array(values[i], object)
    sources = [h5py.VirtualSource(f"s{i}.h5", "x", (90, 11), text) for i in range(3)]
    if kind == "stacked":
        layout = h5py.VirtualLayout((3, 90, 11), text)
        for i in range(3):
            layout[i] = sources[i]
    elif kind == "joined":
        layout = h5py.VirtualLayout((250, 11), text)
        for i in range(3):
            layout[i * 81 : i * 81 + 80] = sources[i][5:85]
    elif kind == "interleaved":
        layout = h5py.VirtualLayout((270, 11), text)
        for i in range(3):
            layout[i::3] = sources[i]
    elif kind == "overlapping":
        layout = h5py.VirtualLayout((100, 11), text)
        for i in range(3):
            layout[i * 5 : 90 + i * 5] = sources[i]
    elif kind == "turned":
        layout = h5py.VirtualLayout((11, 3), text)
        for i in range(3):
            layout[:, i] = sources[i][17]
    elif kind == "boxes":
        layout = h5py.VirtualLayout((60, 20), text)
        for i in range(3):
            layout[i * 13 : i * 13 + 20 : 2, 3 * i : 3 * i + 9 : 3] = sources[i][10:50:4, 2:5]
    else:
        layout = h5py.VirtualLayout((3,), text)
        for i in range(3):
            layout[i] = sources[i][i, 4]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    a = _same_text(tmp_path / "v.h5")
    penstock.save_manifest(a, tmp_path / "m")
    np.testing.assert_array_equal(penstock.open(tmp_path / "m")[...], a[...])
    with h5py.File(tmp_path / "s1.h5", "a") as file:
        file["x"][50, 3] = "a longer text than before"
    with pytest.raises(penstock.ConflictError):
        a[...]


def test_text_without_elements_or_sources(tmp_path: Path) -> None:
    text = h5py.string_dtype()
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_dataset("none", (0, 4), text, maxshape=(None, 4))
        file.create_dataset("never", (5, 4), text, chunks=(2, 2))
        file["one"] = "alone"
        for name, shape in {"none": (0, 4), "never": (5, 4)}.items():
            layout = h5py.VirtualLayout(shape, text)
            layout[...] = h5py.VirtualSource(".", name, shape, text)
            file.create_virtual_dataset(f"of {name}", layout)
        file.create_virtual_dataset("of nothing", h5py.VirtualLayout((3, 2), text))
        layout = h5py.VirtualLayout((2,), text)
        layout[1] = h5py.VirtualSource(".", "one", ())
        file.create_virtual_dataset("of one", layout)
    for name in ("of none", "of never", "of nothing", "of one"):
        a = _same_text(tmp_path / "v.h5", name)
        assert a[..., :0].shape == (*a.shape[:-1], 0)
    content = (tmp_path / "v.h5").read_bytes()
    assert penstock.open(content, "of one")[...].tolist() == ["", "alone"]
    assert penstock.open(io.BytesIO(content), "of never")[...].tolist() == [[""] * 4] * 5


def test_text_of_virtual_datasets_is_not_read_before_it_is_needed(tmp_path: Path) -> None:
    """Of files on a server: what is not shown in a selection is not fetched, and cells come together."""
    text = h5py.string_dtype()
    for i in range(4):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            values = np.array([f"{i}:{k}" * 30 for k in range(4000)], object)
            file.create_dataset("x", data=values, dtype=text, chunks=(500,))
    layout = h5py.VirtualLayout((16000,), text)
    for i in range(4):
        layout[i * 4000 : i * 4000 + 4000] = h5py.VirtualSource(f"s{i}.h5", "x", (4000,), text)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    objects = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with HttpServer(objects, latency=ROUND_TRIP) as server:
        a = penstock.open(f"{server.url}/v.h5", "v")
        server.forget()
        assert a[8500] == "2:500" * 30
        assert {each.path for each in server.requests} == {"/s2.h5"}
        ranges = [each.headers["range"].removeprefix("bytes=").split("-") for each in server.requests]
        assert sum(int(end) - int(begin) + 1 for begin, end in ranges) <= len(objects["s2.h5"])
        one = server.waves
        server.forget()
        assert a[...].tolist() == [f"{k // 4000}:{k % 4000}" * 30 for k in range(16000)]
        assert server.waves <= one + 2  # for all cells of all files


def test_text_of_variable_length_without_a_limit(tmp_path: Path) -> None:
    text = h5py.string_dtype()
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=_text(0), dtype=text, maxshape=(None, 4), chunks=(2, 2))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        endless = h5py.h5s.create_simple((6, 4), (h5py.h5s.UNLIMITED, 4))
        endless.select_hyperslab((0, 0), (1, 1), block=(h5py.h5s.UNLIMITED, 4))
        plist.set_virtual(endless, b".", b"/x", endless)
        space = h5py.h5s.create_simple((6, 4), (h5py.h5s.UNLIMITED, 4))
        h5py.h5d.create(file.id, b"v", h5py.h5t.py_create(text, logical=True), space, plist)
        file["x"].resize((9, 4))
        file["x"][8, 2] = "added"
    with h5py.File(tmp_path / "v.h5") as file:
        expected = file["v"].asstr()[...]
    made = penstock.open(tmp_path / "v.h5", "v")
    assert made.shape == (9, 4)
    np.testing.assert_array_equal(np.asarray(made[...], object), expected)


def test_what_is_not_there_is_the_fill_value(tmp_path: Path) -> None:
    _sources(tmp_path, 2)
    with h5py.File(tmp_path / "s1.h5", "a") as file:
        file.create_dataset("sparse", (24, 18), "<i4", chunks=(5, 5), fillvalue=9)[3:5, 2:14] = 4
    layout = h5py.VirtualLayout((5, 24, 18), "<i4")
    layout[0] = h5py.VirtualSource("s0.h5", "x", (24, 18))
    layout[1] = h5py.VirtualSource("absent.h5", "x", (24, 18))
    layout[2] = h5py.VirtualSource("s1.h5", "absent", (24, 18))
    layout[3] = h5py.VirtualSource("s1.h5", "sparse", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
    a = _same(tmp_path / "v.h5")
    assert (a[1:3] == -7).all()
    assert a[3, 20, 17] == 9


def test_virtual_datasets_of_virtual_datasets(tmp_path: Path) -> None:
    _sources(tmp_path, 2, chunks=(5, 5), compression="gzip")
    layout = h5py.VirtualLayout((2, 24, 18), "<i4")
    for i in range(2):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "inner.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    inner = h5py.VirtualSource("inner.h5", "v", (2, 24, 18))
    layout = h5py.VirtualLayout((10, 2, 18), "<i4")
    layout[:, 0] = inner[0, 4:14]
    layout[:, 1] = inner[1, 2:22:2]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    _same(tmp_path / "v.h5")


def test_datasets_that_show_each_other_are_refused(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        layout = h5py.VirtualLayout((4,), "<i4")
        layout[...] = h5py.VirtualSource(f"{other}.h5", "v", (4,))
        with h5py.File(tmp_path / f"{one}.h5", "w", libver="latest") as file:
            file.create_virtual_dataset("v", layout)
    with pytest.raises(penstock.UnsupportedError, match="show each other through more than 8 levels"):
        penstock.open(tmp_path / "a.h5", "v")


def _low_level(path: Path, shape: tuple[int, ...], most: tuple[Any, ...], mappings: list[Any], fill: int = -7) -> None:
    """A virtual dataset of dataspaces: (dataspace, file, dataset, dataspace of the source) each."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_fill_value(np.array(fill, "<i4"))
    for here, file, dataset, there in mappings:
        plist.set_virtual(here, file.encode(), dataset.encode(), there)
    space = h5py.h5s.create_simple(shape, most)
    with h5py.File(path, "w", libver="latest") as file:
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, plist)


def _space(shape: tuple[int, ...], most: tuple[Any, ...] | None = None, **slab: Any) -> Any:
    made = h5py.h5s.create_simple(shape, most or shape)
    if slab:
        made.select_hyperslab(**slab)
    return made


def test_unions_of_boxes_and_other_shapes(tmp_path: Path) -> None:
    _sources(tmp_path, 1, chunks=(5, 4), compression="gzip")
    union = _space((24, 18), start=(2, 3), count=(1, 1), block=(3, 5))
    union.select_hyperslab((4, 6), (1, 1), None, (4, 9), h5py.h5s.SELECT_OR)
    size = union.get_select_npoints()
    _low_level(
        tmp_path / "v.h5",
        (4, 100),
        (4, 100),
        [
            (_space((4, 100), start=(0, 0), count=(1, 1), block=(1, size)), "s0.h5", "x", union),
            (
                _space((4, 100), start=(1, 2), count=(1, 8), stride=(1, 12), block=(1, 6)),
                "s0.h5",
                "x",
                _space((24, 18), start=(1, 1), count=(6, 8), stride=(3, 2), block=(1, 1)),
            ),
        ],
    )
    _same(tmp_path / "v.h5")


@pytest.mark.parametrize("rows", [0, 3, 5, 24])
def test_mappings_without_a_limit_grow_with_their_sources(tmp_path: Path, rows: int) -> None:
    unlimited = h5py.h5s.UNLIMITED
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            x = file.create_dataset("x", (max(rows - i, 0), 18), "<i4", maxshape=(None, 18), chunks=(5, 18))
            x[...] = _values(i)[: max(rows - i, 0)]
    mappings = []
    for i in range(3):  # interleaved frames of three writers
        here = _space((0, 18), (unlimited, 18), start=(i, 0), count=(unlimited, 1), stride=(3, 1), block=(1, 18))
        there = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(1, 1), block=(1, 18))
        mappings.append((here, f"s{i}.h5", "x", there))
    _low_level(tmp_path / "v.h5", (0, 18), (unlimited, 18), mappings)
    _same(tmp_path / "v.h5")
    here = _space((0, 18), (unlimited, 18), start=(2, 0), count=(1, 1), stride=(1, 1), block=(unlimited, 18))
    there = _space((0, 18), (unlimited, 18), start=(1, 0), count=(1, 1), stride=(1, 1), block=(unlimited, 18))
    _low_level(tmp_path / "w.h5", (0, 18), (unlimited, 18), [(here, "s0.h5", "x", there)])
    _same(tmp_path / "w.h5")
    here = _space((0, 18), (unlimited, 18), start=(1, 0), count=(unlimited, 1), stride=(5, 1), block=(2, 18))
    there = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(4, 1), block=(2, 18))
    _low_level(tmp_path / "u.h5", (0, 18), (unlimited, 18), [(here, "s0.h5", "x", there)])
    _same(tmp_path / "u.h5")


@pytest.mark.parametrize("files", [0, 1, 3])
def test_patterns_of_names(tmp_path: Path, files: int) -> None:
    unlimited = h5py.h5s.UNLIMITED
    _sources(tmp_path, files, chunks=(5, 18))
    here = _space((0, 18), (unlimited, 18), start=(0, 0), count=(unlimited, 1), stride=(24, 1), block=(24, 18))
    _low_level(tmp_path / "v.h5", (0, 18), (unlimited, 18), [(here, "s%b.h5", "x", _space((24, 18)))])
    _same(tmp_path / "v.h5")
    with h5py.File(tmp_path / "one%.h5", "w") as file:
        for i in range(files):
            file[f"part{i}"] = _values(i)
    here = _space((0, 18), (unlimited, 18), start=(1, 0), count=(unlimited, 1), stride=(11, 1), block=(10, 18))
    there = _space((24, 18), start=(3, 0), count=(1, 1), block=(10, 18))
    _low_level(tmp_path / "w.h5", (0, 18), (unlimited, 18), [(here, "one%%.h5", "part%b", there)])
    _same(tmp_path / "w.h5")


def test_manifests_and_copies(tmp_path: Path) -> None:
    _sources(tmp_path, 3, chunks=(5, 4), compression="gzip")
    layout = h5py.VirtualLayout((3, 10, 18), "<i4")
    for i in range(3):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))[3:13]
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    a = _same(tmp_path / "v.h5")
    penstock.save_manifest(a, tmp_path / "v.manifest")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.manifest")[...], a[...])
    penstock.copy(a, tmp_path / "v.zarr")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.zarr")[...], a[...])


def test_a_file_in_a_store_shows_its_neighbours(tmp_path: Path) -> None:
    _sources(tmp_path, 2)
    layout = h5py.VirtualLayout((2, 24, 18), "<i4")
    for i in range(2):
        layout[i] = h5py.VirtualSource(f"s{i}.h5", "x", (24, 18))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    expected = penstock.open(tmp_path / "v.h5", "v")[...]
    obstore = pytest.importorskip("obstore")
    store = obstore.store.MemoryStore()
    for each in tmp_path.iterdir():
        obstore.put(store, f"run/{each.name}", each.read_bytes())
    np.testing.assert_array_equal(penstock.open(store, "run/v.h5/v")[...], expected)
    with pytest.raises(penstock.UnsupportedError, match=r"shows 's0\.h5', which is not where"):
        penstock.open((tmp_path / "v.h5").read_bytes(), "v")
    obstore.delete(store, "run/s1.h5")
    with pytest.raises(penstock.UnsupportedError, match=r"shows 's1\.h5', which is not where"):
        penstock.open(store, "run/v.h5/v")
    layout = h5py.VirtualLayout((24, 18), "<i4")
    layout[...] = h5py.VirtualSource(str(tmp_path / "s0.h5"), "x", (24, 18))
    with h5py.File(tmp_path / "w.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
    _same(tmp_path / "w.h5")
    with pytest.raises(penstock.UnsupportedError, match="which is not in the store"):
        penstock.open({"w.h5": (tmp_path / "w.h5").read_bytes()}, "w.h5/v")


def test_folders_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, folder in enumerate(("data", "other")):
        (tmp_path / folder).mkdir()
        with h5py.File(tmp_path / folder / "s.h5", "w") as file:
            file["x"] = _values(i)
    (tmp_path / "data" / "raw").write_bytes(_values(5).tobytes())
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        layout = h5py.VirtualLayout((24, 18), "<i4")
        layout[...] = h5py.VirtualSource("s.h5", "x", (24, 18))
        file.create_virtual_dataset("v", layout)
        file["link"] = h5py.ExternalLink("s.h5", "x")
        file.create_dataset("external", (24, 18), "<i4", external=[("raw", 0, h5py.h5f.UNLIMITED)])
    assert (penstock.open(tmp_path / "v.h5", "v")[...] == 0).all()
    monkeypatch.setenv("HDF5_VDS_PREFIX", "${ORIGIN}/nowhere:${ORIGIN}/data")
    monkeypatch.setenv("HDF5_EXT_PREFIX", str(tmp_path / "other"))
    monkeypatch.setenv("HDF5_EXTFILE_PREFIX", "${ORIGIN}/data")
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "v")[...], _values(0))
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "link")[...], _values(1))
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "external")[...], _values(5))


@pytest.mark.parametrize("shape", [(), (6,), (6, 5), (600, 7, 100)])
def test_external_files(tmp_path: Path, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("<i4")
    row = values.nbytes // (shape[0] if shape else 1)
    sizes = [values.nbytes] if not shape else [row, 2 * row, values.nbytes - 3 * row]
    content, external = values.tobytes(), []
    for i, size in enumerate(sizes):
        begin = sum(sizes[:i])
        (tmp_path / f"raw{i}").write_bytes(b"head" + content[begin : begin + size])
        external.append((f"raw{i}", 4, size if i + 1 < len(sizes) else h5py.h5f.UNLIMITED))
    monkeypatch.chdir(tmp_path)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        file.create_dataset("v", shape, "<i4", external=external)
    _same(tmp_path / "v.h5")
    monkeypatch.chdir(tmp_path.parent)  # next to the file, too
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "v")[...], values)


def _external(
    folder: Path, name: str, values: np.ndarray, ends: list[int], files: int = 2
) -> list[tuple[str, int, int]]:
    """Bytes of an array in files that end at these places; some files have several of the parts."""
    content, offsets, parts = values.tobytes(), [3] * files, []
    raw = [b"abc"] * files
    for i, (begin, end) in enumerate(zip([0, *ends], [*ends, len(content)], strict=True)):
        at = i % files
        parts.append((f"{name}{at}.raw", offsets[at], end - begin))
        raw[at] += content[begin:end] + b"--"
        offsets[at] += end - begin + 2
    for i, each in enumerate(raw):
        (folder / f"{name}{i}.raw").write_bytes(each)
    return parts


INSIDE_ROWS: dict[str, tuple[tuple[int, ...], Any]] = {
    "a row": ((50,), "<i4"),
    "big-endian": ((6, 5), ">f8"),
    "elements of arrays": ((4, 3), np.dtype((">i2", (5,)))),
    "compounds": ((7, 3), np.dtype([("a", "<i2"), ("b", ">f8")])),
    "text of a fixed length": ((7, 3), "S5"),
    "blocks": ((600, 7, 100), "<u2"),
}


@pytest.mark.parametrize("kind", INSIDE_ROWS)
def test_external_files_that_end_inside_a_row(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also inside of an element."""
    shape, dtype = INSIDE_ROWS[kind]
    random = np.random.default_rng(7)
    of = np.dtype(dtype).base
    values = np.frombuffer(random.bytes(int(np.prod(shape, dtype=int)) * np.dtype(dtype).itemsize), "u1") % 50
    values = values.astype("u1").view(of).reshape(shape + np.dtype(dtype).shape)
    ends = sorted({int(each) for each in random.integers(1, values.nbytes, 9)})
    monkeypatch.chdir(tmp_path)
    with h5py.File("v.h5", "w") as file:
        file.create_dataset("v", shape, dtype, external=_external(tmp_path, "part", values, ends))
        file.create_dataset("empty", (0, 3), "<i4", external=_external(tmp_path, "no", values, ends))
    a = _same(tmp_path / "v.h5")
    np.testing.assert_array_equal(a[...], values)
    assert penstock.open("v.h5", "empty")[...].shape == (0, 3)
    penstock.save_manifest(a, "array.manifest")
    penstock.save_manifest(penstock.open("v.h5"), "group.manifest")
    (tmp_path / "part0.raw").write_bytes(b"other")
    with pytest.raises(penstock.ConflictError, match=r"part0\.raw"):
        a[...]
    np.testing.assert_array_equal(penstock.open("array.manifest")[...], values)
    np.testing.assert_array_equal(penstock.open("group.manifest")["v"][...], values)


def test_virtual_datasets_of_external_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("x.h5", "w") as file:
        layout = h5py.VirtualLayout((2, 6, 4), "<i4")
        for i in range(2):
            values = _values(i, (6, 4))
            file.create_dataset(f"x{i}", (6, 4), "<i4", external=_external(tmp_path, f"e{i}", values, [10, 30, 31]))
            layout[i] = h5py.VirtualSource(".", f"x{i}", (6, 4))
        file.create_virtual_dataset("v", layout)
    a = _same(tmp_path / "x.h5")
    penstock.save_manifest(a, "m")
    np.testing.assert_array_equal(penstock.open("m")[...], a[...])


def test_external_files_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = _values(0, (40, 9))
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("v", values.shape, "<i4", external=_external(tmp_path, "e", values, [10, 300, 601]))
    with HttpServer({each.name: each.read_bytes() for each in tmp_path.iterdir()}) as server:
        a = penstock.open(f"{server.url}/x.h5", "v")
        np.testing.assert_array_equal(a[...], values)
        np.testing.assert_array_equal(a[5:30:3, 2:4], values[5:30:3, 2:4])
        server.objects["/e1.raw"] = b"short"
        with pytest.raises(penstock.Error, match=r"e1\.raw"):
            penstock.open(f"{server.url}/x.h5", "v")[...]
    with pytest.raises(penstock.Error, match=r"e\d\.raw"):
        penstock.open((tmp_path / "x.h5").read_bytes(), "v")[...]


def test_external_files_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("v", (4, 2), "i4", external=[("y.bin", 0, 4), ("z.bin", 0, 28)])
    with pytest.raises(penstock.NotFoundError, match=r"y\.bin"):
        penstock.open("x.h5", "v")[...]


def test_sources_in_headers_and_sources_with_fill_values_of_their_own(tmp_path: Path) -> None:
    for i in range(3):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple((4,))
            compact = h5py.Dataset(h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, properties))
            compact[...] = _values(i, (4,))
            file.create_dataset("filled", (4,), "<i4", fillvalue=5 + i, chunks=(2,))
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for name in ("compact", "filled"):
            layout = h5py.VirtualLayout((3, 4), "<i4")
            for i in range(3):
                layout[i] = h5py.VirtualSource(f"s{i}.h5", name, (4,))
            file.create_virtual_dataset(name, layout)
    for name in ("compact", "filled"):
        a = _same(tmp_path / "v.h5", name)
        penstock.save_manifest(a, tmp_path / "m")
        np.testing.assert_array_equal(penstock.open(tmp_path / "m")[...], a[...])
