"""What is said, in full, of strategy files that do not fit, and what of one that fits is taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import context, nn
from mpiparallel.checkpoint.strategy.group_file import restore_group_info_list
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.communication.threads import run_world
from mpiparallel.context.settings import all_settings, current_configuration
from mpiparallel.dataset import NumpySlicesDataset
from mpiparallel.errors import StrategyFileError
from mpiparallel.train.strategies.loaded_strategies import check_loaded_strategies, take_loaded_strategies
from mpiparallel.train.strategies.strategy_files import communication_groups, replica_ranks, write_strategy_file
from tests.unit.train.strategies.test_loaded_strategies import CUT, TwoMatMul


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    context.reset_auto_parallel_context()


def staged(network: nn.Cell, devices: int = 8, rank: int = 0, **settings: object) -> Any:
    context.reset_auto_parallel_context()
    context.set_auto_parallel_context(
        parallel_mode="semi_auto_parallel", device_num=devices, global_rank=rank, full_batch=True, **settings
    )
    dataset = NumpySlicesDataset(np.zeros((16, 64), np.float32), ["x"], shuffle=False).batch(16)
    return ms.Model(network, optimizer=nn.Momentum(network.trainable_params(), 0.1, 0.9)).build(dataset)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The strategy file of two products on eight devices."""
    path = str(tmp_path / "strategy.json")
    staged(TwoMatMul(CUT), strategy_ckpt_save_file=path)
    return path


def test_a_file_of_another_network_is_refused_with_three_of_its_names(file: str) -> None:
    names = sorted(read_strategy(file).strategies)
    assert {"MatMul_w1", "MatMul_w2"} <= set(names)
    with pytest.raises(StrategyFileError) as raised:
        staged(TwoMatMul(names=("a", "b")), strategy_ckpt_load_file=file)
    listed = ", ".join(f'"{name}"' for name in names[:3])
    assert str(raised.value) == (
        f"{file}: no operator of the network is in it; it has {listed}, ...: use this network's file, for stages that "
        "which merge_pipeline_strategys makes"
    )


def test_what_a_file_says_is_taken_with_the_number_of_its_devices(file: str) -> None:
    context.set_auto_parallel_context(strategy_ckpt_load_file=file)
    assert take_loaded_strategies() == {}
    path, cuts, made_for = all_settings().loaded_strategies
    assert (path, made_for) == (file, 8)
    assert dict(cuts)["MatMul_w1"] == ((2, 1), (1, 4))
    assert dict(cuts)["MatMul_w2"] == ((2, 4), (4, 1))
    assert [name for name, _ in cuts] == sorted(name for name, _ in cuts)


def test_nothing_is_taken_where_no_file_is_named(file: str) -> None:
    context.set_auto_parallel_context(strategy_ckpt_load_file="")
    before = all_settings().loaded_strategies
    assert take_loaded_strategies() == {}
    assert all_settings().loaded_strategies == before


def test_a_parameter_that_the_operators_lay_out_otherwise_is_named_with_both_layouts(file: str) -> None:
    content = json.loads(Path(file).read_text())
    text = json.dumps(content).replace("MatMul_w2", "MatMul_gone")
    Path(file).write_text(text)
    with pytest.raises(StrategyFileError) as raised:
        staged(TwoMatMul(), strategy_ckpt_load_file=file)
    said = str(raised.value)
    assert said.startswith(f'{file}: parameter "')
    assert "the file lays it out as [32/4 x 16] on (2, 4)" in said
    assert "the strategies of the operators on it as [32 x 16] on (8,);" in said
    assert said.endswith(
        "; use the file of this network, or give these operators the strategies that the file was made with"
    )


def test_a_graph_without_a_file_or_with_one_that_was_not_read_is_not_checked(file: str) -> None:
    made = staged(TwoMatMul(names=("a", "b")))
    check_loaded_strategies(made, current_configuration(8))


@pytest.mark.parametrize("rank", [0, 5])
def test_groups_of_a_rank_are_those_of_its_sums_and_of_its_replicas(rank: int) -> None:
    made = staged(TwoMatMul(CUT), rank=rank)
    row = tuple(range(rank // 4 * 4, rank // 4 * 4 + 4))
    found = communication_groups(made, rank)
    # The second product sums over four ranks of a row; a weight has a replica in each row.
    assert {row, (rank % 4, rank % 4 + 4)} <= set(found)
    assert found == sorted(found)
    assert all(rank in group and 1 < len(group) < 8 for group in found)
    assert replica_ranks(made.of_rank(rank), rank) == [rank % 4, rank % 4 + 4]


def test_a_plan_is_kept_in_the_file_beside_the_strategies(tmp_path: Path) -> None:
    made = staged(TwoMatMul(CUT))
    configuration = current_configuration(8)
    plan = {"pipeline_stages": 1}
    for name, given in (("bare", None), ("planned", plan)):
        write_strategy_file(str(tmp_path / f"{name}.json"), made, configuration, given)
    bare, planned = (read_strategy(tmp_path / f"{name}.json") for name in ("bare", "planned"))
    assert (bare.plan, planned.plan) == ({}, plan)
    assert bare.strategies.keys() == planned.strategies.keys()


@pytest.mark.parametrize("with_ranks", [False, True])
def test_a_rank_that_only_plans_writes_its_files_where_it_is_told(with_ranks: bool, tmp_path: Path) -> None:
    def job(communicator: Any = None) -> None:
        groups, strategy = tmp_path / "groups.pb", tmp_path / "strategy.json"
        files = {"group_ckpt_save_file": str(groups), "strategy_ckpt_save_file": str(strategy)}
        staged(TwoMatMul(CUT), rank=5, **files)
        assert restore_group_info_list(str(groups)) == [1, 5]
        names = [path.name for path in tmp_path.iterdir()]
        assert not [name for name in names if name.startswith("groups_rank")]

    if with_ranks:
        run_world(1, job)
    else:
        job()


def test_no_file_is_written_that_was_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    staged(TwoMatMul(CUT))
    assert not list(tmp_path.iterdir())
