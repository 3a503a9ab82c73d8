"""Datasets of many chunks: a chunk is looked up when it is read, without reading other parts of the index.

The expected values are h5py's.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.http_server import HttpServer
from support.program import run_program

h5py = pytest.importorskip("h5py")

# name: (libver, shape, maxshape, chunks, early allocation)
INDEXES: dict[str, tuple[str, tuple[int, ...], tuple[int | None, ...] | None, tuple[int, ...], bool]] = {
    "btree_1": ("earliest", (301, 203), None, (3, 4), False),
    "btree_1_grows": ("earliest", (301, 203), (None, None), (3, 4), False),
    "btree_1_3d": ("earliest", (41, 30, 37), None, (1, 3, 4), False),
    "fixed_array": ("latest", (301, 203), (400, 230), (3, 4), False),
    "implicit": ("latest", (301, 203), (303, 205), (3, 4), True),
    "extensible_array": ("latest", (301, 203), (None, 230), (3, 4), False),
    "extensible_array_inner": ("latest", (301, 203), (310, None), (3, 4), False),
    "btree_2": ("latest", (301, 203), (None, None), (3, 4), False),
    "btree_2_3d": ("latest", (41, 30, 37), (None, None, 40), (1, 3, 4), False),
}
FILTERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
    "checked": {"fletcher32": True, "compression": "lzf"},
}
# Chunks with filters do not have implicit places.
CASES = [(index, filters) for index in INDEXES for filters in FILTERS if index != "implicit" or filters == "plain"]


def make(path: Path, index: str, filters: str, *, sparse: bool = False, dtype: Any = "i4", userblock: int = 0) -> Any:
    """A file whose `x` has the given index, and its values."""
    libver, shape, most, chunks, early = INDEXES[index]
    rng = np.random.default_rng(len(index) + len(filters))
    values = rng.integers(0, 1000, shape).astype(dtype)
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        if early:
            dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            dcpl.set_chunk(chunks)
            dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            space = h5py.h5s.create_simple(shape, most)
            h5py.h5d.create(file.id, b"x", h5py.h5t.py_create(np.dtype(dtype), logical=True), space, dcpl=dcpl)
            x = file["x"]
        else:
            x = file.create_dataset("x", shape, dtype, chunks=chunks, maxshape=most, fillvalue=7, **FILTERS[filters])
        if sparse:
            wanted = np.full(shape, 0 if early else 7, dtype)
            for corner in rng.integers(0, shape, (60, len(shape))):
                box = tuple(slice(int(c), int(c) + 5) for c in corner)
                x[box] = wanted[box] = values[box]
            values = wanted
        else:
            x[...] = values
    return values


@pytest.mark.parametrize("sparse", [False, True], ids=["full", "sparse"])
@pytest.mark.parametrize(("index", "filters"), CASES)
def test_every_index_gives_the_values(tmp_path: Path, index: str, filters: str, sparse: bool) -> None:
    path = tmp_path / "x.h5"
    values = make(path, index, filters, sparse=sparse)
    a = ps.open(path, "x")
    assert a.nchunks > 4096
    rng = np.random.default_rng(0)
    for _ in range(30):
        low = [int(rng.integers(0, n)) for n in values.shape]
        box = tuple(slice(begin, int(rng.integers(begin, n + 1))) for begin, n in zip(low, values.shape, strict=True))
        np.testing.assert_array_equal(a[box], values[box])
    points = tuple(rng.integers(0, n, 200) for n in values.shape)
    np.testing.assert_array_equal(a.vindex[points], values[points])
    rows = np.unique(rng.integers(0, values.shape[0], 9))
    np.testing.assert_array_equal(a.oindex[rows], values[rows])
    np.testing.assert_array_equal(a[...], values)


@pytest.mark.parametrize(("libver", "most"), [("earliest", 1 << 20), ("latest", 1 << 20), ("latest", None)])
def test_only_the_nodes_on_the_way_are_read(tmp_path: Path, libver: str, most: int | None) -> None:
    """Of a million chunks, opening reads the first round only, and reading a chunk the nodes on the way to it."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        x = file.create_dataset("x", 1 << 20, "u1", chunks=1, maxshape=most)
        x[:200_000] = 3
    sent: list[int] = []

    def fetched() -> int:
        """The number of bytes sent since the last call."""
        total = sum(sent)
        sent.clear()
        return total

    with HttpServer({"x.h5": path.read_bytes()}) as server:
        server.script = lambda request, reply: sent.append(len(reply.body) if request.method == "GET" else 0)
        a = ps.open(f"{server.url}/x.h5", "x")
        assert fetched() < 1_400_000  # the metadata in the first MiB are fetched together
        assert a[199_999] == 3
        assert a[1 << 19] == 0
        assert fetched() < 64_000
        assert a[199_998] == 3
        assert fetched() < 100  # the chunk's node is cached


