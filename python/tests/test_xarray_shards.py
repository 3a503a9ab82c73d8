"""Many NetCDF4 files as one xarray dataset, through our engine and Dask."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

xarray = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
pytest.importorskip("dask")

DAYS, WIDTH = 12, 7


def write(path: Path, first: int, days: int) -> None:
    """A NetCDF4 file in netCDF4's layout: dimensions are scales, numbers are packed."""
    with h5py.File(path, "w") as file:
        time = file.create_dataset(
            "time", data=np.arange(first, first + days, dtype="f8"), maxshape=(None,), chunks=(4,)
        )
        time.attrs["units"] = "days since 2000-01-01"
        time.make_scale("time")
        x = file.create_dataset("x", data=np.arange(WIDTH, dtype="f4"))
        x.make_scale("x")
        values = np.arange(first * WIDTH, (first + days) * WIDTH, dtype="i2").reshape(days, WIDTH)
        t2m = file.create_dataset("t2m", data=values, chunks=(min(days, 3), 4), compression="gzip", shuffle=True)
        t2m.attrs["scale_factor"], t2m.attrs["add_offset"] = np.float64(0.5), np.float64(10)
        t2m.attrs["_FillValue"] = np.array([14], "i2")
        t2m.dims[0].attach_scale(time)
        t2m.dims[1].attach_scale(x)


@pytest.mark.parametrize("parallel", [False, True])
def test_many_files_are_one_dataset(tmp_path: Path, parallel: bool) -> None:
    for number, (first, days) in enumerate([(0, 5), (5, 1), (6, 6)]):
        write(tmp_path / f"day_{number}.nc", first, days)
    with xarray.open_mfdataset(
        str(tmp_path / "day_*.nc"), engine="penstock", combine="nested", concat_dim="time", parallel=parallel
    ) as found:
        assert found.sizes == {"time": DAYS, "x": WIDTH}
        assert found["t2m"].chunks is not None, "nothing is read yet"
        stored = np.arange(DAYS * WIDTH, dtype="f8").reshape(DAYS, WIDTH)
        wanted = np.where(stored == 14, np.nan, stored * 0.5 + 10)
        np.testing.assert_array_equal(found["t2m"].compute(), wanted)
        np.testing.assert_array_equal(found["t2m"].isel(time=slice(3, 9, 2), x=-1).compute(), wanted[3:9:2, -1])
        days = np.datetime64("2000-01-01") + np.arange(DAYS)
        assert (found["time"].values.astype("M8[D]") == days).all()
