"""The context: wrong names and values are refused with the nearest right one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mpiparallel import context
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import current_configuration, next_unnamed, take_strategies
from mpiparallel.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _reset():
    yield
    context.reset_auto_parallel_context()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paralel_mode": "x"}, "'paralel_mode' is not a parameter; did you mean 'parallel_mode'"),
        ({"parallel_mode": "semi_auto"}, "did you mean 'semi_auto_parallel'"),
        ({"parallel_mode": "DATA_PARALLEL"}, "did you mean 'data_parallel'"),
        ({"full_batch": "False"}, "full_batch 'False' must be True or False"),
        ({"gradients_mean": "yes"}, "gradients_mean 'yes' must be True or False"),
        ({"loss_repeated_mean": False}, "loss_repeated_mean False is not implemented yet; use True"),
        ({"strategy_ckpt_save_file": 3}, "strategy_ckpt_save_file 3 must be a path as text"),
        ({"device_num": True}, "device_num True must be an integer of at least 1"),
        ({"global_rank": -1}, "global_rank -1 must be an integer of at least 0"),
        ({"optimizer_weight_shard_size": 0}, "optimizer_weight_shard_size 0 must be at least 1, or -1"),
        ({"optimizer_weight_shard_size": "a"}, "optimizer_weight_shard_size 'a' must be an integer"),
        ({"parallel_optimizer_config": None}, "parallel_optimizer_config None must be a dict"),
        ({"parallel_optimizer_config": {"parallel_optimizer_threshold": -5}}, "-5 must be an integer of at least 0"),
        ({"auto_parallel_search_mode": "recursive"}, "did you mean 'recursive_programming'"),
        ({"device_num": 32, "optimizer_weight_shard_size": 128}, "128 is more than the 32 devices"),
        (
            {"device_num": 4, "parallel_optimizer_config": {"optimizer_weight_shard_size": 8}},
            "optimizer_weight_shard_size 8 is more than the 4 devices",
        ),
        ({"device_num": 0}, "device_num 0 must be an integer of at least 1"),
        ({"dataset_strategy": "full"}, "dataset_strategy 'full' is not one of 'data_parallel', 'full_batch'"),
        ({"parallel_optimizer_config": {"treshold": 1}}, "'treshold' is not a parameter"),
        ({"pipeline_stages": 0}, "pipeline_stages 0 must be an integer of at least 1"),
        ({"pipeline_config": "1f1b"}, "pipeline_config '1f1b' must be a dict of pipeline_interleave, pipeline_schedul"),
        ({"pipeline_config": {"scheduler": "1f1b"}}, "did you mean 'pipeline_scheduler'"),
        ({"pipeline_config": {"pipeline_scheduler": "2f2b"}}, "there is no schedule"),
        ({"pipeline_config": {"pipeline_interleave": "yes"}}, "pipeline_interleave 'yes' must be True or False"),
        ({"parallel_optimizer_config": {"optimizer_level": "level4"}}, "'level4' is not one of level1, level2, level3"),
        ({"dataset_strategy": ()}, "nor a tuple of the cuts of each input"),
        ({"dataset_strategy": ((2, "1"),)}, "nor a tuple of the cuts of each input"),
        ({"force_fp32_communication": True}, "force_fp32_communication True is not implemented yet; use False"),
        ({"dump_local_norm": True}, "dump_local_norm True is not implemented yet; use False"),
        ({"strategy_ckpt_config": {"safe_file": "x"}}, "did you mean 'save_file'"),
        ({"strategy_ckpt_config": {"save_file": 3}}, "strategy_ckpt_save_file 3 must be a path as text"),
        ({"strategy_ckpt_config": "strategy.ckpt"}, "strategy_ckpt_config .strategy.ckpt. must be a dict of"),
        ({"search_mode": "propagation"}, "did you mean 'sharding_propagation'"),
    ],
)
def test_wrong_parallel_settings_are_refused(settings, message) -> None:
    with pytest.raises(ConfigurationError, match=message):
        context.set_auto_parallel_context(**settings)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'device_target'"):
        context.set_context(device_taget="CPU")
    with pytest.raises(ConfigurationError, match="'TPU' is not one of"):
        context.set_context(device_target="TPU")
    with pytest.raises(ConfigurationError, match="device_id 'zero' must be an integer"):
        context.set_context(device_id="zero")
    with pytest.raises(ConfigurationError, match="save_graphs_path 3 must be a folder"):
        context.set_context(save_graphs_path=3)
    with pytest.raises(ConfigurationError, match="save_graphs 4 is not one of 0, 1, 2, 3, True"):
        context.set_context(save_graphs=4)
    with pytest.raises(ConfigurationError, match="must be an integer"):
        context.set_seed(-1)
    with pytest.raises(ConfigurationError, match="gpu_config 'fast' must be a dict"):
        context.set_context(gpu_config="fast")
    with pytest.raises(ConfigurationError, match="did you mean 'matmul_allow_tf32'"):
        context.set_context(gpu_config={"matmul_tf32": True})
    with pytest.raises(ConfigurationError, match="matmul_allow_tf32 1 must be True or False"):
        context.set_context(gpu_config={"matmul_allow_tf32": 1})


def test_factors_of_products_are_rounded_only_where_the_user_has_asked_for_it() -> None:
    assert not current_configuration().allows_tf32
    context.set_context(gpu_config={"matmul_allow_tf32": True})
    assert current_configuration().allows_tf32
    context.set_context(gpu_config={})
    assert not current_configuration().allows_tf32


def test_factors_of_convolutions_have_a_switch_of_their_own() -> None:
    context.set_context(gpu_config={"conv_allow_tf32": True})
    assert current_configuration().convolves_in_tf32
    assert not current_configuration().allows_tf32
    context.set_context(gpu_config={"matmul_allow_tf32": True})
    assert not current_configuration().convolves_in_tf32
    with pytest.raises(ConfigurationError, match="conv_allow_tf32 'yes' must be True or False"):
        context.set_context(gpu_config={"conv_allow_tf32": "yes"})


def test_reset_brings_the_defaults_back() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8, full_batch=True)
    assert current_configuration().device_num == 8
    context.reset_auto_parallel_context()
    assert current_configuration().device_num == 1
    assert context.get_auto_parallel_context("parallel_mode") == "stand_alone"


def test_threads_have_settings_of_their_own() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8)
    found = []
    thread = threading.Thread(target=lambda: found.append(current_configuration().device_num))
    thread.start()
    thread.join()
    assert found == [1]


@pytest.mark.parametrize("name", ["search_timeout", "search_memory_gb"])
def test_a_search_may_have_less_than_a_second_or_a_gigabyte(name: str) -> None:
    context.set_auto_parallel_context(**{name: 0.25})
    assert context.get_auto_parallel_context(name) == 0.25


def test_the_devices_are_the_ranks_of_the_world_unless_each_stands_alone() -> None:
    def found(_communicator: Communicator, mode: str) -> tuple[int, int]:
        context.set_auto_parallel_context(parallel_mode=mode)
        configuration = current_configuration()
        return configuration.device_num, configuration.rank

    assert run_world(3, found, "semi_auto_parallel") == [(3, 0), (3, 1), (3, 2)]
    assert run_world(3, found, "data_parallel") == [(3, 0), (3, 1), (3, 2)]
    # Its name may as well be made while the program runs.
    for mode in ("stand_alone", "_".join(["stand", "alone"])):
        assert run_world(3, found, mode) == [(1, 0)] * 3


def test_a_program_that_stands_alone_is_on_one_device_whatever_number_is_set() -> None:
    context.set_auto_parallel_context(device_num=8)
    assert current_configuration().device_num == 1


def test_shards_of_a_parameter_are_no_more_than_the_ranks_of_the_world() -> None:
    def refused(_communicator: Communicator) -> str:
        for size in (1, 2, -1):
            context.set_auto_parallel_context(optimizer_weight_shard_size=size)
        with pytest.raises(ConfigurationError) as error:
            context.set_auto_parallel_context(optimizer_weight_shard_size=3)
        assert context.get_auto_parallel_context("optimizer_weight_shard_size") == -1
        return str(error.value)

    said = "optimizer_weight_shard_size 3 is more than the 2 devices; use a divisor of their number, or -1 for all"
    assert [said in one for one in run_world(2, refused)] == [True, True]


def test_what_is_refused_changes_no_setting() -> None:
    with pytest.raises(ConfigurationError):
        context.set_auto_parallel_context(device_num=4, gradients_mean="yes")
    with pytest.raises(ConfigurationError):
        context.set_context(mode=context.PYNATIVE_MODE, device_id=-1)
    assert context.get_auto_parallel_context("device_num") is None
    assert context.get_context("mode") == context.GRAPH_MODE


def test_what_is_not_named_stays_as_it_was_set() -> None:
    context.set_auto_parallel_context(device_num=4)
    context.set_auto_parallel_context(gradients_mean=True)
    assert context.get_auto_parallel_context("device_num") == 4
    context.set_context(device_id=2)
    context.set_context(save_graphs=1)
    assert context.get_context("device_id") == 2


@pytest.mark.parametrize("refused", [-1, 4, "2", "True", None, 1.5])
def test_graphs_are_written_in_one_of_four_degrees(refused: object) -> None:
    for degree in (0, 1, 2, 3, True, False):
        context.set_context(save_graphs=degree)
    with pytest.raises(ConfigurationError, match=f"save_graphs {refused!r} is not one of 0, 1, 2, 3, True"):
        context.set_context(save_graphs=refused)


def test_graphs_are_written_to_a_path_of_either_kind() -> None:
    for path in ("graphs", Path("graphs")):
        context.set_context(save_graphs_path=path)
        assert current_configuration().save_graphs_path == "graphs"


@pytest.mark.parametrize(
    ("stages", "cuts"), [(2, (2, 1)), ([1, 3], (1, 1)), ([[0, 2, 1], [3]], (3, 1)), ([[3], [0, 1, 2]], (1, 1))]
)
def test_a_batch_is_cut_among_the_ranks_of_the_first_stage(stages: object, cuts: tuple[int, int]) -> None:
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=4, pipeline_stages=stages, dataset_strategy=(cuts,)
    )
    assert current_configuration().input_cuts == ()
    assert current_configuration().full_batch == (cuts == (1, 1))
    context.set_auto_parallel_context(dataset_strategy=((4, 1),))
    with pytest.raises(ConfigurationError, match=f"makes 4 pieces, but {cuts[0]} devices share a batch"):
        current_configuration()


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"pipeline_interleave": True}, "interleaved_1f1b"),
        ({"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}, "interleaved_1f1b"),
        ({"pipeline_scheduler": "gpipe"}, "gpipe"),
        ({"pipeline_scheduler": "zero_bubble_v"}, "zb_v"),
        ({"pipeline_scheduler": ""}, ""),
        ({}, ""),
    ],
)
def test_a_schedule_is_known_by_its_name(config: dict[str, object], name: str) -> None:
    context.set_auto_parallel_context(pipeline_config=config)
    assert current_configuration().pipeline_schedule == name


FOUND = (("Default/dense/MatMul", ((2, 1), (1, 1))),)


def test_strategies_that_were_found_hold_for_their_number_of_devices_in_modes_of_one_batch(
    remarks: Callable[[], list[str]],
) -> None:
    take_strategies("", FOUND, 4)
    for mode, devices, held in (
        ("semi_auto_parallel", 4, FOUND),
        ("auto_parallel", 4, FOUND),
        ("data_parallel", 4, ()),
        ("stand_alone", 4, ()),
    ):
        context.set_auto_parallel_context(parallel_mode=mode, device_num=devices)
        assert current_configuration().loaded_strategies == held
    assert remarks() == []
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=8)
    assert current_configuration().loaded_strategies == ()
    assert remarks() == ["the strategies that were found are for 4 devices, and there are 8: others count"]


def test_strategies_for_no_known_number_of_devices_hold_on_any(remarks: Callable[[], list[str]]) -> None:
    take_strategies("", FOUND)
    for devices in (2, 4):
        context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=devices)
        assert current_configuration().loaded_strategies == FOUND
    assert remarks() == []


def test_strategies_of_a_file_hold_while_it_is_the_one_that_is_set() -> None:
    context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=4)
    take_strategies("one.ckpt", FOUND, 4)
    assert current_configuration().loaded_strategies == ()
    context.set_auto_parallel_context(strategy_ckpt_load_file="one.ckpt")
    assert current_configuration().loaded_strategies == FOUND
    context.set_auto_parallel_context(strategy_ckpt_load_file="other.ckpt")
    with pytest.raises(ConfigurationError, match=r"'other.ckpt' has not been read, which Model does; set it before"):
        current_configuration()
    context.set_auto_parallel_context(parallel_mode="data_parallel")
    assert current_configuration().loaded_strategies == ()


def test_tensors_without_a_name_are_counted_from_the_seed_on() -> None:
    assert [next_unnamed() for _ in range(3)] == [0, 1, 2]
    context.set_seed(4)
    assert [next_unnamed() for _ in range(2)] == [0, 1]
