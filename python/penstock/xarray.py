"""xarray's engine: `xarray.open_dataset(uri, engine="penstock")`.

xarray finds it by the package's entry point; nothing needs to be imported. It opens Zarr, HDF5, NetCDF, references and
GeoTIFF. Datasets of Zarr groups are identical to those of xarray's own engine "zarr".

Examples
--------
>>> import xarray as xr
>>> run = ps.create_group("run.zarr")
>>> t = ps.create_array(run, "t", data=np.full((3, 4), 280.0), dimension_names=("time", "x"))
>>> with xr.open_dataset("run.zarr", engine="penstock") as ds:
...     float(ds["t"].mean())
280.0
"""

from penstock.interop.xarray.engine import PenstockBackendEntrypoint

__all__ = ["PenstockBackendEntrypoint"]
