"""Ranks that train until they are preempted, and save in the folder that is given, if one is."""

from __future__ import annotations

import sys


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import get_rank, init
    from mpiparallel.train import Callback, CheckpointConfig, ModelCheckpoint
    from tests.conformance.trainings.moving_training import dataset, make_model

    class Began(Callback):
        """Says so after the first step."""

        def every_step(self, run_context):
            if run_context.original_args().cur_step_num - (found.step if found else 0) == 1:
                sys.stdout.write("began\n")
                sys.stdout.flush()

    init()
    model, found = make_model(2), None
    callbacks = [Began()]
    if sys.argv[1:]:
        found = model.resume(sys.argv[1], dataset())
        callbacks.append(ModelCheckpoint("net", sys.argv[1], CheckpointConfig(10**9)))
    try:
        model.train(10**6, dataset(), callbacks)
    finally:
        sys.stdout.write(f"rank {get_rank()} ends after step {model.step}.\n")


if __name__ == "__main__":
    main()
