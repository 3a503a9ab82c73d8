"""TIFFs that are written, against who else reads them: GDAL (by rasterio), tifffile, and the validators of COGs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
COMPRESSIONS = ["none", "packbits", "lzw", "deflate", "zstd", "lzma"]
LEVELS = {"lzma": 0}  # the usual one takes 94 MiB for each tile
UTM = (10.0, 0.0, 500000.0, 0.0, -10.0, 4000000.0)


def picture(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Smooth values with some noise, over most of the type's range."""
    random = np.random.default_rng(seed)
    steps = random.integers(-3, 4, shape).cumsum(-1).cumsum(-2)
    kind = np.dtype(dtype).kind
    if kind in "iu":
        return (steps * 41).astype(dtype)
    if kind == "c":
        return (steps * 0.37 + 1j * steps[..., ::-1] * 1.5).astype(dtype)
    return (steps / 7).astype(dtype)


def halved(values: np.ndarray, nodata: float | None = None) -> np.ndarray:
    """The mean of each four pixels of (band, y, x), without nodata and NaN; integers rounded, halves up."""
    padded = np.pad(values, [(0, 0), (0, values.shape[1] % 2), (0, values.shape[2] % 2)], mode="edge")
    four = np.stack([padded[:, y::2, x::2] for y in (0, 1) for x in (0, 1)])
    exact = four.astype(object if values.dtype.kind in "iu" else np.complex128 if values.dtype.kind == "c" else float)
    there = np.ones(four.shape, bool) if values.dtype.kind in "iu" else ~np.isnan(four)
    if nodata is not None:
        there &= four != nodata
    count = there.sum(0)
    total = np.where(there, exact, 0).sum(0)
    some = np.maximum(count, 1)
    mean = (2 * total + some) // (2 * some) if values.dtype.kind in "iu" else total / some
    out = np.where(count > 0, mean, nodata if nodata is not None else four[0]).astype(values.dtype)
    first = np.take_along_axis(four, there.argmax(0)[None], 0)[0]
    if nodata is not None:
        out = np.where((count > 0) & (out == nodata), first, out)
    return out


def predictors(dtype: str, compress: str) -> list[Any]:
    if compress in ("none", "packbits"):
        return ["auto"]
    kind = np.dtype(dtype).kind
    return [1] if kind == "c" else [1, 2] if kind in "iu" else [1, 2, 3]


def check_cog(path: Path) -> None:
    cogeo = pytest.importorskip("rio_cogeo")
    valid, errors, warnings = cogeo.cog_validate(path, strict=True, quiet=True)
    assert (valid, errors, warnings) == (True, [], [])


def check_layout(path: Path, bands_apart: bool) -> None:
    """The promises that stand in front of the directories hold for every tile, read by tifffile."""
    tifffile = pytest.importorskip("tifffile")
    data = path.read_bytes()
    with tifffile.TiffFile(path) as file:
        header = 16 if file.is_bigtiff else 8
        size = int(data[header + 30 : header + 36])
        text = data[header + 43 : header + 43 + size].decode()
        assert text.endswith("KNOWN_INCOMPATIBLE_EDITION=NO\n ")
        assert ("INTERLEAVE=BAND\n" in text) == bands_apart
        pages = list(file.pages)
        first = header + 43 + size
        assert pages[0].offset == first + first % 2
        offsets = [page.offset for page in pages]
        assert offsets == sorted(offsets)
        end = max(offsets)
        for page in reversed(pages):
            for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
                if count == 0:
                    assert offset == 0
                    continue
                assert offset - 4 >= end, "tiles follow one another, those of the smallest overview first"
                assert int.from_bytes(data[offset - 4 : offset], "little") == count
                assert data[offset + count : offset + count + 4] == data[offset + count - 4 : offset + count]
                end = offset + count + 4
        assert end == len(data)


