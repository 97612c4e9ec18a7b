"""Cells: networks made of parameters, operators and other cells."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, ClassVar

import numpy as np

from mpiparallel.compatibility.arguments import no_effect, only
from mpiparallel.compile.sharded_graph import ShardedGraph
from mpiparallel.compile.staged_graph import StagedGraph
from mpiparallel.compile.structure import with_defaults
from mpiparallel.context.compiled_function import CompiledFunction
from mpiparallel.context.own_method import OwnMethod
from mpiparallel.context.settings import current_configuration
from mpiparallel.dtype import is_floating
from mpiparallel.errors import ConfigurationError, TraceError
from mpiparallel.graph.input_conversion import converting
from mpiparallel.graph.operator_settings import Segment
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.precision import OneType, Precision, cast_float, cast_floats
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace
from mpiparallel.graph.written_gradient import WrittenGradient
from mpiparallel.nn.cell_attributes import attributes_of
from mpiparallel.nn.cell_settings import CellSettings
from mpiparallel.nn.initializer import initializer
from mpiparallel.parallel.configuration import ParallelConfiguration


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of parameters, such as those that an optimizer trains.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> len(ParameterTuple(nn.Dense(2, 3).get_parameters()))
    2
    """

    def clone(self, prefix: str, init: Any = "same") -> ParameterTuple:
        """Return new parameters of the same shapes and dtypes, named ``prefix.name``.

        ``init`` is an Initializer, the name of one, or a number; "same" takes the values that they have.
        """
        if isinstance(init, str) and init.lower() == "same":
            return ParameterTuple(parameter.clone().renamed(f"{prefix}.{parameter.name}") for parameter in self)
        first: Any = initializer(init).initial if isinstance(init, (str, int, float)) else init
        return ParameterTuple(parameter.twin(prefix, first) for parameter in self)


