"""NetCDF4 in xarray: our engine shows what xarray's own shows."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5py")
if importlib.util.find_spec("netCDF4") is None:
    pytest.skip("netCDF4 is not installed", allow_module_level=True)

DECODINGS: list[dict[str, Any]] = [{}, {"mask_and_scale": False}, {"decode_cf": False}, {"decode_times": False}]

# netCDF4 brings an HDF5 library of its own, which does not go well beside h5py's: it has a process to itself.
OTHER = f"""
import pickle, sys
import netCDF4, numpy as np, xarray

with netCDF4.Dataset(sys.argv[1], "w") as file:
    file.title = "a file"
    file.createDimension("time", None)
    file.createDimension("x", 7)
    file.createDimension("letters", 3)
    time = file.createVariable("time", "f8", ("time",))
    time.units = "days since 2000-01-01"
    time[:] = np.arange(5)
    packed = file.createVariable("t2m", "i2", ("time", "x"), zlib=True, fill_value=-99)
    packed.set_auto_maskandscale(False)
    packed.scale_factor, packed.add_offset = np.float32(0.5), np.float32(10)
    packed.valid_range = np.array([0, 30], "i2")
    values = np.arange(35, dtype="i2").reshape(5, 7)
    values[2, 3] = -99
    packed[:] = values
    plain = file.createVariable("plain", ">f4", ("x",), chunksizes=(3,), fill_value=np.float32(9e36))
    plain[2:] = np.arange(5)
    text = file.createVariable("name", "S1", ("x", "letters"))
    text[:] = np.array(list("abcdefghijklmnopqrstu"), "S1").reshape(7, 3)
    lines = file.createVariable("lines", str, ("x",))
    lines[:] = np.array([f"line {{i}}" for i in range(7)], object)
loaded = [xarray.open_dataset(sys.argv[1], engine="netcdf4", **each).load() for each in {DECODINGS!r}]
for each in loaded:
    each.encoding = {{}}
    for variable in each.variables.values():
        variable.encoding = {{}}
with open(sys.argv[2], "wb") as out:
    pickle.dump(loaded, out)
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    folder = tmp_path_factory.mktemp("netcdf")
    path, pickled = folder / "x.nc", folder / "wanted"
    subprocess.run([sys.executable, "-c", OTHER, path, pickled], check=True, timeout=120)
    return path, pickle.loads(pickled.read_bytes())


@pytest.mark.parametrize("which", range(len(DECODINGS)), ids=[str(each) for each in DECODINGS])
def test_variables_are_decoded_as_by_xarrays_own_engine(written: tuple[Path, list[Any]], which: int) -> None:
    path, loaded = written
    wanted = loaded[which]
    found = xarray.open_dataset(path, engine="penstock", **DECODINGS[which])
    for name in ("t2m", "plain", "time", "name"):
        xarray.testing.assert_identical(found[name].load(), wanted[name])
        assert found[name].dtype == wanted[name].dtype, name
    assert [str(each) for each in found["lines"].values] == [str(each) for each in wanted["lines"].values]
    assert found.attrs == wanted.attrs
    assert found["t2m"].isel(time=slice(1, 4, 2)).shape == (2, 7)
