"""Long doubles of x86-64 (x87's 80 bits in 16 bytes): NumPy's longdouble."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from support.program import run_program

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant != 63, reason="this machine's long double is not that of x87"
)

# A third has more digits than float64 keeps, and the largest is beyond its range.
VALUES = np.array([0, 1.5, np.longdouble(1) / 3, -np.inf, np.nan, np.finfo(np.longdouble).max], np.longdouble)
LAYOUTS: list[dict[str, Any]] = [{}, {"chunks": (4,)}, {"chunks": (4,), "compression": "gzip", "shuffle": True}]


def equal(a: Any, b: Any) -> None:
    assert np.asarray(a).dtype == np.longdouble
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", LAYOUTS)
def test_datasets(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=VALUES, **options)
        file["x"].attrs["half"] = np.longdouble("0.5")
    a = ps.open(path, "x")
    assert a.dtype == np.longdouble
    assert a.attrs["half"] == 0.5
    equal(a[...], VALUES)
    equal(a[1:5:2], VALUES[1:5:2])
    equal(a.oindex[[2, 0]], VALUES[[2, 0]])
    equal(ps.open(io.BytesIO(path.read_bytes()), "x")[...], VALUES)
    assert a.read(dtype="f8").tolist()[:3] == [0, 1.5, 1 / 3]
    assert "longdouble" in repr(a) or "float128" in repr(a)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("size", [10, 12, 16])
def test_datasets_of_other_machines(tmp_path: Path, size: int, order: str) -> None:
    """x87's 80 bits in 10 or 12 bytes (32-bit programs store these), and in the other byte order."""
    tid = h5py.h5t.NATIVE_LDOUBLE.copy()
    tid.set_size(size)
    tid.set_order(h5py.h5t.ORDER_LE if order == "little" else h5py.h5t.ORDER_BE)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((4,))
    plist.set_deflate(1)
    plist.set_fill_value(np.array(np.longdouble(1) / 3))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple(VALUES.shape)
        made = h5py.h5d.create(file.id, b"x", tid, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, VALUES)
        h5py.h5d.create(file.id, b"empty", tid, space, plist)
    equal(ps.open(tmp_path / "x.h5", "x")[...], VALUES)
    empty = ps.open(tmp_path / "x.h5", "empty")
    equal(empty.fill_value, np.longdouble(1) / 3)
    equal(empty[1:3], [np.longdouble(1) / 3] * 2)


@pytest.mark.parametrize("fill", [np.longdouble(7), np.longdouble(1) / 3, np.longdouble("nan")])
def test_fill_values(tmp_path: Path, fill: np.longdouble) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (6,), np.longdouble, chunks=(2,), fillvalue=fill)[2:4] = VALUES[:2]
        want = file["x"][...]
    a = ps.open(tmp_path / "x.h5", "x")
    equal(a[...], want)
    equal(a.fill_value, fill)


def test_compounds_and_virtual_datasets(tmp_path: Path) -> None:
    rows = np.zeros(6, [("n", "i4"), ("x", np.longdouble)])
    rows["x"] = VALUES
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["rows"] = rows
        file["x"] = VALUES
        layout = h5py.VirtualLayout((12,), np.longdouble)
        for i in range(2):
            layout[6 * i : 6 * i + 6] = h5py.VirtualSource(file["x"])
        file.create_virtual_dataset("both", layout)
    equal(ps.open(tmp_path / "x.h5", "rows")[...]["x"], VALUES)
    equal(ps.open(tmp_path / "x.h5", "both")[...], np.tile(VALUES, 2))


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".raw"])
def test_shards(tmp_path: Path, suffix: str) -> None:
    options: dict[str, Any] = {}
    for i in range(2):
        part, path = VALUES[3 * i : 3 * i + 3], tmp_path / f"q_{i}{suffix}"
        if suffix == ".npy":
            np.save(path, part)
        elif suffix == ".npz":
            np.savez(path, x=part)
        else:
            part.tofile(path)
            options = {"dtype": "longdouble"}
    equal(ps.open_shards(tmp_path / f"q_*{suffix}", **options)[...], VALUES)


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    equal(ps.open(tmp_path / "x.npy")[...], VALUES)


