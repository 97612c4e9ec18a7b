"""Which memory results take, and which inputs they read: a step needs an array less for each that is written over."""

from __future__ import annotations

import numpy as np

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.execution.buffer_plan import plan_buffers
from mpiparallel.graph.operator import Operator
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.trace import Trace, recording
from mpiparallel.ops.images.convolution.convolution import Conv2DBackpropFilter, Conv2DBackpropInput
from mpiparallel.ops.images.pooling import AvgPoolGrad
from mpiparallel.ops.indexing.batch_gathering import BatchGatherGrad
from mpiparallel.ops.losses.cross_entropy_loss import SumExpGrad
from mpiparallel.ops.losses.softmax_and_log import LogSoftmaxGrad, SoftmaxGrad
from mpiparallel.ops.normalization.batch_norm_steps import (
    BNInfer,
    BNInferGrad,
    BNTrainingReduceGrad,
    BNTrainingUpdate,
)
from mpiparallel.ops.normalization.layer_normalization import LayerNormGrad
from mpiparallel.ops.randomness.dropout_mask import DropoutGrad

ROWS, COLUMNS = 500, 8
X, ROW, COLUMN = (ROWS, COLUMNS), (COLUMNS,), (ROWS, 1)
OVERWRITTEN: list[tuple[Operator, tuple[tuple[int, ...], ...], set[int]]] = [
    (ops.Softmax(), (X,), {0}),
    (SoftmaxGrad(), (X, X), {0, 1}),
    (ops.LogSoftmax(), (X,), {0}),
    (LogSoftmaxGrad(), (X, X), {0, 1}),
    (SumExpGrad(), (COLUMN, X, COLUMN), {1}),
    (LayerNormGrad(), (X, X, COLUMN, COLUMN, ROW), {0}),
    (BNInfer(), (X, ROW, ROW, ROW, ROW), {0}),
    (BNTrainingUpdate(), (X, ROW, ROW, ROW, ROW), {0}),
    (BNInferGrad(), (X, ROW, ROW), {0}),
    (BNTrainingReduceGrad(), (X, X, ROW, ROW, ROW, ROW, ROW), {0}),
    (DropoutGrad(), (X, X), {0}),
    (ops.BiasAdd(), (X, ROW), {0}),
    (ops.Pow(), (X, X), {0, 1}),
    (ops.ReduceSum(keep_dims=True), (X,), set()),
]


def test_a_result_lies_where_an_input_was_that_is_read_for_the_last_time() -> None:
    for operator, shapes, overwritten in OVERWRITTEN:
        for place in (place for place, shape in enumerate(shapes) if shape == X):
            trace = Trace()
            given = [
                Tensor.of_value(trace.graph.add_input(str(number), TensorSpec(shape, np.dtype(np.float64))))
                for number, shape in enumerate(shapes)
            ]
            with recording(trace):
                # What a network is given is not its own to write over.
                given[place] = ops.exp(given[place])
                found = operator(*given)
            trace.graph.outputs = [one.value for one in (found if isinstance(found, tuple) else (found,))]
            arrays = plan_buffers(trace.graph).byte_count // (ROWS * COLUMNS * 8)
            of_output = sum(value.spec.shape == X for value in trace.graph.outputs)
            assert arrays == 1 + of_output - (place in overwritten), (operator.name, place)


IMAGES, KERNELS, OUTPUTS = (2, 3, 6, 6), (5, 3, 3, 3), (2, 5, 4, 4)
UNREAD: list[tuple[Operator, tuple[tuple[int, ...], ...], int]] = [
    (AvgPoolGrad(2, 2), ((2, 3, 6, 6), (2, 3, 3, 3)), 0),
    (Conv2DBackpropInput(5, 3), (OUTPUTS, KERNELS, IMAGES), 2),
    (Conv2DBackpropFilter(5, 3), (OUTPUTS, IMAGES, KERNELS), 2),
    (BatchGatherGrad(1, 1), ((4, 2), (4, 2, 7), (4, 5, 7)), 2),
]


def test_a_tensor_that_gives_its_shape_alone_is_not_counted_as_read() -> None:
    for operator, shapes, unread in UNREAD:
        inputs = [TensorSpec(shape, np.dtype(np.float64)) for shape in shapes]
        read = sum(one.byte_count for place, one in enumerate(inputs) if place != unread)
        assert operator.cost(inputs, [inputs[unread]]).bytes_read == read, operator.name
