"""The context of parameter servers, of which there are none: its defaults are taken, all else is refused."""

from __future__ import annotations

import pytest

from mpiparallel import context
from mpiparallel.context.parameter_server import get_ps_context, reset_ps_context, set_ps_context
from mpiparallel.errors import ConfigurationError

# As MindSpore has them.
DEFAULTS = {
    "enable_ps": False,
    "config_file_path": "",
    "enable_ssl": False,
    "client_password": "",
    "server_password": "",
    "scheduler_manage_port": 11202,
}


def test_what_asks_for_no_parameter_server_is_taken() -> None:
    set_ps_context(**DEFAULTS)
    assert {name: get_ps_context(name) for name in DEFAULTS} == DEFAULTS
    reset_ps_context()
    assert context.get_ps_context is get_ps_context


@pytest.mark.parametrize(("name", "value"), [("enable_ps", True), ("scheduler_manage_port", 1), ("enable_ssl", True)])
def test_what_asks_for_one_is_refused_with_what_there_is_instead(name: str, value: object) -> None:
    with pytest.raises(
        ConfigurationError, match=f"set_ps_context: {name}={value}: there are no parameter servers here"
    ):
        set_ps_context(**{name: value})


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    known = ", ".join(DEFAULTS)
    with pytest.raises(ConfigurationError, match=f"set_ps_context: 'port' is not a parameter; known are {known}$"):
        set_ps_context(port=1)
    with pytest.raises(ConfigurationError, match=f"get_ps_context: 'port' is not a parameter; known are {known}$"):
        get_ps_context("port")
