"""A training on 4 ranks that moves to 2; the programs of the others end meanwhile, and cannot be called back."""

from __future__ import annotations

import sys


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import init
    from mpiparallel.errors import ReshardError
    from tests.conformance.trainings.moving_training import Losses, Network, dataset, make_model

    init()
    model, losses = make_model(4), Losses()
    model.train(1, dataset(), losses, dataset_sink_mode=False)
    model.reshard(Network(1), ranks=2)
    if not model.active:
        sys.exit(0)
    model.train(2, dataset(), losses, dataset_sink_mode=False)
    try:
        model.reshard(ranks=4)
    except ReshardError as error:
        sys.stdout.write(f"refused: {error}\n")
    model.train(3, dataset(), losses, dataset_sink_mode=False)
    sys.stdout.write(f"trained {len(losses.by_step)} steps.\n")


if __name__ == "__main__":
    main()
