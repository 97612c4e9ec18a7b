r"""The training of a Transformer of any depth, cut by hand as data x model, or into stages; to be simulated.

mpiparallel simulate benchmarks/modelling/simulated_transformer.py -n 64 --input x=4194304,12288:float32 \
    --arguments --layers 4
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from mpiparallel import Model, context, nn
from mpiparallel.communication import get_group_size
from mpiparallel.dataset import NumpySlicesDataset

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.hand_plans import cut_by_hand
from tests.conformance.searched_networks import Transformer


def main() -> None:
    """Train on a batch whose shape the command line gives."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("layers", 96), ("model", 8), ("stages", 1), ("micro-batches", 8), ("width", 12288)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--heads", type=int, default=96)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--recompute", action="store_true")
    arguments = parser.parse_args()
    ranks, stages = get_group_size(), arguments.stages
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel",
        full_batch=True,
        pipeline_stages=stages,
        enable_parallel_optimizer=arguments.shards,
        pipeline_config={"pipeline_scheduler": "1f1b"} if stages > 1 else None,
    )
    width = arguments.width
    network = Transformer(arguments.layers, arguments.batch, arguments.length, width, arguments.heads, 4 * width)
    cut_by_hand(network, ranks // arguments.model // stages, arguments.model)
    for layer in network.layers if arguments.recompute else ():
        layer.recompute()
    if stages > 1:
        network = nn.PipelineCell(network, arguments.micro_batches, stages="auto")
    data = NumpySlicesDataset((np.zeros((1, width), np.float32),), ["x"], shuffle=False).batch(1)
    Model(network, optimizer=nn.Adam(network.trainable_params(), 0.1)).train(1, data)


if __name__ == "__main__":
    main()
