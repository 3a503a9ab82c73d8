"""Each MPI rank its tile of one array.

>>> import penstock.mpi
>>> rows = penstock.mpi.load("run.zarr")          # on every rank: its rows
>>> a = penstock.mpi.open("run.zarr")             # the metadata is read by rank 0 alone
>>> penstock.mpi.tile(a.shape)                    # which part that is

Every function is collective: all ranks of the communicator call it. When one of them fails, all of them raise, each
knowing which rank it was; no rank is left waiting.
"""

from penstock.interop.mpi import load, open, tile

__all__ = ["load", "open", "tile"]