@pytest.mark.parametrize("index", INDEXES)
def test_manifests_and_copies_have_all_chunks(tmp_path: Path, index: str) -> None:
    """Manifests, references, pickled arrays and virtual datasets contain all chunks."""
    path = tmp_path / "x.h5"
    values = make(path, index, "plain" if index == "implicit" else "gzip", sparse=True)
    a = ps.open(path, "x")
    ps.save_manifest(a, tmp_path / "m.json")
    np.testing.assert_array_equal(ps.open(tmp_path / "m.json")[...], values)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a))[...], values)
    group = ps.open(path)
    ps.save_references(group, tmp_path / "r.json")
    np.testing.assert_array_equal(ps.open(tmp_path / "r.json")["x"][...], values)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        layout = h5py.VirtualLayout(values.shape, "i4")
        layout[...] = h5py.VirtualSource(path, "x", values.shape)
        file.create_virtual_dataset("v", layout)
    np.testing.assert_array_equal(ps.open(tmp_path / "v.h5", "v")[...], values)
    ps.copy(a, tmp_path / "copy.zarr")
    np.testing.assert_array_equal(ps.open(tmp_path / "copy.zarr")[...], values)
    other = tmp_path / "y.h5"
    other.write_bytes(path.read_bytes())
    joined = ps.open_shards([path, other], dataset="x")
    np.testing.assert_array_equal(joined[...], np.concatenate([values, values]))


@pytest.mark.parametrize("target", ["bytes", "file", "BytesIO", "memoryview"])
@pytest.mark.parametrize("index", INDEXES)
def test_every_source(tmp_path: Path, index: str, target: str) -> None:
    path = tmp_path / "x.h5"
    values = make(path, index, "plain", userblock=1024)
    content = path.read_bytes()
    with path.open("rb") as file:
        a = ps.open(
            {"bytes": content, "file": file, "BytesIO": io.BytesIO(content), "memoryview": memoryview(content)}[target],
            "x",
        )
        np.testing.assert_array_equal(a[5:90:3, ::-1], values[5:90:3, ::-1])


@pytest.mark.parametrize("index", [name for name in INDEXES if name != "implicit" and "3d" not in name])
def test_filters_that_chunks_skip(tmp_path: Path, index: str) -> None:
    path = tmp_path / "x.h5"
    values = make(path, index, "gzip", sparse=True)
    rng = np.random.default_rng(3)
    with h5py.File(path, "r+") as file:
        for i, j in itertools.product(rng.integers(0, 100, 6), rng.integers(0, 50, 6)):
            chunk = rng.integers(0, 1000, (3, 4)).astype("i4")
            where = (3 * int(i), 4 * int(j))
            file["x"].id.write_direct_chunk(where, chunk.tobytes(), 0b11)
            values[where[0] : where[0] + 3, where[1] : where[1] + 4] = chunk[: 301 - where[0], : 203 - where[1]]
    np.testing.assert_array_equal(ps.open(path, "x")[...], values)


