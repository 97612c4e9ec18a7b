"""Heat: ``resplit_`` of each tensor."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType

import torch
from resharding.work import Arrays, Unsuited, Work

from mpiparallel.layout.layout import Layout


class _StandIn(ModuleType):
    """A module that has every name, as a class without content."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


if find_spec("torchvision") is None:
    # Heat imports it for its data sets of images.
    sys.modules["torchvision"] = _torchvision = _StandIn("torchvision")
    for _name in ("datasets", "transforms"):
        sys.modules[f"torchvision.{_name}"] = _module = _StandIn(f"torchvision.{_name}")
        setattr(_torchvision, _name, _module)

import heat  # noqa: E402 - it needs the stand-in


class HeatResplit:
    """Arrays split along one dim, split along another in place; making the arrays anew is not timed."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._splits = {
            name: (split(source, work), split(target, work)) for name, (source, target) in work.layouts.items()
        }
        self._comm = heat.MPICommunication(work.comm)
        self.reset()

    def reset(self) -> None:
        self._arrays = {}
        for name, (before, _) in self._splits.items():
            local = torch.from_numpy(self._work.sources[name])
            shape = self._work.layouts[name][0].global_shape
            self._arrays[name] = heat.DNDarray(local, shape, heat.float32, before, heat.cpu, self._comm, True)

    def run(self) -> None:
        for name, array in self._arrays.items():
            array.resplit_(self._splits[name][1])

    def results(self) -> Arrays:
        return {name: array.larray.numpy() for name, array in self._arrays.items()}


def split(layout: Layout, work: Work) -> int | None:
    """Return the one dim that is cut over all ranks."""
    if layout.devices.size != work.ranks or layout.devices.first_rank:
        raise Unsuited("an array is on all ranks of its communicator")
    cut = [dim for dim, axes in enumerate(layout.tensor_map) if axes]
    return cut[0] if cut else None
