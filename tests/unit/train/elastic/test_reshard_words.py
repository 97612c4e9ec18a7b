"""What ranks are told, in full, where a move is refused, and which of them are named as its cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpiparallel import context
from mpiparallel.communication import get_rank
from mpiparallel.communication.threads import run_world
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import ConfigurationError, DatasetError, MpiParallelError, ReshardError, origins_of
from mpiparallel.graph.parameter import Parameter
from tests.conformance.trainings.moving_product import DATA_PARALLEL, At, make_model, rows


def said_by(call: Any, *kinds: type[MpiParallelError]) -> tuple[str, tuple[int, ...]]:
    """Return what a call that is refused says, and which ranks it names."""
    with pytest.raises(kinds or MpiParallelError) as raised:
        call()
    return str(raised.value), tuple(origins_of(raised.value))


def test_ranks_that_ask_for_something_else_are_named_by_their_numbers_in_the_job() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=[2, 0, 3])
        if not model.active:
            return said_by(lambda: model.reshard(ranks=2), ReshardError)
        return said_by(lambda: model.reshard(ranks=[2] if communicator.rank == 2 else [0]), ReshardError)

    words = (
        "Model.reshard: ranks [0, 3] ask for something else than rank 2; call it on all ranks at the same step, with "
        "the same arguments"
    )
    heard = f"Model.reshard: the ranks that train have refused: {words}"
    told = words, (0, 3)
    assert run_world(4, job) == [told, (heard, (0, 3)), told, told]


def test_a_spare_hears_why_it_is_not_called_and_by_whom() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=[1, 0])
        return said_by(lambda: model.reshard(ranks=4))[0], model.generation, model.active

    words = "Model.reshard: ranks 4 must be 1 to 3, for so many ranks train or wait; have more started with spawn=True"
    heard = f"Model.reshard: the ranks that train have refused: {words}"
    assert run_world(3, job) == [(words, 1, True), (words, 1, True), (heard, 1, False)]


def test_what_is_wrong_on_one_rank_is_told_in_its_own_words_there_and_with_its_number_elsewhere() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        return said_by(lambda: model.reshard(ranks=2, retire="later" if communicator.rank == 1 else "end"))[0]

    own = "Model.reshard: retire 'later' is neither 'wait' nor 'end'"
    assert run_world(3, job) == [f"rank 1: {own}", own, f"rank 1: {own}"]


def test_a_rank_that_has_left_is_told_how_others_come_back() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=1, retire="end")
        return None if model.active else said_by(lambda: model.reshard(ranks=2), ConfigurationError)[0]

    words = (
        "Model.reshard: this rank has left the job (retire='end'); let ranks that are to come back wait (retire='wait')"
    )
    assert run_world(2, job) == [None, words]


def other_shape(network: Any) -> None:
    network.weight = Parameter(np.ones((6, 11)), "weight")


def other_name(network: Any) -> None:
    network.weight.name = "table"


def other_operator(network: Any) -> None:
    network.second = None


SHAPES = (
    "parameter 'weight' is float64 of shape (6, 12) on the ranks that train, but here it is float64 of shape (6, 11)"
)
NAME = "parameter 'weight' is float64 of shape (6, 12) on the ranks that train, but it has none of this name"
UNFIT = [
    (other_shape, SHAPES),
    (other_name, NAME),
    (other_operator, "the operator 'network.second' is not in the network here"),
]


@pytest.mark.parametrize(("change", "words"), UNFIT)
def test_who_has_another_network_cannot_join_and_says_what_is_other(change: Any, words: str) -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=2)
        if model.active:
            model.build(rows())
        else:
            change(model.predict_network)
        return said_by(lambda: model.reshard(ranks=3), ReshardError), model.generation

    assert run_world(3, job) == [((f"rank 2: {words}; make the same model", (2,)), 1)] * 3


def test_each_rank_keeps_the_file_of_strategies_that_it_has_named(tmp_path: Any) -> None:
    def job(communicator: Any) -> str:
        model = make_model()
        own = str(tmp_path / f"strategy_{communicator.rank}.json")
        context.set_auto_parallel_context(strategy_ckpt_save_file=own)
        model.reshard(ranks=[0, 2])
        model.reshard(ranks=[2, 1])
        found: str = context.get_auto_parallel_context("strategy_ckpt_save_file")
        return found.removeprefix(f"{tmp_path}/")

    assert run_world(3, job) == [f"strategy_{rank}.json" for rank in range(3)]


def test_who_comes_first_of_a_training_writes_the_file_of_strategies_that_the_others_have_named() -> None:
    def job(communicator: Any) -> Any:
        model = make_model()
        model.reshard(ranks=2)
        if model.active:
            context.set_auto_parallel_context(strategy_ckpt_save_file="strategy.json")
        model.reshard(ranks=[2, 3, 0])
        return context.get_auto_parallel_context("strategy_ckpt_save_file")

    assert run_world(4, job) == ["strategy.json", "strategy.json", "strategy.json", ""]


def test_seed_and_place_in_the_random_stream_come_to_who_joins() -> None:
    def job(communicator: Any) -> Any:
        context.set_seed(5)
        model = make_model()
        model.reshard(ranks=2)
        if not model.active:
            context.set_seed(9)
        model.train(1, rows())
        model.reshard(ranks=[2, 0])
        return context.get_seed(), model.step, get_rank() if model.active else None

    assert run_world(3, job) == [(5, 4, 1), (5, 4, None), (5, 4, 0)]


def test_half_a_step_is_not_moved_and_that_is_said_with_its_batches() -> None:
    def job(communicator: Any) -> str:
        model = make_model(accumulation_steps=3)
        batch = list(next(rows().iterate()).values())
        for _ in range(2):
            model.train_network(*batch)
        return said_by(lambda: model.reshard(ranks=1), ReshardError)[0]

    words = "Model.reshard: 2 of the 3 batches of a step have been accumulated; reshard between two steps"
    assert run_world(2, job) == [words] * 2


def test_an_epoch_that_would_have_other_steps_is_refused_with_both_numbers() -> None:
    def job(communicator: Any) -> list[str]:
        said: list[str] = []
        shards = {"num_shards": 4, "shard_id": communicator.rank}
        data = NumpySlicesDataset((np.ones((46, 6)), np.ones((46, 12))), ["x", "y"], **shards)
        model = make_model(settings=DATA_PARALLEL)
        refused = At(1, lambda: said.append(said_by(lambda: model.reshard(ranks=2), DatasetError)[0]))
        model.train(1, data.batch(3, drop_remainder=True), refused, dataset_sink_mode=False)
        return said

    words = (
        "Model.reshard: an epoch has 4 steps on 4 ranks, but would have 3 on 2; give the dataset as many samples as a "
        "multiple of the batch of all ranks"
    )
    assert run_world(4, job) == [[words]] * 4