@pytest.mark.parametrize("compress", COMPRESSIONS)
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_what_is_written_reads_the_same_everywhere(tmp_path, compress, interleave):
    rasterio = pytest.importorskip("rasterio")
    tifffile = pytest.importorskip("tifffile")
    pytest.importorskip("imagecodecs")
    path = tmp_path / "x.tif"
    written = 0
    types = DTYPES[::3] if compress == "lzma" else DTYPES  # much memory for each tile, which machines give slowly
    for dtype, (bands, high, wide), big in itertools.product(
        types, [(1, 83, 111), (3, 61, 33), (2, 17, 150), (5, 32, 32)], (False, True)
    ):
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
    assert written >= 8 * len(types)


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_validators_find_a_cog(tmp_path, interleave, big):
    pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    ps.save(
        path,
        picture("u2", (3, 1100, 1300)),
        tiles=256,
        interleave=interleave,
        bigtiff=big,
        crs="EPSG:32633",
        transform=UTM,
    )
    check_cog(path)
    check_layout(path, interleave == "band")


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("compress", COMPRESSIONS)
def test_gdals_own_validator_finds_a_cog(tmp_path, compress, big):
    """It comes with Python of the system (python3-gdal), and looks at every tile's leader and trailer."""
    python = "/usr/bin/python3"
    known = [python, "-c", "import osgeo_utils.samples.validate_cloud_optimized_geotiff"]
    if not os.path.exists(python) or subprocess.run(known, capture_output=True, check=False).returncode != 0:
        pytest.skip("python3-gdal is not installed")
    path = tmp_path / "x.tif"
    options = {"compress": compress, "level": LEVELS.get(compress), "crs": 3857, "transform": UTM}
    ps.save(path, picture("u2", (3, 1100, 1300)), tiles=256, bigtiff=big, **options)
    program = (
        "import sys; from osgeo_utils.samples import validate_cloud_optimized_geotiff as v;"
        "w, e, d = v.validate(sys.argv[1], full_check=True); assert not w and not e, (w, e)"
    )
    done = subprocess.run([python, "-c", program, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c8"])
def test_means_leave_out_nodata(tmp_path, dtype):
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


def test_a_mean_that_equals_nodata_gives_way_to_a_value(tmp_path):
    values = np.array([[[-1, 1], [1, -1]]], "i2")
    path = tmp_path / "x.tif"
    ps.save(path, values, tiles=16, nodata=0, overviews=[2])
    assert ps.open(path, level=1)[0, 0, 0] == -1


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "c16"])
def test_nearest_takes_the_upper_left(tmp_path, dtype):
    values = picture(dtype, (3, 75, 93))
    path = tmp_path / "x.tif"
    ps.save(path, values, tiles=16, overviews=[2, 4], resampling="nearest")
    np.testing.assert_array_equal(ps.open(path, level=1)[...], values[:, ::2, ::2])
    np.testing.assert_array_equal(ps.open(path, level=2)[...], values[:, ::4, ::4])


@pytest.mark.parametrize("interleave", ["pixel", "band"])
def test_rows_come_in_any_order(tmp_path, interleave):
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


def test_values_of_any_strides_and_types_are_taken(tmp_path):
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


def test_arrays_of_other_formats_are_saved_piece_by_piece(tmp_path, monkeypatch):
    from penstock import _tiff_writing

    values = picture("u2", (2, 130, 75))
    ps.save(tmp_path / "x.zarr", values)
    monkeypatch.setattr(_tiff_writing, "_PIECE_BYTES", 20000)
    ps.save(tmp_path / "x.tif", ps.open(tmp_path / "x.zarr"), tiles=16)
    np.testing.assert_array_equal(ps.load(tmp_path / "x.tif"), values)


def test_rows_that_never_came_are_nodata(tmp_path):
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


# --- georeferencing and metadata ---


@pytest.mark.parametrize(
    "crs", [32633, "EPSG:4326", "epsg:3857", np.int64(2056), "EPSG:4326+5773", "EPSG:25832+7837", "EPSG:4979"]
)
def test_systems_with_a_code_are_what_gdal_reads(tmp_path, crs):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 20, 20)), crs=crs, transform=UTM)
    wanted = pyproj.CRS.from_user_input(crs)
    assert ps.open(path).crs == wanted
    with rasterio.open(path) as file:
        assert pyproj.CRS.from_wkt(file.crs.to_wkt()).equals(wanted, ignore_axis_order=True)
        assert tuple(file.transform)[:6] == UTM


