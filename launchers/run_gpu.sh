#!/bin/sh
# Train ResNet-50 on CIFAR-10 on the GPUs of this machine, as the tutorial's run_gpu.sh does.
set -eu

usage() {
    cat <<'END'
usage: run_gpu.sh DATA_PATH [options of examples/resnet/resnet50_cifar10.py]
For example: run_gpu.sh cifar-10-batches-bin

DATA_PATH  folder of CIFAR-10

It starts a rank for each GPU that nvidia-smi lists. $RANK_SIZE starts another number of ranks, $PYTHON is the Python
to use (default: python); it needs CuPy. For the rest see run.sh --help.
END
}

fail() {
    echo "run_gpu.sh: $1" >&2
    usage >&2
    exit 2
}

case ${1-} in -h | --help) usage; exit 0 ;; esac
[ $# -ge 1 ] || fail "DATA_PATH is needed"
DATA_PATH=$1
shift
ranks=${RANK_SIZE:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)}
[ "${ranks:-0}" != 0 ] || fail "nvidia-smi lists no GPU; run it on a machine with one, or use run.sh"
here=$(dirname "$(readlink -f "$0")")
exec "$here/run.sh" "$DATA_PATH" "$ranks" --device_target GPU "$@"
