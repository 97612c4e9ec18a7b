"""A training that begins on 2 ranks and has two more processes started; then on 3, and on 1 after one has left."""

from __future__ import annotations

import sys

import numpy as np


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init, joined, world
    from tests.conformance.trainings.moving_training import (
        SHARDS,
        Losses,
        Network,
        ReshardAt,
        dataset,
        make_model,
        unmoved_losses,
    )

    init()
    everyone = world.current()
    number = everyone.rank
    legs = {3: {"ranks": 4, "spawn": True}, 6: {"ranks": 3, "retire": "end"}, 9: {"ranks": [2], "strategy": Network(1)}}
    model, losses = make_model(2, **SHARDS), Losses()
    model.train(3, dataset(), [losses, ReshardAt(model, legs)], dataset_sink_mode=False)
    steps = ",".join(map(str, losses.by_step))
    assert joined() == (number > 1)
    if model.active:
        wanted = unmoved_losses()
        np.testing.assert_allclose(list(losses.by_step.values()), [wanted[step] for step in losses.by_step], rtol=1e-9)
    sys.stdout.write(f"number {number} trained steps {steps}.\n")


if __name__ == "__main__":
    main()
