"""Read one tile of an array on each MPI rank, and share copies among ranks.

>>> import penstock.mpi
>>> rows = penstock.mpi.load("run.zarr")          # on every rank: its rows
>>> a = penstock.mpi.open("run.zarr")             # the metadata is read by rank 0 alone
>>> penstock.mpi.tile(a.shape)                    # its slices
>>> penstock.mpi.rechunk("run.zarr", "columns.zarr", {0: -1})

Every function is collective: all ranks of the communicator call it. If one of them fails, all raise an error that names
it; no rank is left waiting.
"""

from penstock.interop.mpi import convert, load, open, rechunk, tile

__all__ = ["convert", "load", "open", "rechunk", "tile"]
