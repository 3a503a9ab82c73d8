"""Open files in place of paths: the content of the object is read, whatever its name."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import penstock as ps
import pytest
from test_tiff import plain_tiff

INSIDE = np.arange(48, dtype="u1").reshape(1, 6, 8)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder of archives of a scene, with another scene of the same name next to them."""
    data = plain_tiff(INSIDE.tobytes(), 8, 6, 1, 8)
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("scene.tif", data)
    (tmp_path / "scene.tif").write_bytes(plain_tiff(bytes(48), 8, 6, 1, 8))
    (tmp_path / "inside.tif").write_bytes(data)
    (tmp_path / "scene.tif.gz").write_bytes(gzip.compress(data))
    (tmp_path / "scene.tif.bz2").write_bytes(bz2.compress(data))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_members_of_archives_are_not_files_of_the_same_name(folder):
    with zipfile.ZipFile("z.zip") as archive:
        np.testing.assert_array_equal(ps.open(archive.open("scene.tif"))[...], INSIDE)
        np.testing.assert_array_equal(ps.open(io.BufferedReader(archive.open("scene.tif")))[...], INSIDE)


def test_urls_of_fsspec_name_files_too(folder):
    fsspec = pytest.importorskip("fsspec")
    data = (folder / "inside.tif").read_bytes()
    fsspec.filesystem("memory").pipe({"/top.tif": data, "/of/scenes/inside": data})
    chains = (f"simplecache::file://{folder}/inside.tif", f"zip://scene.tif::file://{folder}/z.zip")
    for uri in ("memory://top.tif", "memory://of/scenes/inside", *chains):
        np.testing.assert_array_equal(ps.open(uri)[...], INSIDE)
    ps.save("memory://of/made.tif", INSIDE)
    np.testing.assert_array_equal(ps.load("memory://of/made.tif"), INSIDE)
    assert ps.open("memory://of/made.tif").uri == "memory:///of/made.tif"


def test_compressed_files_are_decompressed(folder):
    with gzip.open("scene.tif.gz") as file:
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)
    with bz2.open("scene.tif.bz2") as file:
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)


def test_temporary_files_are_read(folder):
    with tempfile.NamedTemporaryFile() as file:
        file.write((folder / "inside.tif").read_bytes())
        a = ps.open(file)
        np.testing.assert_array_equal(a[...], INSIDE)
    np.testing.assert_array_equal(a[...], INSIDE)
    with tempfile.TemporaryFile() as file:
        file.write((folder / "inside.tif").read_bytes())
        file.seek(5)
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)
        assert file.tell() == 5
    with tempfile.SpooledTemporaryFile() as file:
        file.write((folder / "inside.tif").read_bytes())
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("buffering", [0, -1])
def test_local_files_are_opened_by_path(folder, mode, buffering):
    with open("inside.tif", mode, buffering=buffering) as file:
        a = ps.open(file)
    assert a.uri.endswith("inside.tif")
    np.testing.assert_array_equal(a[...], INSIDE)


def test_a_name_of_a_replaced_file_is_not_followed(folder):
    with open("inside.tif", "rb") as file:
        os.replace("scene.tif", "inside.tif")
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)
        os.remove("inside.tif")
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)
        number = os.dup(file.fileno())
    with open(number, "rb") as file:
        np.testing.assert_array_equal(ps.open(file)[...], INSIDE)


def test_any_object_that_reads_and_seeks_is_a_file(folder):
    class Wrapped:
        def __init__(self, file: io.BytesIO) -> None:
            self.read, self.seek, self.tell = file.read, file.seek, file.tell

    np.testing.assert_array_equal(ps.open(Wrapped(io.BytesIO((folder / "inside.tif").read_bytes())))[...], INSIDE)


def test_other_formats_are_read_from_file_objects_too(tmp_path):
    h5py = pytest.importorskip("h5py")
    file = io.BytesIO()
    with h5py.File(file, "w") as made:
        made["x"] = np.arange(5)
    np.testing.assert_array_equal(ps.open(file)["x"][...], np.arange(5))
