"""The mean of each column of many shards. Legate starts it on every node: see means_legate.sh."""

import sys

import numpy as np
import penstock as ps
import penstock.legate

x = penstock.legate.load(sys.argv[1], opener=ps.open_shards)  # a cupynumeric.ndarray
means = np.asarray(x.mean(axis=0))
if int(penstock.legate.get_legate_runtime().node_id) == 0:
    print("means:", *np.round(means, 6))