def test_manifests(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(2,), fillvalue=np.longdouble(1) / 3)
    ps.save_manifest(ps.open(tmp_path / "x.h5"), tmp_path / "x.json")
    equal(ps.open(tmp_path / "x.json", "x")[...], VALUES)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_has_no_type_for_them(tmp_path: Path, zarr_format: int) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = VALUES
        file["y"] = np.arange(3)
        file["rows"] = np.zeros(2, [("n", "i4"), ("x", np.longdouble, (2,))])
    with pytest.raises(ps.UnsupportedError, match="long doubles"):
        ps.create_array(tmp_path / "a.zarr", shape=3, dtype=np.longdouble, zarr_format=zarr_format)
    with pytest.raises(ps.UnsupportedError, match="long doubles"):
        ps.create_array(tmp_path / "a.zarr", shape=3, dtype=[("x", np.longdouble)], zarr_format=zarr_format)
    with pytest.raises(ps.UnsupportedError, match="long doubles"):
        ps.copy(tmp_path / "x.h5/x", tmp_path / "b.zarr", zarr_format=zarr_format)
    with pytest.warns(UserWarning, match=r"(?s)rows.*x|x.*rows"):
        ps.copy(tmp_path / "x.h5", tmp_path / "c.zarr", zarr_format=zarr_format)
    assert list(ps.open(tmp_path / "c.zarr")) == ["y"]


def test_zarr_2_of_zarr_python_2(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(VALUES.tobytes())
    meta = {"zarr_format": 2, "shape": [6], "chunks": [6], "dtype": "<f16", "order": "C", "compressor": None}
    (tmp_path / ".zarray").write_text(json.dumps({**meta, "filters": None, "fill_value": 0.0}))
    equal(ps.open(tmp_path)[...], VALUES)


def test_the_program_prints_them(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = VALUES
    for command in (["read"], ["head"], ["info"], ["read", "--format", "csv"]):
        run = [sys.executable, "-m", "penstock", command[0], str(tmp_path / "x.h5/x"), *command[1:]]
        done = subprocess.run(run, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "longdouble" in done.stdout if command == ["info"] else "0.33333333333333333" in done.stdout


def test_devices_do_not_support_them(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    with pytest.raises((BufferError, ps.Error)):
        ps.open(tmp_path / "x.npy").read().__dlpack__()


def test_the_program_compares_values_not_padding(tmp_path):
    a, b = VALUES.copy(), VALUES.copy()
    b.view("u1").reshape(-1, 16)[:, 10:] = 7
    b[0] = -b[0]  # -0
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy").returncode == 0
    b[1] *= 2
    np.save(tmp_path / "b.npy", b)
    done = run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy")
    assert (done.returncode, "1 of 6 elements differs, first at (1,): 1.5 and 3.0" in done.stdout) == (1, True)
    assert run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy", "--rtol", "0.5").returncode == 0


def test_the_program_compares_the_fields_of_structures(tmp_path: Path) -> None:
    a = np.zeros(3, np.dtype([("x", np.longdouble, (2,)), ("n", "i1")], align=True))
    a["x"] = np.array([1, 1.5, 2])[:, None]
    b = a.copy()
    for first, end in ((10, 16), (26, 32), (33, 48)):
        b.view("u1").reshape(3, -1)[:, first:end] = 7
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy").returncode == 0
    b["x"][1, 0] *= 2
    np.save(tmp_path / "b.npy", b)
    done = run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy")
    assert (done.returncode, "1 of 3 elements differs, first at (1,)" in done.stdout) == (1, True)
    assert run_program("diff", tmp_path / "a.npy", tmp_path / "b.npy", "--rtol", "0.5").returncode == 0
