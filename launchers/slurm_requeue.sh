#!/bin/bash
# Run a script on 2 nodes, and go on after a preemption or the loss of a node:
#     sbatch slurm_requeue.sh train.py --epochs 3
#
# It starts as many ranks as the allocation has tasks: with MPIPARALLEL_LAUNCHER=run by mpirun, with pmix by srun for
# Open MPI, with pmi2 by srun for MPICH (default: run). $PYTHON is the Python to use, by the same path on every
# node (default: python). Logs are in <job name>-<job id>.<restarts>/device<rank>/.
#SBATCH --job-name=mpiparallel
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.out
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

if [ $# -eq 0 ] || [ -z "${SLURM_JOB_ID-}" ]; then
    echo "usage: sbatch [options of sbatch] slurm_requeue.sh script.py [arguments of the script]" >&2
    exit 2
fi

# SLURM's signal comes to this shell alone, at any moment, and a shell answers only while it waits.
told= pid=
trap 'told=1; [ -z "$pid" ] || kill -USR1 "$pid"' USR1

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
if [ "$launcher" = pmix ]; then
    # A node that crashed keeps the PMIx socket of the step it ran, so no step may get that one's number again.
    for ((step = 0; step < ${SLURM_RESTART_COUNT:-0}; step++)); do srun --mpi=none true; done
fi
"${job[@]}" &
pid=$!
[ -z "$told" ] || kill -USR1 "$pid"
while wait "$pid"; kill -0 "$pid" 2>/dev/null; do :; done
wait "$pid"
code=$?
answers() { # every node of the job still runs what it is asked to
    timeout 60 srun --overlap --mpi=none --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" \
        --ntasks-per-node=1 true
}
# A checkpoint was committed; or the signal came before the job could heed it; or a node is lost, which this script may
# see long before SLURM does.
if [ "$code" -eq 85 ] || { [ -n "$told" ] && [ "$code" -eq 138 ]; } || { [ "$code" -ne 0 ] && ! answers; }; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
