"""Datasets whose bytes are in external files, as h5py reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock
import pytest
from support.hdf5_values import numbered, reads_as_h5py
from support.http_server import HttpServer

h5py = pytest.importorskip("h5py")


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
    reads_as_h5py(tmp_path / "v.h5")
    monkeypatch.chdir(tmp_path.parent)  # files next to the HDF5 file are found, too
    np.testing.assert_array_equal(penstock.open(tmp_path / "v.h5", "v")[...], values)


def test_parts_between_rows_in_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts may be in any order, also with parts of another file between them."""
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    row = 16
    content = values.tobytes()
    (tmp_path / "a.raw").write_bytes(content[3 * row : 5 * row] + b"--" + content[:row])
    (tmp_path / "b.raw").write_bytes(content[row : 3 * row] + content[5 * row :])
    parts = [("a.raw", 2 * row + 2, row), ("b.raw", 0, 2 * row), ("a.raw", 0, 2 * row), ("b.raw", 2 * row, row)]
    monkeypatch.chdir(tmp_path)
    with h5py.File("v.h5", "w") as file:
        file.create_dataset("v", (6, 4), "<i4", external=parts)
    reads_as_h5py(tmp_path / "v.h5")
    penstock.save_manifest(penstock.open("v.h5"), "v.manifest")
    np.testing.assert_array_equal(penstock.open("v.manifest")["v"][...], values)


def _external(
    folder: Path, name: str, values: np.ndarray, ends: list[int], files: int = 2
) -> list[tuple[str, int, int]]:
    """Store the bytes of an array in files that end at the given places; some files contain several of the extents."""
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
    """A file may also end inside an element."""
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
    a = reads_as_h5py(tmp_path / "v.h5")
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
            values = numbered(i, (6, 4))
            file.create_dataset(f"x{i}", (6, 4), "<i4", external=_external(tmp_path, f"e{i}", values, [10, 30, 31]))
            layout[i] = h5py.VirtualSource(".", f"x{i}", (6, 4))
        file.create_virtual_dataset("v", layout)
    a = reads_as_h5py(tmp_path / "x.h5")
    penstock.save_manifest(a, "m")
    np.testing.assert_array_equal(penstock.open("m")[...], a[...])


def test_external_files_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = numbered(0, (40, 9))
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


def test_external_files_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("x.h5", "w") as file:
        file.create_dataset("v", (4, 2), "i4", external=[("y.bin", 0, 4), ("z.bin", 0, 28)])
    with pytest.raises(penstock.NotFoundError, match=r"y\.bin"):
        penstock.open("x.h5", "v")[...]


def test_external_sizes_that_are_only_stated_cost_nothing(tmp_path: Path) -> None:
    """The sizes that a file states for other files are not limited by its own size: 2^50 bytes each are 2^31 cells."""
    gigabytes = 4
    program = f"""
import resource, sys
import penstock
resource.setrlimit(resource.RLIMIT_AS, ({gigabytes} << 30, {gigabytes} << 30))
print(*(penstock.open(sys.argv[1], name).shape[0] == 2**51 for name in ("rows", "one", "inside")))
"""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("rows", (2**51,), "u1", external=[("a.raw", 0, 2**50), ("b.raw", 0, 2**50)])
        file.create_dataset("one", (2**51,), "u1", external=[("a.raw", 0, 2**51)])
        file.create_dataset("inside", (2**51, 3), "u1", external=[("a.raw", 0, 2**51 + 1), ("b.raw", 0, 2**53)])
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "x.h5"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True True True\n", done.stderr
