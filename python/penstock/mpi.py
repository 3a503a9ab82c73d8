"""Read one tile of an array on each MPI rank.

>>> import penstock.mpi
>>> rows = penstock.mpi.load("run.zarr")          # on every rank: its rows
>>> a = penstock.mpi.open("run.zarr")             # the metadata is read by rank 0 alone
>>> penstock.mpi.tile(a.shape)                    # its slices

Every function is collective: all ranks of the communicator call it. If one of them fails, all raise an error that names
it; no rank is left waiting.
"""

from penstock.interop.mpi import load, open, tile

__all__ = ["load", "open", "tile"]
