"""What an operator is: its shapes, sharding rule, kernel and gradient, described once; and the registry of all."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Protocol, TypeVar

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.communication import world
from mpiparallel.errors import GradientError
from mpiparallel.graph.cost import ELEMENTWISE, Cost, counted_operations
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.random_stream import next_random_state
from mpiparallel.graph.execution.runtime import Kernel as Kernel
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.expression.kernel import expression_kernel
from mpiparallel.graph.expression.term import Term, operand, widened
from mpiparallel.graph.input_conversion import CONVERSION, as_tensors
from mpiparallel.graph.operator_settings import OperatorSettings
from mpiparallel.graph.operator_settings import Strategy as Strategy
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box

Self = TypeVar("Self", bound="Operator")


class Operator(OperatorSettings):
    """A function of tensors. Subclasses are the one place that describes it.

    Attributes of an instance configure it (``MatMul(transpose_b=True)``). Calling it on tensors records a node while a
    network is traced, and computes at once otherwise.

    Examples
    --------
    >>> from mpiparallel import ops
    >>> ops.MatMul(transpose_b=True).configured(transpose_b=False).transpose_b
    False
    """

    kind: ClassVar[str] = "kernel"
    """What a profile counts it as: ``gemm``, ``kernel`` or ``communication``."""
    is_random: ClassVar[bool] = False
    """Whether its kernel takes random numbers, by ``runtime.random``: others at each run."""
    is_view: ClassVar[bool] = False
    """Whether output 0 shows the memory of input 0; then ``view`` stands for the kernel."""
    needs_order: ClassVar[bool] = False
    """Whether it is a view only of memory in C order; else the kernel copies."""
    reuses: ClassVar[tuple[int, ...]] = ()
    """Inputs in whose memory output 0 may be computed when nobody needs them any more."""
    updates: ClassVar[tuple[int, ...]] = ()
    """Inputs, all parameters, that the operator overwrites. Its layouts are those of the first."""
    follows: ClassVar[bool] = False
    """Whether, without a strategy, it takes the layout of its inputs rather than batch parallelism."""
    linear: ClassVar[bool] = False
    """Whether it has one input, and the function of a sum is the sum of the functions.

    Then the terms of the gradient of a parameter pass through it and are summed afterwards.
    """
    gives_tuple: ClassVar[bool] = False
    """Whether a call returns a tuple even of one output: how many there are depends on how the operator is configured.
    """
    keeps_partial: ClassVar[bool] = False
    """Whether input 0, a parameter that it updates, holds terms of a sum wherever input 1 does."""

    joins: ClassVar[bool] = False
    """Whether it updates each element by its ``expression`` from those at the same place and from 0-d inputs alone.

    Then updates of several parameters can be computed side by side.
    """
    keeps_layouts: ClassVar[bool] = False
    """Whether it takes each input where it is, and leaves output ``i`` where input ``i`` is."""

    replays: ClassVar[bool] = True
    """Whether all that its kernel does in a run is to give work to the device; else it is run anew each time. A kernel
    that a user has written does where its class says so."""

    meets_all: ClassVar[bool] = False
    """Whether all ranks of the job run it together, those of other stages of a pipeline too."""

    keeps_dtypes: ClassVar[bool] = False
    """Whether it takes each input in the type that it has, whatever the precision of the network around it."""

    unread: tuple[int, ...] = ()
    """Inputs of which only shape and layout matter: the kernel does not read them."""
    reads_beyond: ClassVar[tuple[int, ...]] = ()
    """Dims along which a part of an output may need other elements of an input than its own part: ``reads`` says which.
    """

    saved_names: ClassVar[tuple[str, ...]] = ()
    """What strategy files call it, where that is not its own name: the first is written, all are read."""
    laid_out_as: ClassVar[int | None] = None
    """The input whose layout the parameters that it updates take, where no other operator lays them out."""

    step_of: Operator | None = None
    """The operator, as it was called, that is recorded as this one among others: they share its strategy."""
    scope: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        is_own = cls.__module__.partition(".")[0] != __name__.partition(".")[0]
        if is_own and "kernel" in vars(cls) and "replays" not in vars(cls):
            cls.replays = False

    def configured(self: Self, **attributes: object) -> Self:
        """Return a copy with other attributes."""
        # Several times as fast as copy.copy, and made for each node of a graph.
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        for name, value in attributes.items():
            setattr(twin, name, value)
        return twin

    def __call__(self, *inputs: Any) -> Any:
        """Apply the operator to tensors, arrays or numbers: record it in the active recorder, or compute it at once.

        Numbers take the dtype of the first tensor among the inputs; floats beside integers become float32. Returns its
        output, or the tuple of its outputs when there are several or it always gives one.
        """
        tensors = as_tensors(self.name, inputs)
        conversion = None if self.keeps_dtypes or self.updates else CONVERSION.get()
        if conversion is not None:
            tensors = conversion.inputs(self.name, tensors)
        recorder = RECORDER.get()
        results = self._computed(tensors) if recorder is None else recorder.record(self, tensors)
        if conversion is not None:
            results = conversion.outputs(self.name, results)
        return results[0] if len(results) == 1 and not self.gives_tuple else results

    def _computed(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        specs = self.infer(*(tensor.spec for tensor in tensors))
        inputs = [tensor.array for tensor in tensors]
        if self.is_view and (inputs[0].flags.c_contiguous or not self.needs_order):
            return (Tensor(self.view(inputs[0])),)
        communicator = world.current() if world.initialised() else None
        runtime = Runtime(communicator=communicator, random=next_random_state() if self.is_random else RandomState())
        parts = [Part.whole(tensor.shape) for tensor in tensors]
        local = self.local(parts, [Part.whole(spec.shape) for spec in specs])
        outputs = [np.empty(spec.shape, spec.dtype) for spec in specs]
        kernel = local.kernel(runtime, inputs, outputs)
        runtime.numbers.bring()
        with np.errstate(all="ignore"):
            kernel()
        return tuple(Tensor(output) for output in outputs)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the specs of the outputs; raise ShapeError when the inputs do not fit."""
        return (inputs[0],)

    @property
    def has_rule(self) -> bool:
        """Whether it says by an equation how it may be cut; collectives, which a user places by hand, do not."""
        return type(self).equation is not Operator.equation

    def equation(self, *inputs: TensorSpec) -> Equation:
        """Return the sharding rule for inputs of these global shapes."""
        raise NotImplementedError(self.name)

    def local(self: Self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Self:
        """Return the operator that computes these parts of the outputs from these parts of the inputs."""
        return self

    def reads(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> tuple[Box, ...]:
        """Return which elements of each input a rank needs that has these parts by the sharding rule.

        What it needs along one dim depends on the parts along that dim alone. ``local`` then gets what is read as the
        parts of the inputs.
        """
        return tuple(part.box for part in inputs)

    def cost(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Cost:
        """Return what it costs to compute outputs of these shapes, or a part of them, from inputs of these.

        By default the operations follow from the equation; views cost nothing.
        """
        if self.is_view:
            return Cost(0)
        operations = counted_operations(self.equation(*inputs), inputs, outputs)
        read = sum(spec.byte_count for index, spec in enumerate(inputs) if index not in self.unread)
        written = sum(spec.byte_count for spec in (*outputs, *(inputs[index] for index in self.updates)))
        return Cost(operations, read, written)

    def kernel_names(self, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> tuple[str, ...]:
        """Return the names of kernels that take as long as this one by their costs, the most alike first."""
        return (self.name, ELEMENTWISE) if type(self).expression is not Operator.expression else (self.name,)

    def expression(self, *inputs: Term) -> Sequence[Term] | None:
        """Return an element of each output, or of what is updated, by elements of the inputs.

        None where that is not how the outputs are computed. Inputs of float16 come as float32.
        """
        return None

    def view(self, array: Array) -> Array:
        """Return output 0 as a view of input 0, for an operator that is one."""
        raise NotImplementedError(self.name)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        """Bind the kernel to its arrays; each call of what is returned computes the outputs once."""
        targets = outputs or [inputs[position] for position in self.updates]
        terms = self.expression(*(widened(operand(place, one.shape, one.dtype)) for place, one in enumerate(inputs)))
        if terms is None:
            raise NotImplementedError(self.name)
        roots = [term.astype(target.dtype) for term, target in zip(terms, targets, strict=True)]
        return expression_kernel(runtime, roots, inputs, targets)

    def gradient(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], gradients: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """Return the gradient of each input, made of operators; None where there is none."""
        raise GradientError(f"the gradient of {self.name} is not defined; take it out of the differentiated part")

    def __repr__(self) -> str:
        attributes = ", ".join(
            f"{name}={value!r}"
            for name, value in vars(self).items()
            if name not in ("strategy", "out_strategy", "scope", "segment", "step_of")
        )
        return f"{self.name}({attributes})"


class Recorder(Protocol):
    """What writes operators down where they are applied, instead of letting them compute: the trace of a network."""

    def record(self, operator: Operator, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return what stands for the outputs of ``operator``; raise ShapeError when the inputs do not fit."""


RECORDER: ContextVar[Recorder | None] = ContextVar("recorder", default=None)
"""What operators are recorded in now; None where they compute at once."""


OPERATORS: Final[dict[str, type[Operator]]] = {}
"""The one registry of operators, by name: those that ``ops`` offers."""
Class = TypeVar("Class", bound=type[Operator])


def register(operator: Class) -> Class:
    """Enter an operator's class under its name; used as a decorator."""
    OPERATORS[operator.__name__] = operator
    return operator
