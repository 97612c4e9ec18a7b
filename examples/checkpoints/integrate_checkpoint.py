"""Puts the slices that the ranks of a training have saved together into one file, parameter by parameter.

In a folder with node0/CKP_1-4_32.ckpt, node1/CKP_1-4_32.ckpt, ...:

    python integrate_checkpoint.py CKP_1-4_32.ckpt CKP-Integrated_1-4_32.ckpt strategy_train.ckpt 4

It needs memory for all of it; ``transform_checkpoints`` does the same with memory for one parameter.
"""

from __future__ import annotations

import argparse

import mpiparallel as ms


def integrate(old_ckpt_file: str, new_ckpt_file: str, strategy_file: str, rank_size: int) -> None:
    """Merge what the strategy cuts, and take the rest from rank 0."""
    strategy = ms.build_searched_strategy(strategy_file)
    ranks = [ms.load_checkpoint(f"node{rank}/{old_ckpt_file}") for rank in range(rank_size)]
    merged = []
    for name, parameter in ranks[0].items():
        if name in strategy:
            parameter = ms.merge_sliced_parameter([parameters[name] for parameters in ranks], strategy)
        merged.append({"name": name, "data": parameter})
    ms.save_checkpoint(merged, new_ckpt_file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old_ckpt_file", help="name of the files to integrate, in node0, node1, ...")
    parser.add_argument("new_ckpt_file", help="path of the file to write")
    parser.add_argument("strategy_file", help="the training's strategy_ckpt_save_file")
    parser.add_argument("rank_size", type=int, help="number of ranks of the training")
    given = parser.parse_args()
    integrate(given.old_ckpt_file, given.new_ckpt_file, given.strategy_file, given.rank_size)


if __name__ == "__main__":
    main()
