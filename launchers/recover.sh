#!/bin/sh
# Go on with a training that has ended badly, from its newest checkpoint that can be had.
set -eu

usage() {
    cat <<'END'
usage: recover.sh CHECKPOINTS RANKS script.py [arguments of the script]
For example: recover.sh checkpoints 8 train.py --epochs 3
             recover.sh checkpoints 8 examples/resnet/resnet50_cifar10.py --resume

CHECKPOINTS  folder in which the script saves, and from which it resumes by model.resume
RANKS        how many ranks to go on with; as many as before, or any other number

Shards that are lost or damaged are rebuilt from replicas first, where there are some. $PYTHON is the Python to use
(default: python).
END
}

fail() {
    echo "recover.sh: $1" >&2
    usage >&2
    exit 2
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 3 ] || fail "CHECKPOINTS, RANKS and a script are needed"
checkpoints=$1 ranks=$2
shift 2
[ -d "$checkpoints" ] || fail "CHECKPOINTS \"$checkpoints\" is no folder"
"${PYTHON:-python}" -m mpiparallel ckpt recover "$checkpoints" ||
    echo "recover.sh: the newest checkpoint cannot be rebuilt; the script resumes from the newest that is whole" >&2
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" "$@"
