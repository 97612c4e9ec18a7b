"""Options that become variables of the ranks: what these would refuse is refused before any of them starts."""

from __future__ import annotations

from argparse import Namespace

import pytest

from mpiparallel.errors import ConfigurationError
from mpiparallel.launch.job.rank_settings import rank_settings

NAMES = {
    "watchdog": "MPIPARALLEL_WATCHDOG",
    "preemption_signal": "MPIPARALLEL_PREEMPTION_SIGNAL",
    "chaos": "MPIPARALLEL_CHAOS",
}
GOOD = {"watchdog": "30", "preemption_signal": "USR2", "chaos": "kill@3:418"}
BAD = {"watchdog": "soon", "preemption_signal": "KILL", "chaos": "kill"}


def given(**options: str) -> Namespace:
    return Namespace(**{**dict.fromkeys(NAMES), **options})


@pytest.mark.parametrize("option", NAMES)
def test_an_option_is_a_variable_of_the_ranks_and_comes_before_that_of_the_environment(option: str) -> None:
    assert rank_settings(given(**{option: GOOD[option]}), {NAMES[option]: BAD[option]}) == {NAMES[option]: GOOD[option]}


@pytest.mark.parametrize("option", NAMES)
def test_what_ranks_would_refuse_is_refused_by_option_and_by_variable(option: str) -> None:
    with pytest.raises(ConfigurationError):
        rank_settings(given(**{option: BAD[option]}), {})
    with pytest.raises(ConfigurationError):
        rank_settings(given(), {NAMES[option]: BAD[option]})


def test_what_is_not_given_is_left_to_the_environment() -> None:
    assert rank_settings(given(), {name: GOOD[option] for option, name in NAMES.items()}) == {}
    assert rank_settings(given(), {"MPIPARALLEL_CHAOS": ""}) == {}
