#!/bin/bash
#SBATCH --job-name=means-mpi
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=00:20:00
# sbatch means_mpi.sh /scratch/run/penstock.shards
set -euo pipefail
# Tasks that are bound to cores have as many threads as cores.
srun --cpu-bind=cores python means_mpi.py "$1"
