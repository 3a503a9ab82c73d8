"""Lists of lists, of text and of references in HDF5 files, equal to those that h5py reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.__main__ import main
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (3,)},
    "gzip": {"chunks": (4,), "compression": "gzip", "shuffle": True},
}
WORDS = ["", "a", "süß", "x" * 300, "日本語"]


def types() -> dict[str, Any]:
    lists = h5py.vlen_dtype
    return {
        "int": lists(lists(np.dtype("<i4"))),
        "float": lists(lists(np.dtype("<f8"))),
        "three levels": lists(lists(lists(np.dtype("i1")))),
        "structure": lists(lists(np.dtype([("a", "<i2"), ("b", "<f8")]))),
        "text": lists(h5py.string_dtype()),
        "ascii": lists(h5py.string_dtype("ascii")),
        "lists of text": lists(lists(h5py.string_dtype())),
    }


def value_of(dtype: np.dtype[Any], random: np.random.Generator, deep: bool = False) -> Any:
    """A random value of a type as h5py takes it."""
    inner = h5py.check_vlen_dtype(dtype)
    text = h5py.check_string_dtype(dtype)
    if text is not None:
        word = WORDS[random.integers(len(WORDS))]
        return word if text.encoding == "utf-8" else word.encode("ascii", "ignore").decode()
    if inner is None:
        return np.array(random.integers(0, 100), "i1").astype(dtype) if dtype.names is None else (3, 4.5)
    count = int(random.integers(0, 40 if deep else 5))
    values = [value_of(inner, random) for _ in range(count)]
    is_object = inner.kind == "O"
    out = np.empty(count, object if is_object else inner)
    for i, each in enumerate(values):
        out[i] = each
    return out


def plain(value: Any, text: Callable[[bytes], Any]) -> Any:
    """Nested Python lists."""
    if isinstance(value, np.ndarray):
        items = value if value.dtype.kind == "O" else value.tolist()
        return [plain(each, text) for each in items]
    return text(value) if isinstance(value, bytes) else value


def kinds(value: Any) -> Any:
    """The dtypes of nested arrays."""
    if not isinstance(value, np.ndarray):
        return None
    return value.dtype.str if value.dtype.kind != "O" else ("O", value.ndim, [kinds(each) for each in value])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", types())
def test_nested_lists_equal_those_of_h5py(tmp_path: Path, name: str, layout: str) -> None:
    dtype, random = types()[name], np.random.default_rng(5)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (10,), dtype, **LAYOUTS[layout])
        for i in range(9):  # the last one is never written
            made[i] = value_of(dtype, random, deep=i == 2)
        want = made[...]
        one = made[2]
    array = ps.open(tmp_path / "x.h5", "x")
    text: Callable[[bytes], Any] = bytes if name == "ascii" else bytes.decode
    assert plain(array[...], text) == plain(want, text)
    assert kinds(array[...]) == kinds(want)
    assert plain(array[2], text) == plain(one, text)
    assert plain(array[1:9:3], text) == plain(want[1:9:3], text)
    assert array.dtype == np.dtype("O")
    assert array.dtype.metadata is not None
    inner, expected = array.dtype.metadata["vlen"], h5py.check_vlen_dtype(dtype)
    assert inner == expected
    assert dict(inner.metadata) == dict(expected.metadata)
    assert array.storage["dtype"].metadata["vlen"].metadata == inner.metadata
    flat = np.asarray(array[...])
    flat[0] = None  # writable
    ps.save_manifest(array, tmp_path / "x.manifest")
    assert plain(ps.open(tmp_path / "x.manifest")[...], text) == plain(want, text)


def test_nested_lists_of_references_are_paths(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["g/b"] = np.arange(3), np.arange(4)
        made = file.create_dataset("x", (3,), h5py.vlen_dtype(h5py.ref_dtype), chunks=(2,))
        made[0] = np.array([file["a"].ref, file["g/b"].ref, h5py.Reference()], h5py.ref_dtype)
        made[1] = np.array([file["g"].ref], h5py.ref_dtype)
    found = ps.open(tmp_path / "x.h5", "x")[...]
    assert [each.tolist() for each in found] == [["/a", "/g/b", ""], ["/g"], []]


def test_nested_lists_over_a_network(tmp_path: Path) -> None:
    """The inner lists of all elements are fetched together."""
    dtype, random = types()["lists of text"], np.random.default_rng(6)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (200,), dtype, chunks=(50,))
        for i in range(200):
            made[i] = value_of(dtype, random)
        want = made[...]
    with HttpServer({"x.h5": (tmp_path / "x.h5").read_bytes()}) as server:
        array = ps.open(f"{server.url}/x.h5", "x")
        before = len(server.requests)
        assert plain(array[...], bytes.decode) == plain(want, bytes.decode)
        assert len(server.requests) - before <= 8


def test_members_that_are_nested_lists(tmp_path: Path) -> None:
    dtype = np.dtype([("n", "i4"), ("lists", h5py.vlen_dtype(h5py.vlen_dtype("i2")))])
    lists = np.empty(2, object)
    lists[:] = [np.arange(3, dtype="i2"), np.arange(1, dtype="i2")]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("t", (3,), dtype)
        made[1] = (7, lists)
    table = ps.open_group(tmp_path / "x.h5", "t")
    assert plain(table["lists"][...], bytes.decode) == [[], [[0, 1, 2], [0]], []]
    row = table[1]
    assert row["n"] == 7
    assert plain(row["lists"], bytes.decode) == [[0, 1, 2], [0]]
    assert plain(table[:]["lists"], bytes.decode) == [[], [[0, 1, 2], [0]], []]


def test_virtual_datasets_of_nested_lists(tmp_path: Path) -> None:
    dtype = types()["int"]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (4,), dtype)
        made[1] = value_of(dtype, np.random.default_rng(1))
        layout = h5py.VirtualLayout((8,), dtype)
        layout[2:6] = h5py.VirtualSource(".", "x", (4,))
        file.create_virtual_dataset("v", layout)
        want = plain(made[...], bytes.decode)
    assert plain(ps.open(tmp_path / "x.h5", "v")[...], bytes.decode) == [[], [], *want, [], []]


def test_nested_lists_are_not_written_to_zarr(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (4,), types()["text"])
        file["y"] = np.arange(3)
    for zarr_format in (2, 3):
        with pytest.raises(ps.UnsupportedError, match="lists in Zarr have single items of a fixed size"):
            ps.copy(ps.open(tmp_path / "x.h5", "x"), tmp_path / f"one{zarr_format}.zarr", zarr_format=zarr_format)
        with pytest.warns(UserWarning, match="Zarr stores lists of single items of a fixed size only"):
            ps.copy(tmp_path / "x.h5", tmp_path / f"{zarr_format}.zarr", zarr_format=zarr_format)
        assert list(ps.open_group(tmp_path / f"{zarr_format}.zarr")) == ["y"]


def test_nested_lists_are_not_converted_to_hdf5(tmp_path: Path) -> None:
    kind = h5py.h5t.vlen_create(h5py.h5t.array_create(h5py.h5t.STD_I32LE, (2,)))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        h5py.h5d.create(file.id, b"arrays", kind, h5py.h5s.create_simple((3,)))
        for name, dtype in types().items():
            file.create_dataset(name, (4,), dtype)
        file["y"] = np.arange(3)
    for name in ("arrays", "int", "text"):
        with pytest.raises(ps.UnsupportedError, match="lists are written to HDF5 if they have single items"):
            ps.convert(ps.open(tmp_path / "x.h5", name), tmp_path / "one.h5")
        assert not (tmp_path / "one.h5").exists()
    with pytest.warns(UserWarning, match="'arrays' .lists are written to HDF5 if they have single items"):
        made = ps.convert(tmp_path / "x.h5", tmp_path / "all.h5", verify=True)
    assert list(made) == ["y"]


def test_damaged_nested_lists_are_refused(tmp_path: Path) -> None:
    """The inner references lead to objects that the heap does not have."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (1,), types()["int"])
        inner = np.empty(2, object)
        inner[:] = [np.arange(3, dtype="i4"), np.arange(1, dtype="i4")]
        made[0] = inner
    content = bytearray((tmp_path / "x.h5").read_bytes())
    heap = content.index(b"GCOL")
    address = heap.to_bytes(8, "little")
    places = [at for at in range(heap, len(content) - 12) if content[at : at + 8] == address]
    assert places
    for at in places:
        broken = content.copy()
        broken[at + 8] = 99
        with pytest.raises(ps.CorruptDataError, match="has no object 99"):
            ps.open(bytes(broken), "x")[...]


def test_the_program_shows_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (2,), types()["text"])[1] = np.array(["a", "bc"], object)
        file.create_dataset("y", (2,), h5py.vlen_dtype("i4"))[0] = [1, 2]

    def shown(name: str, *options: str) -> str:
        monkeypatch.setattr(sys, "argv", ["penstock", "read", f"{tmp_path / 'x.h5'}/{name}", *options])
        capfd.readouterr()
        assert main() == 0
        return capfd.readouterr().out

    assert shown("x").split() == ["[", "[]", "['a'", "'bc']]"]
    assert shown("y").split() == ["[[1", "2]", "[]]"]
    assert json.loads(shown("x", "--json"))["values"] == [[], ["a", "bc"]]
    assert json.loads(shown("y", "--json"))["values"] == [[1, 2], []]
    monkeypatch.setattr(sys, "argv", ["penstock", "diff", *[str(tmp_path / "x.h5/y")] * 2])
    assert main() == 0
