"""`transform`, `res`, `profile`, `window`, `index`, `xy` and `sample` of TIFFs equal rasterio's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest
from penstock.geo.affine import Transform

rasterio = pytest.importorskip("rasterio")

UTM = (10.0, 0.0, 500000.0, 0.0, -20.0, 4600000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).integers(1, 200, (3, 50, 70)).astype("u2")
    transform = rasterio.Affine(*UTM)
    shape = {"width": 70, "height": 50, "count": 3, "tiled": True, "blockxsize": 32, "blockysize": 16}
    with rasterio.open(
        tmp_path / "a.tif",
        "w",
        driver="GTiff",
        dtype="uint16",
        crs="EPSG:32633",
        transform=transform,
        nodata=0,
        **shape,
    ) as file:
        file.write(values)
    return tmp_path / "a.tif"


def test_they_equal_rasterios(path: Path):
    a = ps.open(path)
    with rasterio.open(path) as file:
        assert a.transform == file.transform
        assert a.transform * (0, 0) == (500000.0, 4600000.0)
        assert (a.res, a.width, a.height, a.count) == (file.res, file.width, file.height, file.count)
        for name in ("driver", "dtype", "nodata", "width", "height", "count", "transform", "blockxsize", "blockysize"):
            assert a.profile[name] == file.profile[name], name
        bounds = (500105.0, 4599300.0, 500300.0, 4599890.0)
        ours, theirs = a.window(*bounds), file.window(*bounds)
        assert ours == pytest.approx((theirs.col_off, theirs.row_off, theirs.width, theirs.height))
        assert a[:, *ours.toslices()].shape == (3, 30, 20)
        for x, y in ((500000.0, 4600000.0), (500011.0, 4599999.0), (499999.0, 4600001.0), (500699.0, 4599001.0)):
            assert a.index(x, y) == file.index(x, y)
        assert a.xy(3, 5) == file.xy(3, 5)
        points = [(500011.0, 4599999.0), (500699.0, 4599001.0), (0.0, 0.0), (np.nan, 0.0)]
        assert np.array_equal(a.sample(points[:3]), list(file.sample(points[:3])))
        assert np.array_equal(a.sample(np.array(points), fill_value=7)[2:], np.full((2, 3), 7))
        assert a.sample([]).shape == (0, 3)
        native = ps.open(path, layout="native")
        assert np.array_equal(native.sample(points[:2]), a.sample(points[:2]))


def test_a_profile_creates_such_a_file(path: Path, tmp_path: Path):
    a = ps.open(path)
    with rasterio.open(tmp_path / "b.tif", "w", **a.profile) as file:
        file.write(a[...])
    again = ps.open(tmp_path / "b.tif")
    assert (again.transform, again.nodata, again.epsg) == (a.transform, a.nodata, a.epsg)
    ps.save(tmp_path / "c.tif", a[...], crs=a.epsg, transform=a.transform)
    assert ps.open(tmp_path / "c.tif").transform == a.transform


@pytest.mark.parametrize("value", [300, -1, 0.5, np.nan, np.float32(300), np.int64(-9999), "x", [1, 2]])
def test_fill_values_that_the_type_does_not_have_are_refused(tmp_path: Path, value: Any):
    ps.save(tmp_path / "a.tif", np.ones((1, 8, 8), "u1"), transform=(1, 0, 0, 0, -1, 8))
    a = ps.open(tmp_path / "a.tif")
    for read in (lambda: a.sample([(-1, 1)], fill_value=value), lambda: ps.read_window(a, fill_value=value)):
        with pytest.raises(ps.InvalidArgumentError, match="is not a value of uint8"):
            read()


@pytest.mark.parametrize("step", [3, 10, 7.5])
def test_positions_on_edges_belong_to_the_pixel_that_begins_there(tmp_path: Path, step: float):
    ps.save(tmp_path / "a.tif", np.ones((1, 40, 50), "u1"), transform=(step, 0, 500010, 0, -step, 4000020), nodata=0)
    a = ps.open(tmp_path / "a.tif")
    places = [(500010 + step * column, 4000020 - step * row) for row in range(41) for column in range(51)]
    assert [a.index(*each) for each in places] == [(row, column) for row in range(41) for column in range(51)]
    assert (a.sample(places).reshape(41, 51) == np.pad(np.ones((40, 50)), ((0, 1), (0, 1)))).all()


def test_bounds_of_images_whose_first_row_is_the_southern_one_have_a_window(tmp_path: Path):
    ps.save(tmp_path / "a.tif", np.ones((1, 6, 8), "u1"), transform=(2, 0, 10, 0, 3, 50))
    a = ps.open(tmp_path / "a.tif")
    with rasterio.open(tmp_path / "a.tif") as file:
        assert a.bounds == tuple(file.bounds)
        assert a.window(*a.bounds) == file.window(*file.bounds).flatten() == (0, 0, 8, 6)
    left, bottom, right, top = a.bounds
    assert a.window(left, top, right, bottom) == (0, 0, 8, 6)
    for wrong in ((right, bottom, left, top), (left, top, right, top), (left, bottom, left, top)):
        with pytest.raises(ps.InvalidArgumentError, match="bounds must be"):
            a.window(*wrong)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_profile_has_gdals_names_of_compressions(tmp_path: Path):
    values = np.eye(32, dtype="u1")[None]
    for name in ("ccittrle", "ccittfax3", "ccittfax4", "lzw"):
        with rasterio.open(tmp_path / "a.tif", "w", driver="GTiff", width=32, height=32, count=1, dtype="uint8",
                           nbits=1, compress=name) as file:  # fmt: skip
            file.write(values)
        assert ps.open(tmp_path / "a.tif").profile["compress"] == name


def test_without_affine_a_named_tuple_has_its_fields(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "affine", None)
    made = ps.open(path).transform
    assert isinstance(made, Transform)
    assert tuple(made) == (*UTM, 0.0, 0.0, 1.0)
    assert (made.a, made.f) == (10.0, 4600000.0)
    assert made * (3, 4) == (500030.0, 4599920.0)
    assert ~made * (500030.0, 4599920.0) == pytest.approx((3, 4))


def test_images_without_georeferencing_raise(tmp_path: Path, path: Path):
    ps.save(tmp_path / "n.tif", np.zeros((4, 4), "u1"))
    a = ps.open(tmp_path / "n.tif")
    assert (a.transform, a.res) == (None, None)
    for call in (lambda: a.window(0, 0, 1, 1), lambda: a.index(0, 0), lambda: a.sample([(0, 0)])):
        with pytest.raises(ps.InvalidArgumentError, match="no transform"):
            call()
    with pytest.raises(ps.InvalidArgumentError, match="left < right"):
        ps.open(path).window(5, 0, 1, 1)


@pytest.mark.parametrize("layout", ["band", "native"])
@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_samples_are_read_for_groups_of_bands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, most: int):
    monkeypatch.setattr("penstock.geo.tiff._SAMPLES_OF_A_READ", most)
    for bands in (1, 5):
        values = np.arange(bands * 6 * 8, dtype="i2").reshape(bands, 6, 8)
        ps.save(tmp_path / f"{bands}.tif", values, transform=(1, 0, 0, 0, -1, 6), overwrite=True)
        a = ps.open(tmp_path / f"{bands}.tif", layout=layout)
        made = a.sample([(0.5, 5.5), (-3, 0), (7.5, 0.5)], fill_value=-1)
        np.testing.assert_array_equal(made, [values[:, 0, 0], [-1] * bands, values[:, 5, 7]])
