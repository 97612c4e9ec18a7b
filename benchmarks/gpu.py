"""Kernels and training steps on a GPU, beside PyTorch on the same card and beside what the card reaches.

    python benchmarks/gpu.py --peer_python PYTHON
    python benchmarks/gpu.py --peer_python PYTHON --only products steps
    python benchmarks/gpu.py --peer_python PYTHON --device CPU --scale 64 --count 2

``--peer_python`` is a Python with PyTorch for CUDA; without it only ours is timed. Each case is timed by events of the
stream: 10 calls that do not count, then the median of 50, on random numbers, with more arrays in turn than the caches
hold. The peer runs each case right before: as it is ("eager"), by ``torch.compile`` ("compiled"), attention by its two
kernels. ``of peer`` is the time of the fastest of these over ours. ``of top`` is the rate of our operations over that
of the fastest square product of the dtype, or of our bytes over that of a copy. What a case must reach is beside what
it reached. Where cuDNN's extra is installed more is wanted of ResNet-50; MPIPARALLEL_CONVOLUTIONS=own times it without.
Then attention "by cudnn" is timed too, with MPIPARALLEL_ATTENTION=cudnn; ours where cuDNN has no kernel for it.
The third line needs no GPU: it shows that all cases run, at sizes of which times say nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from on_gpu.cases import GROUPS, Case, chosen_cases, takes_cudnn
from on_gpu.ours import Ours
from on_gpu.report import Row, line, summary
from training_step.peer import PeerError, TorchPeer

from mpiparallel import context
from mpiparallel.backend.cupy_backend import CupyBackend, gpu_problem
from mpiparallel.backend.numpy_backend import NumpyBackend

WORKER = Path(__file__).parent / "on_gpu" / "torch_worker.py"


def measure(flags: argparse.Namespace) -> list[Row]:
    """Time each case by ours and by the peer, in turns; write a line for each as it is known."""
    cases = chosen_cases(flags.only, flags.scale)
    make_backend = NumpyBackend if flags.device == "CPU" else CupyBackend
    with_tf32 = CupyBackend(allows_tf32=True, convolves_in_tf32=True) if flags.device == "GPU" else None
    ours = Ours(make_backend(), flags.count, with_tf32)
    sys.stdout.write(f"convolutions: {'ours or cuDNN, whichever is faster' if takes_cudnn() else 'ours'}\n")
    peer = None
    if flags.peer_python:
        device = {"GPU": "cuda", "CPU": "cpu"}[flags.device]
        told = {"device": device, "count": flags.count, "cases": [case.told for case in cases]}
        peer = TorchPeer(flags.peer_python, told, WORKER)
        sys.stdout.write(f"peer: PyTorch {peer.version}\n")
    rows: list[Row] = []
    end = time.monotonic() + flags.seconds
    for case in cases:
        if time.monotonic() > end:
            sys.stdout.write(f"{case.name}: left out, as {flags.seconds} s are over\n")
            continue
        found = {way: peer.run(f"{way} {case.name}", flags.count) for way in case.ways} if peer else {}
        theirs = {way: seconds[0] for way, seconds in found.items() if seconds}
        rows.append(Row(case, _seconds_of(ours, case), theirs))
        sys.stdout.write(line(rows[-1], rows) + "\n")
        sys.stdout.flush()
    if peer:
        peer.close()
    return rows


def _seconds_of(ours: Ours, case: Case) -> float | None:
    """Return None where a case fails: a card is lent for minutes, and the others are still to be timed."""
    try:
        return ours.seconds(case)
    except Exception:
        traceback.print_exc()
        return None


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and say what has been reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer_python", type=Path, help="the Python that has PyTorch; without it only ours is timed")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), help="groups of cases (default all)")
    parser.add_argument("--device", choices=("GPU", "CPU"), default="GPU")
    parser.add_argument("--scale", type=int, default=1, help="divide sizes by this (default 1)")
    parser.add_argument("--count", type=int, default=50, help="timed calls of each case (default 50)")
    parser.add_argument("--seconds", type=float, default=570.0, help="begin no case after so many (default 570)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    flags = parser.parse_args(arguments)
    problem = gpu_problem() if flags.device == "GPU" else None
    if problem:
        sys.stdout.write(f"no figure is taken: {problem}\n")
        return
    context.set_context(device_target=flags.device)
    try:
        rows = measure(flags)
    except PeerError as error:
        raise SystemExit(str(error)) from error
    sys.stdout.write(summary(rows) + "\n")
    if flags.json:
        flags.json.write_text(json.dumps([row.told(rows) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
