"""The mean of each column of many shards. Started once for each node: see means_jax.sh."""

import os
import sys

import jax
import numpy as np
import penstock as ps
import penstock.jax

if "SLURM_JOB_ID" in os.environ:
    jax.distributed.initialize()  # finds the others by Slurm's variables
run = ps.open_shards(sys.argv[1])
mesh = jax.make_mesh((jax.device_count(),), ("rows",))
# JAX needs an equal number of rows on each device.
x = penstock.jax.load(run, jax.NamedSharding(mesh, jax.P("rows")))
means = jax.jit(lambda values: values.mean(axis=0), out_shardings=jax.NamedSharding(mesh, jax.P()))(x)
if jax.process_index() == 0:
    print("means:", *np.round(np.asarray(means), 6))
