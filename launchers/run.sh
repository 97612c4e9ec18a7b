#!/bin/sh
# Train ResNet-50 on CIFAR-10 on this machine, as the tutorial's run.sh does.
set -eu

usage() {
    cat <<'END'
usage: run.sh DATA_PATH RANK_SIZE [options of examples/resnet/resnet50_cifar10.py]
For example: run.sh cifar-10-batches-bin 8
             run.sh digits 2 --digits --network resnet18

DATA_PATH  folder of CIFAR-10; with --digits the digits are made there if they are missing
RANK_SIZE  how many ranks to start on this machine

Each rank logs to device<rank>/train.log<rank>, its environment is in device<rank>/env<rank>.log.
$PYTHON is the Python to use (default: python).
END
}

fail() {
    echo "run.sh: $1" >&2
    usage >&2
    exit 2
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 2 ] || fail "DATA_PATH and RANK_SIZE are needed"
DATA_PATH=$1 ranks=$2
shift 2
case $ranks in '' | *[!0-9]* | 0) fail "RANK_SIZE is \"$ranks\"; give a whole number from 1" ;; esac
export DATA_PATH
here=$(dirname "$(readlink -f "$0")")
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" "$here/../examples/resnet/resnet50_cifar10.py" "$@"
