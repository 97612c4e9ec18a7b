#!/bin/sh
# Train ResNet-50 on CIFAR-10 on the hosts of a rank table, as the tutorial's run_cluster.sh does.
set -eu

usage() {
    cat <<'END'
usage: run_cluster.sh DATA_PATH RANK_TABLE_FILE RANK_SIZE RANK_START [options of examples/resnet/resnet50_cifar10.py]
For example: run_cluster.sh /shared/cifar-10-batches-bin /shared/rank_table.json 16 0

DATA_PATH        folder of CIFAR-10, by the same path on every host
RANK_TABLE_FILE  rank table; its server_id are what ssh and mpirun reach the hosts by, 127.* is this machine
RANK_SIZE        how many ranks the rank table has
RANK_START       first rank of the host it is run on: 0 starts the ranks of all hosts, by mpirun

Where the tutorial's script is run on every host, this one need be run only on the host of rank 0. Run with another
RANK_START it starts nothing. The working folder must be on a file system that all hosts share; each rank logs to
device<rank>/train.log<rank> in it. $PYTHON is the Python to use, by the same path on every host (default: python).
END
}

fail() {
    echo "run_cluster.sh: $1" >&2
    usage >&2
    exit 2
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 4 ] || fail "DATA_PATH, RANK_TABLE_FILE, RANK_SIZE and RANK_START are needed"
table=$2 ranks=$3 first=$4
case $ranks in '' | *[!0-9]* | 0) fail "RANK_SIZE is \"$ranks\"; give a whole number from 1" ;; esac
case $first in '' | *[!0-9]*) fail "RANK_START is \"$first\"; give a whole number from 0" ;; esac
[ "$first" -lt "$ranks" ] || fail "RANK_START is $first, but RANK_SIZE is $ranks; give 0 to $((ranks - 1))"
[ -f "$table" ] || fail "RANK_TABLE_FILE \"$table\" is no file"
if [ "$first" -ne 0 ]; then
    echo "run_cluster.sh: nothing to start here: ranks from $first on are started from the host of rank 0, with RANK_START 0"
    exit 0
fi
# Ranks on other hosts know no relative path of this one.
DATA_PATH=$(readlink -m "$1")
shift 4
export DATA_PATH
here=$(dirname "$(readlink -f "$0")")
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" --rank-table "$table" \
    "$here/../examples/resnet/resnet50_cifar10.py" "$@"
