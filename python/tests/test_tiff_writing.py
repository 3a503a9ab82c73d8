"""TIFFs that Penstock writes, compared with other readers: GDAL (by rasterio) and tifffile."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import penstock as ps
import pytest
from conftest import either, matrix
from tiff_writing_cases import COMPRESSIONS, DTYPES, LEVELS, check_layout, halved, picture, predictors


@matrix
@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_written_files_are_read_alike_everywhere(tmp_path, compress, interleave):
    rasterio = pytest.importorskip("rasterio")
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    path = tmp_path / "x.tif"
    written = 0
    types = DTYPES[::3] if compress == "lzma" else DTYPES  # lzma needs much memory for each tile, which is slow
    matrix = [
        (dtype, shape, big)
        for dtype, shape in itertools.product(types, [(1, 83, 111), (3, 61, 33), (2, 17, 150), (5, 32, 32)])
        for big in either(compress, interleave, dtype, shape)
    ]
    for dtype, (bands, high, wide), big in matrix:
        values = picture(dtype, (bands, high, wide))
        levels = [values]
        while max(levels[-1].shape[1:]) > 32:
            levels.append(halved(levels[-1]))
        for predictor in predictors(dtype, compress):
            label = f"{dtype} {bands} x {high} x {wide} p{predictor} big={big}"
            options = {"compress": compress, "level": LEVELS.get(compress), "interleave": interleave, "bigtiff": big}
            ps.save(path, values, tiles=32, predictor=predictor, **options)
            ours = ps.open(path)
            assert (ours.shape, ours.dtype) == (values.shape, values.dtype), label
            assert ours.chunks == (1 if interleave == "band" else bands, 32, 32), label
            np.testing.assert_array_equal(ours[...], values, err_msg=label)
            assert ours.overviews == tuple(level.shape[1:] for level in levels[1:]), label
            for number, level in enumerate(levels):
                np.testing.assert_array_equal(ps.open(path, level=number)[...], level, err_msg=f"{label} {number}")
            with tifffile.TiffFile(path) as file:
                assert (file.is_bigtiff, len(file.pages)) == (big, len(levels)), label
                for page, level in zip(file.pages, levels, strict=True):
                    theirs = page.asarray()
                    theirs = theirs[None] if bands == 1 else theirs
                    theirs = np.moveaxis(theirs, -1, 0) if bands > 1 and interleave == "pixel" else theirs
                    np.testing.assert_array_equal(theirs, level, err_msg=label)
            if dtype != "f2":
                with rasterio.open(path) as file:
                    np.testing.assert_array_equal(file.read(), values, err_msg=label)
                    assert file.overviews(1) == [2**k for k in range(1, len(levels))], label
                for number, level in enumerate(levels[1:]):
                    with rasterio.open(path, overview_level=number) as file:
                        np.testing.assert_array_equal(file.read(), level, err_msg=label)
            check_layout(path, interleave == "band")
            written += 1
    assert written >= 4 * len(types)


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c8"])
def test_means_exclude_nodata(tmp_path, dtype):
    values = picture(dtype, (2, 75, 93))
    random = np.random.default_rng(7)
    nodata = 7
    values[random.random(values.shape) < 0.4] = nodata
    values[:, :20, :20] = nodata
    if np.dtype(dtype).kind == "f":
        values[random.random(values.shape) < 0.1] = np.nan
    path = tmp_path / "x.tif"
    ps.save(path, values, tiles=16, nodata=nodata, overviews=[2, 8])
    level = halved(values, nodata)
    np.testing.assert_array_equal(ps.open(path, level=1)[...], level)
    np.testing.assert_array_equal(ps.open(path, level=2)[...], halved(halved(level, nodata), nodata))
    assert ps.open(path).nodata == nodata
    assert ps.open(path).overviews == ((38, 47), (10, 12))


def test_a_mean_that_equals_nodata_is_changed(tmp_path):
    values = np.array([[[-1, 1], [1, -1]]], "i2")
    path = tmp_path / "x.tif"
    ps.save(path, values, tiles=16, nodata=0, overviews=[2])
    assert ps.open(path, level=1)[0, 0, 0] == -1


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "c16"])
def test_nearest_takes_the_upper_left_pixel(tmp_path, dtype):
    values = picture(dtype, (3, 75, 93))
    path = tmp_path / "x.tif"
    ps.save(path, values, tiles=16, overviews=[2, 4], resampling="nearest")
    np.testing.assert_array_equal(ps.open(path, level=1)[...], values[:, ::2, ::2])
    np.testing.assert_array_equal(ps.open(path, level=2)[...], values[:, ::4, ::4])


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_rows_may_be_written_in_any_order(tmp_path, interleave):
    values = picture("f4", (2, 211, 150))
    path, straight = tmp_path / "x.tif", tmp_path / "y.tif"
    ps.save(straight, values, tiles=32, interleave=interleave)
    pieces = [(y, min(y + 32, 211)) for y in range(0, 211, 32)]
    for seed in range(4):
        order = [pieces[i] for i in np.random.default_rng(seed).permutation(len(pieces))]
        a = ps.create_array(path, shape=values.shape, dtype="f4", tiles=32, interleave=interleave, overwrite=True)
        with a:
            for y0, y1 in order:
                if interleave == "band":
                    for band in (1, 0):
                        a[band, y0:y1] = values[band, y0:y1]
                else:
                    a[:, y0:y1, :] = values[:, y0:y1]
        for level in range(len(a.overviews) + 1):
            np.testing.assert_array_equal(ps.open(path, level=level)[...], ps.open(straight, level=level)[...])
        check_layout(path, interleave == "band")


def test_values_of_any_strides_and_types_are_written(tmp_path):
    values = picture("i4", (70, 90, 3))
    path = tmp_path / "x.tif"
    with ps.create_array(path, shape=(3, 70, 90), dtype="i4", tiles=32) as a:
        assert (a.ndim, a.chunks, a.overviews, a.closed) == (3, (3, 32, 32), (2, 4), False)
        a[..., :32, :] = np.moveaxis(values, -1, 0)[:, :32]
        a[:, 32:64] = np.moveaxis(values, -1, 0)[:, 32:64].astype(">i8")
        a.write(np.s_[:, 64:], 5)
    wanted = np.moveaxis(values, -1, 0).copy()
    wanted[:, 64:] = 5
    np.testing.assert_array_equal(ps.open(path)[...], wanted)
    assert a.closed


def test_two_dimensions_are_one_band(tmp_path):
    values = picture("u1", (40, 50))
    path = tmp_path / "x.tif"
    with ps.create_array(path, shape=(40, 50), dtype="u1", tiles=16) as a:
        assert a.chunks == (16, 16)
        a[16:] = values[16:]
        a[:16, :] = values[:16]
    assert ps.open(path).shape == (1, 40, 50)
    np.testing.assert_array_equal(ps.open(path)[0], values)
    ps.save(path, values)
    np.testing.assert_array_equal(ps.load(path)[0], values)


def test_arrays_of_other_formats_are_saved_in_blocks(tmp_path, monkeypatch):
    from penstock.geo import writing as _tiff_writing

    values = picture("u2", (2, 130, 75))
    ps.save(tmp_path / "x.zarr", values)
    monkeypatch.setattr(_tiff_writing, "_PIECE_BYTES", 20000)
    ps.save(tmp_path / "x.tif", ps.open(tmp_path / "x.zarr"), tiles=16)
    np.testing.assert_array_equal(ps.load(tmp_path / "x.tif"), values)


MEMORY = r"""
import re, sys
import numpy as np, penstock as ps

