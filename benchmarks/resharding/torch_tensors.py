"""What DTensor and the distributed checkpoint of PyTorch have in common."""

from __future__ import annotations

import torch
import torch.distributed
from resharding.work import Unsuited, Work
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from mpiparallel.layout.layout import Layout


def start_gloo(work: Work) -> None:
    """Let the MPI ranks be ranks of PyTorch too, one thread each; they meet through a file."""
    torch.set_num_threads(1)
    if not torch.distributed.is_initialized():
        meeting = (work.folder / "gloo").resolve().as_uri()
        torch.distributed.init_process_group("gloo", meeting, rank=work.rank, world_size=work.ranks)


class Meshes:
    """The device mesh of each set of ranks, made once; all ranks ask in the same order."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], DeviceMesh] = {}

    def of(self, layout: Layout) -> DeviceMesh:
        """Return the mesh of the ranks of a layout."""
        key = layout.devices.first_rank, layout.devices.size
        if key not in self._known:
            self._known[key] = DeviceMesh("cpu", list(range(key[0], key[0] + key[1])))
        return self._known[key]


def placement(layout: Layout) -> Shard | Replicate:
    """Return how PyTorch calls a layout over one axis."""
    if len(layout.devices.shape) != 1:
        raise Unsuited("layouts of one axis only")
    cut = [dim for dim, axes in enumerate(layout.tensor_map) if axes]
    return Shard(cut[0]) if cut else Replicate()


def distributed(local: torch.Tensor, layout: Layout, mesh: DeviceMesh) -> DTensor:
    """Return the DTensor whose part on this rank is ``local``."""
    shape = torch.Size(layout.global_shape)
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(local, mesh, [placement(layout)], run_check=False, shape=shape, stride=stride)
