"""MindSpore's context of parameter servers, of which there are none here."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from mpiparallel.errors import ConfigurationError

_DEFAULTS: Final = MappingProxyType(
    {
        "enable_ps": False,
        "config_file_path": "",
        "enable_ssl": False,
        "client_password": "",
        "server_password": "",
        "scheduler_manage_port": 11202,
    }
)


def set_ps_context(**settings: Any) -> None:
    """Accept what asks for no parameter server, ``enable_ps=False``: here ranks keep the parameters.

    Parameters
    ----------
    **settings
        MindSpore's names, with their defaults.

    Raises
    ------
    ConfigurationError
        For anything else.

    Examples
    --------
    >>> set_ps_context(enable_ps=False)
    """
    for name, value in settings.items():
        if name not in _DEFAULTS:
            raise ConfigurationError(f"set_ps_context: {name!r} is not a parameter; known are {', '.join(_DEFAULTS)}")
        if value != _DEFAULTS[name]:
            raise ConfigurationError(
                f"set_ps_context: {name}={value!r}: there are no parameter servers here: ranks keep the parameters. "
                "Where a table is too large for one rank cut it, by shard of its Gather or enable_parallel_optimizer; "
                "leave the call out"
            )


def get_ps_context(attr_key: str) -> Any:
    """Return the setting ``attr_key``, which is as without parameter servers.

    Parameters
    ----------
    attr_key : str
        A name that MindSpore's ``set_ps_context`` takes.

    Returns
    -------
    object
        Its default.

    Raises
    ------
    ConfigurationError
        For an unknown name.

    Examples
    --------
    >>> get_ps_context("enable_ps")
    False
    """
    if attr_key not in _DEFAULTS:
        raise ConfigurationError(f"get_ps_context: {attr_key!r} is not a parameter; known are {', '.join(_DEFAULTS)}")
    return _DEFAULTS[attr_key]


def reset_ps_context() -> None:
    """Return: nothing can be set.

    Examples
    --------
    >>> reset_ps_context()
    """
