"""Shards that are complete arrays: `.zarr`, `.npz` and TIFF of each type, shape and option, written by the engine."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

NUMBERS = ["?", "i1", "u1", "<i2", ">i2", "<u4", "<i8", ">u8", "<f2", "<f4", ">f4", "<f8", "<c8", ">c16"]
OTHERS = ["<M8[s]", ">M8[ns]", "<m8[D]", "S3", "<U4", ">U2", "V5"]
FIELDS: list[Any] = [
    [("a", "<i4"), ("b", "<f8")],
    [("a", ">i4"), ("c", "u1", (2,))],
    np.dtype([("a", "u1"), ("b", "<f8")], align=True),
]
SHAPES = [(7,), (7, 5), (5, 20, 30), (0, 3)]


def _values(dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    made = np.dtype(dtype)
    raw = np.random.default_rng(1).integers(0, 100, int(np.prod(shape)) * made.itemsize, dtype="u1")
    if made.kind == "b":
        raw &= 1
    if made.kind == "U":
        raw[:] = np.frombuffer(np.full(raw.size // 4, ord("x"), made.byteorder + "u4").tobytes(), "u1")
    return np.frombuffer(raw.tobytes(), made).reshape(shape) if raw.size else np.empty(shape, made)


def _native(values: np.ndarray) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder("="))


@pytest.mark.parametrize(("suffix", "shape"), list(itertools.product([".zarr", ".npz", ".tif"], SHAPES)))
def test_each_type_is_read_as_it_was_written(tmp_path, suffix, shape):
    for number, dtype in enumerate([*NUMBERS, *OTHERS, *FIELDS]):
        values = _values(dtype, shape)
        folder = tmp_path / str(number)
        if suffix == ".tif" and (len(shape) != 3 or values.dtype.kind not in "iufc"):
            with pytest.raises(ps.UnsupportedError, match="TIFF"):
                ps.save_shards(values, folder / f"s_{{}}{suffix}", rows=2)
            assert not folder.exists() or not list(folder.iterdir())
            continue
        if suffix == ".zarr" and values.dtype == FIELDS[1]:
            with pytest.raises(ps.UnsupportedError, match="field 'c' is an array"):
                ps.save_shards(values, folder / f"s_{{}}{suffix}", rows=2)
            assert not list(folder.iterdir())
            continue
        if suffix == ".npz" and values.dtype == FIELDS[2]:
            continue  # manifests cannot represent gaps between fields
        paths = ps.save_shards(values, folder / f"s_{{}}{suffix}", rows=2)
        found = ps.open_shards(folder / "penstock.shards")
        np.testing.assert_array_equal(found[...], _native(values))
        if suffix == ".npz":
            with np.load(paths[0]) as stored:
                assert stored["x"].dtype == values.dtype
                np.testing.assert_array_equal(stored["x"], values[:2])
        if suffix == ".zarr":  # the same as create_array writes for these values
            ps.create_array(tmp_path / "same", data=values[:2], overwrite=True)
            files = [path.relative_to(tmp_path / "same") for path in (tmp_path / "same").rglob("*") if path.is_file()]
            assert all(
                (Path(paths[0]) / each).read_bytes() == (tmp_path / "same" / each).read_bytes() for each in files
            )


@pytest.mark.parametrize("suffix", [".zarr", ".npz", ".tif"])
@pytest.mark.parametrize("sync", ["none", "objects"])
def test_a_file_appears_only_when_it_is_complete(tmp_path, suffix, sync):
    values = _values("<f4", (4, 20, 30))
    with ps.Context(sync=sync):
        for added in (0, 1):  # the second run replaces the first
            ps.save_shards(values + added, tmp_path / f"s_{{}}{suffix}", rows=2)
            assert sorted(os.listdir(tmp_path)) == ["penstock.shards", f"s_0{suffix}", f"s_1{suffix}"]
            np.testing.assert_array_equal(ps.open_shards(tmp_path / "penstock.shards")[...], values + added)
    writer = ps.ShardWriter(tmp_path / f"t_{{}}{suffix}")
    writer.write(values)
    with pytest.raises(ps.InvalidArgumentError, match="the shards so far are"):
        writer.write(values[:, :10])
    assert f"t_1{suffix}" not in os.listdir(tmp_path)


@pytest.mark.parametrize("suffix", [".zarr", ".tif"])
def test_masked_values_need_a_fill_value(tmp_path, suffix):
    values = np.ma.masked_less(_values("u1", (1, 20, 30)), 50)
    with pytest.raises(ps.InvalidArgumentError, match="masked"):
        ps.ShardWriter(tmp_path / f"s_{{}}{suffix}").write(values)
    whole = np.ma.masked_array(_values("u1", (1, 20, 30)))
    path = ps.ShardWriter(tmp_path / f"s_{{}}{suffix}").write(whole)
    np.testing.assert_array_equal(ps.open(path)[...], whole.data)


def test_options_of_tiffs(tmp_path):
    values = _values("u1", (1, 40, 50))
    name = tmp_path / "s_{}.tif"
    mask = np.indices((40, 50)).sum(0) % 3 > 0

    def written(data: Any = values, **options: Any) -> ps.Array:
        return ps.open(ps.ShardWriter(name, **options).write(data))

    a = written(
        tiles=16, compress="zstd", nodata=7, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), attributes={"a": "b"}
    )
    assert (a.chunks, a.nodata, a.epsg) == ((1, 16, 16), 7, 32633)
    assert b'<Item name="a">b</Item>' in Path(a.uri.removeprefix("file://")).read_bytes()
    assert written(np.ma.masked_less(values, 50), nodata=3)[...].min() == 3
    assert written(dtype="f4").dtype == np.float32
    np.testing.assert_array_equal(ps.open(written(mask=mask).uri, mask=True)[...].reshape(40, 50) != 0, mask)
    assert ps.open(written(mask=True).uri, mask=True)[...].all()
    with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
        written(overwrite=False)
    with pytest.raises(ps.InvalidArgumentError, match="shape"):
        written(mask=mask[1:])
    with pytest.raises(ps.InvalidArgumentError, match=r"TIFF does not take .*'tile'"):
        written(tile=16)
    with pytest.raises(ps.InvalidArgumentError, match=r"TIFF does not take .*'chunks'"):
        written(chunks=16)
    with pytest.raises(ps.InvalidArgumentError, match="tiles have 16"):
        written(tiles=17)
    assert os.listdir(tmp_path) == ["s_0.tif"]


@pytest.mark.parametrize("suffix", [".zarr", ".npz", ".tif"])
def test_names_need_not_be_utf_8(tmp_path, suffix):
    folder = tmp_path / os.fsdecode(b"f\xff\xfe")
    values = _values("<f4", (5, 20, 30))
    name = os.fsdecode(b"s\xff_{}")
    ps.save_shards(values, folder / f"{name}{suffix}", rows=2)
    np.testing.assert_array_equal(ps.open_shards(folder / "penstock.shards")[...], values)
    folder.rename(tmp_path / os.fsdecode(b"g\xfe"))
    np.testing.assert_array_equal(ps.open_shards(tmp_path / os.fsdecode(b"g\xfe") / "penstock.shards")[...], values)


def test_a_folder_that_is_not_an_array_is_kept(tmp_path):
    (tmp_path / "s_0.zarr").mkdir()
    (tmp_path / "s_0.zarr" / "mine").write_text("text")
    with pytest.raises(ps.ConflictError, match="is not a Zarr array; refusing to replace it"):
        ps.ShardWriter(tmp_path / "s_{}.zarr").write(np.zeros(3))
    assert (tmp_path / "s_0.zarr" / "mine").read_text() == "text"
    assert os.listdir(tmp_path) == ["s_0.zarr"]


PROGRAM = Path(__file__).parents[2] / "build" / "release" / "cli" / "penstock"


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
def test_the_program_writes_them_without_python(tmp_path):
    values = _values("<u2", (5, 20, 30))
    ps.save(tmp_path / "x.zarr", values)
    for suffix in (".zarr", ".npz", ".tif", ".npy"):
        folder = tmp_path / suffix[1:]
        pattern = f"{folder}/s_{{:02d}}{suffix}"
        done = subprocess.run(
            [PROGRAM, "shard", tmp_path / "x.zarr", pattern, "--rows", "2", "--json"],
            capture_output=True,
            check=True,
            env={"PATH": "/nonexistent", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
        )
        assert len(json.loads(done.stdout)["files"]) == 3
        np.testing.assert_array_equal(ps.open_shards(folder / "penstock.shards")[...], values)