def test_objects_of_pyproj_and_rasterio_and_wkt_are_systems(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    affine = pytest.importorskip("affine")
    path = tmp_path / "x.tif"
    system = pyproj.CRS.from_epsg(32633)
    old = rasterio.crs.CRS.from_epsg(32633)
    for crs in (system, system.to_wkt(), system.to_wkt("WKT1_GDAL"), old, old.to_wkt()):
        ps.save(path, picture("u1", (1, 20, 20)), crs=crs, transform=affine.Affine(*UTM))
        assert ps.open(path).epsg == 32633
        assert ps.open(path).transform == UTM


@pytest.mark.parametrize(
    "proj",
    [
        "+proj=laea +lat_0=47.3 +lon_0=8.5 +x_0=1000 +y_0=2000 +datum=WGS84 +units=m",
        "+proj=tmerc +lat_0=1 +lon_0=3 +k=0.9 +ellps=bessel +units=us-ft",
        "+proj=sinu +R=6371007.181 +units=m",
        "+proj=longlat +R=6371000",
    ],
)
def test_a_system_without_a_code_is_written_as_wkt(tmp_path, proj):
    rasterio = pytest.importorskip("rasterio")
    pyproj = pytest.importorskip("pyproj")
    wanted = pyproj.CRS.from_proj4(proj)
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 20, 20)), crs=wanted, transform=UTM)
    assert ps.open(path).epsg is None
    with rasterio.open(path) as file:
        theirs = pyproj.CRS.from_wkt(file.crs.to_wkt())
    base = wanted.geodetic_crs
    for read in (ps.open(path).crs, theirs):
        there = pyproj.Transformer.from_crs(read.geodetic_crs, read, always_xy=True).transform(9.25, 46.5)
        here = pyproj.Transformer.from_crs(base, wanted, always_xy=True).transform(9.25, 46.5)
        np.testing.assert_allclose(there, here, atol=1e-6)
        assert read.ellipsoid.semi_major_metre == pytest.approx(wanted.ellipsoid.semi_major_metre)


def test_systems_that_geotiff_cannot_say_are_refused_by_name(tmp_path):
    pyproj = pytest.importorskip("pyproj")
    local = pyproj.CRS.from_wkt('LOCAL_CS["my site",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]')
    for crs, words in (
        (local, "my site"),
        (pyproj.CRS.from_proj4("+proj=ob_tran +o_proj=longlat +o_lat_p=30 +lon_0=9"), "no EPSG code"),
        (pyproj.CRS.from_proj4("+proj=utm +zone=33 +ellps=bessel +towgs84=1,2,3"), "datum shift"),
        ("EPSG:4978", "WGS 84"),
        ("EPSG:5773", "EGM96"),
    ):
        with pytest.raises(ps.UnsupportedError, match=words):
            ps.create_array(tmp_path / "x.tif", shape=(1, 9, 9), dtype="u1", crs=crs)
    for crs in ("EPSG:99999999", "nonsense", 3.5, -1):
        with pytest.raises(ps.InvalidArgumentError, match="coordinate system"):
            ps.create_array(tmp_path / "x.tif", shape=(1, 9, 9), dtype="u1", crs=crs)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("point", [False, True])
@pytest.mark.parametrize(
    "transform", [UTM, (0.5, 0, -180, 0, -0.25, 90), (3, 1, 7, -1, -3, 5), (10, 0, 0, 0, 10, 0), (-1, 0, 5, 0, -1, 5)]
)
def test_transforms_are_what_gdal_reads(tmp_path, transform, point):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    kind = "Point" if point else "Area"
    ps.save(path, picture("u1", (1, 20, 20)), transform=transform, crs=3857, area_or_point=kind)
    ours = ps.open(path)
    assert ours.transform == pytest.approx(transform)
    assert ours.area_or_point == kind
    with rasterio.open(path) as file:
        assert tuple(file.transform)[:6] == pytest.approx(transform)
        assert file.tags()["AREA_OR_POINT"] == kind


