"""New arrays by name: each suffix, place and target selects one driver, or is an error with the reason."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from tiff_writing_cases import DTYPES, picture

ENDINGS = {
    "tif": "tiff",
    "TIFF": "tiff",
    "gtif": "tiff",
    "cog": "tiff",
    "zarr": "zarr3",
    "": "zarr3",
    "tif.zarr": "zarr3",
}
REFUSED = ["nc", "nc4", "h5", "HDF5", "npy", "npz", "parquet", "arrow", "json", "csv", "png", "jpg", "raw", "bin"]


def _targets(folder: Path, name: str) -> dict[str, tuple[Any, str]]:
    """Ways to name the new array; each pair is (target, path)."""
    os.chdir(folder)
    return {
        "str": (f"{folder}/{name}", ""),
        "path": (folder / name, ""),
        "relative": (name, ""),
        "uri": (f"file://{folder}/{name}", ""),
        "folder": (folder, name),
        "missing folder": (folder / "a" / "b" / name, ""),
        "zip": (f"{folder}/in.zip", f"inner/{name}"),
        "in zip": (f"{folder}/other.zip/{name}", ""),
        "dict": ({}, f"a/{name}"),
    }


WAYS = list(_targets(Path.cwd(), "x"))


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("way", WAYS)
def test_each_name_and_place_selects_its_format(tmp_path, monkeypatch, ending, way):
    monkeypatch.chdir(tmp_path)
    target, path = _targets(tmp_path, "x" + ("." if ending else "") + ending)[way]
    values = picture("u2", (2, 40, 30))
    if way == "in zip":
        ps.create_array(f"{tmp_path}/other.zip", "first", data=values)
    made = ps.create_array(target, path, data=values)
    assert made.format == ENDINGS[ending]
    found = ps.open(target, path)
    assert (found.format, found.shape, found.dtype) == (ENDINGS[ending], values.shape, values.dtype)
    np.testing.assert_array_equal(found[...], values)
    with pytest.raises(ps.InvalidArgumentError, match="overwrite"):
        ps.create_array(target, path, data=values)
    np.testing.assert_array_equal(ps.open(target, path)[...], values)
    ps.create_array(target, path, data=values[:, :5] + 1, overwrite=True)
    np.testing.assert_array_equal(ps.open(target, path)[...], values[:, :5] + 1)


@pytest.mark.parametrize(("ending", "dtype"), list(itertools.product(["tif", "zarr"], DTYPES)))
def test_each_type_is_read_as_it_was_written(ending, dtype):
    where: dict[str, Any] = {}
    values = picture(dtype, (2, 30, 20))
    made = ps.create_array(where, f"x.{ending}", data=values)
    assert made.dtype == values.dtype
    np.testing.assert_array_equal(ps.open(where, f"x.{ending}")[...], values)


@pytest.mark.parametrize("ending", REFUSED)
def test_names_of_other_formats_are_refused_with_an_alternative(tmp_path, ending):
    for target in (tmp_path / f"x.{ending}", f"{tmp_path}/x.{ending}/"):
        with pytest.raises(ps.InvalidArgumentError, match=r"use .*'\.zarr' or '\.zip'"):
            ps.create_array(target, shape=(3, 3), dtype="u1")
        with pytest.raises(ps.InvalidArgumentError, match="would write a Zarr folder"):
            ps.create_group(target)
    assert not list(tmp_path.iterdir())


def test_a_group_cannot_have_the_name_of_a_tiff(tmp_path):
    with pytest.raises(ps.InvalidArgumentError, match=r"tiff file, .* penstock\.save"):
        ps.create_group(tmp_path / "x.tif")
    for ending in ("tif", "h5", "npy"):  # copies are Zarr
        with pytest.raises(ps.InvalidArgumentError, match=r"use penstock\.convert"):
            ps.copy(ps.create_array({}, data=np.zeros((3, 3))), tmp_path / f"x.{ending}")


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "x.tif").mkdir()
    with pytest.raises(ps.InvalidArgumentError, match=r"x\.tif' is a folder"):
        ps.create_array(tmp_path / "x.tif", shape=(9, 9), dtype="u1", overwrite=True)
    assert (tmp_path / "x.tif").is_dir()


def test_nothing_is_created_below_a_file(tmp_path):
    (tmp_path / "x.zarr").write_text("mine")
    for target in (tmp_path / "x.zarr", tmp_path / "x.zarr" / "below"):
        for create in (
            lambda target=target: ps.create_array(target, shape=(9,), dtype="u1", overwrite=True),
            lambda target=target: ps.create_group(target, zarr_format=2),
            lambda target=target: ps.rechunk(ps.create_array({}, data=np.zeros(4)), target, 2),
        ):
            with pytest.raises(ps.StorageError, match=r"x\.zarr' is a file, not a folder"):
                create()
    assert [each.name for each in tmp_path.iterdir()] == ["x.zarr"], "parents are not created first"


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_codec_is_named_with_its_level(zarr_format):
    made = ps.create_array({}, data=np.arange(9), codecs=["delta", "zstd:5"], zarr_format=zarr_format)
    other = ps.rechunk(made, {}, 4, codecs="gzip:2")
    settings = [each.codecs[-1] for each in (made, other)]
    assert [each.get("configuration", each)["level"] for each in settings] == [5, 2]
    np.testing.assert_array_equal(other[...], np.arange(9))
    with pytest.raises(ps.InvalidArgumentError, match="'zstd:best'"):
        ps.create_array({}, data=np.arange(9), codecs="zstd:best", zarr_format=zarr_format)


def test_tiles_are_buffered_next_to_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nothing"))
    writer = ps.create_array(tmp_path / "deep" / "x.tif", shape=(9, 9), dtype="u1")
    writer[:] = 3
    writer.close()
    assert list(tmp_path.iterdir()) == [tmp_path / "deep"]
    with pytest.raises(OSError, match="nothing"):  # a dict is not in a folder
        ps.create_array({}, "x.tif", shape=(9, 9), dtype="u1")


class _Boasts:
    """A sequence with a false length: allocating that many elements would end the process."""

    def __len__(self) -> int:
        return 1 << 62

    def __getitem__(self, index: int) -> int:
        raise IndexError(index)


def test_lists_of_options_do_not_trust_a_length(tmp_path, monkeypatch):
    calls: list[Any] = []
    begin = ps._core.begin_array
    monkeypatch.setattr(ps._core, "begin_array", lambda *given: calls.append(given) or begin(*given))
    values = picture("u1", (1, 9, 9))
    ps.save(tmp_path / "x.tif", values)
    (*where, options) = calls[0]
    for name in ("extra_samples", "overviews"):
        with pytest.raises(TypeError, match="a list or a tuple is needed"):
            begin(*where, {**options, "tiff": {**options["tiff"], name: _Boasts()}})
    image = ps.open(tmp_path / "x.tif")
    usual = {"page": 0, "sub_ifds": [], "level": 0, "mask": False, "native_order": False, "bands": [], "ifd": None}
    assert image._tiff_image(usual).shape == (1, 9, 9)
    for name in ("sub_ifds", "bands"):
        with pytest.raises(TypeError, match="a list or a tuple is needed"):
            image._tiff_image({**usual, name: _Boasts()})
    np.save(tmp_path / "x.npy", values)
    raw = {"dtype": "|u1", "shape": None, "row_shape": None, "offset": 0, "fortran_order": False}
    store = where[0]
    with pytest.raises(TypeError, match="a list or a tuple is needed"):
        ps._core.open_contiguous(store, ps.Context(), b"x.npy", {**raw, "rows": _Boasts()})
