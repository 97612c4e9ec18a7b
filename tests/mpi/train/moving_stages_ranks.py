"""Four ranks train in stages, go on from the checkpoint in other stages and in none, and move while they train."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init, world
    from mpiparallel.context.settings import all_settings, take_settings
    from mpiparallel.train import CheckpointConfig
    from tests.unit.train.elastic.test_stages_moved import FOUR, MASKED, train
    from tests.unit.train.persistence.test_stage_checkpoints import ALONE, CASES, check, job

    init()
    everyone, config, before = world.current(), CheckpointConfig(2), all_settings()
    rank, folder = everyone.rank, Path("saved")
    with world.use(everyone.world_of([rank])):
        first, _ = job(world.current(), ALONE, Path(f"alone_{rank}"), 1, config)
        second, held = job(world.current(), ALONE, Path(f"alone_{rank}"), 2, config)
        losses, weights = train(world.current(), ALONE, {}, {})
    expected = first, second, {name: values for name, (_, values) in held.items()}

    for source, target in (
        ("4 stages", CASES["2 stages of 2, cut"][1]),
        ("2 stages of 2", CASES["4 stages"][1]),
        ("2 stages of 2, shards", CASES["2 ranks, cut"][1]),
    ):
        take_settings(before)
        found, _ = job(everyone, CASES[source][1], folder / source, 1, config)
        np.testing.assert_allclose(found, first, rtol=0, atol=1e-9)
        everyone.barrier()
        if rank == 0 and source == "2 stages of 2":
            # A replica of the stage has it too.
            (folder / source / "rank_2" / "p-1_3.h5").unlink()
        everyone.barrier()
        take_settings(before)
        told, of_rank = job(everyone, target, folder / source, 2, config)
        known = {name: value for name, value in expected[2].items() if name in of_rank}
        check([(told, of_rank)], (first, second, known))

    for how in ({"pipeline_stages": 2}, {"pipeline_stages": 2, "ranks": 2}, {"pipeline_stages": 1}):
        take_settings(before)
        # A training that has moved leaves its world to what comes after it.
        with world.use(everyone.world_of(range(4))):
            told, of_rank = train(world.current(), replace(MASKED, stages=FOUR), {}, how)
        np.testing.assert_allclose(told, losses[: len(told)], rtol=0, atol=1e-9)
        for name, (box, values) in (of_rank or {}).items():
            whole = weights[name][1]
            part = whole[box.within(type(box).whole(whole.shape))]
            np.testing.assert_allclose(values, part, rtol=0, atol=1e-9, err_msg=name)
        sys.stdout.write(f"rank {rank} after {how} holds {len(of_rank or {})} of {len(weights)}\n")
    everyone.barrier()
    sys.stdout.write(f"rank {rank} has gone through all of it\n")


if __name__ == "__main__":
    main()
