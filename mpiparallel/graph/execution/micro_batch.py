"""Random operators on a piece of the batch: they draw what the whole batch has there."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mpiparallel.errors import TraceError
from mpiparallel.graph.graph import Node, Value


def draw_as_whole_batch(nodes: Sequence[Node], pieces: Collection[Value], index: int, count: int) -> None:
    """Let random operators on piece ``index`` of ``count`` draw the numbers of the whole batch.

    ``nodes`` are all that were made of the ``pieces`` of the inputs. What does not depend on the batch is drawn alike
    for all pieces. Raises TraceError where rows of the batch do not lie along dim 0 of what is drawn for.
    """
    if not any(node.operator.is_random for node in nodes):
        return
    dims: dict[Value, int | None] = dict.fromkeys(pieces, 0)
    for node in nodes:
        if node.operator.is_random and node.inputs[0] in dims:
            if dims[node.inputs[0]] != 0:
                raise TraceError(
                    f"{node.name}: the rows of a micro-batch do not lie along dim 0 of its input, of shape "
                    f"{node.inputs[0].spec.shape}, so that its mask cannot be that of the whole batch; put it where "
                    "dim 0 is the batch"
                )
            node.operator = node.operator.configured(piece=(index, count))
        dims.update(_batch_dims(node, dims))


def _batch_dims(node: Node, dims: dict[Value, int | None]) -> dict[Value, int | None]:
    """Return along which dim of each output the rows of the batch lie, None for along no one; {} without any."""
    batched = [(place, dims[value]) for place, value in enumerate(node.inputs) if value in dims]
    if not batched:
        return {}
    if node.operator.needs_order and batched[0] == (0, 0):
        # Elements stay in their order, so the pieces of the batch still follow one another.
        return {node.outputs[0]: 0}
    # An input that has no rows, such as a mean over them, leaves the rows of the others where they are.
    labels = {node.equation.inputs[place][dim] for place, dim in batched if dim is not None}
    label = labels.pop() if len(labels) == 1 else None
    found = zip(node.outputs, node.equation.outputs, strict=True)
    return {value: named.index(label) if label is not None and label in named else None for value, named in found}
