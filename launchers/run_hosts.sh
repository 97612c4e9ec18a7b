#!/bin/sh
# Run a script on several hosts: run_hosts.sh HOSTFILE RANKS script.py args...
# The working directory must be on a file system that all hosts share.
set -eu
hostfile=${1:?"usage: run_hosts.sh HOSTFILE RANKS script.py args..."}
ranks=${2:?"usage: run_hosts.sh HOSTFILE RANKS script.py args..."}
shift 2
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" --hostfile "$hostfile" "$@"
