"""The CUDA texts that are written by hand, run on the CPU behind an emulating header: no GPU is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mpiparallel.backend.nvrtc import Nvrtc
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.expression.cuda.prelude import PRELUDE
from mpiparallel.graph.written_kernels import (
    attention_text,
    box_packing,
    convolution_text,
    cross_entropy,
    random_mask,
    row_sums,
)
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedBackend, EmulatedKernels, compiler
from tests.conformance.cuda_emulator.written_cases import CASES, Case, adam
from tests.reliability.counts import count

is_emulated = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)
ARCHITECTURES = ("sm_80", "sm_90")
COMPILED_FOR = count(2, 1)
"""For how many of them each text is compiled: both in make soak, else one or the other in turn."""
MOST_SPILLED = 32
"""Bytes of registers that a thread may keep in memory."""


@pytest.fixture
def kernels(tmp_path: Path) -> Iterator[EmulatedKernels]:
    made = EmulatedKernels(tmp_path)
    yield made
    made.close()


@pytest.fixture
def runtime(kernels: EmulatedKernels) -> Runtime:
    return Runtime(EmulatedBackend(kernels))


@is_emulated
def test_each_gives_what_numpy_does(runtime: Runtime) -> None:
    cases = {name: bind(runtime) for name, bind in CASES.items()}
    for name, case in cases.items():
        try:
            case.check()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


FAULTS = {
    "a class too many": (cross_entropy, "_TEXT", "k < classes; k += $lanes) {", "k <= classes; k += $lanes) {"),
    "a sum before the largest is known": (cross_entropy, "_TEXT", "total * exp(largest - above)", "total"),
    "a row too many": (cross_entropy, "_TEXT", "if (row >= rows) return;", ""),
    "a part that two blocks write": (row_sums, "_PIECES", "(came ? 0 : 1)", "0"),
    "a run that ends too early": (row_sums, "_PIECES", "if (came || goes_on)", "if (goes_on)"),
    "parts that are not added": (row_sums, "_PARTS", "sum += parts", "sum = parts"),
    "an index too many": (row_sums, "_PIECES", "row < rows) {", "row <= rows) {"),
    "another place in the whole": (random_mask, "_TEXT", "index = $start;", "index = $start + 1;"),
    "another hash": (random_mask, "MIXED", "bits ^= bits >> 15;", "bits ^= bits >> 14;"),
    "an element too many": (
        box_packing,
        "_TEXT",
        "< count ? begin + $share : count",
        "<= count ? begin + $share : count + 1",
    ),
    "a score beside the keys": (attention_text, "FORWARD", "key_place < keys)", "key_place <= keys)"),
    "no barrier before values": (
        attention_text,
        "FORWARD",
        "        partial[threadIdx.x] = own_total;\n        __syncthreads();",
        "        partial[threadIdx.x] = own_total;",
    ),
    "scores that are overwritten while they are read": (
        attention_text,
        "FORWARD",
        "scores[row * WIDTH + column]);\n        __syncthreads();",
        "scores[row * WIDTH + column]);",
    ),
    "a sum that is not rescaled": (attention_text, "FORWARD", "sum[at] * factor", "sum[at]"),
    "a gradient without the products": (
        attention_text,
        "QUERY_GRADIENT",
        "kept_scale : 0) - mean)",
        "kept_scale : 0))",
    ),
    "a mask of another place": (
        attention_text,
        "KEY_GRADIENT",
        "(whole + query_place) * keys + key_place",
        "(whole + query_place) * keys + key_place + 1",
    ),
    "padding on one side": (convolution_text, "FORWARD", "y >= 0 && y < height", "y < height"),
    "a stride that is forgotten": (convolution_text, "INPUT_GRADIENT", " || across % STEP_ACROSS", ""),
    "no barrier after a tile": (convolution_text, "FORWARD", "        __syncthreads();\n    }", "    }"),
    "halves of a tensor core's lines that are swapped": (
        convolution_text,
        "FORWARD",
        "[pair + part / 2 * 8]",
        "[pair + part % 2 * 8]",
    ),
    "a window of the next share": (convolution_text, "WEIGHT_GRADIENT", "&& k < to", "&& k <= to"),
    "strides of another dim": (box_packing, "_TEXT", "* steps[dim];", "* steps[0];"),
}
FAULTY = {
    cross_entropy: ("cross entropy of few classes", "cross entropy of a warp", "cross entropy of a block"),
    row_sums: ("sums of rows",),
    random_mask: ("a mask of a box",),
    box_packing: ("boxes of columns",),
    convolution_text: ("convolution in groups", "convolution of many channels"),
    attention_text: ("attention with dropout",),
}


@is_emulated
def test_each_planted_fault_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, list[Case]] = {}
    for fault, (module, attribute, sound, broken) in FAULTS.items():
        text = getattr(module, attribute)
        assert sound in text
        with monkeypatch.context() as patched:
            patched.setattr(module, attribute, text.replace(sound, broken))
            cases[fault] = [CASES[name](runtime) for name in FAULTY[module]]
    for fault, faulty in cases.items():
        assert any(map(_fails, faulty)), fault


def _fails(case: Case) -> bool:
    try:
        case.check()
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_each_compiles_and_keeps_to_its_registers(
    architecture: str, runtime: Runtime, kernels: EmulatedKernels
) -> None:
    try:
        nvrtc = Nvrtc()
    except ConfigurationError as error:
        pytest.skip(str(error))
    for bind in CASES.values():
        bind(runtime)
    step = len(ARCHITECTURES) // COMPILED_FOR
    texts = list(kernels.texts.values())[ARCHITECTURES.index(architecture) % step :: step]
    found = nvrtc.compile(PRELUDE + "".join(text.removeprefix(PRELUDE) for text in texts), architecture)
    spilled = [int(number) for number in re.findall(r"(\d+) bytes spill stores", found.log)]
    assert len(spilled) >= len(texts)
    assert max(spilled) <= MOST_SPILLED


def test_many_updates_are_one_launch(runtime: Runtime, kernels: EmulatedKernels) -> None:
    adam(runtime)
    assert len(kernels.launches) == 1
