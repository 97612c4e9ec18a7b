"""A product of matrices and what is done with it, in one go where the device's products can, else one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mpiparallel.backend.products.product import Product
from mpiparallel.backend.protocol import Array
from mpiparallel.dataclass import dataclass
from mpiparallel.graph.execution.one_by_one import one_by_one
from mpiparallel.graph.execution.runtime import Kernel, Runtime
from mpiparallel.graph.graph import Node, Value
from mpiparallel.graph.operator import Operator


@dataclass(frozen=True)
class JoinedValues:
    """Which values are the arrays of a `Product`; its factors are those of the first node that is joined."""

    output: Value
    added: Value | None = None
    bias: Value | None = None
    gelu: bool = False
    before: Value | None = None
    slopes_at: Value | None = None
    sums: Value | None = None
    sums_of: str = ""


class JoinedProduct(Operator):
    """A product of matrices with the operators that come after it, or that read what it reads.

    ``nodes`` are these, the product first; ``inputs`` and ``outputs`` the values that they have in common with others.
    """

    kind = "gemm"

    def __init__(
        self, nodes: Sequence[Node], values: JoinedValues, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        self._nodes = tuple(nodes)
        self._values = values
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        if values.added is not None:
            place = self._inputs.index(values.added)
            updates = values.output is values.added
            self.updates = (place,) if updates else ()  # type: ignore[misc]
            self.reuses = () if updates else (place,)  # type: ignore[misc]

    @property
    def name(self) -> str:
        """The names of the operators, in order."""
        return "+".join(node.operator.name for node in self._nodes)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        arrays = dict(zip((*self._inputs, *self._outputs), (*inputs, *outputs), strict=True))
        together = runtime.backend.products.bind(self._product(arrays), runtime.scratch)
        return together or one_by_one(runtime, self._nodes, arrays)

    def _product(self, arrays: Mapping[Value, Array]) -> Product:
        node, values = self._nodes[0], self._values
        operator: Any = node.operator
        x, y = (arrays[value] for value in node.inputs)

        def of(value: Value | None) -> Array | None:
            return None if value is None else arrays[value]

        def in_line(value: Value | None) -> Array | None:
            return None if value is None else arrays[value].reshape(-1)

        return Product(
            x.swapaxes(-1, -2) if operator.transpose_a else x,
            y.swapaxes(-1, -2) if operator.transpose_b else y,
            arrays[values.output],
            of(values.added),
            in_line(values.bias),
            values.gelu,
            of(values.before),
            of(values.slopes_at),
            in_line(values.sums),
            values.sums_of,
        )
