"""How fast each kernel runs, beside what this machine reaches: GF/s of a matrix product, GB/s of a plain copy.

    mpiparallel run -n 1 benchmarks/kernels.py
    mpiparallel run -n 1 benchmarks/kernels.py --only "3x3 .*forward"

A kernel is the operator's own, bound to arrays as a program binds it. Each repetition times the kernel, a plain
``np.matmul`` of 1024 x 1024 x 1024, the ``np.matmul`` of the very shape that the kernel's work has, and a copy, on one
thread; the fastest of each counts. ``of 1024`` and ``of shape`` are the kernel's rate over those of the two products,
``of copy`` over the copy's. A case is a line in the tables below.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import elementwise_kernels
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from mpiparallel.backend import jit
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator
from mpiparallel.ops import operations as P

CEILING_SIZE = 1024
COPY_BYTES = 64 << 20
SHORTEST = 5e-3

Shape = tuple[int, ...]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A kernel and its work: ``work`` operations (``GF/s``) or bytes read and written (``GB/s``) in one call.

    ``bind`` returns the kernel. ``product`` is the (m, k, n) of the matrix product that does the same work.
    """

    name: str
    unit: str
    work: int
    bind: Callable[[Runtime], Kernel]
    product: tuple[int, int, int] | None = None


def bind_operator(runtime: Runtime, operator: Operator, arrays: Sequence[Array]) -> Kernel:
    """Return the kernel of an operator, bound to these inputs and to new outputs."""
    specs = operator.infer(*(TensorSpec(array.shape, array.dtype) for array in arrays))
    outputs = [np.zeros(spec.shape, spec.dtype) for spec in specs]
    return operator.kernel(runtime, list(arrays), outputs)


def floats(*shape: int) -> Array:
    """Return random float32 numbers in [-1, 1)."""
    return np.random.default_rng(1).random(shape, np.float32) * 2 - 1


def operator_case(name: str, build: Callable[[], Operator], shapes: Sequence[Shape], passes: int) -> Case:
    """Return the case of an operator that passes ``passes`` times over a tensor of the first shape, of float32."""

    def bind(runtime: Runtime) -> Kernel:
        return bind_operator(runtime, build(), [floats(*shape) for shape in shapes])

    return Case(name, "GB/s", passes * 4 * prod(shapes[0]), bind)


