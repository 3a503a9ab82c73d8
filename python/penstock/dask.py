"""Arrays as Dask arrays.

`dask.array.from_array(a)` works too; it cuts along the array's chunks, whose size may not suit Dask.

Examples
--------
>>> import dask, penstock.dask
>>> ps.save("run.zarr", np.arange(600.0).reshape(30, 20))
>>> x = penstock.dask.from_array("run.zarr")     # blocks of whole shards, about 128 MiB
>>> x.mean(axis=1).compute()[:2]
array([ 9.5, 29.5])
"""

from penstock.interop.dask import blocks, convert, from_array, rechunk

__all__ = ["blocks", "convert", "from_array", "rechunk"]
