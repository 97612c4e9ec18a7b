"""cuDNN's frontend without a GPU: the names and keywords of the wheel, computed in the host's memory by NumPy.

It is strict: a graph is built in the one order, tensors have all that the wheel wants, and execution is given an
address for each of them, on the handle with which the graph was made.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import ml_dtypes
import numpy as np

from tests.conformance.hidden_arrays import cudnn_attention
from tests.conformance.hidden_arrays.cublas_lt import require

DTYPES: Final = {"FLOAT": np.float32, "HALF": np.float16, "BFLOAT16": ml_dtypes.bfloat16}
STEPS: Final = ("validate", "build_operation_graph", "create_execution_plans", "check_support", "build_plans")
CONVOLUTIONS: Final = {
    "conv_fprop": ("image", "weight"),
    "conv_dgrad": ("loss", "filter"),
    "conv_wgrad": ("image", "loss"),
}
WINDOW: Final = ("pre_padding", "post_padding", "stride", "dilation")
WORKSPACE: Final = 4096


class NotSupportedError(Exception):
    """What the wheel raises where no engine takes a graph."""


@dataclass
class FakeTensor:
    """A tensor of a graph, described by setters that return it."""

    dim: list[int] = field(default_factory=list)
    stride: list[int] = field(default_factory=list)
    data_type: Any = None
    uid: int | None = None
    is_output: bool = False

    def set_output(self, value: bool) -> FakeTensor:
        self.is_output = value
        return self

    def set_uid(self, uid: int) -> FakeTensor:
        self.uid = uid
        return self

    def set_dim(self, dim: list[int]) -> FakeTensor:
        self.dim = dim
        return self

    def set_stride(self, stride: list[int]) -> FakeTensor:
        self.stride = stride
        return self

    def set_data_type(self, dtype: Any) -> FakeTensor:
        self.data_type = dtype
        return self


class FakeGraph:
    """A graph of one convolution, or of attention one way."""

    def __init__(self, library: FakeCudnn, handle: Any, types: tuple[Any, ...]) -> None:
        require(handle in library.handles, "the graph has no handle")
        require(all(types), "types of data or of sums are missing")
        self.library, self.handle = library, handle
        self.notes: list[str] = []
        self._tensors: list[FakeTensor] = []
        self._work: tuple[str, dict[str, FakeTensor], Callable[[dict[str, Any]], None]] | None = None
        self._done = 0
        for step in STEPS[:2] + STEPS[3:4]:
            setattr(self, step, lambda step=step: self._go(step))

    def tensor(self, *, dim: Any, stride: Any, data_type: Any, name: str, uid: int) -> FakeTensor:
        """Describe an input."""
        require(name, "a tensor without a name")
        self._tensors.append(FakeTensor(list(dim), list(stride), data_type, uid))
        return self._tensors[-1]

    def __getattr__(self, name: str) -> Any:
        if name not in CONVOLUTIONS:
            raise AttributeError(name)

        def make(**given: Any) -> FakeTensor:
            require(set(given) == {*CONVOLUTIONS[name], *WINDOW}, f"{name}: {sorted(given)}")
            window = {key: given.pop(key) for key in WINDOW}
            require(all(type(one) is list and len(one) == 2 for one in window.values()), f"{window}")
            made = FakeTensor()
            self._tensors.append(made)
            self._work = name, {**given, "made": made}, partial(_compute, name, window=window)
            return made

        return make

    def sdpa(self, *, attn_scale: float, generate_stats: bool, name: str, **given: Any) -> list[FakeTensor]:
        """Attend."""
        require(generate_stats is True, "the gradient needs statistics")
        return self._attention("sdpa", given, cudnn_attention.FORWARD, ("O", "Stats"), attn_scale)

    def sdpa_backward(
        self, *, attn_scale: float, use_deterministic_algorithm: bool, name: str, **given: Any
    ) -> list[FakeTensor]:
        """Go back."""
        require(use_deterministic_algorithm is True, "bits are to repeat")
        return self._attention("sdpa_backward", given, cudnn_attention.BACKWARD, ("dQ", "dK", "dV"), attn_scale)

    def _attention(
        self, name: str, given: dict[str, Any], wanted: tuple[str, ...], results: tuple[str, ...], scale: float
    ) -> list[FakeTensor]:
        band = given.pop("diagonal_band_right_bound", None), given.pop("diagonal_alignment", None)
        require(band in ((None, None), (0, self.library.diagonal_alignment.TOP_LEFT)), f"the band is {band}")
        require(set(given) == {*wanted, "bias"} and type(scale) is float, f"{name}: {sorted(given)}, {scale}")
        made = [FakeTensor() for _ in results]
        self._tensors += made
        compute = cudnn_attention.attend if name == "sdpa" else cudnn_attention.go_back
        named = {key: one for key, one in given.items() if one is not None} | dict(zip(results, made, strict=True))
        self._work = name, named, partial(compute, scale=scale, is_causal=band[0] == 0)
        return made

    def create_execution_plans(self, modes: Any) -> None:
        require(list(modes), "no heuristics")
        self._go("create_execution_plans")

    def deselect_numeric_notes(self, notes: Any) -> None:
        require(self._done == STEPS.index("create_execution_plans") + 1, "notes are chosen before support is checked")
        self.notes = [one.name for one in notes]

    def build_plans(self, policy: Any) -> None:
        require(policy is self.library.build_plan_policy.HEURISTICS_CHOICE, "one plan is wanted")
        self._go("build_plans")
        self.library.built.append(self)

    def get_workspace_size(self) -> int:
        require(self._done == len(STEPS), "there are no plans yet")
        return WORKSPACE

    def execute(self, tensors: dict[int, int], workspace: int, handle: Any) -> None:
        """Compute in memory that addresses lead to."""
        require(self._done == len(STEPS), "there are no plans yet")
        require(handle is self.handle and handle.stream is not None, "a handle with a stream")
        require(type(workspace) is int and all(type(one) is int for one in tensors.values()), "addresses are numbers")
        require(set(tensors) == {one.uid for one in self._tensors}, "each tensor has an address")
        assert self._work is not None
        name, named, compute = self._work
        arrays = {key: self.library.at(tensors[one.uid or 0], one) for key, one in named.items()}
        self.library.executed.append((name, handle.stream))
        self.library.at(workspace, FakeTensor([WORKSPACE], [1], SimpleNamespace(name="UINT8")))[:] = 0xCB
        compute(arrays)

    def _go(self, step: str) -> None:
        require(STEPS[self._done] == step, f"{step} comes after {STEPS[self._done - 1]}")
        self._done += 1
        for one in self._tensors if step == "validate" else ():
            require(one.dim and one.stride and one.uid and one.data_type, f"a tensor lacks something: {one}")
        if step == "validate":
            _check_attention(*(self._work or ("", {}))[:2])
        if step == "check_support" and self.library.takes_nothing:
            raise NotSupportedError("no engine")


def _check_attention(name: str, tensors: dict[str, FakeTensor]) -> None:
    """Refuse what the wheel does: shapes, heads of odd depths, and types of data and statistics."""
    if not name.startswith("sdpa"):
        return
    (batch, heads, queries, depth), keys = tensors["q"].dim, tensors["k"].dim[2]
    if depth % 8:
        raise NotSupportedError("hidden_dim should be multiple of 8")
    if (name, queries, keys) == ("sdpa_backward", 1, 1):
        raise NotSupportedError("s_q = s_kv = 1 is not supported.")
    of_queries, of_keys = [batch, heads, queries, depth], [batch, heads, keys, depth]
    rows, kinds = [batch, heads, queries, 1], {tensors["q"].data_type.name}
    for role, one in tensors.items():
        if role in ("stats", "Stats"):
            require((one.dim, one.data_type.name) == (rows, "FLOAT"), f"statistics are {one}")
            continue
        kinds.add(one.data_type.name)
        if role == "bias":
            fits = one.dim[2:] == [queries, keys] and one.dim[0] in (1, batch) and one.dim[1] in (1, heads)
            require(fits, f"the bias is {one}")
            continue
        require(one.dim == (of_keys if role in ("k", "v", "dK", "dV") else of_queries), f"{role} is {one}")
        require(one.stride[3] == 1, f"rows of {role} are not contiguous")
    require(len(kinds) == 1 and kinds <= {"HALF", "BFLOAT16"}, f"types of data are {kinds}")


def _compute(name: str, arrays: dict[str, Any], window: dict[str, list[int]]) -> None:
    """Convolve tap by tap in float64, or go back."""
    roles = dict(zip(("conv_fprop", "conv_dgrad", "conv_wgrad"), ("made", "loss", "loss"), strict=True))
    outputs = arrays[roles[name]]
    images = arrays["made"] if name == "conv_dgrad" else arrays["image"]
    weight = arrays[{"conv_fprop": "weight", "conv_dgrad": "filter", "conv_wgrad": "made"}[name]]
    wide = {key: one.astype(np.float64) for key, one in (("x", images), ("w", weight), ("y", outputs))}
    groups = images.shape[1] // weight.shape[1]
    (top, left), (bottom, right) = window["pre_padding"], window["post_padding"]
    padded = np.pad(
        np.zeros_like(wide["x"]) if name == "conv_dgrad" else wide["x"], ((0, 0), (0, 0), (top, bottom), (left, right))
    )
    result = {"conv_fprop": np.zeros_like(wide["y"]), "conv_dgrad": padded, "conv_wgrad": np.zeros_like(wide["w"])}[
        name
    ]
    shape = (len(images), groups, -1, *outputs.shape[2:])
    y, w = wide["y"].reshape(shape), wide["w"].reshape(groups, -1, *weight.shape[1:])
    for row, column in itertools.product(*map(range, weight.shape[2:])):
        places = [
            slice(place * apart, place * apart + (count - 1) * step + 1, step)
            for place, apart, count, step in zip(
                (row, column), window["dilation"], outputs.shape[2:], window["stride"], strict=True
            )
        ]
        seen = padded[:, :, places[0], places[1]].reshape(shape)
        factor = w[..., row, column]
        if name == "conv_fprop":
            result += np.einsum("ngihw,goi->ngohw", seen, factor).reshape(result.shape)
        elif name == "conv_dgrad":
            lost = np.einsum("ngohw,goi->ngihw", y, factor)
            padded[:, :, places[0], places[1]] += lost.reshape(len(images), images.shape[1], *outputs.shape[2:])
        else:
            result[..., row, column] = np.einsum("ngohw,ngihw->goi", y, seen).reshape(weight.shape[:2])
    if name == "conv_dgrad":
        result = padded[:, :, top : top + images.shape[2], left : left + images.shape[3]]
    arrays["made"][...] = result


@dataclass(eq=False)
class FakeHandle:
    """A handle, and the stream that it was told of."""

    stream: int | None = None


class FakeCudnn:
    """The module ``cudnn``; with ``takes_nothing`` no engine takes a graph."""

    data_type = Enum("data_type", "FLOAT HALF BFLOAT16")
    diagonal_alignment = Enum("diagonal_alignment", "TOP_LEFT BOTTOM_RIGHT")
    heur_mode = Enum("heur_mode", "A B FALLBACK")
    build_plan_policy = Enum("build_plan_policy", "HEURISTICS_CHOICE ALL")
    numerical_note = Enum(
        "numerical_note", "TENSOR_CORE DOWN_CONVERT_INPUTS REDUCED_PRECISION_REDUCTION NONDETERMINISTIC"
    )

    def __init__(self, takes_nothing: bool = False) -> None:
        self.takes_nothing = takes_nothing
        self.cudnnGraphNotSupportedError = NotSupportedError
        self.handles: list[FakeHandle] = []
        self.built: list[FakeGraph] = []
        self.executed: list[tuple[str, int]] = []
        self._memory: list[tuple[int, ...]] = []

    def create_handle(self) -> FakeHandle:
        self.handles.append(FakeHandle())
        return self.handles[-1]

    def set_stream(self, *, handle: FakeHandle, stream: int) -> None:
        require(handle in self.handles and type(stream) is int, "a handle, and a stream as a number")
        handle.stream = stream

    def pygraph(
        self, *, io_data_type: Any, intermediate_data_type: Any, compute_data_type: Any, handle: Any
    ) -> FakeGraph:
        return FakeGraph(self, handle, (io_data_type, intermediate_data_type, compute_data_type))

    def address(self, array: Any) -> int:
        """Return where an array is, and let graphs use its memory."""
        self._memory.append(tuple(map(int, np.lib.array_utils.byte_bounds(array))))
        return int(array.ctypes.data)

    def at(self, address: int, tensor: FakeTensor) -> Any:
        """Return the array of a tensor there; its elements lie in memory that ``address`` was asked for."""
        dtype = np.dtype({**DTYPES, "UINT8": np.uint8}[tensor.data_type.name])
        strides = [step * dtype.itemsize for step in tensor.stride]
        size = sum((extent - 1) * step for extent, step in zip(tensor.dim, strides, strict=True)) + dtype.itemsize
        is_known = any(first <= address and address + size <= last for first, last in self._memory)
        require(is_known, f"{size} bytes at {address} are no array's")
        memory = (ctypes.c_char * size).from_address(address)
        return np.ndarray(tensor.dim, dtype, memory, 0, strides)
