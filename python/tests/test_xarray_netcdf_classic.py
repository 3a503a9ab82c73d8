"""xarray's engine on NetCDF classic files, compared with its engine "netcdf4" and, if it is installed, "scipy"."""

from __future__ import annotations

import importlib.util
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

xr = pytest.importorskip("xarray")
pytest.importorskip("netCDF4")

PEERS = ["netcdf4", *(["scipy"] if importlib.util.find_spec("scipy") else [])]
FORMATS = ["NETCDF3_CLASSIC", "NETCDF3_64BIT", "NETCDF3_64BIT_DATA"]


@pytest.fixture(params=FORMATS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made = xr.Dataset(attrs={"title": "grün", "numbers": np.arange(3, dtype="i2"), "one": np.float32(2.5)})
    made["z_first"] = "x", np.arange(3, dtype="i4")
    made["packed"] = ("time", "x"), np.linspace(0, 1, 15).reshape(5, 3), {"units": "K"}
    made["missing"] = ("time", "x"), np.where(np.eye(5, 3) > 0, np.nan, 1.0).astype("f4")
    made["texts"] = "x", np.array([b"ab", b"c", b""])
    made["scalar"] = (), 3.5
    made["bytes"] = ("time", "x"), np.arange(-7, 8, dtype="i1").reshape(5, 3), {"_Unsigned": "true"}
    times = np.datetime64("2020-01-01", "ns") + np.arange(5) * np.timedelta64(1, "D")
    made = made.assign_coords(time=times, x=[10, 20, 30], far=("x", [1.0, 2.0, 3.0]))
    encoding: dict[str, Any] = {
        "packed": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": np.int16(-1)},
        "missing": {"_FillValue": np.float32(-9)},
        "time": {"dtype": "i4", "units": "days since 2020-01-01"},
        "x": {"dtype": "i4"},
    }
    where = tmp_path / "x.nc"
    made.to_netcdf(where, engine="netcdf4", format=request.param, encoding=encoding, unlimited_dims=["time"])
    return where


ADDED = ("source", "original_shape")
"""Keys of a variable's encoding that the engine "netcdf4" has and "scipy" does not."""


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("decode_cf", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_equals_the_other_engine(path, peer, decode_cf):
    if peer == "scipy" and path.read_bytes()[3] == 5:
        pytest.skip("SciPy does not read CDF-5")
    with xr.open_dataset(path, engine=peer, decode_cf=decode_cf) as theirs:
        ours = xr.open_dataset(path, engine="penstock", decode_cf=decode_cf)
        xr.testing.assert_identical(ours, theirs.load())
        assert list(ours.variables) == list(theirs.variables)
        assert ours.encoding == theirs.encoding
        for name, wanted in theirs.variables.items():
            found = ours.variables[name]
            assert found.dtype == wanted.dtype, name
            for key, value in wanted.attrs.items():
                assert type(found.attrs[key]) is type(value), (name, key)
                assert np.asarray(found.attrs[key]).dtype == np.asarray(value).dtype
            # The engine "netcdf4" adds entries that apply to HDF5 only.
            encoding = {key: value for key, value in found.encoding.items() if peer != "scipy" or key not in ADDED}
            for key, value in encoding.items():
                assert key in wanted.encoding, (name, key)
                np.testing.assert_array_equal(value, wanted.encoding[key])
            if peer == "scipy":
                assert encoding.keys() == wanted.encoding.keys(), name


def test_pickles_and_selects(path):
    ours = pickle.loads(pickle.dumps(xr.open_dataset(path, engine="penstock")))
    with xr.open_dataset(path, engine="netcdf4") as theirs:
        np.testing.assert_array_equal(ours.packed[::2, 1], theirs.packed[::2, 1])
        np.testing.assert_array_equal(ours.missing.sel(x=20), theirs.missing.sel(x=20))


def test_copies_to_other_files(path, tmp_path):
    ours = xr.open_dataset(path, engine="penstock")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.to_zarr(tmp_path / "copy.zarr", consolidated=False)
    ours.to_netcdf(tmp_path / "copy.nc", engine="netcdf4", format="NETCDF3_CLASSIC")
    again = xr.open_dataset(tmp_path / "copy.nc", engine="penstock")
    xr.testing.assert_identical(again.drop_vars("bytes"), ours.drop_vars("bytes"))


def test_drops_variables(path):
    ours = xr.open_dataset(path, engine="penstock", drop_variables=["packed", "texts"])
    assert "packed" not in ours
    assert "missing" in ours


def test_options_of_zarr_are_refused(path: Path) -> None:
    for name in ("use_zarr_fill_value_as_mask", "consolidated"):
        with pytest.raises(ps.InvalidArgumentError, match=f"{name} is an option of Zarr"):
            xr.open_dataset(path, engine="penstock", **{name: True})
