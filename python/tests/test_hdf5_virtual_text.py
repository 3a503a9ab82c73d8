"""Text and lists of variable length in virtual datasets: equal to h5py's, and read cell by cell when needed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest
from support.http_server import ROUND_TRIP, HttpServer

h5py = pytest.importorskip("h5py")


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
    with pytest.raises(penstock.UnsupportedError, match="text of variable length cannot show a source of"):
        penstock.open(tmp_path / "v.h5", "wrong")


ARRAYS: dict[str, np.dtype[Any]] = {
    "text": np.dtype((h5py.string_dtype(), (2, 3))),
    "lists": np.dtype((h5py.vlen_dtype("i2"), (2,))),
    "member": np.dtype([("t", h5py.string_dtype(), (2,)), ("k", "i4")]),
    "compounds": np.dtype([("a", [("t", h5py.string_dtype()), ("x", "f4")], (2,)), ("k", "i4")]),
}


def _filled(dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    out = np.zeros(shape + dtype.shape, dtype.base)
    if dtype.base.names:
        for name in dtype.base.names:
            out[name] = _filled(dtype.base[name], shape + dtype.shape)
        return out
    for i, at in enumerate(np.ndindex(out.shape)):
        is_text = h5py.check_string_dtype(dtype.base) is not None
        out[at] = f"ü{i}" if is_text else np.arange(i % 4, dtype="i2") if dtype.base.kind == "O" else i
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, np.void):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return [_plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_text_and_lists(tmp_path: Path, name: str) -> None:
    """The axes within an element are those of the source's elements."""
    dtype = ARRAYS[name]
    layout = h5py.VirtualLayout((7,), dtype)
    for i in range(2):
        with h5py.File(tmp_path / f"s{i}.h5", "w") as file:
            file.create_dataset("x", (3,), dtype, chunks=(2,) if i else None)[...] = _filled(dtype, (3,))
        layout[3 * i : 3 * i + 3] = h5py.VirtualSource(f"s{i}.h5", "x", (3,))
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("v", layout)
        again = h5py.VirtualLayout((2,), dtype)
        again[...] = h5py.VirtualSource(file["v"])[2:4]
        file.create_virtual_dataset("of virtual", again)
    for dataset in ("v", "of virtual"):
        with h5py.File(tmp_path / "v.h5") as file:
            want = file[dataset][...]
        got = penstock.open(tmp_path / "v.h5", dataset)[...]
        assert got.shape == want.shape
        assert _plain(got) == _plain(want)


@pytest.mark.parametrize("item", [h5py.string_dtype(), np.dtype("<i4")])
@pytest.mark.parametrize("inner", [(), (3,), (2, 2)])
def test_elements_of_another_shape_are_refused(tmp_path: Path, item: Any, inner: tuple[int, ...]) -> None:
    """A source without dimensions ended the process."""
    dtype, source = np.dtype((item, (2,))), np.dtype((item, inner))
    for shape in ((), (1,)):
        with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
            file.create_dataset("x", shape, source)
            layout = h5py.VirtualLayout((1,), dtype)
            layout[...] = h5py.VirtualSource(".", "x", shape)
            file.create_virtual_dataset("v", layout)
        with pytest.raises((penstock.UnsupportedError, penstock.CorruptDataError)):
            penstock.open(tmp_path / "v.h5", "v")


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
    """As `_same`, for text."""
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
    """The cells of the dataset end at other places than those of its sources."""
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
    """For files on a server: values outside of a selection are not fetched, and cells are fetched together."""
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
        assert server.waves <= one + 2  # two more rounds for all cells of all files


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


def test_references_of_very_much_text_are_refused_before_it_is_read(tmp_path: Path) -> None:
    text = h5py.string_dtype()
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=["a", "b"], dtype=text)
        layout = h5py.VirtualLayout((2**30,), text)
        layout[:2] = h5py.VirtualSource(".", "x", (2,), text)
        file.create_virtual_dataset("v", layout)
    array = penstock.open(tmp_path / "v.h5", "v")
    assert array[:3].tolist() == ["a", "b", ""]
    with pytest.raises(penstock.UnsupportedError, match="bytes of variable length are not held in memory"):
        penstock.save_manifest(array, tmp_path / "m")
