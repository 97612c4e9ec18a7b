"""The stages of a network in PyTorch, by torch.distributed.pipelining over gloo: runs steps when told to."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.distributed import pipelining

SCHEDULES = {
    "gpipe": pipelining.ScheduleGPipe,
    "1f1b": pipelining.Schedule1F1B,
    "interleaved_1f1b": pipelining.ScheduleInterleaved1F1B,
    "zb_h1": pipelining.ScheduleInterleavedZeroBubble,
    "zb_v": pipelining.ScheduleZBVZeroBubble,
}
CHUNKS = {"gpipe": 1, "1f1b": 1, "interleaved_1f1b": 2, "zb_h1": 1, "zb_v": 2}


class Block(nn.Module):
    """A residual block of two products."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` and what the block adds."""
        return x + self.out(torch.relu(self.into(x)))


class Variant:
    """A schedule with its stages on this rank."""

    def __init__(self, name: str, peer: dict[str, Any]) -> None:
        rank, size, count = peer["rank"], peer["size"], CHUNKS[name] * peer["size"]
        own = [rank, count - 1 - rank] if name == "zb_v" else list(range(rank, count, size))
        layers = peer["blocks"] // count
        stages = []
        self.parameters: list[nn.Parameter] = []
        for part in own:
            module = nn.Sequential(*(Block(peer["width"], peer["hidden"]) for _ in range(layers)))
            self.parameters += module.parameters()
            stages.append(pipelining.PipelineStage(module, part, count, torch.device("cpu")))
        given = stages[0] if name in ("gpipe", "1f1b") else stages
        self.schedule = SCHEDULES[name](given, peer["micro_batches"], loss_fn=nn.functional.mse_loss)
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.1)
        rows = torch.ones(peer["rows"], peer["width"])
        self.inputs = (rows,) if 0 in own else ()
        self.target = {"target": rows, "losses": []} if count - 1 in own else {}

    def step(self) -> None:
        """Train on the batch."""
        self.optimizer.zero_grad(set_to_none=False)
        if "losses" in self.target:
            self.target["losses"].clear()
        self.schedule.step(*self.inputs, **self.target)
        self.optimizer.step()


def main() -> None:
    """Make all variants, then answer each line, a variant and a number of steps.

    The answer has for each step its seconds, and those of the processor that this rank has used.
    """
    peer = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{peer['port']}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=peer["rank"], world_size=peer["size"])
    variants = {name: Variant(name, peer) for name in peer["schedules"] if name in SCHEDULES}
    for variant in variants.values():
        variant.step()
    print(json.dumps({"version": torch.__version__, "variants": list(variants)}), flush=True)
    for line in sys.stdin:
        name, steps = line.split()
        seconds = []
        for _ in range(int(steps)):
            torch.distributed.barrier()
            begin, used = time.perf_counter(), time.process_time()
            variants[name].step()
            used = time.process_time() - used
            torch.distributed.barrier()
            seconds += [time.perf_counter() - begin, used]
        print(json.dumps(seconds), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
