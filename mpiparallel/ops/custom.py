"""An operator whose kernel is a Python function of arrays, by MindSpore's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.errors import ConfigurationError, GradientError, ShapeError
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import Runtime
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace
from mpiparallel.graph.written_gradient import WrittenGradient

_PYTHON = "pyfunc"
Tensors = Sequence[Tensor]


@register
class Custom(Operator):
    """A Python function of arrays as an operator of a network.

    Parameters
    ----------
    func : callable
        Takes one array for each input, which it must not change, and returns one for each output, several in a tuple.
        On a GPU the arrays are CuPy's.
    out_shape, out_dtype : tuple or dtype, or callable
        Shape and dtype of the output; of several outputs, lists of these. Functions are given the shapes, or the
        dtypes, of the inputs. Without them they are those of the first input.
    func_type : {"pyfunc"}
        MindSpore's other kinds compile code for its devices. They are refused.
    bprop : callable, optional
        ``bprop(*inputs, out, dout)`` returns the gradient of each input, made of operators, as ``Cell.bprop`` does.
    reg_info : optional
        MindSpore's; without effect.
    equation : str, optional
        Which dims may be cut, one letter a dim. It is ``"bn->bn"`` for a function of each element, ``"bn->b"`` for one
        of rows of which the parts of a row are summed. Small letters may be cut, capital ones not. ``func`` is then
        given the parts of a rank. Without it every rank computes the whole.

    Raises
    ------
    ConfigurationError
        Where ``func`` is no function, or ``equation`` no equation of it.
    ShapeError
        Where ``func`` returns other arrays than it was said to.

    Examples
    --------
    >>> from mpiparallel import Tensor, ops
    >>> double = ops.Custom(lambda x: x + x, lambda x: x, lambda x: x, "pyfunc", equation="n->n")
    >>> double(Tensor([1.0, 2.0])).asnumpy()
    array([2., 4.], dtype=float32)
    """

    replays = False

    def __init__(
        self,
        func: Callable[..., Any],
        out_shape: Any = None,
        out_dtype: Any = None,
        func_type: str = "pyfunc",
        bprop: Callable[..., Any] | None = None,
        reg_info: Any = None,
        *,
        equation: str | None = None,
    ) -> None:
        if func_type != _PYTHON:
            raise ConfigurationError(
                f"Custom: func_type {func_type!r} compiles code for MindSpore's devices; write func with arrays, and "
                f"say func_type={_PYTHON!r}"
            )
        for name, given in {"func": func, "bprop": bprop}.items():
            if not callable(given) and not (name == "bprop" and given is None):
                raise ConfigurationError(f"Custom: {name} {given!r:.60} is no function; give one of arrays")
        no_effect("Custom", "reg_info", reg_info, "a Python function needs no registration")
        self.func = func
        self.out_shape = out_shape
        self.out_dtype = out_dtype
        self.bprop = bprop
        self.sharding = equation

    @property
    def title(self) -> str:
        """Whose function it is, for messages."""
        return f"Custom {getattr(self.func, '__name__', type(self.func).__name__)!r}"

    def __call__(self, *inputs: Any) -> Any:
        """Return what the function makes of the inputs: a tensor, or a tuple of several."""
        result = super().__call__(*inputs)
        if self.bprop is None or active_trace() is None:
            return result
        return WrittenGradient(self.title, self.bprop, inputs, {}, result).applied()

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        self.equation(*inputs)
        return self._outputs(inputs)

    def _outputs(self, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
        shapes = _said(self.out_shape, [one.shape for one in inputs])
        dtypes = _said(self.out_dtype, [one.dtype for one in inputs])
        shapes = shapes if _is_several(shapes) else [shapes]
        dtypes = dtypes if isinstance(dtypes, (tuple, list)) else [dtypes] * len(shapes)
        if len(shapes) != len(dtypes):
            raise ShapeError(
                f"{self.title}: out_shape has {len(shapes)} outputs, out_dtype {len(dtypes)}; say both alike"
            )
        return tuple(TensorSpec(tuple(shape), np.dtype(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True))

    def equation(self, *inputs: TensorSpec) -> Equation:
        outputs = self._outputs(inputs)
        if self.sharding is None:
            return _uncut(inputs, outputs)
        letters = "".join(letter for letter in self.sharding if letter.isalpha())
        found = Equation.parse(self.sharding, "".join(filter(str.isupper, letters))) if "->" in self.sharding else None
        ranks = [[len(one.shape) for one in specs] for specs in (inputs, outputs)]
        if found is None or [[len(labels) for labels in side] for side in (found.inputs, found.outputs)] != ranks:
            dims = " -> ".join(", ".join(map(str, side)) for side in ranks)
            raise ConfigurationError(
                f"{self.title}: equation {self.sharding!r} does not fit tensors of {dims} dims; write one letter a dim"
            )
        return found

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        copyto, given = runtime.array_module.copyto, [_protected(array) for array in inputs]

        def run() -> None:
            returned = self.func(*given)
            results = returned if isinstance(returned, (tuple, list)) else (returned,)
            if len(results) != len(outputs):
                raise ShapeError(f"{self.title} returned {len(results)} arrays, not the {len(outputs)} of out_shape")
            for place, (target, result) in enumerate(zip(outputs, results, strict=True)):
                shape = np.shape(result)
                if shape != target.shape:
                    raise ShapeError(f"{self.title} returned shape {shape} for output {place}, not {target.shape}")
                copyto(target, result)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        raise GradientError(f"{self.title} has no bprop; give Custom one, or take it out of the differentiated part")


def _said(told: Any, of_inputs: list[Any]) -> Any:
    if told is None:
        return of_inputs[0]
    return told(*of_inputs) if callable(told) and not isinstance(told, type) else told


def _is_several(shapes: Any) -> bool:
    return bool(shapes) and all(isinstance(one, (tuple, list)) for one in shapes)


def _uncut(inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]) -> Equation:
    """Return the rule of a function that needs all of its inputs: nothing is cut."""
    labels = [tuple(f"{place}d{dim}" for dim in range(len(one.shape))) for place, one in enumerate((*inputs, *outputs))]
    whole = frozenset(label for of_one in labels for label in of_one)
    return Equation(tuple(labels[: len(inputs)]), tuple(labels[len(inputs) :]), whole)


def _protected(array: Array) -> Array:
    """Return a view that cannot be written, where arrays know such views."""
    seen = array[...]
    if isinstance(seen, np.ndarray):
        seen.flags.writeable = False
    return seen
