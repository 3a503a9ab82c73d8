"""`penstock info`, `check` and `read --bounds` on TIFFs, compared with rio-cogeo and `read_window`."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from test_cli import document, run
from test_tiff import SELECTION, picture
from tiff_bytes import image, tag, tiff_of

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def scene(path: Path, driver: str = "COG", dtype: str = "u1", **options: Any) -> np.ndarray:
    rasterio = pytest.importorskip("rasterio")
    values = picture(dtype, (3, 700, 600))
    options = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 500000, 0, -10, 4600000)} | options
    with rasterio.open(path, "w", driver=driver, width=600, height=700, count=3, dtype=values.dtype.name,
                       compress="deflate", **options) as file:  # fmt: skip
        file.write(values)
        file.update_tags(SEASON="winter")
    return values


def test_a_cog_is_described_as_rio_cogeo_describes_it(tmp_path):
    scene(tmp_path / "x.tif", blocksize=256, nodata=3)
    facts = document("info", tmp_path / "x.tif")
    assert facts["COG"] is True
    assert facts["COG_errors"] == facts["COG_warnings"] == []
    assert facts["GEO"]["CRS"] == "EPSG:32633"
    assert [(each["Width"], each["Height"], each["Decimation"]) for each in facts["IFD"]] == [
        (600, 700, 0),
        (300, 350, 2),
        (150, 175, 4),
    ]
    text = run("info", tmp_path / "x.tif").stdout
    for line in ("Driver: GTiff", "COG: True", "Compression: DEFLATE", "    NoData:           3", "    SEASON: winter"):
        assert line in text.splitlines()
    rio_cogeo = pytest.importorskip("rio_cogeo")
    theirs = rio_cogeo.cog_info(str(tmp_path / "x.tif")).model_dump(by_alias=True)
    assert facts["COG"] == theirs["COG"]
    assert facts["Compression"] == theirs["Compression"]
    for section in ("Profile", "GEO"):
        for name in facts[section].keys() & theirs[section].keys():
            value, other = facts[section][name], theirs[section][name]
            if isinstance(other, tuple) and isinstance(other[0], float):
                assert value == pytest.approx(list(other)), name
            else:
                assert value == (list(other) if isinstance(other, tuple) else other), name
    for ours, their in zip(facts["IFD"], theirs["IFD"], strict=True):
        assert {name: list(v) if isinstance(v, tuple) else v for name, v in their.items()}.items() <= ours.items()


@pytest.mark.parametrize(
    "options",
    [
        {"driver": "GTiff"},
        {"driver": "GTiff", "tiled": True},
        {"driver": "GTiff", "tiled": True, "overviews": [2, 4]},
        {"driver": "GTiff", "tiled": True, "overviews": [2, 4], "beside": True},
        {"driver": "COG", "overviews": "NONE"},
        {"driver": "COG", "edited": True},
        {"driver": "COG"},
    ],
    ids=str,
)
def test_files_are_cogs_if_the_validator_finds_them_valid(tmp_path, options):
    rasterio = pytest.importorskip("rasterio")
    rio_cogeo = pytest.importorskip("rio_cogeo")
    path = tmp_path / "x.tif"
    options = dict(options)
    edited, beside, factors = (options.pop(name, None) for name in ("edited", "beside", "overviews"))
    if isinstance(factors, str):
        options["overviews"] = factors
    scene(path, **options)
    if isinstance(factors, list):
        with rasterio.Env(TIFF_USE_OVR=bool(beside)), rasterio.open(path, "r+") as file:
            file.build_overviews(factors)
    if edited:
        with rasterio.open(path, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as file:
            file.write(picture("u1", (3, 700, 600), 3))
            file.update_tags(MUCH="x" * 1000)
    valid, errors, warnings = rio_cogeo.cog_validate(path, quiet=True)
    facts = document("info", path)
    assert facts["COG"] == valid, (errors, facts["COG_errors"])
    assert len(facts["COG_warnings"]) == len(warnings)
    assert facts["Profile"]["Tiled"] == (options.get("tiled", False) or options["driver"] == "COG")


@pytest.mark.parametrize("path", sorted(SELECTION.rglob("*.tif*")), ids=lambda path: path.name)
def test_real_files_are_described(path):
    facts = document("info", path)
    assert facts["shape"] == list(ps.open(path).shape)
    assert run("info", path).stdout.startswith("Driver: GTiff\n")


def test_control_points_and_polynomials_are_shown(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    points = [rasterio.control.GroundControlPoint(row, col, 10 + col, 50 - row, 3) for row in (0, 6) for col in (0, 9)]
    many = " ".join(["1", *["0"] * 19])
    polynomial = {
        **{f"{axis}_OFF": f"{i + 4}" for i, axis in enumerate(("LINE", "SAMP", "LAT", "LONG", "HEIGHT"))},
        **{f"{axis}_SCALE": f"{i + 1}" for i, axis in enumerate(("LINE", "SAMP", "LAT", "LONG", "HEIGHT"))},
        **{f"{axis}_{part}_COEFF": many for axis in ("LINE", "SAMP") for part in ("NUM", "DEN")},
    }
    with rasterio.open(tmp_path / "x.tif", "w", width=10, height=7, count=1, dtype="uint8", gcps=points,
                       crs="EPSG:4326") as file:  # fmt: skip
        file.update_tags(ns="RPC", **polynomial)
    geo = document("info", tmp_path / "x.tif")["GEO"]
    assert [(each["Row"], each["Column"], each["X"], each["Y"], each["Z"]) for each in geo["GCPs"]] == [
        (point.row, point.col, point.x, point.y, point.z) for point in points
    ]
    assert geo["RPCs"]["LINE_OFF"] == 4.0
    assert geo["RPCs"]["HEIGHT_SCALE"] == 5.0
    assert geo["RPCs"]["SAMP_DEN_COEFF"] == [1.0] + [0.0] * 19
    lines = run("info", tmp_path / "x.tif").stdout.splitlines()
    assert "    GCPs:             4 points" in lines
    assert "        LINE_OFF: 4.0" in lines


def test_a_truncated_file_is_described(tmp_path):
    scene(tmp_path / "x.tif")
    whole = (tmp_path / "x.tif").read_bytes()
    (tmp_path / "x.tif").write_bytes(whole[: len(whole) // 50])
    facts = document("info", tmp_path / "x.tif")
    assert facts["shape"] == [3, 700, 600]
    assert facts["COG"] is False
    assert facts["COG_errors"][-1].startswith("Tiles are damaged")


def test_a_file_that_is_not_a_tiff_is_refused(tmp_path):
    (tmp_path / "x.tif").write_bytes(b"II*\0 and no more")
    assert document("info", tmp_path / "x.tif", status=1)["error"]["code"] == "corrupt_data"
    assert document("info", tmp_path / "none.tif", status=1)["error"]["code"] == "not_found"


def test_check_decodes_every_tile(tmp_path):
    scene(tmp_path / "x.tif", blocksize=256)
    assert "9 of 9 chunks good" in run("check", tmp_path / "x.tif").stdout
    data = bytearray((tmp_path / "x.tif").read_bytes())
    data[-3000:-2000] = bytes(1000)
    (tmp_path / "x.tif").write_bytes(data)
    found = document("check", tmp_path / "x.tif", status=1)
    assert found["arrays"][0]["failed"] >= 1
    assert found["arrays"][0]["failures"][0]["cell"].startswith("tile (row")


BOUNDS = ("501000", "4594000", "505000", "4599000")


@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_a_window_is_written_as_npy_and_png(tmp_path, dtype):
    scene(tmp_path / "x.tif", dtype=dtype, blocksize=256)
    output = tmp_path / "out.npy"
    common = ("read", tmp_path / "x.tif", "--bounds", *BOUNDS, "--shape", "100", "80", "--resampling", "average")
    facts = document(*common, "-o", output)
    wanted = ps.read_window(ps.open(tmp_path / "x.tif"), tuple(map(float, BOUNDS)), (100, 80), "average")
    assert facts["shape"] == [3, 100, 80]
    np.testing.assert_array_equal(np.load(output), wanted)
    assert document(*common, "-o", output, status=1)["error"]["code"] == "conflict"
    run(*common, "-o", tmp_path / "out.png")
    image = pytest.importorskip("PIL.Image").open(tmp_path / "out.png")
    assert image.size == (80, 100)
    assert image.mode == "RGB"
    pixels = np.asarray(image)
    if dtype == "u1":
        np.testing.assert_array_equal(pixels, np.moveaxis(wanted, 0, -1))
    else:
        assert (pixels == 0).mean() > 0.01
        assert (pixels == 255).mean() > 0.01
        order = np.argsort(wanted[0].ravel(), kind="stable")
        assert (np.diff(pixels[..., 0].ravel()[order].astype(int)) >= 0).all()


@pytest.mark.parametrize("shape", [(), ("--shape", "100", "80")])
def test_a_window_is_written_as_geotiff(tmp_path, shape):
    rasterio = pytest.importorskip("rasterio")
    scene(tmp_path / "x.tif", dtype="u2", blocksize=256, nodata=3)
    run("read", tmp_path / "x.tif", "--bounds", *BOUNDS, *shape, "-o", tmp_path / "out.tif")
    bounds = tuple(map(float, BOUNDS))
    wanted = ps.read_window(ps.open(tmp_path / "x.tif"), bounds, (100, 80) if shape else None)
    with rasterio.open(tmp_path / "x.tif") as whole, rasterio.open(tmp_path / "out.tif") as part:
        np.testing.assert_array_equal(part.read(), wanted)
        assert part.bounds == pytest.approx(bounds)
        assert (part.crs, part.nodata) == (whole.crs, whole.nodata)


@pytest.mark.parametrize("south_up", [False, True])
def test_a_window_of_any_image_is_written_as_geotiff(tmp_path, south_up):
    """Nodata that the type cannot represent; bounds as the image has them."""
    values = np.arange(192, dtype="u1").reshape(1, 12, 16)
    step = 2.0 if south_up else -2.0
    tags = image(16, 12) | {34264: tag(12, 3, 0, 0, 5, 0, step, 0, 7, *[0] * 7, 1), 42113: tag(2, "-9999")}
    (tmp_path / "x.tif").write_bytes(tiff_of(tags, values.tobytes()))
    whole = ps.open(tmp_path / "x.tif")
    assert whole.nodata == -9999
    run("read", tmp_path / "x.tif", "--bounds", *map(str, whole.bounds), "-o", tmp_path / "out.tif")
    part = ps.open(tmp_path / "out.tif")
    np.testing.assert_array_equal(part[...], values)
    assert (part.transform, part.nodata) == (whole.transform, None)


def test_without_bounds_the_whole_image_is_written(tmp_path):
    """Even if its georeferencing is unknown."""
    scene(tmp_path / "x.tif", blocksize=256)
    run("read", tmp_path / "x.tif", "--shape", "70", "50", "-o", tmp_path / "part.npy")
    run("read", tmp_path / "x.tif", "--shape", "70", "50", "-o", tmp_path / "part.tif")
    wanted = ps.read_window(ps.open(tmp_path / "x.tif"), shape=(70, 50))
    np.testing.assert_array_equal(np.load(tmp_path / "part.npy"), wanted)
    np.testing.assert_array_equal(ps.load(tmp_path / "part.tif"), wanted)
    assert ps.open(tmp_path / "part.tif").bounds == ps.open(tmp_path / "x.tif").bounds
    ps.save(tmp_path / "a.zarr", wanted)
    for name in ("a.TIF", "a.gtiff"):
        run("read", tmp_path / "a.zarr", "-o", tmp_path / name)
        np.testing.assert_array_equal(ps.load(tmp_path / name), wanted)
    run("read", tmp_path / "a.zarr", "-o", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (5, 7, 4)])
def test_pngs_show_the_values(shape):
    from penstock.cli.read import png

    pixels = np.random.default_rng(2).integers(0, 256, shape, "u1")
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(png(pixels)))
    np.testing.assert_array_equal(np.asarray(image), pixels)


@pytest.mark.parametrize(
    ("output", "bounds", "text"),
    [
        ("out.jpg", BOUNDS, "out.npy, out.png or out.tif"),
        ("out.npy", ("1", "2", "x", "4"), "invalid float"),
        ("out.npy", ("1", "2", "3"), "expected 4 arguments"),
    ],
)
def test_wrong_windows_are_refused(tmp_path, output, bounds, text):
    scene(tmp_path / "x.tif")
    found = document("read", tmp_path / "x.tif", "--bounds", *bounds, "-o", tmp_path / output, status=2)
    assert text in found["error"]["message"]
    assert not (tmp_path / output).exists()


def test_bounds_outside_the_image_are_refused(tmp_path):
    scene(tmp_path / "x.tif")
    found = document("read", tmp_path / "x.tif", "--bounds", "14", "41", "15", "42", "-o", tmp_path / "a.npy", status=1)
    assert "(14.0, 41.0, 15.0, 42.0) are outside the image" in found["error"]["message"]
    assert not (tmp_path / "a.npy").exists()


@pytest.mark.parametrize("bounds", [["-1e2,-50,2e2,+5e1"], ["-1e2", "-50", "2e2", "50"]])
def test_bounds_may_be_negative_have_exponents_and_be_one_word(tmp_path, bounds):
    ps.save(tmp_path / "x.tif", picture("u1", (3, 100, 300)), crs=4326, transform=(1, 0, -100, 0, -1, 50))
    run("read", tmp_path / "x.tif", "--bounds", *bounds, "--shape", "4", "5", "-o", tmp_path / "a.npy")
    want = ps.read_window(ps.open(tmp_path / "x.tif"), (-100, -50, 200, 50), (4, 5))
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), want)


def test_selections_with_pictures_are_refused(tmp_path):
    scene(tmp_path / "x.tif")
    found = document("read", tmp_path / "x.tif", "0, :5", "-o", tmp_path / "a.png", status=2)
    assert "not by the selection '0, :5'" in found["error"]["message"]


def test_the_module_and_the_program_agree(tmp_path):
    scene(tmp_path / "x.tif")
    import sys

    words = [sys.executable, "-m", "penstock", "info", str(tmp_path / "x.tif")]
    assert (
        subprocess.run(words, capture_output=True, text=True, check=True).stdout
        == run("info", tmp_path / "x.tif").stdout
    )


def test_a_window_is_printed_and_written_as_bare_values(tmp_path):
    scene(tmp_path / "x.tif", blocksize=256)
    common = ("read", tmp_path / "x.tif", "--bounds", *BOUNDS, "--shape", "3", "4")
    wanted = ps.read_window(ps.open(tmp_path / "x.tif"), tuple(map(float, BOUNDS)), (3, 4))
    assert document(*common)["values"] == wanted.tolist()
    run(*common, "-o", tmp_path / "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == wanted.tobytes()
    run(*common, "-o", tmp_path / "out.data", "--format", "npy")
    np.testing.assert_array_equal(np.load(tmp_path / "out.data"), wanted)
    whole = ("read", tmp_path / "x.tif", "--bounds", *BOUNDS)
    assert "too many to print" in document(*whole, status=2)["error"]["message"]


def test_a_window_is_written_to_a_pipe_that_stays(tmp_path):
    scene(tmp_path / "x.tif", blocksize=256)
    wanted = ps.read_window(ps.open(tmp_path / "x.tif"), None, (30, 40))
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run("read", tmp_path / "x.tif", "--shape", "30", "40", "--format", "bin", "-o", tmp_path / "pipe", "--force")
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 10000) == wanted.tobytes()  # a pipe's buffer is larger
    os.close(reader)


def test_pictures_that_cannot_be_written_are_errors(tmp_path):
    ps.save(tmp_path / "x.tif", picture("u1", (1, 40, 40)))
    common = ("read", tmp_path / "x.tif", "--force", "-o")
    assert "cannot write" in run(*common, tmp_path / "none" / "a.png", status=1).stderr
    assert "resource_exhausted" in run(*common, tmp_path / "a.png", "--shape", "10000000", "10000000", status=1).stderr
    assert "--shape" in run(*common, tmp_path / "a.png", "--shape", "0", "4", status=2).stderr
    ps.create_array(tmp_path / "none.zarr", shape=(0, 3, 4), dtype="u1")
    failed = run("read", tmp_path / "none.zarr", "-o", tmp_path / "none.png", status=1).stderr
    assert "a picture of the shape (0, 3, 4) has no pixels" in failed
    (tmp_path / "link.png").symlink_to("a.png")
    run(*common, tmp_path / "link.png")
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    run(*common, tmp_path / "pipe", "--format", "png")
    assert (tmp_path / "pipe").is_fifo()
    assert os.read(reader, 10000) == (tmp_path / "a.png").read_bytes()
    os.close(reader)


@pytest.mark.parametrize("words", [("0", "4"), ("3", "-4"), ("3.5", "4"), ("x", "4")])
def test_shapes_of_windows_are_two_positive_numbers(tmp_path, words):
    scene(tmp_path / "x.tif")
    found = document("read", tmp_path / "x.tif", "--shape", *words, "-o", tmp_path / "a.npy", status=2)
    assert "shape" in found["error"]["message"]


def test_a_tiff_of_a_window_replaces_only_with_force(tmp_path):
    scene(tmp_path / "x.tif", blocksize=256)
    common = ("read", tmp_path / "x.tif", "--shape", "30", "40", "-o", tmp_path / "out.tif")
    (tmp_path / "out.tif").write_bytes(b"old")
    assert document(*common, status=1)["error"]["code"] == "conflict"
    assert (tmp_path / "out.tif").read_bytes() == b"old"
    run(*common, "--force")
    assert ps.open(tmp_path / "out.tif").shape == (3, 30, 40)
    assert ps.open(tmp_path / "out.tif").crs == ps.open(tmp_path / "x.tif").crs


@pytest.mark.parametrize("resampling", ["nearest", "average"])
def test_a_tiff_of_a_window_has_the_mask_and_the_meaning_of_bands(tmp_path, resampling):
    values = picture("u1", (4, 64, 48))
    mask = np.zeros((64, 48), bool)
    mask[8:40, :20] = True
    mask[60, 40] = True
    how = {"scales": [0.5, 1, 1, 2], "offsets": [0, 3, 0, 0], "units": ["m", None, None, "K"], "mask": mask}
    place = {"crs": 32633, "transform": (10, 0, 500000, 0, -10, 4600000)}
    ps.save(tmp_path / "x.tif", values, alpha=True, descriptions=["red", None, None, "cover"], tiles=16, **how, **place)
    size = ("--shape", "16", "12", "--resampling", resampling)
    run("read", tmp_path / "x.tif", *size, "-o", tmp_path / "out.tif")
    whole, part = ps.open(tmp_path / "x.tif"), ps.open(tmp_path / "out.tif")
    np.testing.assert_array_equal(part[...], ps.read_window(whole, None, (16, 12), resampling))
    for name in ("scales", "offsets", "units", "descriptions", "photometric", "crs"):
        assert getattr(part, name) == getattr(whole, name)
    assert part.tags["ExtraSamples"] == whole.tags["ExtraSamples"]
    if resampling == "nearest":
        wanted = ps.read_window(ps.open(tmp_path / "x.tif", mask=True), None, (16, 12)) != 0
    else:
        wanted = mask.reshape(16, 4, 12, 4).any(axis=(1, 3))[None]
    np.testing.assert_array_equal(ps.open(tmp_path / "out.tif", mask=True)[...] != 0, wanted)


def test_a_tiff_of_a_window_has_the_palette(tmp_path):
    colors = np.random.default_rng(3).integers(0, 65536, (256, 3), "u2")
    ps.save(tmp_path / "x.tif", picture("u1", (1, 40, 40)), colormap=colors)
    run("read", tmp_path / "x.tif", "--shape", "20", "20", "-o", tmp_path / "out.tif")
    np.testing.assert_array_equal(ps.open(tmp_path / "out.tif").colormap, colors)
