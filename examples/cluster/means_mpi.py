"""The mean of each column of many shards. Started once for each rank: see means_mpi.sh."""

import sys

import numpy as np
import penstock as ps
import penstock.mpi
from mpi4py import MPI

comm = MPI.COMM_WORLD
run = penstock.mpi.open(sys.argv[1], comm, opener=ps.open_shards)  # rank 0 reads headers, or the manifest
rows = penstock.mpi.load(run, comm)  # this rank's
total = np.empty(run.shape[1:])
comm.Allreduce(rows.sum(axis=0, dtype="f8"), total)
if comm.rank == 0:
    print("means:", *np.round(total / run.shape[0], 6))