def resident():  # memory of its own: the spool file is mapped when it is closed, which the system may take back
    return int(re.search(r"RssAnon:\s+(\d+)", open("/proc/self/status").read())[1]) << 10

class Field:
    shape, dtype, seen = (3, 24576, 4096), np.dtype("u1"), []

    def __getitem__(self, key):
        start, stop, _ = key[1].indices(self.shape[1])
        made = np.full((3, stop - start, 4096), start % 251, "u1")
        self.seen.append(resident())
        return made

with ps.Context(threads=2):
    ps.save(sys.argv[1] + "/small.tif", np.zeros((3, 512, 512), "u1"))
    before = resident()
    ps.save(sys.argv[1] + "/x.tif", Field(), compress="packbits")
print(max(Field.seen) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_data_larger_than_memory_pass_through_it(tmp_path):
    """288 MiB, of which at most two blocks of 32 MiB and rows of tiles are in memory."""
    done = subprocess.run([sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True)
    assert 32 << 20 < int(done.stdout) < 96 << 20, f"{int(done.stdout) / (1 << 20):.0f} MiB"


def test_rows_that_were_not_written_are_nodata(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    values = picture("f4", (1, 96, 70))
    path = tmp_path / "x.tif"
    for nodata, absent in ((None, 0), (-9999.0, -9999)):
        with ps.create_array(path, shape=values.shape, dtype="f4", tiles=32, nodata=nodata, overwrite=True) as a:
            a[:, 32:64] = values[:, 32:64]
        wanted = values.copy()
        wanted[:, :32] = wanted[:, 64:] = absent
        np.testing.assert_array_equal(ps.open(path)[...], wanted)
        with rasterio.open(path) as file:
            np.testing.assert_array_equal(file.read(), wanted)
        np.testing.assert_array_equal(ps.open(path, level=1)[...], halved(wanted, nodata))
        check_layout(path, False)
    with ps.create_array(path, shape=(2, 5000, 300), dtype="u1", overwrite=True):
        pass
    assert not ps.open(path)[...].any()
    assert path.stat().st_size < 4000


def test_stores_and_threads(tmp_path):
    values = picture("i2", (3, 300, 200))
    where: dict[str, Any] = {}
    ps.create_array(where, "a/x.tif", data=values, tiles=32)
    assert list(where) == ["a/x.tif"]
    np.testing.assert_array_equal(ps.open(where, "a/x.tif")[...], values)
    np.testing.assert_array_equal(ps.open(where["a/x.tif"])[...], values)

    path = tmp_path / "deep" / "er" / "x.tif"
    a = ps.create_array(path, shape=values.shape, dtype="i2", tiles=32, context=ps.Context(threads=3))
    rows = list(range(0, 300, 32))

    def work(mine: list[int]) -> None:
        for y in mine:
            a[:, y : y + 32] = values[:, y : y + 32]

    threads = [threading.Thread(target=work, args=(rows[i::3],)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    a.close()
    np.testing.assert_array_equal(ps.open(path)[...], values)
    np.testing.assert_array_equal(ps.open(path, level=1)[...], halved(values))


def test_the_suffix_decides_the_format(tmp_path):
    ps.save(tmp_path / "x.zarr", np.arange(6.0).reshape(2, 3))
    assert ps.open(tmp_path / "x.zarr").format == "zarr3"
    group = ps.create_group(tmp_path / "g.zarr")
    assert group.create_array("x.tif", shape=(4,), dtype="u1", chunks=2).shape == (4,)
    for name in ("a.TIF", "a.tiff", "a.gtiff"):
        ps.save(tmp_path / name, picture("u1", (1, 9, 9)))
        assert ps.open(tmp_path / name).format == "tiff"
    with pytest.raises(ps.InvalidArgumentError, match="one array"):
        ps.save(tmp_path / "b.tif", a=np.zeros((2, 2)))
