"""Faults in the CUDA texts that are written by hand, each with a launch that finds it."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

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
)


@dataclass(frozen=True)
class PlantedFault:
    """What is changed in a module's text, and the one of ``CASES`` that does not pass then."""

    module: ModuleType
    attribute: str
    sound: str
    broken: str
    case: str

    def text(self) -> str:
        """Return the text with the fault."""
        text: str = getattr(self.module, self.attribute)
        assert self.sound in text
        return text.replace(self.sound, self.broken)


FAULTS = {
    "a class too many": PlantedFault(
        cross_entropy, "_TEXT", "k < classes; k += $lanes) {", "k <= classes; k += $lanes) {", "cross entropy of a warp"
    ),
    "a sum before the largest is known": PlantedFault(
        cross_entropy, "_TEXT", "total * exp(largest - above)", "total", "cross entropy of rounded logits"
    ),
    "a row too many": PlantedFault(
        cross_entropy, "_TEXT", "if (row >= rows) return;", "", "cross entropy of few classes"
    ),
    "a gradient that is not multiplied": PlantedFault(
        cross_entropy, "_TEXT", ") * factor);", "));", "cross entropy of rounded logits"
    ),
    "a gradient of another class": PlantedFault(
        cross_entropy, "_TEXT", "k == label ?", "k + 1 == label ?", "cross entropy of rounded logits"
    ),
    "a loss that each lane writes": PlantedFault(
        cross_entropy, "_TEXT", "&& lane == 0) losses[row]", ") losses[row + lane % 2]", "cross entropy of few classes"
    ),
    "a part that two blocks write": PlantedFault(row_sums, "_PIECES", "(came ? 0 : 1)", "0", "sums of rows"),
    "a run that ends too early": PlantedFault(
        row_sums, "_PIECES", "if (came || goes_on)", "if (goes_on)", "sums of rows"
    ),
    "parts that are not added": PlantedFault(row_sums, "_PARTS", "sum += parts", "sum = parts", "sums of rows"),
    "equal indices in another order": PlantedFault(
        index_order, "_MOVES", "++;", "; before[digit * $threads + threadIdx.x] -= 1;", "indices in order"
    ),
    "sums of a tile that are read too early": PlantedFault(
        index_order,
        "_COUNTS",
        "        sums[threadIdx.x] += total;\n        __syncthreads();",
        "        sums[threadIdx.x] += total;",
        "indices in order",
    ),
    "places of the pass before": PlantedFault(
        index_order, "_MOVES", "shift ? places[first + k]", "shift > 4 ? places[first + k]", "indices in order"
    ),
    "tiles of a thread that start at one place": PlantedFault(
        index_order, "_STARTS", "before += here;", "", "indices of many tiles in order"
    ),
    "tiles that start at one place": PlantedFault(
        index_order, "_STARTS", "before += sums[thread];", "", "indices of many tiles in order"
    ),
    "an index too many": PlantedFault(row_sums, "_PIECES", "row < rows) {", "row <= rows) {", "sums of rows"),
    "another place in the whole": PlantedFault(
        random_mask, "_TEXT", "index = $start;", "index = $start + 1;", "a mask of a box"
    ),
    "another hash": PlantedFault(random_mask, "MIXED", "bits ^= bits >> 15;", "bits ^= bits >> 14;", "a mask of a box"),
    "an element too many": PlantedFault(
        box_packing,
        "_TEXT",
        "< count ? begin + $share : count",
        "<= count ? begin + $share : count + 1",
        "boxes of columns",
    ),
    "a score beside the keys": PlantedFault(
        attention_text, "FORWARD", "key_place < keys\n", "key_place <= keys\n", "attention with dropout"
    ),
    "no barrier before values": PlantedFault(
        attention_text,
        "FORWARD",
        "        partial[threadIdx.x] = own_total;\n        __syncthreads();",
        "        partial[threadIdx.x] = own_total;",
        "attention with dropout",
    ),
    "scores that are overwritten while they are read": PlantedFault(
        attention_text,
        "FORWARD",
        "scores[row * WIDTH + column]);\n        __syncthreads();",
        "scores[row * WIDTH + column]);",
        "attention with dropout",
    ),
    "a sum that is not rescaled": PlantedFault(
        attention_text, "FORWARD", "sum[at] * factor", "sum[at]", "attention with dropout"
    ),
    "a gradient without the products": PlantedFault(
        attention_text, "QUERY_GRADIENT", "kept_scale : 0) - mean)", "kept_scale : 0))", "attention with dropout"
    ),
    "a mask of another place": PlantedFault(
        attention_text,
        "KEY_GRADIENT",
        "(whole + query_place) * keys + key_place",
        "(whole + query_place) * keys + key_place + 1",
        "attention with dropout",
    ),
    "rows of a turned matrix from another half": PlantedFault(
        tensor_attention_text, "FORWARD", "pair * 16 + lane % 16;", "pair * 16 + lane % 8;", "attention by tensor cores"
    ),
    "tensor cores' sums that are not rescaled": PlantedFault(
        tensor_attention_text, "FORWARD", "sum[place][2 * half] *= factor;", "", "attention by tensor cores"
    ),
    "tiles that are overwritten while they are multiplied": PlantedFault(
        tensor_attention_text,
        "QUERY_GRADIENT",
        "start += SPAN) {\n        __syncthreads();",
        "start += SPAN) {",
        "attention by tensor cores",
    ),
    "weights of keys that are not dropped": PlantedFault(
        tensor_attention_text,
        "KEY_GRADIENT",
        "score = kept ? weight * (float)kept_scale : 0;",
        "score = weight;",
        "attention by tensor cores",
    ),
    "halves of a row that are swapped": PlantedFault(
        tensor_attention_text,
        "KEY_GRADIENT",
        "step * 16 + lane / 8 % 2 * 8, false",
        "step * 16 + (1 - lane / 8 % 2) * 8, false",
        "attention by tensor cores",
    ),
    "a key beyond the last": PlantedFault(
        tensor_attention_text, "FORWARD", "key_place < keys\n", "key_place <= keys\n", "attention by tensor cores"
    ),
    "a key of its own place that is not seen": PlantedFault(
        attention_text,
        "FORWARD",
        "key_place <= first_query + query_place",
        "key_place < first_query + query_place",
        "causal attention of later queries",
    ),
    "places of queries on another rank": PlantedFault(
        attention_text,
        "KEY_GRADIENT",
        "key_place <= first_query + query_place",
        "key_place <= query_place",
        "causal attention of later queries",
    ),
    "keys that are skipped too early": PlantedFault(
        attention_text,
        "FORWARD",
        "first_query + first + TILE",
        "first_query + first",
        "causal attention of later queries",
    ),
    "keys that are skipped on another rank": PlantedFault(
        attention_text,
        "QUERY_GRADIENT",
        "first_query + first + TILE",
        "first + TILE",
        "causal attention of later queries",
    ),
    "queries that are skipped too long": PlantedFault(
        attention_text,
        "KEY_GRADIENT",
        "first_query) / TILE * TILE",
        "first_query) / TILE * TILE + TILE",
        "causal attention of later queries",
    ),
    "keys that tensor cores skip too early": PlantedFault(
        tensor_attention_text,
        "FORWARD",
        "first_query + block_first + ROWS",
        "first_query + block_first",
        "causal attention of later queries by tensor cores",
    ),
    "keys that a warp skips too early": PlantedFault(
        tensor_attention_text,
        "FORWARD",
        "start > first_query + first + 16 - 1",
        "start > first_query + first + 16 - 2",
        "causal attention of later queries by tensor cores",
    ),
    "a tile with a key that is not seen": PlantedFault(
        tensor_attention_text,
        "QUERY_GRADIENT",
        "start + SPAN <= first_query + first + 1",
        "start + SPAN <= first_query + first + 2",
        "causal attention of deep heads by tensor cores",
    ),
    "a tile with a query that does not see": PlantedFault(
        tensor_attention_text,
        "KEY_GRADIENT",
        "first + 16 <= first_query + start + 1",
        "first + 16 <= first_query + start + 2",
        "causal attention of deep heads by tensor cores",
    ),
    "queries that tensor cores skip too long": PlantedFault(
        tensor_attention_text,
        "KEY_GRADIENT",
        "first_query) / SPAN * SPAN",
        "first_query) / SPAN * SPAN + SPAN",
        "causal attention of later queries by tensor cores",
    ),
    "padding beside an image whose channels are last": PlantedFault(
        channels_last_text,
        "FORWARD",
        "row >= 0 && row < height && column >= 0",
        "row >= 0 && row < height",
        "convolution of channels that are last",
    ),
    "channels of another place in the window": PlantedFault(
        channels_last_text,
        "INPUT_GRADIENT",
        "step % chunks * DEPTH + part",
        "step % TAPS * DEPTH + part",
        "convolution of channels that are last, in parts",
    ),
    "parts that are loaded before they are stored": PlantedFault(
        channels_last_text,
        "FORWARD",
        "        if (step) {\n            __syncthreads();",
        "        if (step) {",
        "convolution of channels that are last, in parts",
    ),
    "windows of the next part": PlantedFault(
        channels_last_text,
        "WEIGHT_GRADIENT",
        "place < to)",
        "place < to + 1)",
        "convolution of channels that are last, in parts",
    ),
    "rows of channels that are not turned": PlantedFault(
        tensor_core_text,
        "_OF_16_BITS",
        "* PITCH + lane / 16 * 8, true",
        "* PITCH + lane / 16 * 8, false",
        "convolution of channels that are last",
    ),
    "padding on one side": PlantedFault(
        convolution_text, "FORWARD", "y >= 0 && y < height", "y < height", "convolution in groups"
    ),
    "a stride that is forgotten": PlantedFault(
        convolution_text, "INPUT_GRADIENT", " || across % STEP_ACROSS", "", "convolution in groups"
    ),
    "no barrier after a tile": PlantedFault(
        convolution_text, "FORWARD", "        __syncthreads();\n    }", "    }", "convolution in TF32 of three channels"
    ),
    "halves of a tensor core's lines that are swapped": PlantedFault(
        convolution_text,
        "FORWARD",
        "k + (own_word + part / 2 * 4) * PER_WORD)",
        "k + (own_word + part % 2 * 4) * PER_WORD)",
        "convolution in groups",
    ),
    "a window of the next share": PlantedFault(
        convolution_text, "WEIGHT_GRADIENT", "&& k < to", "&& k <= to", "convolution in TF32, plane by plane"
    ),
    "factors that are cut off instead of rounded": PlantedFault(
        tensor_core_text, "_OF_TF32", "(bits + 0x1000)", "bits", "convolution in TF32, with strides"
    ),
    "parts of float32 that are not rounded": PlantedFault(
        tensor_core_text, "_OF_TF32", "words.e[at] = to_tf32(words.e[at]);", ";", "convolution in TF32, with strides"
    ),
    "rows of float32 of another half": PlantedFault(
        tensor_core_text,
        "_OF_TF32",
        "part / 2 * 4) * PITCH",
        "part % 2 * 4) * PITCH",
        "convolution in TF32, with strides",
    ),
    "columns of float32 of another half": PlantedFault(
        tensor_core_text,
        "_OF_TF32",
        "part % 2 * 4) * PITCH + lane / 4 + part / 2 * 8",
        "part % 2 * 4) * PITCH + lane / 4 + part % 2 * 8",
        "convolution in TF32, with strides",
    ),
    "words of a tensor core's next part": PlantedFault(
        convolution_text, "FORWARD", "AT_ONCE) {", "2 * AT_ONCE) {", "convolution in TF32, plane by plane"
    ),
    "sums that are read before they are written": PlantedFault(
        word_sums, "_TEXT", "        __syncthreads();\n", "", "sums of odd bytes"
    ),
    "bytes of a word at one place": PlantedFault(
        word_sums, "_TEXT", "(within * 8 *", "(0 * within * 8 *", "sums of odd bytes"
    ),
    "strides of another dim": PlantedFault(box_packing, "_TEXT", "* steps[dim];", "* steps[0];", "boxes of columns"),
}
