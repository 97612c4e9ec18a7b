"""What bfloat16 is worth on one core: products, convolutions, a step beside PyTorch's autocast, the peak of memory.

    python benchmarks/half.py products
    python benchmarks/half.py convolutions
    python benchmarks/half.py step --peer_python .venv-torch/bin/python
    python benchmarks/half.py memory

All seconds are those of the processor, the least of several calls taken in turns, so other jobs on the machine matter
little. ``products`` gives the rate of ``MatMul`` in bfloat16 over that of BLAS in float32, ``convolutions`` that of
convolutions of ResNet and their gradients over that of the same in float32. ``step`` trains the encoder
of ``train_step.py`` in float32 and by ``amp_level="O2"`` in bfloat16, and the same network by PyTorch's autocast.
``memory`` gives the rise of resident memory while a network of large activations trains, each dtype in a process of
its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import train_step
from threadpoolctl import threadpool_limits
from training_step.peer import TorchPeer
from training_step.workloads import WORKLOADS, EncoderNetwork
from training_step.workloads import _adam as with_adam

from mpiparallel import context, nn
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.ops import operations as P
from mpiparallel.ops.images.convolution import kernels
from mpiparallel.ops.images.window import Window
from mpiparallel.train import Model
from mpiparallel.train.amp import auto_mixed_precision

SHAPES = (
    *((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (2048, 512, 512), (2048, 2048, 512), (2048, 512, 2048)),
    *((4096, 1024, 1024), (1024, 4096, 1024), (4096, 4096, 4096), (64, 3136, 576), (128, 784, 1152), (256, 196, 2304)),
)
"""(m, n, k): of Transformers, and of ResNet's convolutions as products."""
CONVOLUTIONS = (
    *((8, 64, 56, 64, 3, 1), (8, 128, 28, 128, 3, 1), (8, 256, 14, 256, 3, 1), (8, 512, 7, 512, 3, 1)),
    *((8, 128, 56, 128, 3, 2), (8, 64, 56, 256, 1, 1), (8, 512, 28, 128, 1, 1), (8, 1024, 14, 256, 1, 1)),
    (8, 2048, 7, 512, 1, 1),
)
"""(images, channels, size, outputs, kernel, stride): of ResNet-18 and ResNet-50."""
ORDERS = ((False, False), (False, True), (True, False))
SHORTEST = 0.05
DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16}


def seconds(call: Callable[[], object]) -> float:
    """Return the seconds of one call, from as many as take a while."""
    start, calls = time.process_time(), 0
    while calls == 0 or time.process_time() - start < SHORTEST:
        call()
        calls += 1
    return (time.process_time() - start) / calls


def least_seconds(calls: dict[str, Callable[[], object]], flags: argparse.Namespace) -> dict[str, float]:
    """Return the least seconds of each of several calls, which take turns."""
    for call in calls.values():
        call()
    least = dict.fromkeys(calls, np.inf)
    for _ in range(flags.repetitions):
        for name, call in calls.items():
            least[name] = min(least[name], seconds(call))
    return least


