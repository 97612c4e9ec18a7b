#!/bin/sh
# Train ResNet-50 on CIFAR-10 on this machine with accumulated gradients, as the tutorial's run_grad_accu.sh does.
set -eu

usage() {
    cat <<'END'
usage: run_grad_accu.sh DATA_PATH RANK_SIZE [options of examples/resnet/resnet50_cifar10.py]
For example: run_grad_accu.sh cifar-10-batches-bin 8
             run_grad_accu.sh digits 2 --digits --network resnet18 --grad_accumulation_step 4

A step takes 6 batches, unless --grad_accumulation_step says otherwise: their gradients are added up on each rank,
exchanged once, and the weights updated once. For the rest see run.sh --help.
END
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
if [ $# -lt 2 ]; then
    echo "run_grad_accu.sh: DATA_PATH and RANK_SIZE are needed" >&2
    usage >&2
    exit 2
fi
DATA_PATH=$1 ranks=$2
shift 2
here=$(dirname "$(readlink -f "$0")")
exec "$here/run.sh" "$DATA_PATH" "$ranks" --grad_accumulation_step 6 "$@"
