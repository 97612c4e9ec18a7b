"""Makes the checkpoint file of one target rank from those source files alone that it needs.

    python transform_checkpoint_by_rank.py --transform_rank 0 --src_strategy_file ./src_strategy.ckpt \
        --dst_strategy_file ./dst_strategy.ckpt --src_checkpoints_dir ./src_checkpoints \
        --dst_checkpoints_dir ./dst_checkpoints

Of each source rank it takes the newest checkpoint in rank_<r>/, in whatever format; it writes MindSpore's .ckpt.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import mpiparallel as ms
from mpiparallel.checkpoint.transform.checkpoint_files import newest_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transform_rank", type=int, required=True)
    parser.add_argument("--src_strategy_file", required=True)
    parser.add_argument("--dst_strategy_file", required=True)
    parser.add_argument("--src_checkpoints_dir", type=Path, required=True)
    parser.add_argument("--dst_checkpoints_dir", type=Path, required=True)
    given = parser.parse_args()
    rank, strategies = given.transform_rank, (given.src_strategy_file, given.dst_strategy_file)
    newest = newest_files(given.src_checkpoints_dir)
    files = {source: newest[source] for source in ms.rank_list_for_transform(rank, *strategies) if source in newest}
    target = given.dst_checkpoints_dir / f"rank_{rank}" / f"dst_checkpoint{rank}.ckpt"
    ms.transform_checkpoint_by_rank(rank, files, target, *strategies)
    print(f"{target} made from the files of ranks {', '.join(map(str, files))}")


if __name__ == "__main__":
    main()
