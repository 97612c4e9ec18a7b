"""A network that takes a batch in pieces, which the stages of a pipeline work on at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from math import gcd, inf
from typing import Any, Final

from mpiparallel import ops
from mpiparallel.compatibility.arguments import only
from mpiparallel.compatibility.remark import remark
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.micro_batch import draw_as_whole_batch
from mpiparallel.graph.graph import Value
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import active_trace
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.first_reader import first_reader
from mpiparallel.nn.wrap.layer_stages import layers_of, put_by_cost, put_by_counts, put_by_names

_AUTO: Final = "auto"


class PipelineCell(Cell):
    """``network`` on each of ``micro_size`` equal pieces of a batch, of dim 0 of each input: its micro-batches.

    Of 0-d outputs, such as a loss, it returns the mean over the micro-batches. If the loss is a mean over samples, that
    is the loss of the batch. Other outputs are joined along dim 0. Dropout draws the masks of the whole batch. With
    ``pipeline_stages`` above 1, micro-batches pass the stages one after another; else they are computed in turn.

    Parameters
    ----------
    network : Cell
        What is called on each micro-batch.
    micro_size : int or "auto"
        The number of micro-batches. Out of training, a batch that it does not divide is taken in fewer pieces. "auto"
        is 1, unless ``auto_parallel_search_mode="everything"`` finds another.
    stage_config : mapping of str to int, optional
        The stages of cells inside ``network``, by their names, as setting ``pipeline_stage`` of a cell does.
    segment_config : None
        MindSpore's; other values are refused.
    stages : list or "auto", optional
        For each stage how many layers it has, ``[2, 4]``, or which cells, by names in which ``*`` stands for any
        letters, ``[["embedding", "blocks.[0-2]"], "head*"]``. Layers are the cells of ``network`` in order, or of what
        it is the loss of. In place of a list of cells stand those in it. With "auto" the slowest stage takes the least
        time that it can, by the costs of the operators.
    stage_memory : float, optional
        How many bytes a rank may need at most with ``stages="auto"``, for parameters, as Adam trains them, and for the
        activations that its schedule holds.

    Raises
    ------
    ConfigurationError
        For wrong arguments, and when called in training on a batch that ``micro_size`` does not divide.

    Examples
    --------
    >>> import numpy as np
    >>> from mpiparallel import nn
    >>> network = PipelineCell(nn.WithLossCell(nn.Dense(2, 1, "ones", "zeros"), nn.MSELoss()), 2)
    >>> float(network(Tensor(np.ones((4, 2), np.float32)), Tensor(np.zeros((4, 1), np.float32))))
    4.0
    """

    def __init__(
        self,
        network: Cell,
        micro_size: int | str,
        stage_config: Mapping[str, int] | None = None,
        segment_config: Any = None,
        stages: Sequence[Any] | str | None = None,
        stage_memory: float = inf,
    ) -> None:
        super().__init__(auto_prefix=False)
        only("PipelineCell", "segment_config", segment_config, None)
        self.finds_size = micro_size == _AUTO
        size = 1 if self.finds_size else micro_size
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ConfigurationError(f"PipelineCell: micro_size {micro_size!r} must be an integer of at least 1")
        self.micro_size = size
        self.network = network
        # Its operators, and so its random numbers, are named as without this cell.
        network._scope = ""
        _set_stages(network, stage_config or {})
        self._cuts_itself = stages == _AUTO
        self._stage_memory = stage_memory
        self._cut_for: object = None
        self._recomputed: tuple[Cell, ...] = ()
        if stages is not None and not self._cuts_itself:
            self.put_in_stages(stages)

    @property
    def layers(self) -> tuple[Cell, ...]:
        """The layers of the network, as ``stages`` counts them."""
        return tuple(cell for _, cell in layers_of(_of_loss(self.network)))

    @property
    def cuts_itself(self) -> bool:
        """Whether it puts layers into stages by what they cost."""
        return self._cuts_itself

    @property
    def recomputable(self) -> tuple[int, ...]:
        """The numbers of the layers that a search may recompute: those of which the user has not said that they are."""
        free = (cell._recompute is None or cell in self._recomputed for cell in self.layers)
        return tuple(number for number, is_free in enumerate(free) if is_free)

    def take(self, micro_size: int, recomputes: Collection[int]) -> None:
        """Take the batch in so many micro-batches, and recompute the layers of these numbers, as a search has found.

        What the user has said of a layer stays.
        """
        free, layers = self.recomputable, self.layers
        self.micro_size = micro_size
        for cell in self._recomputed:
            cell._recompute = None
        self._recomputed = tuple(layers[number] for number in free if number in recomputes)
        for cell in self._recomputed:
            cell.recompute()
        if self._cuts_itself:
            self._cut_for = None
            for cell in layers:
                cell.pipeline_stage = None

    def construct(self, *inputs: Any) -> Any:
        """Return what the network returns, of all micro-batches together."""
        return self.split(self.network, *inputs)

    def put_in_stages(self, stages: Any) -> None:
        """Put the cells of the network into stages: numbers of layers, or names of cells, for each.

        Raises ConfigurationError for what is neither, and where the cell chooses its stages by their costs.
        """
        if self._cuts_itself:
            raise ConfigurationError(
                f'PipelineCell: stages {stages!r} are given to a network that was made with stages="auto", which '
                "chooses them itself; leave them out"
            )
        _put_in_stages(_of_loss(self.network), stages)

    def split(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """Return what ``function``, which calls the network, returns of all micro-batches together."""
        trace = active_trace()
        if trace is not None and trace.notes.micro_batch is not None:
            return function(*inputs)
        count = self._count(function, inputs)
        if trace is not None and self._cuts_itself:
            self._cut(function, [_piece(item, 0, count) for item in inputs])
        results = []
        for number in range(count):
            with nullcontext() if trace is None else trace.of_micro_batch(number):
                pieces = [_piece(item, number, count) for item in inputs]
                made = 0 if trace is None else len(trace.graph.nodes)
                results.append(function(*pieces))
            if trace is not None:
                values = [trace.value_of(one) for one in pieces if isinstance(one, Tensor) and one.ndim]
                draw_as_whole_batch(trace.graph.nodes[made:], values, number, count)
        return _together(results)

    def _cut(self, function: Callable[..., Any], pieces: Sequence[Any]) -> None:
        """Put the layers into stages, once for the stages that there are: evaluation takes those of training."""
        configuration = current_configuration()
        cut_for = (configuration.ranks_of_stages, configuration.pipeline_schedule)
        if configuration.pipeline_stages > 1 and cut_for != self._cut_for:
            self._cut_for = cut_for
            put_by_cost(_of_loss(self.network), function, pieces, self.micro_size, self._stage_memory, configuration)

    def _count(self, function: Callable[..., Any], inputs: Sequence[Any]) -> int:
        """Return in how many pieces the inputs are taken."""
        count = self.micro_size
        rows = {place: item.shape[0] for place, item in enumerate(inputs) if isinstance(item, Tensor) and item.ndim}
        for place, item in enumerate(inputs):
            if isinstance(item, (tuple, list, dict)):
                raise ConfigurationError(
                    f"PipelineCell: input {place} is a {type(item).__name__}; give tensors, each with the batch in its "
                    "dim 0"
                )
        if len(set(rows.values())) > 1:
            raise ConfigurationError(
                f"PipelineCell: its inputs have {', '.join(map(str, rows.values()))} rows; give each as many in dim 0, "
                "for micro-batches are cut from all of them alike"
            )
        for place, extent in rows.items():
            if extent % count and self.training:
                trace = active_trace()
                reader = "" if trace is None else first_reader(trace, function, inputs, inputs[place])
                raise ConfigurationError(
                    f"PipelineCell: micro_size {count} does not divide the {extent} rows of input {place}"
                    f"{f', which {reader} reads first' if reader else ''}; take a batch_size that it divides, or "
                    "drop_remainder=True"
                )
            count = gcd(count, extent) or 1
        return count


def _of_loss(network: Cell) -> Cell:
    """Return the network that one with a loss is made of."""
    backbone: Cell = getattr(network, "backbone_network", network)
    return backbone


def _put_in_stages(network: Cell, stages: Any) -> None:
    if isinstance(stages, (list, tuple)) and stages:
        if all(isinstance(one, int) for one in stages):
            put_by_counts(network, stages)
            return
        named = [[one] if isinstance(one, str) else one for one in stages]
        if all(isinstance(one, (list, tuple)) and all(isinstance(name, str) for name in one) for one in named):
            put_by_names(network, named)
            return
    raise ConfigurationError(
        f"PipelineCell: stages {stages!r} are not a number of layers for each stage, like [2, 4], nor names of cells "
        f"for each, like [['embedding', 'blocks.0'], ['blocks.1']], nor {_AUTO!r}"
    )


def _set_stages(network: Cell, stages: Mapping[str, int]) -> None:
    cells = dict(network.cells_and_names())
    for name, stage in stages.items():
        if not name or name not in cells:
            raise ConfigurationError(
                f"PipelineCell: stage_config has {name!r}, and the network has no such cell; there are "
                f"{', '.join(filter(None, cells))}"
            )
        cells[name].pipeline_stage = stage


def _piece(item: Any, number: int, count: int) -> Any:
    if count == 1 or not isinstance(item, Tensor) or not item.ndim:
        return item
    rows = item.shape[0] // count
    return item[number * rows : (number + 1) * rows]


def _remark_on_sums(loss: Value) -> None:
    """Say so once where a loss, which is averaged over the micro-batches, is made of sums over samples."""
    scalars = [loss]
    for value in scalars:
        node = value.node
        if node is None:
            continue
        if node.operator.name != "ReduceMean" and getattr(node.operator, "reduction", "") == "sum":
            remark(
                f"PipelineCell: the loss is the mean of those of the micro-batches, and {node.name} is a sum: it "
                "is that of the whole batch only where it is a mean over samples, and as many of each micro-batch count"
            )
            return
        scalars += (one for one in node.inputs if not one.spec.shape and one not in scalars)


def _together(results: Sequence[Any]) -> Any:
    first = results[0]
    if isinstance(first, (tuple, list)):
        return tuple(_together(each) for each in zip(*results, strict=True))
    if len(results) == 1 or not isinstance(first, Tensor):
        return first
    if first.ndim:
        return ops.Concat()(list(results))
    trace = active_trace()
    if trace is not None:
        _remark_on_sums(trace.value_of(first))
    total = first
    for one in results[1:]:
        total = total + one
    return total * (1.0 / len(results))
