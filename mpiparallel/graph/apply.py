"""Applying an operator: recorded while a network is traced, computed at once otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.errors import ShapeError, TraceError
from mpiparallel.graph.graph import Value
from mpiparallel.graph.input_conversion import converted
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.random_stream import next_random_state
from mpiparallel.graph.runtime import RandomState, Runtime
from mpiparallel.graph.tensor import DEFAULT_FLOAT, Tensor
from mpiparallel.graph.tensor_spec import Part
from mpiparallel.graph.trace import Trace, active_trace, user_line

if TYPE_CHECKING:
    from mpiparallel.graph.operator import Operator


def apply(operator: Operator, inputs: Sequence[Any]) -> Any:
    """Return the output of ``operator``, or the tuple of its outputs when there are several or it always gives one.

    Numbers take the dtype of the first tensor among the inputs; floats beside integers become float32.
    """
    tensors = converted(operator, _as_tensors(operator, inputs))
    trace = active_trace()
    results = _compute(operator, tensors) if trace is None else _record(operator, tensors, trace)
    return results[0] if len(results) == 1 and not operator.gives_tuple else results


def _as_tensors(operator: Operator, inputs: Sequence[Any]) -> list[Tensor]:
    known = next((item.dtype for item in inputs if isinstance(item, (Tensor, np.ndarray))), None)
    tensors = []
    for position, item in enumerate(inputs):
        if isinstance(item, Tensor):
            tensors.append(item)
        elif isinstance(item, (bool, int, float, np.generic)):
            dtype = np.asarray(item).dtype if known is None else known
            if isinstance(item, float) and (known is None or known.kind in "iub"):
                dtype = DEFAULT_FLOAT
            tensors.append(Tensor(np.asarray(item, dtype)))
        elif isinstance(item, (np.ndarray, list, tuple)):
            tensors.append(Tensor(item))
        else:
            raise ShapeError(
                f"{operator.name}: input {position} is a {type(item).__name__}; give a Tensor, an array or a number"
            )
    return tensors


def _record(operator: Operator, tensors: list[Tensor], trace: Trace) -> tuple[Tensor, ...]:
    values = [value_in(trace, tensor) for tensor in tensors]
    try:
        specs = operator.infer(*(value.spec for value in values))
    except ShapeError as error:
        raise ShapeError(f"{user_line()}: {'/'.join([*trace.scopes, operator.name])}: {error}") from None
    if operator.updates and any(values[index].parameter is None for index in operator.updates):
        raise TraceError(f"{operator.name}: inputs {operator.updates} are overwritten and must be parameters")
    for applied in (operator, operator.step_of):
        if applied is not None:
            trace.operators[applied] = applied.settings
    name = trace.unique_name(operator.name)
    operator = operator.configured(scope=name)
    follows, segment = trace.differentiated or operator.follows, trace.notes.segment or operator.segment
    node = trace.graph.add_node(operator, name, values, specs, replace(trace.notes, follows=follows, segment=segment))
    trace.forget_casts({values[index].name for index in operator.updates})
    return tuple(Tensor.of_value(output) for output in node.outputs)


def value_in(trace: Trace, tensor: Tensor) -> Value:
    """Return the value that stands for ``tensor`` in the traced program."""
    if isinstance(tensor, Parameter):
        return trace.graph.add_parameter(tensor, tensor.spec)
    if tensor.value is not None:
        return tensor.value
    return trace.graph.add_constant(tensor.asnumpy())


def _compute(operator: Operator, tensors: list[Tensor]) -> tuple[Tensor, ...]:
    specs = operator.infer(*(tensor.spec for tensor in tensors))
    inputs = [tensor.array for tensor in tensors]
    if operator.is_view and (inputs[0].flags.c_contiguous or not operator.needs_order):
        return (Tensor(operator.view(inputs[0])),)
    communicator = world.current() if world.initialised() else None
    runtime = Runtime(communicator=communicator, random=next_random_state() if operator.is_random else RandomState())
    parts = [Part.whole(tensor.shape) for tensor in tensors]
    local = operator.local(parts, [Part.whole(spec.shape) for spec in specs])
    outputs = [np.empty(spec.shape, spec.dtype) for spec in specs]
    kernel = local.kernel(runtime, inputs, outputs)
    with np.errstate(all="ignore"):
        kernel()
    return tuple(Tensor(output) for output in outputs)
