"""Elements of variable length of HDF5 files: memory and requests follow the elements that are read.

The expected values are h5py's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import matrix
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")

MIB = 1 << 20


def words(count: int) -> np.ndarray:
    return np.array([f"{'word ' * (i % 5)}{i}" for i in range(count)], object)


def sized(server: HttpServer) -> list[int]:
    """The numbers of bytes of the answers, from now on."""
    sent: list[int] = []
    server.script = lambda request, reply: sent.append(len(reply.body) if request.method == "GET" else 0)
    return sent


SELECTIONS: list[Any] = [
    (3, 4),
    (slice(2, 7, 2), slice(None, None, 3)),
    (slice(0, 1), slice(9, 10)),
    ([5, 0, 5], slice(1, 9)),
    ([6, 1], [2, 9]),
    (slice(0), slice(None)),
    ...,
]


@pytest.mark.parametrize("kind", ["text", "list", "reference"])
@pytest.mark.parametrize("where", ["local", "http", "bytes"])
@pytest.mark.parametrize("chunks", [None, (3, 4), (7, 10)])
def test_selections_of_cells(tmp_path: Path, kind: str, where: str, chunks: tuple[int, ...] | None) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        if kind == "text":
            made = file.create_dataset("x", (7, 10), h5py.string_dtype(), chunks=chunks)
            made[...] = want = words(70).reshape(7, 10)
        elif kind == "list":
            made = file.create_dataset("x", (7, 10), h5py.vlen_dtype("i4"), chunks=chunks)
            want = np.empty((7, 10), object)
            for at in np.ndindex(7, 10):
                made[at] = want[at] = np.arange(sum(at) % 4, dtype="i4")
        else:
            made = file.create_dataset("x", (7, 10), h5py.ref_dtype, chunks=chunks)
            want = np.full((7, 10), "/x", object)
            for at in np.ndindex(7, 10):
                made[at] = file["x"].ref

    def same(got: Any, expected: Any) -> bool:
        if kind == "list":
            pairs = zip(np.ravel(got).tolist(), np.ravel(expected).tolist(), strict=True)
            return all(np.array_equal(a, b) for a, b in pairs)
        return np.array_equal(np.asarray(got, object), np.asarray(expected, object))

    content = path.read_bytes()
    with HttpServer({"x.h5": content}) as server:
        source: Any = {"local": path, "http": f"{server.url}/x.h5", "bytes": content}[where]
        a = ps.open(source, "x")
        for which in SELECTIONS:
            if which == (3, 4) and kind == "list":
                assert np.array_equal(a[which], want[which])
            elif isinstance(which, tuple) and all(isinstance(each, list) for each in which):
                assert same(a.vindex[which], want[which])
            else:
                assert same(a[which], want[which])
        mask = np.arange(70).reshape(7, 10) % 3 == 0
        assert same(a.vindex[mask], want[mask])


@pytest.mark.parametrize("length", [1, 5, 64])
def test_one_element_fetches_its_own_bytes(tmp_path: Path, length: int) -> None:
    """Of a chunk of 64 elements of 128 KiB, a read fetches the selected ones."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (64,), h5py.string_dtype(), chunks=(64,))
        for i in range(64):
            made[i] = f"{i:02}" * (64 << 10)
    with HttpServer({"x.h5": path.read_bytes()}) as server:
        a = ps.open(f"{server.url}/x.h5", "x")
        sent = sized(server)
        got = a[20 : 20 + length] if length < 64 else a[...]
        assert [each[:2] for each in got] == [f"{i:02}" for i in (range(20, 20 + length) if length < 64 else range(64))]
        # A fragmented file is fetched in pages, and a little is read ahead.
        assert sum(sent) < length * (128 << 10) * 5 // 4 + 256 * 1024


