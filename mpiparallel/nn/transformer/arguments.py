"""What the layers of a transformer can be told: an argument has one meaning and one check in all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, get_args, get_type_hints

import numpy as np

from mpiparallel.compatibility.remark import remark
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ConfigurationError

Given = ParamSpec("Given")
Layer = TypeVar("Layer")
Complaint = str | None


def _count(least: int) -> Callable[[Any], Complaint]:
    def problem(value: Any) -> Complaint:
        is_count = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
        return None if is_count else f"must be an integer of at least {least}"

    return problem


def _count_or_none(value: Any) -> Complaint:
    return None if value is None or _count(1)(value) is None else "must be an integer of at least 1, or None"


def _rate(value: Any) -> Complaint:
    is_number = isinstance(value, (int, float, np.floating)) and not isinstance(value, bool)
    return None if is_number and 0 <= value < 1 else "must be at least 0 and below 1"


def _flag(value: Any) -> Complaint:
    return None if isinstance(value, bool) else "must be True or False"


def _floating(value: Any) -> Complaint:
    try:
        is_fitting = value is not None and is_floating(np.dtype(value))
    except TypeError:
        is_fitting = False
    return None if is_fitting else "must be a floating-point dtype such as mpiparallel.float32"


def _function_or_none(value: Any) -> Complaint:
    return None if value is None or callable(value) else "must be a function of a layer, or None"


_PROBLEMS: Final[Mapping[str, Callable[[Any], Complaint]]] = {
    **dict.fromkeys(("hidden_size", "ffn_hidden_size", "num_heads", "num_layers"), _count(1)),
    **dict.fromkeys(("seq_length", "src_seq_length", "tgt_seq_length", "vocab_size", "embedding_size"), _count(1)),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "offset"), _count(0)),
    "batch_size": _count_or_none,
    **dict.fromkeys(("dropout_rate", "hidden_dropout_rate", "attention_dropout_rate"), _rate),
    **dict.fromkeys(("post_layernorm_residual", "use_past"), _flag),
    **dict.fromkeys(("layernorm_compute_type", "softmax_compute_type", "param_init_type"), _floating),
    "hidden_act": lambda value: None if isinstance(value, str) else "must be the name of an activation",
    "lambda_func": _function_or_none,
}


def _problem_of_config(construct: Callable[..., None]) -> Callable[[Any], Complaint]:
    """Return the check of ``parallel_config``, which a layer annotates with the kind that it needs."""
    kind = get_type_hints(construct)["parallel_config"]
    named = " or ".join(one.__name__ for one in get_args(kind) if one is not NoneType)

    def problem(value: Any) -> Complaint:
        return None if isinstance(value, kind) else f"must be a {named}, or None"

    return problem


def checked(
    construct: Callable[Concatenate[Layer, Given], None],
) -> Callable[Concatenate[Layer, Given], None]:
    """Return the ``__init__`` that raises ConfigurationError, by name, for a value which its argument cannot have."""
    signature = inspect.signature(construct)
    problems = {**_PROBLEMS, "parallel_config": _problem_of_config(construct)}

    @functools.wraps(construct)
    def init(self: Layer, /, *positional: Given.args, **named: Given.kwargs) -> None:
        given = signature.bind(self, *positional, **named).arguments
        for name, value in given.items():
            problem = problems[name](value) if name in problems else None
            if problem:
                raise ConfigurationError(f"{type(self).__name__}: {name}={value!r} {problem}")
        construct(self, *positional, **named)

    return init


def remark_on_extents(layer: object, said: Mapping[str, int | None], seen: Mapping[str, int]) -> None:
    """Say once where inputs have other extents than the layer was told: those of the inputs count.

    >>> remark_on_extents(object(), {"batch_size": None}, {"batch_size": 4})
    """
    for name, extent in seen.items():
        if said[name] not in (None, extent):
            remark(
                f"{type(layer).__name__}: {name}={said[name]} has no effect here: shapes are read from the inputs, "
                f"which have {extent}"
            )
