"""xarray's engine: `xarray.open_dataset(uri, engine="penstock")`.

xarray finds it by the package's entry point; nothing needs to be imported. Datasets of Zarr groups are identical to
those of xarray's own engine "zarr".
"""

from penstock.interop.xarray.engine import PenstockBackendEntrypoint

__all__ = ["PenstockBackendEntrypoint"]
