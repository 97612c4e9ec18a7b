"""States whose every byte follows from name and step: what a checkpoint must give back, known without any file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout


class Tensor(NamedTuple):
    """A tensor of a state: how it is laid out, and its dtype as NumPy writes it."""

    layout: Layout
    dtype: str


State = Mapping[str, Tensor]


def whole(name: str, tensor: Tensor, step: int) -> NDArray[Any]:
    """Return the global tensor at ``step``: random bits, NaNs among them, that depend on ``name`` and ``step`` only."""
    shape, dtype = tensor.layout.global_shape, np.dtype(tensor.dtype)
    bits = np.random.Generator(np.random.Philox(key=[crc32(name.encode()), step]))
    content = np.frombuffer(bits.bytes(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize), np.uint8).copy()
    if dtype == np.bool_:
        content &= 1
    return content.view(dtype).reshape(shape)


def part(array: NDArray[Any], box: Box) -> NDArray[Any]:
    """Return the elements of ``box``."""
    return array[(*(slice(*ends) for ends in zip(box.start, box.stop, strict=True)), ...)]


def held(state: State, rank: int, step: int) -> dict[str, NDArray[Any]]:
    """Return what ``rank`` holds at ``step``."""
    return {
        name: part(whole(name, tensor, step), tensor.layout.box(rank))
        for name, tensor in state.items()
        if rank in tensor.layout.devices
    }


def layouts(state: State) -> dict[str, Layout]:
    """Return the layout of each tensor."""
    return {name: tensor.layout for name, tensor in state.items()}


def differing(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the names under which arrays are not the same, to the bit, in shape and in dtype."""
    return sorted(
        name
        for name in found.keys() | expected.keys()
        if name not in found
        or name not in expected
        or (found[name].shape, found[name].dtype) != (expected[name].shape, expected[name].dtype)
        or found[name].tobytes() != expected[name].tobytes()
    )


def replicated(ranks: int) -> State:
    """A state over any even number of ranks in which each slice has two holders, some arrays being large."""
    devices = DeviceMatrix((2, ranks // 2))
    return {
        "net.w1": Tensor(Layout((36, 40), devices, ((1,), ())), "f4"),
        "moments.net.w1": Tensor(Layout((36, 40), devices, ((), (1,))), "f8"),
        "net.b1": Tensor(Layout((7,), devices, ((1,),)), "f2"),
        "net.embedding": Tensor(Layout((301, 1009), devices, ((), (1,))), "f4"),
        "mask": Tensor(Layout((5, 3), devices, ((), ())), "?"),
        "global_step": Tensor(Layout((), devices, ()), "i8"),
    }


def small(ranks: int) -> State:
    """A state of a few kilobytes in which each slice has two holders."""
    state = replicated(ranks)
    return {name: state[name] for name in ("net.w1", "net.b1", "mask", "global_step")}


_HYBRID = DeviceMatrix((2, 4))
_CUBE = DeviceMatrix((2, 2, 2))
# The layouts that recovery is tried on, each with the number of its ranks.
STATES: Mapping[str, tuple[int, State]] = {
    "dp2 x mp4": (8, replicated(8)),
    "dp2 x mp4, moments on one rank each": (
        8,
        {
            "w": Tensor(Layout((33, 26), _HYBRID, ((), (1,))), "f4"),
            "moments.w": Tensor(Layout((33, 26), _HYBRID, ((), (1,)), optimizer_axes=(0,)), "f4"),
            "global_step": Tensor(Layout((), _HYBRID, ()), "i4"),
        },
    ),
    "dp4 x mp2, moments on two ranks each": (
        8,
        {
            "w": Tensor(Layout((33, 26), _CUBE, ((), (2,))), "f4"),
            "moments.w": Tensor(Layout((33, 26), _CUBE, ((), (2,)), optimizer_axes=(1,)), "f4"),
            "global_step": Tensor(Layout((), _CUBE, ()), "i4"),
        },
    ),
    "two stages": (
        4,
        {
            "stage0.w": Tensor(Layout((9, 5), DeviceMatrix((2,)), ((), ())), "f8"),
            "stage1.w": Tensor(Layout((9, 5), DeviceMatrix((2,), 2), ((), ())), "f4"),
            "stage1.b": Tensor(Layout((3,), DeviceMatrix((2,), 2), ((0,),)), "f4"),
        },
    ),
    "uneven": (
        6,
        {
            "w": Tensor(Layout((7, 5), DeviceMatrix((2, 3)), ((1,), ())), "f4"),
            "few": Tensor(Layout((2,), DeviceMatrix((2, 3)), ((1,),)), "f4"),
            "empty": Tensor(Layout((0, 4), DeviceMatrix((2, 3)), ((), (1,))), "f4"),
        },
    ),
    "ranks out of order": (
        4,
        {"w": Tensor(Layout((8, 6), DeviceMatrix((2, 2), ranks=(2, 0, 3, 1)), ((0,), ())), "i2")},
    ),
}
