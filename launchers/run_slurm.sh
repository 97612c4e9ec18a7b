#!/bin/sh
# Run a script in a SLURM allocation: sbatch --nodes=2 --ntasks-per-node=8 run_slurm.sh script.py args...
#SBATCH --job-name=mpiparallel
#SBATCH --output=%x-%j.out
# For a script that saves its state at SIGUSR1, add --signal=B:USR1@120: the signal is passed on to every rank.
set -eu
exec "${PYTHON:-python}" -m mpiparallel run -n "${SLURM_NTASKS:?"start this with sbatch"}" \
    --log-dir "mpiparallel-$SLURM_JOB_ID" "$@"