class Cell(CellSettings):
    """A network, or a part of one, written as for one device.

    A subclass makes its parameters, operators and cells in ``__init__`` and uses them in ``construct``. Called on
    tensors in graph mode it is traced, cut by its strategies and the parallel context, compiled and run. In PyNative
    mode ``construct`` runs operator by operator. What it returns is whole on every rank.

    Where a subclass has ``bprop(self, *inputs, out, dout)``, that is its gradient. It is given what ``construct`` was
    given, what it has returned, and the gradient of the latter. It returns a tuple of a gradient for each input, None
    for what has none. It is cut as its inputs are; parameters inside get a gradient of zero, as in MindSpore.

    Parameters
    ----------
    auto_prefix : bool
        Whether parameters inside are named by their places in the cell.
    flags : dict, optional
        What ``add_flags`` is given.

    Notes
    -----
    ``construct`` of a subclass takes and returns tensors of whole shapes: no rank's slice is seen in it.

    Examples
    --------
    >>> from mpiparallel import Tensor
    >>> class Double(Cell):
    ...     def construct(self, x):
    ...         return x * 2
    >>> Double()(Tensor([1.0, 4.0])).asnumpy().tolist()
    [2.0, 8.0]
    """

    _whole_inputs = False
    keeps_float32: ClassVar[bool] = False
    """Whether mixed precision leaves it in float32: what normalises, and losses."""
    _parameters: dict[str, Parameter]
    _named_in_tuples: dict[str, Parameter]
    _cells: dict[str, Cell]

    def __init__(self, auto_prefix: bool = True, flags: Any = None) -> None:
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_named_in_tuples", {})
        object.__setattr__(self, "_cells", {})
        self._auto_prefix = auto_prefix
        self._scope = ""
        self._compiled = CompiledFunction(OwnMethod(self._construct_scoped), self._whole_inputs)
        self._precision: Precision | None = None
        self._result_type: np.dtype[Any] | None = None
        self._flags: dict[str, Any] = {}
        self._recompute: dict[str, bool] | None = None
        self.training = False
        self.pipeline_stage: int | None = None
        self.add_flags(**(flags or {}))

    def construct(self, *inputs: Any) -> Any:
        """Return the outputs of the network; every subclass says how."""
        raise TraceError(f"{type(self).__name__} has no construct; define construct(self, ...)")

    def __setattr__(self, name: str, item: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise ConfigurationError(f"{type(self).__name__}: call super().__init__() before setting {name!r}")
        self._parameters.pop(name, None)
        self._cells.pop(name, None)
        if isinstance(item, Parameter):
            self._take_parameter(name, item)
        elif isinstance(item, ParameterTuple):
            self._take_tuple(name, item)
        elif isinstance(item, Cell):
            self._take_cell(name, item)
        object.__setattr__(self, name, item)

    def _take_parameter(self, name: str, parameter: Parameter) -> None:
        if parameter.name == "Parameter":
            parameter.name = name
        self._parameters[name] = parameter
        parameter.is_held = True

    def _take_tuple(self, name: str, parameters: ParameterTuple) -> None:
        for parameter in parameters:
            self._parameters[f"{name}.{parameter.name}"] = parameter
            if self._auto_prefix and not parameter.is_held:
                self._named_in_tuples[parameter.name] = parameter
                parameter.is_held = True

    def _take_cell(self, name: str, cell: Cell) -> None:
        cell._scope = name
        self._cells[name] = cell
        if self._auto_prefix:
            cell.update_parameters_name(f"{name}.")

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        """Add a cell under a name."""
        setattr(self, child_name, child_cell)

    def insert_param_to_cell(self, param_name: str, param: Parameter, check_name_contain_dot: bool = True) -> None:
        """Add a parameter under a name.

        Raises ConfigurationError for what is no parameter and, unless ``check_name_contain_dot`` is False, for a name
        with a dot: names of places in cells have dots.
        """
        if not isinstance(param, Parameter):
            raise ConfigurationError(f"insert_param_to_cell: {param_name!r} is a {type(param).__name__}, no Parameter")
        if check_name_contain_dot and "." in param_name:
            raise ConfigurationError(f"insert_param_to_cell: param_name {param_name!r} has a dot; leave it out")
        setattr(self, param_name, param)

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name the parameters ``prefix`` and their places in the cell.

        A tuple names those that no cell held before, as if they stood beside it: ``net.w0``, as MindSpore does.
        """
        seen: set[int] = set()
        for place, cell in self.cells_and_names() if recurse else [("", self)]:
            attributes = [(name, one) for name, one in cell._parameters.items() if name in cell.__dict__]
            for name, parameter in (*attributes, *cell._named_in_tuples.items()):
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    parameter.name = f"{prefix}{place}.{name}" if place else prefix + name

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Return ``construct(*inputs, **options)``: traced, run at once, or compiled and run, as the context says."""
        return self._compiled(*self._arguments(inputs, options))

    @property
    def _has_bprop(self) -> bool:
        return hasattr(self, "bprop")

    def _construct_scoped(self, *inputs: Any, **options: Any) -> Any:
        trace = active_trace()
        with ExitStack() as places:
            if trace is not None:
                places.enter_context(trace.depending_on(OwnMethod(self._training_flags), OwnMethod(self._attributes)))
            if trace is not None and self._scope:
                places.enter_context(trace.scope(self._scope))
            if trace is not None and self.pipeline_stage is not None:
                places.enter_context(trace.in_stage(self.pipeline_stage))
            if trace is not None and self._recompute is not None:
                places.enter_context(trace.recomputed(Segment(**self._recompute)))
            given, named = inputs, options
            if isinstance(self._precision, OneType):
                given = tuple(cast_float(item, self._precision.dtype) for item in inputs)
                named = {name: cast_float(item, self._precision.dtype) for name, item in options.items()}
            given = self._laid_inputs(given)
            with self._computing():
                result = self._laid_outputs(self.construct(*given, **named))
            if trace is not None and self._has_bprop:
                where, what = type(self).__name__, "inputs of construct"
                result = WrittenGradient(where, self._bprop, given, named, result, what).applied()
            result = cast_floats(result, self._result_type)
        all_traced = all(isinstance(item, Tensor) and item.value is not None for item in inputs)
        if trace is not None and all_traced and not options:
            trace.keep_result(self, tuple(trace.value_of(item) for item in inputs), result)
        return result

    def _bprop(self, *given: Any, **options: Any) -> Any:
        with self._computing():
            return self.bprop(*given, **options)  # type: ignore[attr-defined]

    def _computing(self) -> AbstractContextManager[None]:
        return nullcontext() if self._precision is None else converting(self._precision)

    def _training_flags(self) -> tuple[object, ...]:
        cells = (cell for _, cell in self.cells_and_names())
        return tuple(
            (one.training, one._precision, one._result_type, str(one._recompute), *one._flags.items()) for one in cells
        )

    def _attributes(self) -> tuple[object, ...]:
        return tuple(attributes_of(one) for _, one in self.cells_and_names())

    def compile(self, *inputs: Any, **options: Any) -> None:
        """Trace, cut and compile the network for inputs of these shapes, so that the first call finds it ready."""
        self._compiled.compile(self._arguments(inputs, options))

    def _arguments(self, inputs: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """Return the arguments as the compiled function takes them."""
        if not options and not self._has_bprop:
            return inputs
        return with_defaults(f"{type(self).__name__}.construct", inspect.signature(self.construct), inputs, options)

    @property
    def program(self) -> CompiledFunction:
        """The cell as a function that is compiled for the inputs it is called on."""
        return self._compiled

    def sharded_graph(
        self, *inputs: Any, configuration: ParallelConfiguration | None = None, **options: Any
    ) -> ShardedGraph:
        """Return the traced network with the layout of every value; needs no MPI and no devices.

        Of a network in stages it is the graph of this rank's stage.
        """
        rank = (configuration or current_configuration()).rank
        return self.staged_graph(*inputs, configuration=configuration, **options).of_rank(rank)

    def staged_graph(
        self, *inputs: Any, configuration: ParallelConfiguration | None = None, **options: Any
    ) -> StagedGraph:
        """Return the graphs of all stages, one where there are none, with the layout of every value."""
        return self._compiled.shard(self._arguments(inputs, options), configuration)

    def cells(self) -> Iterable[Cell]:
        """Return the cells directly inside this one."""
        return self._cells.values()

    def name_cells(self) -> dict[str, Cell]:
        """Return the cells directly inside this one by name."""
        return dict(self._cells)

    def cells_and_names(self, cells: Any = None, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """Yield this cell and all inside it with their names.

        ``cells`` is MindSpore's own way to go on inside; raises ConfigurationError where it is given.
        """
        only("cells_and_names", "cells", cells, None)
        yield name_prefix, self
        for name, cell in self._cells.items():
            yield from cell.cells_and_names(name_prefix=f"{name_prefix}.{name}" if name_prefix else name)

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        for _, parameter in self.parameters_and_names(expand=expand):
            yield parameter

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their places in the cell, each once."""
        seen: set[int] = set()
        for place, cell in self.cells_and_names(name_prefix=name_prefix) if expand else [(name_prefix, self)]:
            for name, parameter in cell._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{place}.{name}" if place else name), parameter

    def parameters_dict(self, recurse: bool = True) -> dict[str, Parameter]:
        """Return the parameters by name."""
        return {parameter.name: parameter for parameter in self.get_parameters(recurse)}

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the parameters that require a gradient."""
        return [parameter for parameter in self.get_parameters(recurse) if parameter.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the parameters that require none."""
        return [parameter for parameter in self.get_parameters(recurse) if not parameter.requires_grad]

    def set_train(self, mode: bool = True) -> Cell:
        """Say whether dropout and the like behave as in training; returns the cell."""
        for _, cell in self.cells_and_names():
            cell.training = mode
        return self

    def to_float(self, dst_type: Any) -> Cell:
        """Let this cell and all inside it compute in a float type; returns the cell.

        Inputs, parameters and constants of floats are cast where they are used; parameters, and so what is trained and
        saved, keep their own type. Raises ConfigurationError for a type that is no float.

        >>> from mpiparallel import Tensor, nn
        >>> nn.Dense(2, 3).to_float("float16")(Tensor([[1.0, 2.0]])).dtype
        mpiparallel.float16
        """
        try:
            precision = np.dtype(dst_type)
        except TypeError:
            precision = np.dtype(np.object_)
        if not is_floating(precision):
            raise ConfigurationError(
                f"{type(self).__name__}.to_float: {dst_type!r} is not one of bfloat16, float16, float32, float64"
            )
        for _, cell in self.cells_and_names():
            cell.set_precision(OneType(precision))
        return self

    @property
    def precision(self) -> Precision | None:
        """In which float types it computes, where that has been said."""
        return self._precision

    def set_precision(self, precision: Precision | None, result_type: np.dtype[Any] | None = None) -> None:
        """Let this cell, but not those inside that have their own, compute in ``precision``.

        The floats that it returns are of ``result_type``; None leaves them as they are computed.
        """
        self._precision, self._result_type = precision, result_type

    def recompute(self, mp_comm_recompute: bool = True, parallel_optimizer_comm_recompute: bool = False) -> Cell:
        """Keep nothing that this cell computes for the gradient, but compute it once more there; returns the cell.

        A step then takes longer and less memory: of the cell, only its inputs are kept. Results are bit for bit the
        same. With ``parallel_optimizer_comm_recompute`` its weights are gathered from the optimizer's shards once more
        too, rather than kept whole. Raises ConfigurationError for ``mp_comm_recompute=False``: what collectives bring
        is recomputed too.
        """
        if not mp_comm_recompute:
            raise ConfigurationError(
                f"{type(self).__name__}.recompute: mp_comm_recompute=False is not offered: collectives run again with "
                "what is recomputed; leave it out"
            )
        self._recompute = {"regathers": parallel_optimizer_comm_recompute}
        return self

    def add_flags(self, **flags: Any) -> Cell:
        """Set attributes on which what is compiled may depend; returns the cell.

        ``fp16=True`` and ``fp32=True`` stand for ``to_float``. Raises ConfigurationError for what cannot be compared.
        """
        for name, item in flags.items():
            if not isinstance(item, (bool, int, float, str)):
                raise ConfigurationError(f"{type(self).__name__}: flag {name}={item!r} must be a number or a text")
            self._flags[name] = item
            setattr(self, name, item)
        for name, precision in (("fp16", np.float16), ("fp32", np.float32)):
            if flags.get(name):
                self.set_precision(OneType(np.dtype(precision)))
        return self

    def add_flags_recursive(self, **flags: Any) -> Cell:
        """Set attributes, as ``add_flags`` does, of this cell and all inside it; returns the cell."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Return the cell; gradients are made wherever they are asked for, as a remark says of False."""
        no_effect("Cell.set_grad", "requires_grad", requires_grad, "gradients are made where they are asked for", True)
        return self

    def forget_programs(self) -> None:
        """Drop the compiled programs of this cell and all inside it, because parameters have moved."""
        for _, cell in self.cells_and_names():
            cell._compiled.forget()

    def __repr__(self) -> str:
        inside = "".join(f"\n({name}): {cell!r}".replace("\n", "\n  ") for name, cell in self._cells.items())
        return f"{type(self).__name__}({self.extend_repr()}{inside}{chr(10) if inside else ''})"
