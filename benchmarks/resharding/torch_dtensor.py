"""PyTorch: ``DTensor.redistribute`` of each tensor over gloo."""

from __future__ import annotations

import torch
from resharding.torch_tensors import Meshes, distributed, placement, start_gloo
from resharding.work import Arrays, Unsuited, Work


class DTensorRedistribute:
    """Distributed tensors redistributed one after the other; each call makes its result anew."""

    def __init__(self, work: Work) -> None:
        for source, target in work.layouts.values():
            if source.devices != target.devices or source.devices.size != work.ranks:
                raise Unsuited("it moves tensors within one device mesh")
        start_gloo(work)
        meshes = Meshes()
        self._moves = {}
        for name, (source, target) in work.layouts.items():
            local = torch.from_numpy(work.sources[name])
            self._moves[name] = distributed(local, source, meshes.of(source)), [placement(target)]
        self._moved: dict[str, torch.Tensor] = {}

    def reset(self) -> None:
        self._moved.clear()

    def run(self) -> None:
        for name, (tensor, placements) in self._moves.items():
            self._moved[name] = tensor.redistribute(placements=placements).to_local()

    def results(self) -> Arrays:
        return {name: tensor.numpy() for name, tensor in self._moved.items()}
