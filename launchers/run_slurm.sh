#!/bin/sh
# Run a script in a SLURM allocation.
#SBATCH --job-name=mpiparallel
#SBATCH --output=%x-%j.out
# For a script that saves its state at SIGUSR1, add --signal=B:USR1@120: the signal is passed on to every rank.
set -eu

usage() {
    cat <<'END'
usage: sbatch --nodes=2 --ntasks-per-node=8 run_slurm.sh script.py [arguments of the script]

It starts as many ranks as the allocation has tasks; their logs are in mpiparallel-<job>/. $PYTHON is the Python to
use, by the same path on every host (default: python).
END
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
if [ -z "${SLURM_NTASKS-}" ] || [ $# -lt 1 ]; then
    echo "run_slurm.sh: start it by sbatch, with --ntasks or --ntasks-per-node, and give a script" >&2
    usage >&2
    exit 2
fi
exec "${PYTHON:-python}" -m mpiparallel run -n "$SLURM_NTASKS" --log-dir "mpiparallel-$SLURM_JOB_ID" "$@"