def test_metadata_reads_back(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    values = picture("i2", (2, 20, 20))
    made = ps.create_array(
        path,
        data=values,
        descriptions=["red & <blue>", None],
        units=[None, "m"],
        scales=[0.1, 1e-7],
        offsets=[-5.5, 0.0],
        nodata=-32768,
        attributes={"who": 'me & "you"', "n": 3, "TIFFTAG_<x>": "é"},
    )
    assert isinstance(made, ps.TiffArray)
    for ours in (made, ps.open(path)):
        assert ours.descriptions == ("red & <blue>", None)
        assert ours.units == (None, "m")
        assert ours.scales == (0.1, 1e-7)
        assert ours.offsets == (-5.5, 0.0)
        assert ours.gdal_metadata == {"who": 'me & "you"', "n": "3", "TIFFTAG_<x>": "é"}
        assert ours.nodata == -32768
    with rasterio.open(path) as file:
        assert file.descriptions == ("red & <blue>", None)
        assert file.units == (None, "m")
        assert file.scales == (0.1, 1e-7)
        assert file.offsets == (-5.5, 0.0)
        assert file.tags()["who"] == 'me & "you"'
        assert file.nodata == -32768
        np.testing.assert_array_equal(file.read(), values)


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [("u1", 255), ("i8", -(2**63)), ("u8", 2**64 - 1), ("f4", 0.1), ("f4", np.nan), ("f8", -np.inf)],
)
def test_nodata_is_the_very_value(tmp_path, dtype, nodata):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    ps.save(path, np.full((1, 40, 20), nodata, dtype), tiles=16, nodata=nodata)
    ours = ps.open(path)
    assert np.array(ours.nodata, dtype).tobytes() == np.array(nodata, dtype).tobytes() or np.isnan(nodata)
    np.testing.assert_array_equal(ours[...], np.full((1, 40, 20), nodata, dtype))
    with rasterio.open(path) as file:
        if file.nodata is not None:  # rasterio has no number for uint64's largest ones
            assert np.array(file.nodata, dtype) == np.array(nodata, dtype) or np.isnan(file.nodata)
        assert (file.nodata is None) == (dtype == "u8")


