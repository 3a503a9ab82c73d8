"""Zip archives: read in place, detected by content, and equal to what zipfile and zarr-python read."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
import zarr
from conftest import same, sharded, write

VALUES = np.random.default_rng(6).integers(-99, 99, (40, 30), dtype="<i4")


class OldName(zipfile.ZipInfo):
    """An entry with a name as programs wrote it before Unicode."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:
        return self.filename.encode("cp437"), 0


METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def archive(path: Path, objects: dict[str, bytes], method: int = zipfile.ZIP_STORED, prefix: str = "") -> Path:
    with zipfile.ZipFile(path, "w", method) as made:
        for key, value in objects.items():
            made.writestr(prefix + key, value)
    return path


@pytest.fixture(scope="module")
def objects() -> dict[str, bytes]:
    return write(VALUES, (16, 16), sharded((8, 4)))


@pytest.mark.parametrize("method", METHODS)
def test_an_archive_is_read_like_its_folder(method, objects, tmp_path):
    path = archive(tmp_path / "x.zip", objects, METHODS[method])
    array = ps.open(path)
    assert array.uri == f"zip://{path}"
    assert same(array[...], VALUES)
    assert same(array[3:35:4, ::-2], VALUES[3:35:4, ::-2])
    assert array[-1, -1] == VALUES[-1, -1]
    assert same(array.read_async().wait(), VALUES)


def test_a_zarr_zip_store_is_read(tmp_path):
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        write(VALUES, (16, 16), sharded((8, 4)), store=store)
    store = zarr.storage.ZipStore(tmp_path / "x.zip", mode="r")
    array = ps.open(store)
    assert array.uri.startswith("zip:")
    assert same(array[...], VALUES)
    assert same(ps.open(zarr.open_array(store, mode="r"))[...], VALUES)
    group = zarr.create_group(zarr.storage.ZipStore(tmp_path / "g.zip", mode="w"))
    group.create_array("inner/x", data=VALUES, chunks=(16, 16))
    assert same(ps.open(group, "inner/x")[...], VALUES)  # still open for writing, so it is read through zarr-python
    group.store.close()
    assert same(ps.open(tmp_path / "g.zip", "inner/x")[...], VALUES)


def test_any_name_opens_and_paths_continue_in_the_archive(objects, tmp_path, monkeypatch):
    path = archive(tmp_path / "data.bin", objects, prefix="group/of/x/")
    for target in (
        f"{path}/group/of/x",
        f"zip:{path}/group/of/x",
        f"zip://{path}/group/of/x",
        f"file://{path}/group/of/x",
    ):
        array = ps.open(target)
        assert array.uri == f"zip://{path}/group/of/x"
        assert same(array[...], VALUES)
    assert same(ps.open(path, "group/of/x")[...], VALUES)
    monkeypatch.chdir(tmp_path)
    assert same(ps.open("zip:data.bin", "group/of/x")[...], VALUES)
    (tmp_path / "folder.zip").mkdir()
    write(VALUES, (16, 16), store=tmp_path / "folder.zip")
    assert ps.open("folder.zip").uri == f"file://{tmp_path}/folder.zip"
    for nothing in ("no.zip", "zip:no.zip", "zip:folder.zip/no", f"{path}/group/none"):
        with pytest.raises(ps.NotFoundError):
            ps.open(nothing)


def test_an_archive_that_was_replaced_is_read_again(objects, tmp_path):
    path = archive(tmp_path / "x.zip", objects)
    array = ps.open(path)
    assert same(array[...], VALUES)
    time.sleep(0.02)
    archive(path, write(VALUES + 1, (16, 16), sharded((8, 4))))  # rewritten in place
    assert same(array[...], VALUES + 1)
    time.sleep(0.02)
    os.replace(archive(tmp_path / "y.zip", write(VALUES + 2, (16, 16), sharded((8, 4)))), path)
    assert same(array[...], VALUES + 2)
    path.unlink()
    with pytest.raises(ps.StorageError, match="the archive was removed"):
        array[...]


