#!/bin/sh
# Run a script on several hosts.
set -eu

usage() {
    cat <<'END'
usage: run_hosts.sh HOSTFILE RANKS script.py [arguments of the script]
For example: run_hosts.sh hostfiles/openmpi_2x8 16 train.py --epochs 3

HOSTFILE  the hosts, as mpirun reads them
RANKS     how many ranks to start on them

The working folder must be on a file system that all hosts share. $PYTHON is the Python to use (default: python).
END
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
if [ $# -lt 3 ]; then
    echo "run_hosts.sh: HOSTFILE, RANKS and a script are needed" >&2
    usage >&2
    exit 2
fi
hostfile=$1 ranks=$2
shift 2
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" --hostfile "$hostfile" "$@"