def products(flags: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rates of each shape and order, in GF/s."""
    random = np.random.default_rng(1)
    found = []
    for m, n, k in SHAPES:
        for transposed in ORDERS:
            shapes = ((k, m) if transposed[0] else (m, k), (n, k) if transposed[1] else (k, n))
            single = [random.standard_normal(shape, np.float32) for shape in shapes]
            outputs = {name: np.zeros((m, n), dtype) for name, dtype in DTYPES.items()}
            operator = P.MatMul(*transposed)
            calls = {
                name: operator.kernel(Runtime(), [one.astype(dtype) for one in single], [outputs[name]])
                for name, dtype in DTYPES.items()
            }
            least = least_seconds(calls, flags)
            rates = {name: 2e-9 * m * n * k / least[name] for name in calls}
            ratio = least["float32"] / least["bfloat16"]
            order = "".join("NT"[one] for one in transposed)
            found.append({"shape": (m, n, k), "order": order, **rates, "ratio": ratio})
            sys.stdout.write(
                f"{m} x {n} x {k} {order}: {rates['float32']:.0f} and {rates['bfloat16']:.0f} GF/s, {ratio:.2f}\n"
            )
    return found


def convolutions(flags: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rates of each convolution and of its gradients, in GF/s."""
    random = np.random.default_rng(1)
    found = []
    for images, channels, size, outputs, kernel, stride in CONVOLUTIONS:
        windows = Window((kernel, kernel), (stride, stride), pad_mode="same").over((size, size))
        x = random.standard_normal((images, channels, size, size), np.float32)
        weight = random.standard_normal((outputs, channels, kernel, kernel), np.float32)
        dy = random.standard_normal((images, outputs, *windows.output), np.float32)
        operations = 2 * dy.size * weight[0].size
        rates: dict[str, dict[str, float]] = {}
        for kind, arrays in (
            ("forward", (x, weight, dy)),
            ("input_gradient", (dy, weight, x)),
            ("weight_gradient", (dy, x, weight)),
        ):
            calls = {}
            for name, dtype in DTYPES.items():
                inputs, output = [one.astype(dtype) for one in arrays[:2]], np.zeros(arrays[2].shape, dtype)
                calls[name] = getattr(kernels, kind)(Runtime(), windows, 1, *inputs, output)
            rates[kind] = {name: 1e-9 * operations / one for name, one in least_seconds(calls, flags).items()}
        shape = f"{images},{channels},{size},{outputs} {kernel}x{kernel}/{stride}"
        shown = (f"{one['float32']:.0f} and {one['bfloat16']:.0f}" for one in rates.values())
        ratios = {kind: one["bfloat16"] / one["float32"] for kind, one in rates.items()}
        found.append({"shape": shape, "rates": rates, "ratios": ratios})
        told = ", ".join(f"{ratio:.2f}" for ratio in ratios.values())
        sys.stdout.write(f"{shape}: {'; '.join(shown)} GF/s; {told}\n")
    return found


def encoder(name: str) -> tuple[Model, list[Any]]:
    """Return the encoder that ``train_step.py`` trains, and a batch."""
    flags = train_step.parse(["--network", "encoder"])
    context.set_seed(1)
    network = EncoderNetwork(flags)
    if name == "bfloat16":
        auto_mixed_precision(network, "O2", ml_dtypes.bfloat16)
    return with_adam(network), WORKLOADS["encoder"].make_batch(flags, flags.batch_size)


def step(flags: argparse.Namespace) -> dict[str, float]:
    """Return the seconds of a step in each dtype, and of PyTorch's by autocast."""
    calls: dict[str, Callable[[], float]] = {}
    for name in DTYPES:
        model, batch = encoder(name)

        def timed(model: Model = model, batch: list[Any] = batch) -> float:
            start = time.process_time()
            model.run_step(batch)
            return time.process_time() - start

        calls[name] = timed
    peer = None
    if flags.peer_python is not None:
        sizes = train_step.parse(["--network", "encoder"])
        peer = TorchPeer(
            flags.peer_python,
            {
                "network": "encoder",
                "sizes": WORKLOADS["encoder"].peer_sizes(sizes),
                "batch_size": sizes.batch_size,
                **{"rank": 0, "ranks": 1, "port": 0, "bfloat16": True, "processor": True},
            },
        )
        calls["PyTorch bfloat16"] = lambda: peer.run(peer.variants[0], 1)[0]
    least = dict.fromkeys(calls, np.inf)
    for turn in range(flags.repetitions + 1):
        for name, call in calls.items():
            taken = call()
            least[name] = min(least[name], taken) if turn else np.inf
    if peer is not None:
        peer.close()
    for name, value in least.items():
        sys.stdout.write(f"{name}: {value:.3f} s, bfloat16 is {least['bfloat16'] / value:.2f} of it\n")
    return least


class Wide(nn.Cell):
    """Dense layers on many rows: what they keep for their gradients is far larger than their weights."""

    def __init__(self, width: int = 512, layers: int = 12) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.Dense(width, width, activation="gelu") for _ in range(layers)])

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x.mean()


def _peak(name: str) -> int:
    """Train in this process; return by how many bytes its memory rose at most."""
    network = Wide()
    if name == "bfloat16":
        auto_mixed_precision(network, "O3", ml_dtypes.bfloat16)
    model = Model(network, optimizer=nn.SGD(network.trainable_params(), 0.1))
    batch = [np.ones((16384, 512), DTYPES[name])]
    # What is compiled and imported belongs to neither.
    model.run_step([batch[0][:512]])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.run_step(batch)
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def memory(flags: argparse.Namespace) -> dict[str, int]:
    """Return the rise in bytes for each dtype."""
    own = [sys.executable, str(Path(__file__)), "memory", "--only"]
    rises = {name: int(subprocess.run([*own, name], check=True, capture_output=True).stdout) for name in DTYPES}
    ratio = rises["bfloat16"] / rises["float32"]
    sys.stdout.write(f"{rises['float32'] >> 20} MiB and {rises['bfloat16'] >> 20} MiB: {ratio:.2f}\n")
    return rises


MEASUREMENTS = {"products": products, "convolutions": convolutions, "step": step, "memory": memory}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one of the four, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=MEASUREMENTS, help="one of the four (default all)")
    parser.add_argument("--repetitions", type=int, default=5, help="how often everything is timed (default 5)")
    parser.add_argument("--peer_python", type=Path, help="the Python that has PyTorch; without it only ours is timed")
    parser.add_argument("--only", choices=DTYPES, help="in memory: the dtype that this process trains in")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    flags = parser.parse_args(arguments)
    with threadpool_limits(1):
        if flags.only:
            sys.stdout.write(f"{_peak(flags.only)}\n")
            return
        chosen = [flags.what] if flags.what else list(MEASUREMENTS)
        found = {name: MEASUREMENTS[name](flags) for name in chosen}
    if flags.json:
        flags.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
