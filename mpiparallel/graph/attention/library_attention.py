"""Attention by a library of the device, where a user asks for it and the library has it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from mpiparallel.backend.attention.request import SETTING, AttentionRequest, Attentions
from mpiparallel.backend.protocol import Array
from mpiparallel.dtype import is_narrow
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, operand
from mpiparallel.graph.written_kernels.attention import AttentionSettings
from mpiparallel.graph.written_kernels.written_text import run_after

_VALUES: Final = ("", "own", "cudnn")
_BIAS: Final = 62
"""Scratch memory that holds what is added to the scores, and from the next slot on the library's own sums."""
_LEAST: Final = -65504.0
"""The least number of float16: what is added to hide a score may not be infinite, as a row may hide all."""


def library_attention(
    runtime: Runtime, settings: AttentionSettings, given: Sequence[Array], output: Array, sums: Array
) -> Kernel | None:
    """Return the library's kernel for what ``written_kernels.attention`` computes; None where ours is to be taken.

    ``MPIPARALLEL_ATTENTION=cudnn`` asks for it. Raises ConfigurationError where that is not installed, and for another
    value.
    """
    library = _asked_for(runtime, settings, (*given, output))
    if library is None:
        return None
    before, bias, shift = _bias(runtime, settings, given[3:-1], output.dtype)
    query, key, value = given[:3]
    request = AttentionRequest(query, key, value, bias, output, sums, settings.scale, is_causal=settings.is_causal)
    attend = library.bind(request, runtime.scratch)
    if attend is None:
        return None
    if shift:
        return run_after([*before, attend], expression_kernel(runtime, [_shifted(sums, shift)], [sums], [sums]))
    return run_after(before, attend)


def library_gradients(
    runtime: Runtime,
    settings: AttentionSettings,
    given: Sequence[Array],
    forward: tuple[Array, Array],
    slope: Array,
    outputs: Sequence[Array],
) -> Kernel | None:
    """Return the library's kernel for ``written_kernels.attention_gradients`` where the gradient of the sums is 0.

    ``slope`` is the gradient of the output. None, and errors, as of ``library_attention``.
    """
    library = _asked_for(runtime, settings, (*given, *forward, *outputs))
    if library is None:
        return None
    (query, key, value), (output, sums) = given[:3], forward
    before, bias, shift = _bias(runtime, settings, given[3:-1], output.dtype)
    held = sums
    if shift:
        held = runtime.scratch(tuple(sums.shape), sums.dtype, _BIAS + 1)
        before.append(expression_kernel(runtime, [_shifted(sums, -shift)], [sums], [held]))
    known = query, key, value, bias, output, held, settings.scale
    request = AttentionRequest(*known, slope, tuple(outputs), settings.is_causal)
    go_back = library.bind(request, runtime.scratch)
    return None if go_back is None else run_after(before, go_back)


def _asked_for(runtime: Runtime, settings: AttentionSettings, arrays: Sequence[Array]) -> Attentions | None:
    wanted = os.environ.get(SETTING, "")
    if wanted not in _VALUES:
        raise ConfigurationError(f"{SETTING}={wanted} must be 'own' or 'cudnn', or not be set")
    library = runtime.backend.attention
    if library is None or wanted != "cudnn":
        return None
    library.check()
    # What the library would drop is not what this package drops on every device.
    has_it = settings.keep_prob == 1.0 and is_narrow(arrays[0].dtype) and all(one.size for one in arrays)
    begins_below = settings.is_causal and settings.part.box.start[2] > 0
    return library if has_it and not begins_below else None


def _bias(
    runtime: Runtime, settings: AttentionSettings, masks: Sequence[Array], dtype: np.dtype[Any]
) -> tuple[list[Kernel], Array | None, float]:
    """Return what sets what is added to the scores, that itself, and what ours has more in each row of scores.

    ``(1 - mask) * -1`` is the mask less 1. What all scores of a row have more changes no weight, so that needs no copy.
    """
    if not masks:
        return [], None, 0.0
    (mask,) = masks
    if settings.masked == -1.0 and mask.dtype == dtype:
        return [], mask, -1.0
    term = (1.0 - operand(0, tuple(mask.shape), mask.dtype).astype(np.float32)) * max(settings.masked, _LEAST)
    bias = runtime.scratch(tuple(mask.shape), dtype, _BIAS)
    return [expression_kernel(runtime, [term.astype(dtype)], [mask], [bias])], bias, 0.0


def _shifted(sums: Array, shift: float) -> Term:
    return operand(0, tuple(sums.shape), sums.dtype) + shift