@dataclass(frozen=True)
class Layer:
    """A convolution with ``same`` padding, as ResNet-50 has it, ``count`` times in a network."""

    images: int
    inputs: int
    extent: int
    outputs: int
    kernel: int
    stride: int = 1
    count: int = 1
    group: int = 1

    @property
    def cases(self) -> Iterator[Case]:
        """The kernels of this layer: forward, either gradient, and both gradients after each other."""
        extent, taps = -(-self.extent // self.stride), self.kernel**2
        pixels, depth, outputs = self.images * extent**2, self.inputs * taps // self.group, self.outputs // self.group
        operations = 2 * pixels * depth * self.outputs
        name = f"{self.kernel}x{self.kernel} {self.images},{self.inputs},{self.extent},{self.outputs}"
        name += f" /{self.stride}" * (self.stride > 1) + f" g{self.group}" * (self.group > 1)
        kinds = {
            "forward": (1, self.forward, (outputs, depth, pixels)),
            "input gradient": (1, self.input_gradient, (depth, outputs, pixels)),
            "weight gradient": (1, self.weight_gradient, (outputs, pixels, depth)),
            "both gradients": (2, self.both_gradients, (depth, outputs, pixels)),
        }
        for kind, (times, bind, product) in kinds.items():
            yield Case(f"conv {name} {kind}", "GF/s", times * operations, bind, product)

    def _arrays(self) -> tuple[Array, Array, Array]:
        extent = -(-self.extent // self.stride)
        x = floats(self.images, self.inputs, self.extent, self.extent)
        weight = floats(self.outputs, self.inputs // self.group, self.kernel, self.kernel)
        return x, weight, floats(self.images, self.outputs, extent, extent)

    def _operator(self, kind: type[Operator]) -> Operator:
        build: Any = kind
        operator: Operator = build(self.outputs, self.kernel, pad_mode="same", stride=self.stride, group=self.group)
        return operator

    def forward(self, runtime: Runtime) -> Kernel:
        """Bind the convolution."""
        x, weight, _ = self._arrays()
        return bind_operator(runtime, self._operator(P.Conv2D), (x, weight))

    def input_gradient(self, runtime: Runtime) -> Kernel:
        """Bind the gradient with respect to images."""
        x, weight, dy = self._arrays()
        return bind_operator(runtime, self._operator(P.Conv2DBackpropInput), (dy, weight, x))

    def weight_gradient(self, runtime: Runtime) -> Kernel:
        """Bind the gradient with respect to weights."""
        x, weight, dy = self._arrays()
        return bind_operator(runtime, self._operator(P.Conv2DBackpropFilter), (dy, x, weight))

    def both_gradients(self, runtime: Runtime) -> Kernel:
        """Bind either gradient, one after the other."""
        kernels = [self.input_gradient(runtime), self.weight_gradient(runtime)]

        def run() -> None:
            for kernel in kernels:
                kernel()

        return run


def resnet50(images: int, extent: int) -> list[Layer]:
    """Return the kinds of convolution of ResNet-50, but for the first, of images of ``extent`` pixels."""
    layers = []
    channels, extent = 64, extent // 4
    for stage, (blocks, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        stride, after = (2, extent // 2) if stage else (1, extent)
        layers += [
            Layer(images, channels, extent, width, 1),
            Layer(images, width, extent, width, 3, stride),
            Layer(images, channels, extent, 4 * width, 1, stride),
            Layer(images, width, after, 4 * width, 1, 1, blocks),
            Layer(images, 4 * width, after, width, 1, 1, blocks - 1),
            Layer(images, width, after, width, 3, 1, blocks - 1),
        ]
        channels, extent = 4 * width, after
    return layers


LAYERS = [
    Layer(8, 64, 56, 64, 3),
    Layer(8, 128, 28, 128, 3),
    Layer(8, 256, 14, 256, 3),
    Layer(16, 64, 32, 64, 3),
    Layer(16, 64, 56, 64, 3),
    Layer(16, 128, 28, 128, 3),
    Layer(64, 64, 32, 64, 3),
    Layer(16, 256, 56, 64, 1),
    Layer(16, 3, 224, 64, 7, 2),
    Layer(32, 3, 32, 64, 7, 2),
    Layer(32, 64, 28, 64, 3, 1, 1, 64),
]


def all_cases() -> list[Case]:
    """Return every case, each name once."""
    layers = [*LAYERS, *resnet50(8, 224), *resnet50(32, 32)]
    cases = [case for layer in layers for case in layer.cases]
    cases += [Case(name, "GB/s", work, bind) for name, work, bind in elementwise_kernels.CASES]
    return list({case.name: case for case in cases}.values())


@dataclass
class Row:
    """What was measured of one case: rates in its unit, and the kernel's share of each ceiling."""

    name: str
    unit: str
    milliseconds: float
    rate: float
    shares: dict[str, float] = field(default_factory=dict)


def once(kernel: Callable[[], object], repeat: int) -> float:
    """Return the seconds of one of ``repeat`` calls, without those that this thread waited for a processor."""
    start = time.thread_time()
    for _ in range(repeat):
        kernel()
    return (time.thread_time() - start) / repeat


def measure(case: Case, repetitions: int) -> Row:
    """Time a case and its ceilings in turns, each for about as long; return the fastest of each."""
    kernels: dict[str, Callable[[], object]] = {"kernel": case.bind(Runtime())}
    works = {"kernel": case.work}
    for name, product in (("of 1024", (CEILING_SIZE,) * 3), ("of shape", case.product)):
        if case.unit == "GF/s" and product is not None:
            m, k, n = product
            kernels[name], works[name] = matrix_product(m, k, n), 2 * m * k * n
    if case.unit == "GB/s":
        kernels["of copy"], works["of copy"] = copy(), 2 * COPY_BYTES
    repeats = {}
    for name, kernel in kernels.items():
        kernel()
        repeats[name] = max(1, int(SHORTEST / max(once(kernel, 1), 1e-9)))
    best = dict.fromkeys(kernels, float("inf"))
    for _ in range(repetitions):
        for name, kernel in kernels.items():
            best[name] = min(best[name], once(kernel, repeats[name]))
    rates = {name: works[name] / best[name] / 1e9 for name in kernels}
    shares = {name: rates["kernel"] / rate for name, rate in rates.items() if name != "kernel"}
    return Row(case.name, case.unit, best["kernel"] * 1e3, rates["kernel"], shares)


def matrix_product(m: int, k: int, n: int) -> Callable[[], object]:
    """Return what computes a plain product of float32 matrices."""
    a, b = floats(m, k), floats(k, n)
    out = np.zeros((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def copy() -> Callable[[], object]:
    """Return what copies memory that is larger than the caches."""
    source = np.ones(COPY_BYTES, np.uint8)
    target = np.zeros_like(source)
    return lambda: np.copyto(target, source)


COLUMNS = ("of 1024", "of shape", "of copy")


def heading(width: int) -> str:
    """Return the first line of the table."""
    return f"{'kernel':{width}}{'ms':>10}{'rate':>9}     " + "".join(f"{name:>10}" for name in COLUMNS)


def line(row: Row, width: int) -> str:
    """Return a line of the table."""
    shares = "".join(f"{row.shares[name]:10.0%}" if name in row.shares else " " * 10 for name in COLUMNS)
    return f"{row.name:{width}}{row.milliseconds:10.3f}{row.rate:9.1f} {row.unit}{shares}"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the flags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression: the cases whose name has a match")
    parser.add_argument("--repetitions", type=int, default=10, help="how often everything is timed (default 10)")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the chosen cases, a line each."""
    flags = make_parser().parse_args(arguments)
    chosen = [case for case in all_cases() if re.search(flags.only, case.name)]
    if not chosen:
        raise SystemExit(f"--only {flags.only!r} fits no case")
    blas = next((library for library in threadpool_info() if library["user_api"] == "blas"), {})
    print(f"OpenBLAS {blas.get('architecture', 'unknown')}, one thread; compiled loops: {jit.compiler() is not None}")
    width = max(len(case.name) for case in chosen) + 2
    print(heading(width))
    rows = []
    with threadpool_limits(1, user_api="blas"):
        for case in chosen:
            rows.append(measure(case, flags.repetitions))
            print(line(rows[-1], width), flush=True)
    if flags.json:
        flags.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