def test_colours(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = tmp_path / "x.tif"
    for bands, dtype, options, wanted in (
        (3, "u1", {}, ("rgb", [])),
        (4, "u1", {"alpha": True}, ("rgb", ["alpha"])),
        (4, "u1", {}, ("minisblack", ["undefined"] * 3)),
        (3, "u2", {"photometric": "rgb"}, ("rgb", [])),
        (2, "u2", {"alpha": True}, ("minisblack", ["alpha"])),
        (3, "u1", {"photometric": "minisblack"}, ("minisblack", ["undefined"] * 2)),
    ):
        values = picture(dtype, (bands, 20, 30))
        ps.save(path, values, tiles=16, **options)
        ours = ps.open(path)
        assert ours.photometric == wanted[0]
        np.testing.assert_array_equal(ours[...], values)
        with rasterio.open(path) as file:
            colours = [each.name for each in file.colorinterp]
            assert colours == (["red", "green", "blue"] if wanted[0] == "rgb" else ["gray"]) + wanted[1]
    colormap = np.random.default_rng(3).integers(0, 65536, (200, 3))
    ps.save(path, picture("u1", (1, 40, 40)), tiles=16, colormap=colormap, resampling="nearest")
    np.testing.assert_array_equal(ps.open(path).colormap[:200], colormap)
    assert not ps.open(path).colormap[200:].any()
    with rasterio.open(path) as file:
        assert file.colormap(1)[7][:3] == tuple(colormap[7] // 257) or file.colormap(1)[7][:3] == tuple(
            colormap[7] >> 8
        )


# --- what is refused, and what is left behind ---


def test_a_store_that_refuses_once_is_asked_again(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    values = picture("u1", (1, 90, 90))
    a = ps.create_array(folder / "x.tif", shape=values.shape, dtype="u1", tiles=16)
    a[...] = values
    folder.rmdir()
    folder.write_bytes(b"")  # a file where the folder was
    with pytest.raises(ps.StorageError):
        a.close()
    assert not a.closed
    folder.unlink()
    a.close()
    np.testing.assert_array_equal(ps.open(folder / "x.tif")[...], values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tiles": 20}, "16, 32"),
        ({"tiles": 0}, "16, 32"),
        ({"tiles": -16}, "tiles"),
        ({"tiles": (16,)}, "rows and columns"),
        ({"tiles": "big"}, "rows and columns"),
        ({"tiles": 1 << 20}, "65536"),
        ({"compress": "jpeg"}, "'jpeg'"),
        ({"compress": 8}, "compress must be a name"),
        ({"level": 9, "compress": "lzw"}, "no levels"),
        ({"level": 13}, "1 to 12"),
        ({"level": 99, "compress": "zstd"}, "1 to 22"),
        ({"level": "high"}, "level must be an int"),
        ({"predictor": 3}, "for floats"),
        ({"predictor": 4}, "no predictor 4"),
        ({"predictor": 2, "compress": "packbits"}, "needs compression"),
        ({"dtype": "c8", "predictor": 2}, "complex"),
        ({"dtype": "?"}, "bool"),
        ({"dtype": "S3"}, "S3"),
        ({"dtype": "M8[s]"}, "datetime64"),
        ({"interleave": "line"}, "interleave must be"),
        ({"overviews": [3]}, "powers of two"),
        ({"overviews": [4, 2]}, "ascending"),
        ({"overviews": [2, 1 << 30]}, "no overview of"),
        ({"overviews": "all"}, "overviews must be"),
        ({"overviews": 4}, "overviews must be"),
        ({"resampling": "cubic"}, "average, nearest"),
        ({"nodata": 256}, "no value of uint8"),
        ({"nodata": 0.5}, "no value of uint8"),
        ({"nodata": "x"}, "no value of uint8"),
        ({"nodata": 1e39, "dtype": "f4"}, "no value of float32"),
        ({"transform": (1, 2, 3)}, "six numbers"),
        ({"transform": (1, 0, 0, 1, 0, 0)}, "one line"),
        ({"transform": (1, 0, np.nan, 0, 1, 0)}, "six numbers"),
        ({"area_or_point": "Line"}, "Area"),
        ({"bigtiff": "maybe"}, "bigtiff must be"),
        ({"photometric": "rgb", "shape": (2, 9, 9)}, "RGB needs 3"),
        ({"photometric": "ycbcr"}, "photometric must be"),
        ({"photometric": "palette"}, "needs a colormap"),
        ({"colormap": np.zeros((300, 3), int)}, "at most 256"),
        ({"colormap": np.zeros((3, 3), int), "dtype": "f4"}, "needs one band"),
        ({"colormap": [[70000, 0, 0]]}, "0 to 65535"),
        ({"alpha": True}, "alpha"),
        ({"descriptions": ["a", "b"]}, "one for each"),
        ({"scales": 3}, "one for each"),
        ({"attributes": {"a": "\0"}}, "character 0"),
        ({"shape": (9,)}, "band, y, x"),
        ({"shape": 9}, "band, y, x"),
        ({"shape": (1, 1, 9, 9)}, "band, y, x"),
        ({"shape": (1, 0, 9)}, "no pixels"),
        ({"shape": (1, -3, 9)}, "no pixels"),
        ({"shape": (70000, 9, 9)}, "at most 65535 bands"),
        ({"shape": (1, 1 << 31, 9)}, "rows and columns"),
        ({"shape": (1, 1 << 62, 1 << 62)}, "rows and columns"),
        ({"shape": (1, 1 << 64, 9)}, "no pixels, or too many"),
        ({"shape": (1, (1 << 31) - 1, (1 << 31) - 1), "tiles": 16}, "tiles"),
        ({"shape": (60000, 9, 9), "tiles": 512}, "smaller tiles"),
        ({"shape": (1, 9, (1 << 31) - 1), "dtype": "f8", "tiles": 65520}, "smaller tiles"),
        ({"chunks": 16}, "tiles="),
        ({"codecs": ["zstd"]}, "compress="),
        ({"fill_value": 3}, "nodata="),
        ({"shards": 16}, "option of Zarr"),
    ],
)
def test_options_that_make_no_sense_are_refused(tmp_path, options, words):
    given = {"shape": (1, 9, 9), "dtype": "u1"} | options
    with pytest.raises((ps.InvalidArgumentError, ps.UnsupportedError), match=words):
        ps.create_array(tmp_path / "x.tif", **given)
    assert not list(tmp_path.iterdir())


def test_unknown_options_are_a_type_error(tmp_path):
    with pytest.raises(TypeError, match="'tile'"):
        ps.create_array(tmp_path / "x.tif", shape=(9, 9), dtype="u1", tile=16)
    with pytest.raises(TypeError, match="'tiles'"):
        ps.create_array(tmp_path / "x.zarr", shape=(9, 9), dtype="u1", tiles=16)
    assert not list(tmp_path.iterdir())


def test_rows_too_wide_for_the_memory_limit_are_refused_at_once(tmp_path):
    with pytest.raises(ps.ResourceExhaustedError, match="overview"):
        ps.create_array(
            tmp_path / "x.tif",
            shape=(4, 4096, 1 << 20),
            dtype="f8",
            context=ps.Context(memory_limit=64 << 20),
        )
    assert not list(tmp_path.iterdir())


def test_writes_that_cannot_be_are_refused_in_words(tmp_path):
    path = tmp_path / "x.tif"
    values = picture("u2", (2, 100, 50))
    a = ps.create_array(path, shape=values.shape, dtype="u2", tiles=32)
    for key, words in (
        (np.s_[:, :10], "no whole rows of tiles"),
        (np.s_[:, 5:32], "no whole rows of tiles"),
        (np.s_[:, 0], "no whole rows of tiles"),
        (np.s_[:, :, :20], "whole rows are written"),
        (np.s_[:, ::2], "step 1"),
        (np.s_[0], "share tiles"),
        (np.s_[1:], "share tiles"),
        (np.s_[:, [0, 1]], "by slices"),
        (np.s_[:, :, :, :], "dimensions"),
        (np.s_[..., ...], "dimensions"),
    ):
        with pytest.raises(ps.InvalidArgumentError, match=words):
            a[key] = 0
    with pytest.raises(ps.OutOfRangeError):
        a[:, 100] = 0
    with pytest.raises(ps.InvalidArgumentError, match="broadcast"):
        a[:, :32] = np.zeros((2, 31, 50))
    with pytest.raises(ps.UnsupportedError, match="close it"):
        a[...]
    with pytest.raises(ps.UnsupportedError, match="close it"):
        np.asarray(a)
    a[:, 32:64] = values[:, 32:64]
    for key in (np.s_[:, 32:64], np.s_[:, :], np.s_[:, 32:]):
        with pytest.raises(ps.InvalidArgumentError, match=r"rows \[32, 64\) are written already"):
            a[key] = 0
    a[:, :32] = values[:, :32]
    a[:, 64:] = values[:, 64:]
    assert not path.exists()
    a.close()
    a.close()
    with pytest.raises(ps.InvalidArgumentError, match="closed"):
        a[:, :32] = 0
    np.testing.assert_array_equal(ps.open(path)[...], values)


def test_what_stands_there_is_replaced_only_when_asked_and_whole(tmp_path):
    path = tmp_path / "x.tif"
    old = picture("u1", (1, 40, 40))
    ps.save(path, old)
    with pytest.raises(ps.InvalidArgumentError, match="there already"):
        ps.create_array(path, shape=(1, 9, 9), dtype="u1")
    a = ps.create_array(path, shape=(1, 9, 9), dtype="u1", overwrite=True)
    a[...] = 1
    with pytest.raises(ZeroDivisionError), a:
        raise ZeroDivisionError
    assert a.closed
    np.testing.assert_array_equal(ps.open(path)[...], old)
    left = [ps.create_array(path, shape=(1, 9, 9), dtype="u1", overwrite=True)]
    left[0][...] = 1
    with pytest.warns(ResourceWarning, match="never closed"):
        left.clear()
    np.testing.assert_array_equal(ps.open(path)[...], old)
    c = ps.create_array(tmp_path / "new.tif", shape=(1, 9, 9), dtype="u1")
    ps.save(tmp_path / "new.tif", old)
    for _ in range(2):
        with pytest.raises(ps.InvalidArgumentError, match="by now"):
            c.close()
    c.discard()
    np.testing.assert_array_equal(ps.open(tmp_path / "new.tif")[...], old)
    assert {each.name for each in tmp_path.iterdir()} == {"x.tif", "new.tif"}


def test_a_killed_writer_leaves_nothing(tmp_path):
    path = tmp_path / "x.tif"
    program = """
        import os, sys, numpy as np, penstock as ps
        a = ps.create_array(sys.argv[1], shape=(1, 4096, 4096), dtype="u2", tiles=256)
        a[:, :2048] = np.random.default_rng(0).integers(0, 99, (1, 2048, 4096))
        os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], check=False)
    assert done.returncode == -9
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_one_error_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.tif"
    old = picture("u1", (1, 40, 40))
    ps.save(path, old)
    program = """
        import resource, signal, sys, numpy as np, penstock as ps
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        a = ps.create_array(sys.argv[1], shape=(1, 2048, 2048), dtype="u2", tiles=256, compress="none", overwrite=True)
        values = np.zeros((1, 2048, 2048), "u2")
        try:
            a[...] = values
        except ps.StorageError as error:
            assert "temporary file" in str(error), error
        else:
            raise SystemExit("no error")
        try:
            a.close()
        except ps.StorageError as error:
            assert "an earlier write failed" in str(error), error
        else:
            raise SystemExit("closed")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program), path], check=True)
    np.testing.assert_array_equal(ps.open(path)[...], old)
    assert [each.name for each in tmp_path.iterdir()] == ["x.tif"]