# 12 elements of 16 MiB in one chunk.
MEMORY = r"""
import json, re, sys
import numpy as np, penstock as ps
path, what = sys.argv[1:]
context = ps.Context(threads=2)
ps.open(path, "small", context=context)[...]
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) << 10
before = peak()
a = ps.open(path, what, context=context)
one = a[7:8]
length = len(one[0])
print(json.dumps({"grown": peak() - before, "length": length}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("what", ["text", "list", "contiguous", "virtual"])
def test_memory_follows_the_selected_elements(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.h5"
    size, count = 16 * MIB, 12
    with h5py.File(path, "w") as file:
        file["small"] = np.array(["a"], object)
        if what == "list":
            made = file.create_dataset("list", (count,), h5py.vlen_dtype("u1"), chunks=(count,))
            for i in range(count):
                made[i] = np.full(size, i, "u1")
        else:
            chunks = (count,) if what == "text" else None
            made = file.create_dataset("text", (count,), h5py.string_dtype(), chunks=chunks)
            for i in range(count):
                made[i] = "x" * size
            file["contiguous"] = h5py.SoftLink("text")
            layout = h5py.VirtualLayout((count,), h5py.string_dtype())
            layout[:] = h5py.VirtualSource(".", "text", (count,))
            file.create_virtual_dataset("virtual", layout)
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path), what], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    assert found["length"] == size
    # The element in the file's collection, in the cell, in the result and as a Python object.
    assert found["grown"] < 6 * size, f"{found['grown'] / MIB:.0f} MiB"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
@pytest.mark.parametrize("what", ["text", "list"])
def test_one_long_element_is_in_memory_twice(tmp_path: Path, what: str) -> None:
    """The bytes of the file and those of the cell; then the cell and the result; then the result and its object."""
    path, size = tmp_path / "x.h5", 80 * MIB
    with h5py.File(path, "w") as file:
        file["small"] = np.array(["a"], object)
        kind = h5py.string_dtype() if what == "text" else h5py.vlen_dtype("u1")
        made = file.create_dataset(what, (8,), kind, chunks=(8,))
        made[7] = "x" * size if what == "text" else np.full(size, 3, "u1")
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path), what], capture_output=True, check=True, text=True)
    found = json.loads(done.stdout)
    assert found["length"] == size
    assert found["grown"] < 2.3 * size, f"{found['grown'] / MIB:.0f} MiB"


def test_cells_are_limited_by_the_memory_limit(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (9,), h5py.string_dtype(), chunks=(9,))[:] = ["x" * MIB] * 9
    a = ps.open(tmp_path / "x.h5", "x", context=ps.Context(memory_limit="4MiB"))
    assert len(a[2]) == MIB
    assert [len(each) for each in a[3:6]] == [MIB] * 3
    with pytest.raises(ps.Error, match=r"more bytes than the memory limit of 4194304: select fewer"):
        a[...]
    assert len(ps.open(tmp_path / "x.h5", "x")[...]) == 9


def test_an_element_of_a_zarr_chunk_keeps_its_own_bytes(tmp_path: Path) -> None:
    """The result of a read owns the bytes of the selected elements, not those of their whole chunks."""
    a = ps.create_array(tmp_path / "x.zarr", shape=(64,), chunks=(16,), dtype=str, codecs=["zstd"])
    values = np.array([f"{i:02}" * 1000 for i in range(64)], object)
    a[...] = values
    for which in (slice(3, 4), slice(1, 60, 7), slice(None)):
        assert ps.open(tmp_path / "x.zarr")[which].tolist() == values[which].tolist()
    assert a.vindex[np.array([63, 2, 2])].tolist() == values[[63, 2, 2]].tolist()
    assert a.oindex[np.array([5, 40])].tolist() == values[[5, 40]].tolist()


INDEXES: dict[str, tuple[str, Any]] = {
    "B-tree 1": ("earliest", (None,)),
    "fixed array": ("latest", None),
    "extensible array": ("latest", (None,)),
    "B-tree 2": ("latest", (None, None)),
}


@matrix
@pytest.mark.parametrize("filters", ["none", "gzip"])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("where", ["local", "http", "bytes"])
def test_many_chunks_of_text(tmp_path: Path, index: str, filters: str, where: str) -> None:
    """Chunk indexes of text are read by need; unwritten chunks are the fill value."""
    libver, most = INDEXES[index]
    shape = (12_000,) if most is None or len(most) == 1 else (6_000, 2)
    chunks = (2,) if len(shape) == 1 else (1, 1)
    values = np.full(shape, "none", object)
    some = {"compression": "gzip"} if filters == "gzip" else {}
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        made = file.create_dataset(
            "x", shape, h5py.string_dtype(), chunks=chunks, maxshape=most, fillvalue="none", **some
        )
        made[100:400] = values[100:400] = words(values[100:400].size).reshape(values[100:400].shape)
        made[5_000:5_003] = values[5_000:5_003] = words(values[5_000:5_003].size).reshape(values[5_000:5_003].shape)
    content = (tmp_path / "x.h5").read_bytes()
    with HttpServer({"x.h5": content}) as server:
        source: Any = {"local": tmp_path / "x.h5", "http": f"{server.url}/x.h5", "bytes": content}[where]
        a = ps.open(source, "x")
        assert a.nchunks > 4096
        for box in (slice(120, 160), slice(395, 5_002), slice(5_998, None), slice(101, 102)):
            assert a[box].tolist() == values[box].tolist()
        rows = np.array([5_001, 7, 130])
        assert a.oindex[rows].tolist() == values[rows].tolist()
        if where == "local":
            assert a[...].tolist() == values.tolist()
            ps.copy(a, tmp_path / "copy.zarr")
            assert ps.open(tmp_path / "copy.zarr")[...].tolist() == values.tolist()
            ps.save_manifest(a, tmp_path / "m.json")
            assert ps.open(tmp_path / "m.json")[...].tolist() == values.tolist()


@pytest.mark.parametrize(("libver", "most"), [("earliest", None), ("latest", None), ("latest", (None,))])
def test_an_index_of_text_is_read_by_need(tmp_path: Path, libver: str, most: Any) -> None:
    """Of an index of megabytes, opening fetches nothing, and reading a chunk the nodes on the way to it."""
    count, texts = 1 << 20, words(8192)
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        made = file.create_dataset("x", (count,), h5py.string_dtype(), chunks=(1,), maxshape=most)
        for at in range(0, count, count // 8):
            made[at : at + 8192] = texts
    content = (tmp_path / "x.h5").read_bytes()
    assert len(content) > 3 * MIB
    with HttpServer({"x.h5": content}) as server:
        sent = sized(server)
        a = ps.open(f"{server.url}/x.h5", "x")
        assert a[count // 2 + 5000] == texts[5000]
        assert a[count // 2 - 1] == ""
        # The metadata in the first MiB are fetched together, once.
        assert sum(sent) < 5 * MIB // 4
        first = len(sent)
        assert a[count // 2 + 5001] == texts[5001]
        assert len(sent) - first <= 3


def test_damaged_indexes_of_text_are_errors(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w", libver="latest") as file:
        made = file.create_dataset("x", (5_000,), h5py.string_dtype(), chunks=(1,))
        made[:3000] = words(3000)
    content = (tmp_path / "x.h5").read_bytes()
    at = content.index(b"FADB")
    damaged = content[: at + 40] + b"\xff" + content[at + 41 :]
    a = ps.open(damaged, "x")
    with pytest.raises(ps.CorruptDataError, match=r"chunk index|fixed array"):
        a[17:18]
