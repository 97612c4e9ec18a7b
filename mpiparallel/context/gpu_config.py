"""How a GPU computes: the dict ``gpu_config`` of ``set_context``."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from mpiparallel.context.accepted import Accepted, say_without_effect
from mpiparallel.context.parallel_values import check_names
from mpiparallel.errors import ConfigurationError

_PRODUCTS_IN_TF32: Final = "matmul_allow_tf32"
_CONVOLUTIONS_IN_TF32: Final = "conv_allow_tf32"
_SWITCHES: Final = (_PRODUCTS_IN_TF32, _CONVOLUTIONS_IN_TF32)
_ALGORITHMS: Final = ("conv_fprop_algo", "conv_dgrad_algo", "conv_wgrad_algo")
_WITHOUT_EFFECT: Final = MappingProxyType(
    {
        **dict.fromkeys(_ALGORITHMS, Accepted("normal", "shapes decide how a convolution is computed")),
    }
)


def check_gpu_config(given: Any) -> None:
    """Raise ConfigurationError for a name or a value that ``gpu_config`` does not take; None asks for nothing.

    >>> check_gpu_config({"matmul_allow_tf32": True})
    """
    if given is None:
        return
    if not isinstance(given, dict):
        wanted = f'a dict such as {{"{_PRODUCTS_IN_TF32}": True}}'
        raise ConfigurationError(f"set_context: gpu_config {given!r} must be {wanted}")
    check_names(given, (*_SWITCHES, *_WITHOUT_EFFECT), "set_context: gpu_config")
    for name in _SWITCHES:
        if not isinstance(given.get(name, False), bool):
            raise ConfigurationError(f"set_context: gpu_config: {name} {given[name]!r} must be True or False")
    say_without_effect("set_context: gpu_config", given, _WITHOUT_EFFECT)


def multiplies_in_tf32(given: Any) -> bool:
    """Return whether factors of products of float32 may be rounded to 10 bits of fraction.

    >>> multiplies_in_tf32(None), multiplies_in_tf32({"matmul_allow_tf32": True})
    (False, True)
    """
    return bool((given or {}).get(_PRODUCTS_IN_TF32, False))


def convolves_in_tf32(given: Any) -> bool:
    """Return whether convolutions of float32 may round their factors to 10 bits of fraction.

    >>> convolves_in_tf32({"matmul_allow_tf32": True}), convolves_in_tf32({"conv_allow_tf32": True})
    (False, True)
    """
    return bool((given or {}).get(_CONVOLUTIONS_IN_TF32, False))
