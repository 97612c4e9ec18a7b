"""The child process that trains a peer in PyTorch: it reads orders from standard input and answers with seconds.

Its only argument is the peer as JSON: ``network``, ``sizes`` (the network's arguments), ``batch_size`` of this rank,
``rank``, ``ranks`` and ``port``; ``bfloat16`` where it is to use autocast, and ``processor`` where the seconds are to
be those of the processor. It writes ``ready`` when all is warm. An order is a line ``<variant> <steps>``, the
answer the seconds of each step as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch_networks
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

Step = Callable[[], Any]
WARM_UP_STEPS = 2


def _encoder_step(peer: dict[str, Any]) -> dict[str, Step]:
    sizes, batch = peer["sizes"], peer["batch_size"]
    network = torch_networks.Encoder(**sizes)
    shape = batch, sizes["length"]
    ids, labels = (torch.randint(4, sizes["vocab_size"], shape) for _ in range(2))
    positions = torch.arange(sizes["length"]).repeat(batch, 1)

    def loss(logits: Tensor) -> Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    adam = _optimizer(torch.optim.AdamW, network, lr=1e-4, weight_decay=0.1)
    step = _step(peer, network, adam, [ids, positions], loss)
    return {"bfloat16 autocast" if peer.get("bfloat16") else "fused AdamW": step}


def _translator_step(peer: dict[str, Any]) -> dict[str, Step]:
    sizes, batch = peer["sizes"], peer["batch_size"]
    network = torch_networks.Translator(**sizes)
    source, target = sizes["lengths"]
    ids, targets, labels = (torch.randint(4, sizes["vocab_size"], (batch, n)) for n in (source, target, target))
    places, target_places = (torch.arange(length).repeat(batch, 1) for length in (source, target))
    masks = torch.ones(batch, source, source), torch.ones(batch, target, source)
    inputs = [ids, places, masks[0], targets, target_places, masks[1], labels]
    adam = _optimizer(torch.optim.AdamW, network, lr=1e-4, weight_decay=0.1)
    return {"fused AdamW": _step(peer, network, adam, inputs, lambda loss: loss)}


def _resnet50_step(peer: dict[str, Any]) -> dict[str, Step]:
    batch, size = peer["batch_size"], peer["sizes"]["image_size"]
    images, labels = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    steps = {}
    for variant, order in (("NCHW", torch.contiguous_format), ("channels last", torch.channels_last)):
        network = torch_networks.ResNet50().to(memory_format=order)
        momentum = _optimizer(torch.optim.SGD, network, lr=0.01, momentum=0.9)
        ordered = images.to(memory_format=order)
        steps[variant] = _step(peer, network, momentum, [ordered], lambda y: functional.cross_entropy(y, labels))
    return steps


def _optimizer(kind: type[torch.optim.Optimizer], network: nn.Module, **options: float) -> torch.optim.Optimizer:
    return kind(network.parameters(), fused=True, **options)


def _step(
    peer: dict[str, Any],
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    inputs: list[Tensor],
    loss: Callable[[Tensor], Tensor],
) -> Step:
    trained = DistributedDataParallel(network) if peer["ranks"] > 1 else network

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=peer.get("bfloat16", False)):
            value = loss(trained(*inputs))
        value.backward()
        optimizer.step()

    return step


STEPS = {"encoder": _encoder_step, "translation": _translator_step, "resnet50": _resnet50_step}


def timed(step: Step, clock: Callable[[], float]) -> float:
    """Return the seconds of one call."""
    start = clock()
    step()
    return clock() - start


def main() -> None:
    """Answer orders until standard input ends."""
    peer = json.loads(sys.argv[1])
    # Whatever a library prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if peer["ranks"] > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(peer["port"]))
        torch.distributed.init_process_group("gloo", rank=peer["rank"], world_size=peer["ranks"])
    steps = STEPS[peer["network"]](peer)
    for step in steps.values():
        for _ in range(WARM_UP_STEPS):
            step()
    print(json.dumps({"version": torch.__version__, "variants": list(steps)}), file=answers, flush=True)
    clock = time.process_time if peer.get("processor") else time.perf_counter
    for order in sys.stdin:
        variant, count = order.rsplit(maxsplit=1)
        print(json.dumps([timed(steps[variant], clock) for _ in range(int(count))]), file=answers, flush=True)
    if peer["ranks"] > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
