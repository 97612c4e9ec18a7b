"""What the layers of encoder and decoder are made of: normalised sublayers with a residual, and their placement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mpiparallel import ops
from mpiparallel.compatibility.arguments import no_effect
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.containers import CellList
from mpiparallel.nn.layer_norm import LayerNorm
from mpiparallel.nn.transformer.attention import at_least
from mpiparallel.nn.transformer.op_parallel_config import DpMpConfig, TransformerOpParallelConfig

LayerFunction = Callable[..., Any]
"""``lambda_func(network, layer_id=, offset=, parallel_config=, layers=)``, called on each layer that is made."""

_EPSILON = 1e-5


class TransformerBlock(Cell):
    """A layer whose sublayers work on normalised rows (batch * length, hidden), cut by batch, beside a residual."""

    def __init__(
        self, post_layernorm_residual: bool, layernorm_compute_type: Any, param_init_type: Any, config: DpMpConfig
    ) -> None:
        super().__init__()
        self.post_layernorm_residual = post_layernorm_residual
        self.layernorm_compute_type = layernorm_compute_type
        self.param_init_type = np.dtype(param_init_type)
        rows = (config.data_parallel, 1)
        self._rows = rows
        self.add = ops.Add().shard((rows, rows))

    def new_layer_norm(self, hidden_size: int) -> LayerNorm:
        """Return a normalisation of rows."""
        cell = LayerNorm((hidden_size,), epsilon=_EPSILON, dtype=self.param_init_type)
        cell.layer_norm.shard((self._rows, (1,), (1,)))
        return cell

    def rows(self, x: Tensor) -> Tensor:
        """Return a tensor (..., hidden) as rows, in the dtype of the parameters at least."""
        flat = x if x.ndim == 2 else x.reshape((-1, x.shape[-1]))
        return at_least(flat, self.param_init_type)

    def normalised(self, layer_norm: LayerNorm, x: Tensor) -> Tensor:
        """Return ``layer_norm(x)``, computed in ``layernorm_compute_type`` at least."""
        y: Tensor = layer_norm(at_least(x, self.layernorm_compute_type))
        return y.astype(x.dtype) if y.dtype != x.dtype else y

    def residual(self, x: Tensor, normalised: Tensor, sublayer: Tensor) -> Tensor:
        """Return the sublayer's output added to ``x``, or with ``post_layernorm_residual`` to the normalised ``x``."""
        total: Tensor = self.add(normalised if self.post_layernorm_residual else x, sublayer)
        return total


def stack(
    make_layer: Callable[[], Cell],
    count: int,
    prepare: LayerFunction | None,
    offset: int,
    config: TransformerOpParallelConfig,
) -> CellList:
    """Return ``count`` layers, each prepared by its function, the first of which is layer ``offset`` of the whole."""
    prepare = prepare or default_layer_function(count)
    layers = CellList()
    for layer_id in range(count):
        layer = make_layer()
        _recompute(layer, config)
        prepare(layer, layer_id=layer_id, offset=offset, parallel_config=config, layers=count)
        layers.append(layer)
    return layers


def _recompute(layer: Cell, config: TransformerOpParallelConfig) -> None:
    asked = config.recomputation
    if not asked.recompute:
        return
    why = "of what is computed again, each rank does its part anyway"
    no_effect("TransformerRecomputeConfig", "recompute_slice_activation", asked.recompute_slice_activation, why, False)
    layer.recompute(asked.mp_comm_recompute, asked.parallel_optimizer_comm_recompute)


def default_layer_function(total_layers: int) -> LayerFunction:
    """Return the function that spreads ``total_layers`` evenly over pipeline stages and groups of fused gradients."""

    def place(
        network: Cell, layer_id: int, offset: int, parallel_config: TransformerOpParallelConfig, layers: int
    ) -> None:
        stages = parallel_config.pipeline_stage
        network.pipeline_stage = min((layer_id + offset) // max(total_layers // stages, 1), stages - 1)
        fused = max(total_layers // parallel_config.gradient_aggregation_group, 1)
        network.set_comm_fusion((layer_id + offset) // fused + 1)

    return place
