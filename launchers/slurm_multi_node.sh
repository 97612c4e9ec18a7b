#!/bin/bash
# Run a script on 2 nodes:
#     sbatch slurm_multi_node.sh train.py --epochs 3
#
# It starts as many ranks as the allocation has tasks: with MPIPARALLEL_LAUNCHER=run by mpirun, with pmix by srun for
# Open MPI, with pmi2 by srun for MPICH (default: run). $PYTHON is the Python to use, by the same path on every
# node (default: python). Logs are in <job name>-<job id>.<restarts>/device<rank>/.
#SBATCH --job-name=mpiparallel
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --output=%x-%j.out

if [ $# -eq 0 ] || [ -z "${SLURM_JOB_ID-}" ]; then
    echo "usage: sbatch [options of sbatch] slurm_multi_node.sh script.py [arguments of the script]" >&2
    exit 2
fi

set -u
logs=$SLURM_JOB_NAME-$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}
job=("${PYTHON:-python}" -m mpiparallel run --log-dir "$logs" "$@")
launcher=${MPIPARALLEL_LAUNCHER:-run}
case $launcher in
run) ;;
# Without --kill-on-bad-exit the others may wait for ever for a rank that is gone.
pmix | pmi2) job=(srun --mpi="$launcher" --kill-on-bad-exit=1 "${job[@]}") ;;
*)
    echo "MPIPARALLEL_LAUNCHER is \"$launcher\"; give run, pmix or pmi2" >&2
    exit 2
    ;;
esac
exec "${job[@]}"
