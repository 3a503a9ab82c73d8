"""Read one tile of an array on each MPI rank, and share copies among ranks.

Every function is collective: all ranks of the communicator call it. If one of them fails, all raise an error that names
it; no rank is left waiting.

Examples
--------
This program runs on any number of ranks (`mpirun -n 4 python program.py`):

>>> from mpi4py import MPI
>>> import penstock.mpi
>>> if MPI.COMM_WORLD.rank == 0:
...     ps.save("run.zarr", np.ones((100, 20)))
>>> MPI.COMM_WORLD.barrier()
>>> a = penstock.mpi.open("run.zarr")             # rank 0 alone reads the metadata
>>> rows = penstock.mpi.load(a)                   # on every rank: its rows
>>> MPI.COMM_WORLD.allreduce(float(rows.sum()))
2000.0
>>> penstock.mpi.rechunk("run.zarr", "columns.zarr", {0: -1, 1: 1}).chunks
(100, 1)
"""

from penstock.interop.mpi import convert, load, open, rechunk, tile

__all__ = ["convert", "load", "open", "rechunk", "tile"]
