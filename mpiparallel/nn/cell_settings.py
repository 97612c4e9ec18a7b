"""What users say of a cell beside its construct: where its inputs and outputs lie, and what changes nothing here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.compatibility.remark import remark
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.ops.shapes.identity import Identity

ShardStrategy = tuple[tuple[int, ...] | None, ...]
Self = TypeVar("Self", bound="CellSettings")


class CellSettings:
    """The settings of a cell; what returns nothing else returns the cell."""

    _in_strategy: ShardStrategy | None = None
    _out_strategy: ShardStrategy | None = None
    _flags: dict[str, Any]

    def cells(self) -> Iterable[Any]:
        """Return the cells directly inside this one."""
        raise NotImplementedError(type(self).__name__)

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, each once."""
        raise NotImplementedError(type(self).__name__)

    def shard(
        self: Self, in_strategy: ShardStrategy, out_strategy: ShardStrategy | None = None, parameter_plan: Any = None
    ) -> Self:
        """Lay out the inputs as ``in_strategy`` says, and the outputs as ``out_strategy`` does; returns the cell.

        Each has a tuple of cuts for each tensor, or None for one that may lie anywhere. Operators inside that have no
        strategy take theirs from there. Raises ConfigurationError for ``parameter_plan``: shard the operators that use
        the parameters.
        """
        if parameter_plan is not None:
            raise ConfigurationError(
                f"{type(self).__name__}.shard: parameter_plan is not offered; shard the operators that use "
                "the parameters"
            )
        self._in_strategy, self._out_strategy = in_strategy, out_strategy
        return self

    def _laid_out(self, tensors: tuple[Any, ...], strategy: ShardStrategy | None, what: str) -> tuple[Any, ...]:
        if strategy is None:
            return tensors
        if len(strategy) != len(tensors):
            raise ConfigurationError(
                f"{type(self).__name__}.shard: {what} {strategy} has {len(strategy)} entries for {len(tensors)} tensors"
            )
        return tuple(
            Identity().shard((cuts,))(one) if cuts and isinstance(one, Tensor) else one
            for one, cuts in zip(tensors, strategy, strict=True)
        )

    def _laid_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._laid_out(inputs, self._in_strategy, "in_strategy")

    def _laid_outputs(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return self._laid_out(result, self._out_strategy, "out_strategy")
        return self._laid_out((result,), self._out_strategy, "out_strategy")[0]

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Call ``fn`` with each cell inside, those inside it first, and with the cell itself; returns the cell."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    @property
    def param_prefix(self) -> str:
        """What the names of the cell's parameters begin with: its place, empty for the outermost."""
        places = [one.name.rpartition(".")[0] for one in self.get_parameters(False)]
        return places[0] if places else ""

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Parameter, Parameter]:
        """Fill the parameters that have only an initializer yet, and return each with itself.

        Not needed: each rank fills its slices when the network is compiled. This fills whole parameters, also with
        ``auto_parallel_mode``, as a remark says.
        """
        no_effect(
            f"{type(self).__name__}.init_parameters_data",
            "auto_parallel_mode",
            auto_parallel_mode,
            "whole parameters are filled; call nothing, and each rank fills its slices",
            default=False,
        )
        parameters = list(self.get_parameters())
        for parameter in parameters:
            parameter.init_data()
        return {parameter: parameter for parameter in parameters}

    def get_flags(self) -> dict[str, Any]:
        """Return what ``add_flags`` has set."""
        return dict(self._flags)

    def extend_repr(self) -> str:
        """Return what is printed of the cell beside the cells inside it; subclasses may say more."""
        return ""

    def set_comm_fusion(self: Self, fusion_type: int, recurse: bool = True) -> Self:
        """Mark the gradients of the cell's parameters for one fused collective; kept as ``comm_fusion`` on each."""
        for parameter in self.get_parameters(recurse):
            parameter.comm_fusion = fusion_type
        return self

    def infer_param_pipeline_stage(self) -> list[Parameter]:
        """Return the parameters that require a gradient, of all stages: the optimizer of every rank takes them all."""
        remark("infer_param_pipeline_stage: returns the parameters of all stages; each stage updates its own of them")
        return [parameter for parameter in self.get_parameters() if parameter.requires_grad]

    def set_boost(self: Self, boost_type: str) -> Self:
        """Return the cell: MindSpore's network rewriting has no counterpart here."""
        return self._unchanged("set_boost", boost_type, "networks are run as they are written")

    def set_jit_config(self: Self, jit_config: Any) -> Self:
        """Return the cell, which is compiled in the one way there is."""
        return self._unchanged("set_jit_config", jit_config, "there is one compiler")

    def set_inputs(self: Self, *inputs: Any, **named: Any) -> Self:
        """Return the cell, which is compiled anew for each shape it is called with."""
        return self._unchanged("set_inputs", "...", "a cell is compiled anew for each shape")

    def set_broadcast_flag(self: Self, mode: bool = True) -> Self:
        """Return the cell, whose first values are the same on all ranks by seed and name."""
        return self._unchanged("set_broadcast_flag", f"mode={mode}", "first values are the same on all ranks")

    def set_auto_parallel(self: Self) -> Self:
        """Return the cell: the context says how it is cut."""
        return self._unchanged("set_auto_parallel", "", "set_auto_parallel_context says how a network is cut")

    def _unchanged(self: Self, method: str, given: Any, why: str) -> Self:
        remark(f"{type(self).__name__}.{method}({given if given == '' else repr(given)}) has no effect here: {why}")
        return self
