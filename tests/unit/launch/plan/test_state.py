"""What a plan reads of files and numbers of ranks, and the layouts of one strategy on other numbers of ranks."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from mpiparallel.checkpoint.strategy.strategy_file import write_strategy
from mpiparallel.checkpoint.strategy.strategy_record import StrategyRecord
from mpiparallel.errors import ConfigurationError, StrategyFileError
from mpiparallel.launch.plan import job
from mpiparallel.launch.plan.job import make_forecast
from mpiparallel.launch.plan.state import on_ranks, read_state
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout


def asked(source: str, target: str | None = None, ranks: int | None = None, **other: object) -> argparse.Namespace:
    known: dict[str, object] = {
        "shapes": None,
        "dtype": "float32",
        "moments": 0,
        "ranks_per_host": 8,
        "bandwidth": None,
        "scratch": 1,
        "wave": 64,
        "relabel": False,
    }
    return argparse.Namespace(source=source, target=target, ranks=ranks, **{**known, **other})


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # To measure takes a tenth of a second.
    monkeypatch.setattr(job, "memory_rate", lambda threads: 1e9)
    for name, ranks in (("two.json", 2), ("four.json", 4)):
        layouts = {
            "w": Layout((12, 5), DeviceMatrix((ranks,)), ((0,), ())),
            "b": Layout((5,), DeviceMatrix((ranks,)), ((),)),
            "a": Layout((12,), DeviceMatrix((ranks,)), ((0,),)),
        }
        write_strategy(name, StrategyRecord.of(layouts, {}))


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("bfloat16", 2), ("float32", 4), ("float64", 8)])
def test_bytes_of_a_state_are_those_of_its_type(dtype: str, size: int) -> None:
    found = make_forecast(asked("two.json", "four.json", dtype=dtype))
    assert found.state == (12 * 5 + 5 + 12) * size
    # Of two ranks each holds a half; of four all but the first take a quarter from others, and the new ones "b".
    assert found.moved == (3 * (3 * 5 + 3) + 2 * 5) * size
    assert (found.tensors, found.still, found.messages) == (3, 0, 4)
    assert [(one.name, one.moved) for one in found.largest] == [("w", 45 * size), ("b", 10 * size), ("a", 9 * size)]
    held = found.per_rank["holds_before"]
    assert (held.least, held.median, held.most) == (0, (6 * 5 + 5 + 6) * size, (6 * 5 + 5 + 6) * size)


def test_the_target_is_a_file_or_a_number_of_ranks() -> None:
    assert (make_forecast(asked("two.json", ranks=4)).target, make_forecast(asked("two.json", "4")).target) == (
        "4 ranks",
        "4 ranks",
    )
    assert make_forecast(asked("two.json", "four.json")).target == "four.json"


@pytest.mark.parametrize(("ranks_per_host", "threads"), [(1, 1), (2, 2), (3, 2)])
def test_memory_is_measured_by_as_many_threads_as_a_host_has_ranks_but_no_more_than_there_are_cores(
    ranks_per_host: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", {0: {3, 5}}.__getitem__)
    monkeypatch.setattr(job, "memory_rate", lambda count: 1e9 * count)
    found = make_forecast(asked("two.json", "four.json", ranks_per_host=ranks_per_host))
    assert found.seconds.memory_rate == 1e9 * threads


@pytest.mark.parametrize("target", ["0", "-3", "+3", "3.5", "1000000000", "00"])
def test_a_number_that_is_no_number_of_ranks_is_refused(target: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is no number of ranks: give a whole number from 1, or a file$"):
        make_forecast(asked("two.json", target))


# Rank 1 gets 18 elements of 4 bytes from rank 0; ranks 2 and 3 get 23 each, from ranks 0 and 1.
@pytest.mark.parametrize(("ranks_per_host", "hosts", "within"), [(1, 4, 0), (2, 2, 72), (3, 2, 164), (4, 1, 256)])
def test_ranks_stand_on_hosts_one_after_the_other(ranks_per_host: int, hosts: int, within: int) -> None:
    found = make_forecast(asked("two.json", "four.json", ranks_per_host=ranks_per_host))
    assert (found.hosts, found.ranks_per_host) == (hosts, ranks_per_host)
    assert (found.within_hosts, found.between_hosts) == (within, 256 - within)
    assert (found.seconds.link_rate, found.seconds.link_is_given) == (12.5e9, False)
    assert found.seconds.memory_rate == 1e9
    if ranks_per_host > 1:
        # One host gives all that passes between hosts, and copies twice what stays within it.
        assert found.seconds.between == (256 - within) / 12.5e9
        assert found.seconds.within >= 2 * within / 1e9


def test_peaks_are_told_with_the_scratch_of_a_rank() -> None:
    small, large = (make_forecast(asked("two.json", "four.json", scratch=mib)) for mib in (1, 3))
    assert (small.scratch, large.scratch) == (1 << 20, 3 << 20)
    for name in ("safe_peak", "bounded_peak"):
        assert large.per_rank[name].most - small.per_rank[name].most == 2 << 20


@pytest.mark.parametrize(
    ("layout", "ranks", "shape", "tensor_map"),
    [
        (Layout((8, 6), DeviceMatrix((2, 4)), ((1,), ())), 12, (3, 4), ((1,), ())),
        (Layout((8, 6), DeviceMatrix((4, 2)), ((0,), ())), 12, (4, 3), ((0,), ())),
        (Layout((8, 6), DeviceMatrix((4,)), ((0,), ())), 8, (2, 4), ((1,), ())),
        (Layout((8, 6), DeviceMatrix((4,)), ((0,), ())), 4, (1, 4), ((1,), ())),
        (Layout((8, 6), DeviceMatrix((2, 2)), ((1,), (0,))), 8, (2, 2, 2), ((2,), (1,))),
        (Layout((8, 6), DeviceMatrix((2, 3, 2)), ((1,), ())), 24, (4, 3, 2), ((1,), ())),
        (Layout((8, 6), DeviceMatrix((8,)), ((), ()), optimizer_axes=(0,)), 4, (4,), ((), ())),
    ],
)
def test_the_first_free_axis_takes_the_devices_that_are_left(
    layout: Layout, ranks: int, shape: tuple[int, ...], tensor_map: tuple[tuple[int, ...], ...]
) -> None:
    found = on_ranks({"w": layout}, ranks, "w.json")["w"]
    assert (found.devices.shape, found.tensor_map) == (shape, tensor_map)
    assert found.cuts == layout.cuts or layout.optimizer_axes


def test_ranks_that_cannot_hold_the_cuts_are_refused_with_how_many_can() -> None:
    layouts = {
        "a": Layout((8,), DeviceMatrix((2,)), ((0,),)),
        "b": Layout((9,), DeviceMatrix((3,)), ((0,),)),
    }
    said = r'w.json: "b" is cut \[9/3\] on \(3,\), which 4 ranks cannot hold with the same cuts; give a multiple of 6'
    with pytest.raises(ConfigurationError, match=said):
        on_ranks(layouts, 4, "w.json")
    assert on_ranks(layouts, 6, "w.json")["a"].devices.shape == (3, 2)


def test_states_of_the_optimizer_are_as_many_as_are_asked_for() -> None:
    state = read_state("two.json", "four.json", None, 4)
    assert state.with_moments(0) is state
    assert set(state.with_moments(2).layouts) == {
        f"{of}{name}" for of in ("", "moment1.", "moment2.") for name in "wba"
    }
    assert state.with_moments(1).itemsizes == dict.fromkeys(["w", "b", "a", "moment1.w", "moment1.b", "moment1.a"], 4)


def test_files_of_other_networks_are_refused_by_the_first_name_that_one_lacks() -> None:
    layouts = {"w": Layout((12, 5), DeviceMatrix((2,)), ((0,), ()))}
    write_strategy("less.json", StrategyRecord.of(layouts, {}))
    for source, target in (("two.json", "less.json"), ("less.json", "two.json")):
        with pytest.raises(StrategyFileError, match=r'less.json: it has no "a", which two.json has; give two files of'):
            read_state(source, target, None, 4)