def test_memory_stays_at_a_few_rows_of_tiles(tmp_path):
    """256 MiB are written; what the process holds of its own grows by less than 48."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system does not tell what memory is a process's own")
    program = """
        import sys, numpy as np, penstock as ps
        def own():
            return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon")) >> 10
        row = np.random.default_rng(0).integers(0, 999, (1, 256, 8192), "u2")
        a = ps.create_array(sys.argv[1], shape=(1, 16384, 8192), dtype="u2", tiles=256, compress="none",
                            context=ps.Context(threads=2))
        before, most = own(), 0
        for y in range(0, 16384, 256):
            a[:, y : y + 256] = row
            most = max(most, own())
        a.close()
        print(max(most, own()) - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "x.tif"], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 48
    assert ps.open(tmp_path / "x.tif").overviews[0] == (8192, 4096)


def test_tiles_that_never_came_take_no_room_but_their_place_in_the_index(tmp_path):
    path = tmp_path / "x.tif"
    with ps.create_array(path, shape=(1, 65536, 65536), dtype="u1", tiles=16, overviews=None) as a:
        a[:, :16] = 1
    assert path.read_bytes()[2] == 42
    assert ps.open(path)[0, 15, 65535] == 1
    assert ps.open(path)[0, 16, 65535] == 0


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


