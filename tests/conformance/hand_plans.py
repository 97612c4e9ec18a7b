"""The plans that people make by hand for a Transformer: data parallel, Megatron's cuts, and both together."""

from __future__ import annotations

from collections.abc import Iterator

from tests.conformance.searched_networks import Transformer


def cut_by_hand(network: Transformer, data: int, model: int) -> Transformer:
    """Cut the batch into ``data`` parts, and heads and inner columns into ``model``, after which rows are summed.

    ``model=1`` is data parallel, ``data=1`` is Megatron's MLP and attention.
    """
    rows, columns = (data, 1), (data, model)
    heads = (data, model, 1, 1)
    for layer in network.layers:
        for product in (layer.query, layer.key, layer.value, layer.wide):
            product.shard((rows, (1, model)))
        for product in (layer.output, layer.narrow):
            product.shard((columns, (model, 1)))
        layer.add_wide.shard((columns, (model,)))
        layer.add_narrow.shard((rows, (1,)))
        layer.gelu.shard((columns,))
        layer.softmax.shard((heads,))
        for product in (layer.scores, layer.context):
            product.shard((heads, heads))
        for turn in layer.turns[:3]:
            turn.shard(((data, 1, model, 1),))
        layer.turns[3].shard((heads,))
        for add in (layer.add_first, layer.add_second):
            add.shard((rows, rows))
        for norm in (layer.first_norm, layer.second_norm):
            norm.layer_norm.shard((rows, (1,), (1,)))
    return network


def degrees(ranks: int, batch: int, heads: int) -> Iterator[tuple[int, int]]:
    """Yield how many parts of the batch and of the model there may be on so many ranks.

    >>> list(degrees(8, batch=4, heads=4))
    [(2, 4), (4, 2)]
    """
    for data in range(1, ranks + 1):
        if ranks % data == 0 and data <= batch and ranks // data <= heads:
            yield data, ranks // data
