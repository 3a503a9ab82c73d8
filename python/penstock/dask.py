"""Arrays as Dask arrays.

>>> import penstock.dask
>>> x = penstock.dask.from_array("run.zarr")     # blocks of whole shards, about 128 MiB
>>> x.mean(axis=0).compute()
>>> penstock.dask.rechunk("run.zarr", "columns.zarr", {0: -1})     # by the workers of the current client

`dask.array.from_array(a)` works too; it cuts along the array's chunks, whose size may not suit Dask.
"""

from penstock.interop.dask import blocks, convert, from_array, rechunk

__all__ = ["blocks", "convert", "from_array", "rechunk"]
