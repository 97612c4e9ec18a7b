from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest

from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.graph.equation import Equation, Labels
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.graph import Graph, Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.layout.box import Box
from mpiparallel.testing.operator_case import OperatorCase
from tests.conformance.cases.operator_cases import CASES
from tests.conformance.cases.operator_expected import expected

REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}
Cuts = dict[str, int]
Place = dict[str, int]
Sizes = dict[str, tuple[int, ...]]


def traced(case: OperatorCase) -> tuple[Graph, list[Value]]:
    """Return the graph that the call of an operator makes, and the values that it returns."""
    trace = Trace()
    values = [trace.graph.add_input(str(index), Tensor(array).spec) for index, array in enumerate(case.inputs)]
    with recording(trace):
        outputs = case.apply(case.build(), [Tensor.of_value(value) for value in values])
    return trace.graph, [output.value for output in outputs]


def rule_of(case: OperatorCase) -> Equation:
    """Return the rule of an operator as its call configures it: of the last of its steps, where it has several."""
    if case.build().updates:
        rule: Equation = case.build().equation(*(Tensor(array).spec for array in case.inputs))
        return rule
    node = traced(case)[0].nodes[-1]
    return node.operator.equation(*(value.spec for value in node.inputs))


def interval(extent: int, parts: int, index: int) -> tuple[int, int]:
    """Return the ``index``-th of ``parts`` pieces of which the first are one element longer."""
    size, longer = divmod(extent, parts)
    start = index * size + min(index, longer)
    return start, start + size + (index < longer)


def part_of(shape: tuple[int, ...], labels: Labels, cuts: Cuts, place: Place, sizes: Sizes) -> Part:
    pieces = []
    for extent, label in zip(shape, map(str, labels), strict=True):
        index, given = place.get(label, 0), sizes.get(label, ()) if label in cuts else ()
        uneven = (sum(given[:index]), sum(given[: index + 1]))
        pieces.append(uneven if given else interval(extent, cuts.get(label, 1), index))
    return Part(shape, Box(tuple(start for start, _ in pieces), tuple(stop for _, stop in pieces)))


def slices(part: Part) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in zip(part.box.start, part.box.stop, strict=True))


def widened(part: Part, read: Box) -> Part:
    """Return the part with what is read beyond it along the dims that are cut."""
    bounds = [
        (part.box.start[dim], part.box.stop[dim])
        if part.box.shape[dim] == extent
        else (read.start[dim], read.stop[dim])
        for dim, extent in enumerate(part.global_shape)
    ]
    return Part(part.global_shape, Box(tuple(start for start, _ in bounds), tuple(stop for _, stop in bounds)))


def run_part(operator: Any, rule: Equation, specs: list[TensorSpec], inputs: Any, cuts: Cuts, place: Place) -> Any:
    """Run the operator on one rank's part; return parts and arrays of the outputs, or of the updated inputs."""
    tensors = [*zip(inputs, rule.inputs, strict=True), *zip(specs, rule.outputs, strict=True)]
    sizes = [{label: told for (at, label), told in rule.sizes.items() if at == index} for index in range(len(tensors))]
    every = [part_of(one.shape, labels, cuts, place, told) for (one, labels), told in zip(tensors, sizes, strict=True)]
    parts, targets = every[: len(inputs)], every[len(inputs) :]
    if any(label in cuts for labels in rule.inputs for label in labels[2:] if operator.reads_beyond):
        parts = [widened(*pair) for pair in zip(parts, operator.reads(parts, targets), strict=True)]
    arrays = [np.array(array[slices(part)]) for array, part in zip(inputs, parts, strict=True)]
    local = operator.local(parts, targets)
    if local.is_view:
        return [(targets[0], local.view(arrays[0]))]
    outputs = [np.full(part.shape, 7, spec.dtype) for part, spec in zip(targets, specs, strict=True)]
    runtime = Runtime()
    run = local.kernel(runtime, arrays, outputs)
    runtime.numbers.bring()
    run()
    if operator.updates:
        return [(parts[index], arrays[index]) for index in operator.updates]
    return list(zip(targets, outputs, strict=True))


def assemble(case: OperatorCase, cuts: Cuts) -> list[Any]:
    """Return the outputs, each step of the operator put together from its parts."""
    if case.build().updates:
        return assemble_step(case.build(), case.inputs, cuts)
    graph, outputs = traced(case)
    arrays = dict(zip(graph.inputs, case.inputs, strict=True))
    for node in graph.nodes:
        inputs = [arrays[value] if value.constant is None else value.constant for value in node.inputs]
        arrays |= zip(node.outputs, assemble_step(node.operator.configured(scope=""), inputs, cuts), strict=True)
    return [arrays[value] for value in outputs]


def assemble_step(operator: Any, inputs: Any, cuts: Cuts) -> list[Any]:
    """Run every part and put the outputs together, reducing those that are partial."""
    input_specs = [Tensor(array).spec for array in inputs]
    rule, specs = operator.equation(*input_specs), list(operator.infer(*input_specs))
    found: list[dict[Any, list[Any]]] = []
    for indices in product(*(range(count) for count in cuts.values())):
        place = dict(zip(cuts, indices, strict=True))
        results = run_part(operator, rule, specs, inputs, cuts, place)
        found = found or [{} for _ in results]
        for position, (part, array) in enumerate(results):
            held = rule.inputs[operator.updates[position]] if operator.updates else rule.outputs[position]
            terms = found[position].setdefault(part, [])
            if not terms or any(place[label] and label not in held for label in cuts if needs(rule, label)):
                terms.append(array)
    wholes = []
    for pieces in found:
        total = next(iter(pieces)).global_shape
        whole = np.empty(total, next(iter(pieces.values()))[0].dtype)
        for part, terms in pieces.items():
            whole[slices(part)] = reduce(REDUCTIONS[rule.reduction], terms)
        wholes.append(whole)
    return wholes


def needs(rule: Equation, label: str) -> bool:
    """Whether a cut of the label leaves different terms, rather than the same array, in different places."""
    return any(label in labels for labels in rule.inputs)


def cuttable(case: OperatorCase) -> list[tuple[str, int]]:
    rule = rule_of(case)
    found = []
    for label in rule.labels:
        parts = [count for count in range(2, 9) if rule.allows(label, count) and (count <= 3 or rule.sizes)]
        if parts:
            found.append((label, parts[-1]))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_parts_of_any_cut_make_the_whole(case: OperatorCase) -> None:
    labels = cuttable(case)
    for cuts in [*({label: parts} for label, parts in labels), dict(labels)]:
        actual, wanted = assemble(case, cuts), expected(case)
        assert len(actual) == len(wanted)
        for one, other in zip(actual, wanted, strict=True):
            tolerance = 1e-8 if "GeluGrad" in case.name else 1e-12
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=str(cuts))
