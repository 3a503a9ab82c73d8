"""Writes NetCDF4 files with xarray's engine "netcdf4", and pickles what that engine reads of them.

netcdf_matrix.py FOLDER

netCDF4 has an HDF5 library of its own, which can conflict with h5py's in one process.
"""

from __future__ import annotations

import itertools
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

warnings.simplefilter("ignore")
folder = Path(sys.argv[1])

TYPES = ["i1", "u1", "i2", "u2", "<i4", ">i4", "u4", "i8", "u8", "<f4", ">f4", "f8", "?"]
FILTERS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunksizes": (2, 3)},
    "zlib": {"zlib": True, "complevel": 7, "chunksizes": (2, 3)},
    "shuffle": {"zlib": True, "complevel": 1, "shuffle": True, "fletcher32": True, "chunksizes": (3, 3)},
    "zlib_plain": {"zlib": True, "shuffle": False, "chunksizes": (5, 3)},
}
ATTRIBUTES: dict[str, Any] = {
    "f4": np.float32(10.1),
    "i2": np.int16(3),
    "f8_list": np.arange(3.0),
    "i2_list": np.array([1, 2, 3], "i2"),
    "one": np.array([1.5]),
    "text": "hällo",
    "empty": "",
    "texts": ["a", "b"],
}


def dataset(filters: dict[str, Any], unlimited: bool) -> Any:
    rng = np.random.default_rng(0)
    made = xr.Dataset(attrs=ATTRIBUTES)
    encoding: dict[str, Any] = {}
    for kind in reversed(TYPES):  # not in alphabetical order
        name = f"v_{np.dtype(kind).str.strip('<>|')}_{kind[0] if kind[0] in '<>' else ''}"
        made[name] = ("time", "x"), rng.integers(0, 2, (5, 3)).astype(kind), ATTRIBUTES
        encoding[name] = dict(filters)
    made["packed"] = ("time", "x"), np.linspace(0, 1, 15).reshape(5, 3)
    encoding["packed"] = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": np.int16(-1), **filters}
    made["missing"] = ("time", "x"), np.where(np.eye(5, 3) > 0, np.nan, 1.0).astype("f4")
    encoding["missing"] = {"_FillValue": np.float32(-9), **filters}
    made["strings"] = "x", np.array(["a", "", "längst"], object)
    made["fixed"] = "x", np.array([b"ab", b"c", b""])
    made["marked"] = "x", np.array([b"ab", b"cdef", np.nan], object), {}, {"_FillValue": b"X"}
    made["scalar"] = (), 3.5
    made["a_first"] = "x", np.arange(3)
    times = np.datetime64("2020-01-01", "ns") + np.arange(5) * np.timedelta64(1, "D")
    made = made.assign_coords(time=times, x=[10, 20, 30], far=("x", [1.0, 2.0, 3.0]))
    return made, encoding, ["time"] if unlimited else []


def loaded(path: Path, **options: Any) -> tuple[dict[Any, Any], Any, dict[Any, Any]]:
    made = xr.open_dataset(path, engine="netcdf4", **options).load()
    encodings = {name: dict(variable.encoding) for name, variable in made.variables.items()}
    return dict(made.encoding), made, encodings


wanted = {}
for (name, filters), unlimited in itertools.product(FILTERS.items(), (False, True)):
    path = folder / f"{name}_{unlimited}.nc"
    made, encoding, grows = dataset(filters, unlimited)
    made.to_netcdf(path, engine="netcdf4", encoding=encoding, unlimited_dims=grows)
    wanted[path.name] = [loaded(path), loaded(path, decode_cf=False)]

# xarray's name of a variable that has the name of a dimension and does not index it; enumerations; groups.
path = folder / "names.nc"
xr.Dataset({"x": (("t", "x"), [[False, True], [True, False]]), "y": ("x", [1, 2])}).to_netcdf(path, engine="netcdf4")
wanted[path.name] = [loaded(path)]
path = folder / "enumeration.nc"
with netCDF4.Dataset(path, "w") as file:
    kind = file.createEnumType("u1", "cloud", {"clear": 0, "cumulus": 1, "missing": 255})
    file.createDimension("x", 3)
    file.createVariable("c", kind, ("x",), fill_value=255)[:] = [0, 1, 255]
    file.createVariable("b", "i4", ("x",))[:] = 1
wanted[path.name] = [loaded(path)]
path = folder / "groups.nc"
with netCDF4.Dataset(path, "w") as file:
    file.createDimension("time", None)
    file.createVariable("time", "f8", ("time",))[:] = np.arange(4)
    below = file.createGroup("below")
    below.createDimension("y", None)
    below.createVariable("z", "f4", ("time", "y"))[:] = np.ones((4, 2))
wanted[path.name] = [loaded(path), loaded(path, group="below")]
(folder / "wanted").write_bytes(pickle.dumps(wanted))
