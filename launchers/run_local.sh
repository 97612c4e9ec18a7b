#!/bin/sh
# Run a script on this machine.
set -eu

usage() {
    cat <<'END'
usage: run_local.sh RANKS script.py [arguments of the script]
For example: run_local.sh 4 train.py --epochs 3

RANKS  how many ranks to start

$PYTHON is the Python to use (default: python).
END
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
if [ $# -lt 2 ]; then
    echo "run_local.sh: RANKS and a script are needed" >&2
    usage >&2
    exit 2
fi
ranks=$1
shift
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" "$@"
