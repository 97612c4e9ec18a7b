"""Options of a reshard: those that are taken, those that are refused, and what holds where none is given."""

from __future__ import annotations

from typing import Any

import pytest

from mpiparallel import reshard
from mpiparallel.communication.threads import run_world
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard import Movement, ReshardOptions, ReshardReport


def test_without_options_a_move_is_safe_verified_and_works_in_64_mebibytes() -> None:
    assert ReshardOptions() == ReshardOptions("safe", 67108864, 67108864, True, False, "auto")


@pytest.mark.parametrize(
    "given",
    [
        *({"mode": mode} for mode in ("safe", "bounded")),
        *({"executor": executor} for executor in ("auto", "packed", "datatypes", "shared")),
        {"scratch_bytes": 4096},
        {"wave_bytes": 1},
    ],
    ids=str,
)
def test_each_documented_value_down_to_the_least_is_taken(given: dict[str, Any]) -> None:
    name, value = next(iter(given.items()))
    assert getattr(ReshardOptions(**given), name) == value


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "quick"}, "mode 'quick' is not one of safe, bounded"),
        ({"executor": None}, "executor None is not one of auto, packed, datatypes, shared"),
        ({"scratch_bytes": 4095}, "scratch_bytes 4095 must be an integer of at least 4096"),
        ({"scratch_bytes": 8192.0}, "scratch_bytes 8192.0 must be an integer of at least 4096"),
        ({"wave_bytes": 0}, "wave_bytes 0 must be an integer of at least 1"),
        ({"wave_bytes": "7"}, "wave_bytes '7' must be an integer of at least 1"),
    ],
    ids=str,
)
def test_any_other_value_is_refused_with_those_that_there_are(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ReshardOptions(**given)
    assert str(caught.value) == f"reshard: {words}"


def test_a_report_without_executors_has_one_wave() -> None:
    report = ReshardReport(bytes_moved=0, bytes_kept=3, seconds=0.5, messages=0)
    assert (report.waves, report.executors) == (1, ())


def test_the_package_has_its_public_names_and_no_others() -> None:
    assert [getattr(reshard, name).__name__ for name in reshard.__all__] == reshard.__all__
    assert reshard.Movement is Movement
    with pytest.raises(AttributeError, match=r"^module 'mpiparallel\.reshard' has no attribute 'move'$"):
        reshard.move  # noqa: B018


LAYOUT = Layout((2,), DeviceMatrix((1,)), ((),))
MEND = "give a Layout, or a mapping of tensor names to layouts"


@pytest.mark.parametrize(
    ("source", "target", "options", "words"),
    [
        (
            {},
            {},
            {"windows": 1, "scratch": 2},
            "unknown option 'scratch'; there are mode, scratch_bytes, wave_bytes, verify, digest, executor",
        ),
        ((2,), LAYOUT, {}, f"source layouts: source is a tuple, not a Layout; {MEND}"),
        (LAYOUT, (2,), {}, f"target layouts: array is a tuple, not a Layout; {MEND}"),
        ({"a": LAYOUT}, None, {}, f"target layouts: target is a NoneType, not a Layout; {MEND}"),
        (
            {"a": LAYOUT, "b": "rows"},
            {"a": LAYOUT, "b": LAYOUT},
            {},
            f"source layouts: b is a str, not a Layout; {MEND}",
        ),
    ],
)
def test_a_call_with_what_is_no_option_or_no_layout_is_refused_by_name(
    source: Any, target: Any, options: dict[str, Any], words: str
) -> None:
    def refusal(communicator: Any) -> str:
        with pytest.raises(ConfigurationError) as caught:
            reshard.reshard({}, source, target, communicator, **options)
        return str(caught.value)

    assert run_world(2, refusal) == [f"ranks 0, 1: reshard: {words}"] * 2