def test_names_decide(tmp_path):
    ps.save(tmp_path / "x.zarr", np.arange(6.0).reshape(2, 3))
    assert ps.open(tmp_path / "x.zarr").format == "zarr3"
    group = ps.create_group(tmp_path / "g.zarr")
    assert group.create_array("x.tif", shape=(4,), dtype="u1", chunks=2).shape == (4,)
    for name in ("a.TIF", "a.tiff", "a.gtiff"):
        ps.save(tmp_path / name, picture("u1", (1, 9, 9)))
        assert ps.open(tmp_path / name).format == "tiff"
    with pytest.raises(ps.InvalidArgumentError, match="one array"):
        ps.save(tmp_path / "b.tif", a=np.zeros((2, 2)))


def test_xml_of_the_metadata_is_xml(tmp_path):
    path = tmp_path / "x.tif"
    ps.save(path, picture("u1", (1, 9, 9)), attributes={"<&\"'>": "<&\"'>]]>"})
    assert ps.open(path).gdal_metadata == {"<&\"'>": "<&\"'>]]>"}
    text = ps.open(path).tags["GDAL_METADATA"]
    item = ElementTree.fromstring(text).find("Item")
    assert item is not None
    assert (item.get("name"), item.text) == ("<&\"'>", "&lt;&amp;&quot;'&gt;]]&gt;")
