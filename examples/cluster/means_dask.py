"""The mean of each column of many shards. Runs next to a scheduler and its workers: see means_dask.sh."""

import os
import sys

import numpy as np
import penstock as ps
import penstock.dask
from dask.distributed import Client

if __name__ == "__main__":
    with Client(scheduler_file=os.environ["SCHEDULER_FILE"]):
        x = penstock.dask.from_array(ps.open_shards(sys.argv[1]))  # workers get it with its manifest
        print("means:", *np.round(x.mean(axis=0, dtype="f8").compute(), 6))
