#!/bin/sh
# Run a script on this machine: run_local.sh RANKS script.py args...
set -eu
ranks=${1:?"usage: run_local.sh RANKS script.py args..."}
shift
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" "$@"
