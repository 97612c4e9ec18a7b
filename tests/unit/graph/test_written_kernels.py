"""The CUDA texts that are written by hand, run on the CPU behind an emulating header: no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.written_kernels import (
    attention_text,
    box_packing,
    channels_last_text,
    convolution_text,
    cross_entropy,
    index_order,
    random_mask,
    row_sums,
    tensor_attention_text,
    tensor_core_text,
    word_sums,
    written_text,
)
from tests.conformance.cuda_emulator.emulator import NO_COMPILER, EmulatedBackend, EmulatedKernels, compiler
from tests.conformance.cuda_emulator.registers import ARCHITECTURES, compile_for
from tests.conformance.cuda_emulator.written_cases import CASES, Case, adam

is_emulated = pytest.mark.skipif(compiler() is None, reason=NO_COMPILER)


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
    "a gradient that is not multiplied": (cross_entropy, "_TEXT", ") * factor);", "));"),
    "a gradient of another class": (cross_entropy, "_TEXT", "k == label ?", "k + 1 == label ?"),
    "a loss that each lane writes": (cross_entropy, "_TEXT", "&& lane == 0) losses[row]", ") losses[row + lane % 2]"),
    "a part that two blocks write": (row_sums, "_PIECES", "(came ? 0 : 1)", "0"),
    "a run that ends too early": (row_sums, "_PIECES", "if (came || goes_on)", "if (goes_on)"),
    "parts that are not added": (row_sums, "_PARTS", "sum += parts", "sum = parts"),
    "equal indices in another order": (index_order, "_MOVES", "++;", "; before[digit * $threads + threadIdx.x] -= 1;"),
    "sums of a tile that are read too early": (
        index_order,
        "_COUNTS",
        "        sums[threadIdx.x] += total;\n        __syncthreads();",
        "        sums[threadIdx.x] += total;",
    ),
    "places of the pass before": (index_order, "_MOVES", "shift ? places[first + k]", "shift > 4 ? places[first + k]"),
    "tiles of a thread that start at one place": (index_order, "_STARTS", "before += here;", ""),
    "tiles that start at one place": (index_order, "_STARTS", "before += sums[thread];", ""),
    "an index too many": (row_sums, "_PIECES", "row < rows) {", "row <= rows) {"),
    "another place in the whole": (random_mask, "_TEXT", "index = $start;", "index = $start + 1;"),
    "another hash": (random_mask, "MIXED", "bits ^= bits >> 15;", "bits ^= bits >> 14;"),
    "an element too many": (
        box_packing,
        "_TEXT",
        "< count ? begin + $share : count",
        "<= count ? begin + $share : count + 1",
    ),
    "a score beside the keys": (attention_text, "FORWARD", "key_place < keys\n", "key_place <= keys\n"),
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
    "rows of a turned matrix from another half": (
        tensor_attention_text,
        "FORWARD",
        "pair * 16 + lane % 16;",
        "pair * 16 + lane % 8;",
    ),
    "tensor cores' sums that are not rescaled": (
        tensor_attention_text,
        "FORWARD",
        "sum[place][2 * half] *= factor;",
        "",
    ),
    "tiles that are overwritten while they are multiplied": (
        tensor_attention_text,
        "QUERY_GRADIENT",
        "start += SPAN) {\n        __syncthreads();",
        "start += SPAN) {",
    ),
    "weights of keys that are not dropped": (
        tensor_attention_text,
        "KEY_GRADIENT",
        "score = kept ? weight * (float)kept_scale : 0;",
        "score = weight;",
    ),
    "halves of a row that are swapped": (
        tensor_attention_text,
        "KEY_GRADIENT",
        "step * 16 + lane / 8 % 2 * 8, false",
        "step * 16 + (1 - lane / 8 % 2) * 8, false",
    ),
    "a key beyond the last": (tensor_attention_text, "FORWARD", "key_place < keys\n", "key_place <= keys\n"),
    "a key of its own place that is not seen": (
        attention_text,
        "FORWARD",
        "key_place <= first_query + query_place",
        "key_place < first_query + query_place",
    ),
    "places of queries on another rank": (
        attention_text,
        "KEY_GRADIENT",
        "key_place <= first_query + query_place",
        "key_place <= query_place",
    ),
    "keys that are skipped too early": (attention_text, "FORWARD", "first_query + first + TILE", "first_query + first"),
    "keys that are skipped on another rank": (
        attention_text,
        "QUERY_GRADIENT",
        "first_query + first + TILE",
        "first + TILE",
    ),
    "queries that are skipped too long": (
        attention_text,
        "KEY_GRADIENT",
        "first_query) / TILE * TILE",
        "first_query) / TILE * TILE + TILE",
    ),
    "keys that tensor cores skip too early": (
        tensor_attention_text,
        "FORWARD",
        "first_query + block_first + ROWS",
        "first_query + block_first",
    ),
    "keys that a warp skips too early": (
        tensor_attention_text,
        "FORWARD",
        "start > first_query + first + 16 - 1",
        "start > first_query + first + 16 - 2",
    ),
    "a tile with a key that is not seen": (
        tensor_attention_text,
        "QUERY_GRADIENT",
        "start + SPAN <= first_query + first + 1",
        "start + SPAN <= first_query + first + 2",
    ),
    "a tile with a query that does not see": (
        tensor_attention_text,
        "KEY_GRADIENT",
        "first + 16 <= first_query + start + 1",
        "first + 16 <= first_query + start + 2",
    ),
    "queries that tensor cores skip too long": (
        tensor_attention_text,
        "KEY_GRADIENT",
        "first_query) / SPAN * SPAN",
        "first_query) / SPAN * SPAN + SPAN",
    ),
    "padding beside an image whose channels are last": (
        channels_last_text,
        "FORWARD",
        "row >= 0 && row < height && column >= 0",
        "row >= 0 && row < height",
    ),
    "channels of another place in the window": (
        channels_last_text,
        "INPUT_GRADIENT",
        "step % chunks * DEPTH + part",
        "step % TAPS * DEPTH + part",
    ),
    "parts that are loaded before they are stored": (
        channels_last_text,
        "FORWARD",
        "        if (step) {\n            __syncthreads();",
        "        if (step) {",
    ),
    "windows of the next part": (channels_last_text, "WEIGHT_GRADIENT", "place < to)", "place < to + 1)"),
    "rows of channels that are not turned": (
        tensor_core_text,
        "_OF_16_BITS",
        "* PITCH + lane / 16 * 8, true",
        "* PITCH + lane / 16 * 8, false",
    ),
    "padding on one side": (convolution_text, "FORWARD", "y >= 0 && y < height", "y < height"),
    "a stride that is forgotten": (convolution_text, "INPUT_GRADIENT", " || across % STEP_ACROSS", ""),
    "no barrier after a tile": (convolution_text, "FORWARD", "        __syncthreads();\n    }", "    }"),
    "halves of a tensor core's lines that are swapped": (
        convolution_text,
        "FORWARD",
        "k + (own_word + part / 2 * 4) * PER_WORD)",
        "k + (own_word + part % 2 * 4) * PER_WORD)",
    ),
    "a window of the next share": (convolution_text, "WEIGHT_GRADIENT", "&& k < to", "&& k <= to"),
    "factors that are cut off instead of rounded": (tensor_core_text, "_OF_TF32", "(bits + 0x1000)", "bits"),
    "parts of float32 that are not rounded": (tensor_core_text, "_OF_TF32", "words.e[at] = to_tf32(words.e[at]);", ";"),
    "rows of float32 of another half": (tensor_core_text, "_OF_TF32", "part / 2 * 4) * PITCH", "part % 2 * 4) * PITCH"),
    "columns of float32 of another half": (
        tensor_core_text,
        "_OF_TF32",
        "part % 2 * 4) * PITCH + lane / 4 + part / 2 * 8",
        "part % 2 * 4) * PITCH + lane / 4 + part % 2 * 8",
    ),
    "words of a tensor core's next part": (convolution_text, "FORWARD", "AT_ONCE) {", "2 * AT_ONCE) {"),
    "sums that are read before they are written": (word_sums, "_TEXT", "        __syncthreads();\n", ""),
    "bytes of a word at one place": (word_sums, "_TEXT", "(within * 8 *", "(0 * within * 8 *"),
    "strides of another dim": (box_packing, "_TEXT", "* steps[dim];", "* steps[0];"),
}
FAULTY = {
    cross_entropy: (
        *("cross entropy of few classes", "cross entropy of a warp", "cross entropy of a block"),
        "cross entropy of rounded logits",
    ),
    row_sums: ("sums of rows",),
    index_order: ("indices in order", "indices of many tiles in order"),
    random_mask: ("a mask of a box",),
    box_packing: ("boxes of columns",),
    convolution_text: (
        *("convolution in groups", "convolution of many channels"),
        *("convolution in TF32 of three channels", "convolution in TF32, plane by plane"),
    ),
    tensor_core_text: (
        *("convolution in TF32, with strides", "convolution in TF32 of three channels"),
        "convolution of channels that are last",
    ),
    attention_text: ("attention with dropout",),
    channels_last_text: ("convolution of channels that are last", "convolution of channels that are last, in parts"),
    tensor_attention_text: ("attention by tensor cores",),
    word_sums: ("sums of a message", "sums of odd bytes"),
}
CAUSAL = {
    attention_text: ("causal attention of later queries",),
    tensor_attention_text: (
        "causal attention of later queries by tensor cores",
        "causal attention of deep heads by tensor cores",
    ),
}
"""Of faults in texts that speak of the places of queries."""


@is_emulated
def test_each_planted_fault_is_found(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: dict[str, list[Case]] = {}
    for fault, (module, attribute, sound, broken) in FAULTS.items():
        text = getattr(module, attribute)
        assert sound in text
        with monkeypatch.context() as patched:
            patched.setattr(module, attribute, text.replace(sound, broken))
            names = CAUSAL[module] if "first_query" in sound else FAULTY[module]
            cases[fault] = [CASES[name](runtime) for name in names]
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
    for bind in CASES.values():
        bind(runtime)
    compile_for(architecture, list(kernels.texts.values()))


def test_many_updates_are_one_launch(runtime: Runtime, kernels: EmulatedKernels) -> None:
    adam(runtime)
    assert len(kernels.launches) == 1


@pytest.mark.parametrize(("dtype", "together"), [(np.float32, 4), (np.float64, 2)])
def test_a_thread_takes_16_bytes_of_neighbours_of_arrays_that_are_updated(
    dtype: type, together: int, runtime: Runtime, kernels: EmulatedKernels
) -> None:
    adam(runtime, (1024, 2048), dtype)
    (text,) = kernels.texts.values()
    assert f"threadIdx.x * {together};" in text


def test_boxes_are_copied_by_16_bytes_where_runs_and_addresses_allow(
    runtime: Runtime, kernels: EmulatedKernels
) -> None:
    rows, packed = (runtime.backend.empty(256).view(np.float32) for _ in range(2))
    found = []
    for first in (0, 1):
        kernels.texts.clear()
        box_packing.BoxPacking(runtime, [rows.reshape(4, 16)[:, first : first + 8]], packed)
        # Without it the compiler makes two loads of each.
        found.append({"typedef struct alignas(16) " in text for text in kernels.texts.values()})
    assert found == [{True}, {False}]


@pytest.mark.parametrize(("count", "width", "rows"), [(0, 3, 2), (4, 0, 2), (4, 3, 0)])
def test_sums_of_nothing_are_zeros_and_need_no_kernel(count: int, width: int, rows: int) -> None:
    target = np.full((rows, width), 7.0)
    row_sums.row_sums(Runtime(), np.zeros(count, np.int64), np.ones((count, width)), target)()
    np.testing.assert_array_equal(target, np.zeros((rows, width)))


def test_boxes_without_elements_are_packed_by_doing_nothing() -> None:
    packed = np.full(3, 7.0)
    packing = box_packing.BoxPacking(Runtime(), [np.empty((0, 4)), np.empty((2, 0))], packed)
    packing.pack()
    packing.unpack()
    assert packed.tolist() == [7.0] * 3


def test_a_device_that_compiles_no_texts_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match="device 'cpu' compiles no CUDA texts; ask has_written_kernels first"):
        written_text.written_kernel(Runtime(), "void KERNEL() {}", {}, 1, 32)
