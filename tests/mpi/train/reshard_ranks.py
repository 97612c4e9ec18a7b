"""A training on 4 ranks that moves to 3, 1, 2 and 4 of them, and on to 3 and 2 while the others leave."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest


def main() -> None:
    # Not above: pytest imports this file to look for doctests, and must not start MPI.
    from mpiparallel.communication import get_group_size, get_rank, init, world
    from tests.conformance.trainings.moving_training import (
        CUTS,
        SHARDS,
        Losses,
        Network,
        ReshardAt,
        dataset,
        make_model,
        state,
        unmoved_losses,
    )

    init()
    everyone = world.current()
    number = get_rank()
    with world.use(everyone.world_of([number])):
        wanted = unmoved_losses()
    legs = {2: {"ranks": 3}, 4: {"ranks": [2], "strategy": Network(1)}, 5: {"ranks": 2}}
    legs[7] = {"ranks": [3, 1, 0, 2], "strategy": Network(2, 2)}
    leaving = {10: {"ranks": [2, 0], "strategy": Network(2), "retire": "end"}}

    model, losses = make_model(4, **SHARDS), Losses()
    model.train(2, dataset(), [losses, ReshardAt(model, legs)], dataset_sink_mode=False)
    assert (get_rank(), get_group_size(), model.active) == ([2, 1, 3, 0][number], 4, True)
    refused_by_all(model, number == 2)
    before = state(model)
    for count in (3, 1, 2):
        model.reshard(Network(*CUTS[count]), ranks=count, mode="bounded" if count == 3 else "safe")
    model.reshard(Network(2, 2), ranks=[3, 1, 0, 2])
    after = state(model)
    assert before.keys() == after.keys()
    for name, (layout, array) in before.items():
        assert after[name][0].canonical == layout.canonical
        assert after[name][1].tobytes() == array.tobytes(), name

    model.train(3, dataset(), [losses, ReshardAt(model, leaving)], dataset_sink_mode=False)
    assert (model.active, model.has_left) == (number in (0, 2), number in (1, 3))
    np.testing.assert_allclose(list(losses.by_step.values()), [wanted[step] for step in losses.by_step], rtol=1e-9)
    sys.stdout.write(f"number {number} trained steps {','.join(map(str, losses.by_step))}.\n")


def refused_by_all(model: Any, is_other: bool) -> None:
    """Ask for a cut by a network that on one rank has one parameter more."""
    from mpiparallel import Parameter
    from mpiparallel.errors import MpiParallelError
    from tests.conformance.trainings.moving_training import Network

    network = Network(2, 2)
    if is_other:
        network.more = Parameter(np.ones(2), "more")
    generation = model.generation
    with pytest.raises(MpiParallelError, match="parameter 'more', which only the given one has"):
        model.reshard(network)
    assert model.generation == generation


if __name__ == "__main__":
    main()
