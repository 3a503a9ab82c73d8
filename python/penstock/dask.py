"""Arrays as Dask arrays.

>>> import penstock.dask
>>> x = penstock.dask.from_array("run.zarr")     # blocks of whole shards, about 128 MiB
>>> x.mean(axis=0).compute()

`dask.array.from_array(a)` works too; it cuts along the array's chunks, whose size may not suit Dask.
"""

from penstock.interop.dask import blocks, from_array

__all__ = ["blocks", "from_array"]