def test_damage_is_detected(objects, tmp_path):
    path = archive(tmp_path / "x.zip", objects)
    raw = bytearray(path.read_bytes())
    raw[raw.index(objects["c/0/0"]) + 3] ^= 1
    (tmp_path / "bad.zip").write_bytes(raw)
    with pytest.raises(ps.CorruptDataError):
        ps.open(tmp_path / "bad.zip")[...]
    for cut in (10, len(raw) // 2, len(raw) - 1):
        (tmp_path / "cut.zip").write_bytes(path.read_bytes()[:cut])
        with pytest.raises(ps.CorruptDataError, match="not a zip archive"):
            ps.open(tmp_path / "cut.zip")


def test_names_beyond_ascii(objects, tmp_path):
    path = archive(tmp_path / "x.zip", objects, prefix="größe/数据/")
    assert same(ps.open(path, "größe/数据")[...], VALUES)
    old = tmp_path / "old.zip"
    with zipfile.ZipFile(old, "w") as made:
        for key, value in objects.items():
            made.writestr(OldName("größe/" + key), value)
    assert same(ps.open(old, "größe")[...], VALUES)


def test_groups_list_the_members_of_an_archive(objects, tmp_path):
    group = b'{"zarr_format":3,"node_type":"group"}'
    path = archive(tmp_path / "x.zip", {"zarr.json": group, **{f"a/{key}": value for key, value in objects.items()}})
    assert list(ps.open(path)) == ["a"]
    assert same(ps.open(path)["a"][...], VALUES)


def test_members_of_an_archive_are_pickled_by_path(objects, tmp_path):
    path = archive(tmp_path / "a b.zip", objects, prefix="deep/x/")
    ps.save(tmp_path / "scene.tif", VALUES)
    with zipfile.ZipFile(path, "a") as made:
        made.write(tmp_path / "scene.tif", "scene.tif")
    array, scene = ps.open(path, "deep/x"), ps.open(path, "scene.tif")
    assert same(pickle.loads(pickle.dumps(array))[...], VALUES)
    assert same(pickle.loads(pickle.dumps(scene))[0], VALUES)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert same(pool.apply(np.asarray, (array,)), VALUES)


def test_arrays_are_created_and_written_in_archives(tmp_path):
    path = tmp_path / "x.zip"
    array = ps.create_array(path, "group/a", shape=(40, 30), dtype="i4", chunks=(8, 4), shards=(16, 16))
    array[...] = VALUES
    with zarr.storage.ZipStore(path, mode="r") as store:
        assert same(zarr.open_array(store, path="group/a", mode="r")[...], VALUES)
    want = VALUES.copy()
    want[3:5, ::7] = 9
    array[3:5, ::7] = 9
    assert same(ps.open(f"{path}/group/a")[...], want)
    assert zipfile.ZipFile(path).testzip() is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.zip"]
    other = ps.open(path, "group/a", mode="r+")
    other[0] = 1
    array[1] = 2
    want[0], want[1] = 1, 2
    assert same(ps.open(path, "group/a")[...], want)


def test_many_small_writes_keep_an_archive_small(tmp_path):
    path = tmp_path / "x.zip"
    array = ps.create_array(path, shape=(2000,), dtype="u1", chunks=(10,))
    for i in range(0, 2000, 10):
        array[i : i + 10] = np.arange(10, dtype="u1") + 1
    assert same(ps.open(path)[...], np.tile(np.arange(10, dtype="u1") + 1, 200))
    assert path.stat().st_size < 100_000


def test_writers_of_one_archive_take_turns(tmp_path):
    path = tmp_path / "x.zip"
    ps.create_array(path, shape=(8, 100), dtype="i4", chunks=(1, 10), shards=(8, 50))
    code = """
import sys, penstock as ps
array = ps.open(sys.argv[1], mode="r+")
for column in range(0, 100, 10):
    array[int(sys.argv[2]), column : column + 10] = int(sys.argv[2]) + 1
"""
    children = [subprocess.Popen([sys.executable, "-c", code, str(path), str(row)]) for row in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    want = np.zeros((8, 100), "i4")
    want[:4] = np.arange(1, 5)[:, None]
    assert same(ps.open(path)[...], want)
