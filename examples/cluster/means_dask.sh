#!/bin/bash
#SBATCH --job-name=means-dask
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=32
#SBATCH --time=00:20:00
# sbatch means_dask.sh /scratch/run/penstock.shards
set -euo pipefail
# Where all nodes see it.
export SCHEDULER_FILE="$SLURM_SUBMIT_DIR/scheduler-$SLURM_JOB_ID.json"
trap 'kill $(jobs -p) 2>/dev/null; rm -f "$SCHEDULER_FILE"' EXIT
srun --overlap --nodes=1 --ntasks=1 --cpus-per-task=1 dask scheduler --scheduler-file "$SCHEDULER_FILE" &
# One thread of Dask's for each task: the reads within it have the task's cores.
srun --overlap dask worker --scheduler-file "$SCHEDULER_FILE" --nthreads 1 --no-dashboard &
python means_dask.py "$1"
