#!/bin/sh
# Train ResNet-50 on CIFAR-10 on this machine, as the tutorial's run.sh: run.sh DATA_PATH RANK_SIZE [options of the example]
# Logs and environments of the ranks are in device<i>/train.log<i> and device<i>/env<i>.log.
set -eu
DATA_PATH=${1:?"usage: run.sh DATA_PATH RANK_SIZE"}
ranks=${2:?"usage: run.sh DATA_PATH RANK_SIZE"}
shift 2
export DATA_PATH
here=$(dirname "$(readlink -f "$0")")
exec "${PYTHON:-python}" -m mpiparallel run -n "$ranks" "$here/../examples/resnet50_cifar10.py" "$@"
