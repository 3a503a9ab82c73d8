"""`DataArray.penstock`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
import pytest

xr = pytest.importorskip("xarray")


@pytest.fixture
def opened(tmp_path: Path) -> xr.Dataset:
    values = np.arange(6 * 8, dtype="i2").reshape(6, 8)
    for name, extra in (("plain", {}), ("packed", {"scale_factor": 0.5, "_FillValue": -1})):
        made = ps.create_array(
            tmp_path / "x.zarr", path=name, shape=values.shape, dtype="i2", chunks=(2, 4), dimension_names=("y", "x"),
            attributes=extra, zarr_format=3,
        )  # fmt: skip
        made[...] = values
    return xr.open_dataset(tmp_path / "x.zarr", engine="penstock", consolidated=False)


SELECTIONS = {
    "whole": {},
    "slices": {"y": slice(1, 5, 2), "x": slice(0, 3)},
    "an index": {"y": 3},
    "two indexes": {"y": 3, "x": 7},
    "lists": {"y": [0, 5], "x": [1, 2, 7]},
    "backwards": {"x": slice(None, None, -1)},
    "nothing": {"y": slice(0, 0)},
}


@pytest.mark.parametrize("name", ["plain", "packed"])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_reads_the_selection(opened: xr.Dataset, name: str, selection: str) -> None:
    chosen = opened[name].isel(**SELECTIONS[selection])
    stored = np.asarray(chosen.penstock.read())
    assert stored.dtype == "i2"
    expected = chosen.values
    decoded = stored * 0.5 if name == "packed" else stored
    np.testing.assert_array_equal(decoded, expected)


def test_points_are_one_selection(opened: xr.Dataset) -> None:
    at = {"y": xr.DataArray([0, 5, 2], dims="point"), "x": xr.DataArray([7, 1, 1], dims="point")}
    np.testing.assert_array_equal(opened.plain.isel(at).penstock.read(), [7, 41, 17])
    in_rows = opened.plain.isel(y=xr.DataArray([[0, 5]], dims=("a", "b")), x=slice(2, 6))
    np.testing.assert_array_equal(in_rows.penstock.read(), in_rows.values)


def test_plans_and_arrays(opened: xr.Dataset) -> None:
    assert opened.plain.penstock.array.chunks == (2, 4)
    assert opened.plain.isel(y=slice(0, 2), x=0).penstock.plan().requests == 1
    assert opened.plain.penstock.plan().requests > 1


def test_images_have_the_stored_array(tmp_path: Path) -> None:
    values = np.arange(2 * 40 * 50, dtype="u2").reshape(2, 40, 50)
    ps.save(tmp_path / "a.tif", values, nodata=7, tiles=16)
    image = xr.open_dataset(tmp_path / "a.tif", engine="penstock").band_data
    part = image.isel(band=1, y=slice(3, 9), x=[4, 5])
    assert isinstance(part.penstock.array, ps.TiffArray)
    assert part.penstock.plan().chunks_touched == 1
    np.testing.assert_array_equal(part.penstock.read(), values[1, 3:9, 4:6])
    band = xr.open_dataset(tmp_path / "a.tif", engine="penstock", band_as_variable=True).band_2
    np.testing.assert_array_equal(band.isel(y=39).penstock.read(), values[1, 39])
    with pytest.raises(ps.InvalidArgumentError, match="not Penstock's"):
        _ = image.load().penstock.array


def test_objects_without_an_array_are_reported(opened: xr.Dataset) -> None:
    for values in (opened.plain.load(), opened.packed + 1, xr.DataArray([1, 2])):
        with pytest.raises(ps.InvalidArgumentError, match="not Penstock's"):
            values.penstock.plan()


def test_images_have_an_array(tmp_path: Path) -> None:
    image = np.arange(24, dtype="u2").reshape(2, 3, 4)
    ps.save(tmp_path / "a.tif", image, crs=32633, transform=(10, 0, 5e5, 0, -10, 5e6), nodata=3)
    shown = xr.open_dataset(tmp_path / "a.tif", engine="penstock").band_data
    assert shown.penstock.array.nodata == 3
    part = shown[1, ::-1, [3, 0]]
    np.testing.assert_array_equal(part.penstock.read(), image[1, ::-1][:, [3, 0]])
    assert part.penstock.plan().requests == 1
    bands = xr.open_dataset(tmp_path / "a.tif", engine="penstock", band_as_variable=True)
    np.testing.assert_array_equal(bands.band_2[:2].penstock.read(), image[1, :2])


def test_variables_that_are_longer_than_their_array_are_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nc", "w") as file:
        for name, length in (("t", 3), ("v", 2)):
            file.create_dataset(name, data=np.arange(length), maxshape=(None,), chunks=(2,))
        file["t"].make_scale("t")
        file["v"].dims[0].attach_scale(file["t"])
    shown = xr.open_dataset(tmp_path / "a.nc", engine="penstock")
    assert shown.v.shape == (3,)
    with pytest.raises(ps.InvalidArgumentError, match="'v' is longer than its stored array"):
        shown.v.penstock.read()
