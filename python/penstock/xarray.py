"""xarray's engine: `xarray.open_dataset(uri, engine="penstock")`.

xarray finds it by the package's entry point; nothing needs to be imported. Zarr groups look as xarray's own engine
"zarr" shows them, value by value.
"""

from penstock.interop.xarray.engine import PenstockBackendEntrypoint

__all__ = ["PenstockBackendEntrypoint"]
