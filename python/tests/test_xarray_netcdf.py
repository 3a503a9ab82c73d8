"""NetCDF4 in xarray: our engine shows the same as xarray's own."""

from __future__ import annotations

import importlib.util
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import penstock as ps
import pytest

xarray = pytest.importorskip("xarray")
h5py = pytest.importorskip("h5py")
if importlib.util.find_spec("netCDF4") is None:
    pytest.skip("netCDF4 is not installed", allow_module_level=True)

DECODINGS: list[dict[str, Any]] = [{}, {"mask_and_scale": False}, {"decode_cf": False}, {"decode_times": False}]

# netCDF4 has its own HDF5 library, which conflicts with h5py's, so it runs in a separate process.
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


PHONY = """
import json, sys
import netCDF4

def show(group, path):
    out = {path + name: list(variable.dimensions) for name, variable in group.variables.items()}
    for name, below in group.groups.items():
        out.update(show(below, f"{path}{name}/"))
    return out

print(json.dumps(show(netCDF4.Dataset(sys.argv[1]), "/")))
"""


@pytest.mark.parametrize("track_order", [False, True])
def test_dimensions_without_names_are_numbered_as_netcdf_does(tmp_path: Path, track_order: bool) -> None:
    """Plain HDF5 as h5py writes it: without dimension scales, or with scales for some datasets."""
    path = tmp_path / "x.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w", track_order=track_order) as file:
        file["z"] = rng.normal(size=(3, 4))
        file["square"] = np.zeros((5, 5, 5), "i2")
        file["b"] = np.arange(4)
        file["scalar"] = 7.0
        file["texts"] = np.array([b"a", b"b", b"c"])
        file["pairs"] = np.zeros(14, ("f4", (2,)))
        file.create_dataset("grows", (3, 4), "f4", maxshape=(None, 4))
        file.create_dataset("both", (6, 6), "f4", maxshape=(None, None))
        file["t"] = np.arange(3.0)
        file["t"].make_scale("t")
        file["named"] = np.zeros(3)
        file["named"].dims[0].attach_scale(file["t"])
        below = file.create_group("g", track_order=track_order)
        below["x"] = rng.normal(size=(4, 3))
        below.create_group("deeper")["y"] = np.zeros((4, 8))
        file.create_group("a")["x"] = np.zeros((4, 3))
    said = subprocess.run([sys.executable, "-c", PHONY, path], check=True, timeout=120, capture_output=True)
    wanted = json.loads(said.stdout)
    found = xarray.open_datatree(path, engine="penstock")
    names = {
        f"{group.path.rstrip('/')}/{name}": list(v.dims)
        for group in found.subtree
        for name, v in group.variables.items()
    }
    assert {name: dims for name, dims in names.items() if name in wanted} == wanted
    with h5py.File(path) as file:
        for group in (None, "g"):
            opened = xarray.open_dataset(path, engine="penstock", group=group)
            inner = file[group or "/"]
            for name in ("z", "square", "b") if group is None else ("x",):
                assert (opened[name].values == inner[name][()]).all()
    with h5py.File(path, "a") as file:
        file["partly"] = np.zeros((3, 9))
        file["partly"].dims[0].attach_scale(file["t"])
        file["g/around"] = h5py.SoftLink("/")
    dims = ps.open(path).dimension_names("partly")  # type: ignore[union-attr]
    assert dims[0] == "t"
    assert dims[1].startswith("phony_dim_")
