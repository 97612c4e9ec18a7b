"""Converts the checkpoint files of all ranks of one training to those of another number of ranks, cut otherwise.

    python transform_checkpoint_dir.py --src_strategy_file ./src_strategy.ckpt --dst_strategy_file ./dst_strategy.ckpt \
        --src_checkpoints_dir ./src_checkpoints --dst_checkpoints_dir ./dst_checkpoints

With --src_strategy_dir the strategy files of pipeline stages are merged first. Ranks share the work under mpirun.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mpiparallel as ms
from mpiparallel.communication import init, release
from mpiparallel.communication.world import current


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src_strategy_file", help="how the source is cut; left out: one rank has all whole")
    parser.add_argument("--src_strategy_dir", help="folder of the strategy files of the source's pipeline stages")
    parser.add_argument("--dst_strategy_file", help="how the target is cut; left out: one rank has all whole")
    parser.add_argument("--src_checkpoints_dir", required=True)
    parser.add_argument("--dst_checkpoints_dir", required=True)
    given = parser.parse_args()
    init()
    world = current()
    source = given.src_strategy_file
    if given.src_strategy_dir:
        source = str(Path(given.src_strategy_dir) / "merged" / "src_strategy.ckpt")
        if world.rank == 0:
            Path(source).parent.mkdir(exist_ok=True)
            ms.merge_pipeline_strategys(given.src_strategy_dir, source)
        world.barrier()
    report = ms.transform_checkpoints(
        given.src_checkpoints_dir,
        given.dst_checkpoints_dir,
        "transformed",
        source,
        given.dst_strategy_file,
        communicator=world,
    )
    print(f"rank {world.rank}: {report}")
    release()


if __name__ == "__main__":
    main()
