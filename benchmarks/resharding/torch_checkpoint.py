"""PyTorch: a distributed checkpoint saved by the ranks before and loaded by those after."""

from __future__ import annotations

import shutil

import torch
import torch.distributed.checkpoint
from resharding.torch_tensors import Meshes, distributed, start_gloo
from resharding.work import Arrays, Unsuited, Work
from torch.distributed.tensor import DTensor


class DistributedCheckpoint:
    """``save`` in one layout and ``load`` into tensors, made before, of the other; the folder should be in memory."""

    def __init__(self, work: Work) -> None:
        for layout in (layout for pair in work.layouts.values() for layout in pair):
            if any(extent % parts for extent, parts in zip(layout.global_shape, layout.cuts, strict=True)):
                raise Unsuited("it cuts otherwise where parts are uneven")
        start_gloo(work)
        self._work = work
        self._folder = work.folder / "checkpoint"
        self._targets = work.new_arrays(1)
        meshes = Meshes()
        self._before: dict[str, DTensor] = {}
        self._after: dict[str, DTensor] = {}
        for name, pair in work.layouts.items():
            sides = (work.sources, self._before), (self._targets, self._after)
            for layout, (arrays, tensors) in zip(pair, sides, strict=True):
                mesh = meshes.of(layout)
                if work.rank in layout.devices:
                    tensors[name] = distributed(torch.from_numpy(arrays[name]), layout, mesh)

    def reset(self) -> None:
        self._work.comm.Barrier()
        if self._work.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._work.comm.Barrier()

    def run(self) -> None:
        torch.distributed.checkpoint.save(self._before, checkpoint_id=self._folder)
        torch.distributed.checkpoint.load(self._after, checkpoint_id=self._folder)

    def results(self) -> Arrays:
        return self._targets

    def close(self) -> None:
        self.reset()
