#!/bin/bash
#SBATCH --job-name=means-legate
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=64
#SBATCH --time=00:20:00
# sbatch means_legate.sh /scratch/run/penstock.shards
set -euo pipefail
# Legate's launcher calls srun itself. --fbmem is each GPU's memory in MiB, less what CUDA needs.
legate --launcher srun --nodes "$SLURM_JOB_NUM_NODES" --ranks-per-node 1 --gpus 4 --fbmem 70000 means_legate.py "$1"
