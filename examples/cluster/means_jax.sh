#!/bin/bash
#SBATCH --job-name=means-jax
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=64
#SBATCH --time=00:20:00
# sbatch means_jax.sh /scratch/run/penstock.shards
set -euo pipefail
srun python means_jax.py "$1"