def test_chunks_with_five_filters_are_looked_up(tmp_path: Path) -> None:
    """A damaged node of the index is an error only of reads that need it."""
    path = tmp_path / "x.h5"
    values = np.random.default_rng(2).integers(0, 1000, (301, 203)).astype("i4")
    filters = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    filters.set_chunk((3, 4))
    for _ in range(2):
        filters.set_shuffle()
        filters.set_deflate(1)
    filters.set_fletcher32()
    with h5py.File(path, "w", libver="latest") as file:
        space = h5py.h5s.create_simple(values.shape, (h5py.h5s.UNLIMITED, h5py.h5s.UNLIMITED))
        x = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.NATIVE_INT32, space, filters))
        x[...] = values
        for mask in (0b11111, 0b11011):  # a chunk without filters, and one with the second shuffle only
            plain = np.arange(12, dtype="i4")
            shuffled = np.ascontiguousarray(plain.view("u1").reshape(12, 4).T)
            stored = plain if mask == 0b11111 else shuffled
            x.id.write_direct_chunk((0, 4 if mask == 0b11111 else 8), stored.tobytes(), mask)
            values[0:3, 4:8] = values[0:3, 8:12] = plain.reshape(3, 4)
    np.testing.assert_array_equal(ps.open(path, "x")[...], values)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"BTLF") + 50] ^= 1
    damaged = ps.open(bytes(content), "x")
    with pytest.raises(ps.CorruptDataError, match="wrong checksum"):
        damaged[...]


def test_elements_with_axes_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    dtype = np.dtype(("f4", (2, 3)))
    values = np.random.default_rng(1).random((5000, 2, 3), "f4")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (5000,), dtype, chunks=(1,))[...] = values
    a = ps.open(path, "x")
    assert a.shape == (5000, 2, 3)
    np.testing.assert_array_equal(a[...], values)
    np.testing.assert_array_equal(a[17, 1], values[17, 1])


@pytest.mark.parametrize("index", ["btree_1", "fixed_array", "extensible_array", "btree_2"])
def test_a_damaged_index_is_an_error(tmp_path: Path, index: str) -> None:
    """If bytes of the index are changed, reads return the values or an error with the chunk and the index."""
    path = tmp_path / "x.h5"
    values = make(path, index, "gzip")
    content = path.read_bytes()
    marks = {"btree_1": b"TREE", "fixed_array": b"FADB", "extensible_array": b"EADB", "btree_2": b"BTLF"}[index]
    places = [i for i in range(len(content)) if content.startswith(marks, i)]
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        place = int(rng.choice(places)) + int(rng.integers(0, 200))
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        try:
            found = ps.open(bytes(damaged), "x")[...]
        except ps.CorruptDataError:
            refused += 1
        else:
            assert found.shape == values.shape
    assert refused > 50


def test_check_continues_after_a_damaged_node(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "btree_2", "checked")
    content = bytearray(path.read_bytes())
    leaves = [i for i in range(len(content)) if content.startswith(b"BTLF", i)]
    content[leaves[1] + 50] ^= 1
    content[leaves[3] + 50] ^= 1
    (tmp_path / "damaged.h5").write_bytes(content)
    status = run_program("check", tmp_path / "damaged.h5/x")
    said = status.stdout + status.stderr
    assert status.returncode != 0
    assert said.count("has a wrong checksum") == 2, said
    assert "in the chunk index" in said or "bytes [" in said
    sound = run_program("check", path)
    assert sound.returncode == 0, sound.stderr


def test_a_file_that_changes_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, "btree_1", "gzip")
    a = ps.open(path, "x")
    assert a[0, 0] >= 0
    os.rename(path, tmp_path / "old.h5")
    make(path, "btree_1", "plain")
    with pytest.raises(ps.ConflictError):
        a[...]
    path.unlink()
    with pytest.raises((ps.ConflictError, ps.NotFoundError)):
        a[...]
