"""What is refused says what was given and the mend; what is nearest to it and may be given is taken.

Each row has the call, what its error says, and that neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import mpiparallel as ms
from mpiparallel import nn, ops
from mpiparallel.checkpoint.strategy.strategy_record import StrategyItem
from mpiparallel.cluster.fault_plan import FaultPlan
from mpiparallel.cluster.hostfile import Hostfile
from mpiparallel.cluster.hostfile_line import read_line
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.communication.transport.lengths import compare_lengths
from mpiparallel.dataset import GeneratorDataset, NumpySlicesDataset
from mpiparallel.dataset.text.vocabulary import Vocabulary
from mpiparallel.dataset.vision import RandomCrop, Rescale
from mpiparallel.errors import MpiParallelError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.launch.cli import command_line
from mpiparallel.launch.job.host_selection import place
from mpiparallel.launch.show import command as show
from mpiparallel.launch.simulate import command as simulate
from mpiparallel.layout.box import Box
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.nn.initializer import Zero
from mpiparallel.nn.initializer.rule import Initializer
from mpiparallel.parallel.output_placement import place_outputs
from mpiparallel.reshard.live import reshard
from mpiparallel.train.callback import CheckpointConfig

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
IMAGES = np.ones((1, 1, 4, 4), np.float32)


class Row(NamedTuple):
    refused: Callable[[], Any]
    told: str
    taken: Callable[[], Any]


def batches(rows: list[Any]) -> list[Any]:
    return list(
        GeneratorDataset([(row,) for row in rows], ["x"], shuffle=False).batch(2).create_tuple_iterator(num_epochs=1)
    )


def written(returned: Any) -> Any:
    """Apply an operator that a user wrote, of two outputs."""
    shapes = lambda shape: (shape, shape)  # noqa: E731
    return ops.Custom(lambda x: returned(x), shapes, lambda dtype: (dtype, dtype), "pyfunc")(X)


class NoInit(nn.Cell):
    def __init__(self, calls_first: bool) -> None:
        if calls_first:
            super().__init__()
        self.rate = 0.1


class Idle(nn.Cell):
    pass


class _NoRule(Initializer):
    pass


def exchanged(communicator: Any, expected: int) -> None:
    own, other = np.zeros(3, np.uint8), 1 - communicator.rank
    lengths = {0: 3, 1: expected}
    compare_lengths(communicator, {other: own}, {other: np.zeros(lengths[communicator.rank], np.uint8)})


def commanded(*words: str) -> None:
    arguments = command_line().parse_args(words)
    {"show": show, "simulate": simulate}[words[0]].execute(arguments)


def hosts_of(ranks: int) -> Any:
    return place(ranks, None, Hostfile.parse("one slots=1\ntwo slots=1\n", "hosts"), {})


def sgd(**settings: Any) -> Any:
    named = (Parameter(np.ones(1, np.float32), name) for name in "was")
    variable, accumulation, stat = named
    return ops.SGD(**settings)(variable, np.ones(1, np.float32), 0.5, accumulation, 0.0, stat)


TABLE = {
    "fault at an unknown moment": Row(
        lambda: FaultPlan.parse("kill@3:4:before"),
        '"before" is no moment; write in, after, or nothing for right before',
        lambda: FaultPlan.parse("kill@3:4:after"),
    ),
    "faults: none": Row(
        lambda: FaultPlan.parse("collectives=3-5"), "add seed=7, or leave", lambda: FaultPlan.parse("seed=1")
    ),
    "faults: a range that ends before it begins": Row(
        lambda: FaultPlan.parse("seed=1,collectives=5-4"),
        '"5-4" is no range of numbers from 1; write 10-200',
        lambda: FaultPlan.parse("seed=1,collectives=5-5"),
    ),
    "hostfile: a number alone": Row(
        lambda: read_line("node1 4"), 'stands alone; write "node1 slots=4"', lambda: read_line("node1 slots=4")
    ),
    "batch of rows of two shapes": Row(
        lambda: batches([np.zeros(2), np.zeros(3)]),
        'batch: column "x" has shape (2,) in row 0 and (3,) in row 1; map an operation that pads or crops',
        lambda: batches([np.zeros(2), np.ones(2)]),
    ),
    "batch of rows of two dtypes": Row(
        lambda: batches([np.zeros(2, np.int32), np.zeros(2, np.int64)]),
        'batch: column "x" is int32 in row 0 and int64 in row 1; map TypeCast to one dtype',
        lambda: batches([np.array("a"), np.array("bcd")]),
    ),
    "size of what is repeated for ever": Row(
        lambda: NumpySlicesDataset([1, 2], ["x"]).repeat().get_dataset_size(),
        "repeat without a count never ends; give repeat a count, or take rows",
        lambda: NumpySlicesDataset([1, 2], ["x"]).repeat().take(3).get_dataset_size(),
    ),
    "vocabulary with a word twice": Row(
        lambda: Vocabulary(["cat", "dog", "cat"]),
        'word "cat" occurs twice; give each word once',
        lambda: Vocabulary(["cat"]),
    ),
    "vocabulary without a place": Row(
        lambda: Vocabulary.from_texts(["a"], 3),
        "max_size is 3, of which UNK, PAD and EOT take 3; give 4 or more",
        lambda: Vocabulary.from_texts(["a"], 4),
    ),
    "crop with three paddings": Row(
        lambda: RandomCrop(2, (1, 2, 3)),
        "padding is (1, 2, 3); give one integer, (left and right, top and bottom)",
        lambda: [RandomCrop(2, padding) for padding in (1, (1,), (1, 2), (1, 2, 3, 4))],
    ),
    "scale that is not finite": Row(
        lambda: Rescale(1.0, np.inf), "Rescale: shift is inf; give a finite number", lambda: Rescale(np.float32(1), 0)
    ),
    "scale that is no number": Row(
        lambda: Rescale("1", 0.0), "Rescale: rescale is '1'; give a finite number", lambda: Rescale(1, -1.0)
    ),
    "tensor of nothing": Row(
        lambda: ms.Tensor(), "needs input_data, or a shape, a dtype and an init", lambda: ms.Tensor(0)
    ),
    "length of a scalar": Row(lambda: len(ms.Tensor(1.0)), "a 0-d tensor has no length", lambda: len(ms.Tensor([1.0]))),
    "device matrix that begins elsewhere than its ranks": Row(
        lambda: DeviceMatrix((2,), 1, (3, 4)),
        "give ranks or first_rank, not both",
        lambda: (DeviceMatrix((2,), 3, (3, 5)), DeviceMatrix((2,), 0, (3, 5))),
    ),
    "device matrix with a rank twice": Row(
        lambda: DeviceMatrix((2,), ranks=(3, 3)),
        "give 2 distinct ranks from 0",
        lambda: DeviceMatrix((2,), ranks=(3, 0)),
    ),
    "cell without construct": Row(
        lambda: Idle()(ms.Tensor(X)),
        "Idle has no construct; define construct(self, ...)",
        lambda: nn.Flatten()(ms.Tensor(X)),
    ),
    "cell that is set before it is one": Row(
        lambda: NoInit(False), "NoInit: call super().__init__() before setting 'rate'", lambda: NoInit(True)
    ),
    "written operator with a shape too many": Row(
        lambda: ops.Custom(lambda x: x, ((3, 4), (3, 4)), (np.float32,), "pyfunc")(X),
        "out_shape has 2 outputs, out_dtype 1; say both alike",
        lambda: ops.Custom(lambda x: (x, x), ((3, 4), (3, 4)), (np.float32, np.float32), "pyfunc")(X),
    ),
    "written operator that returns too little": Row(
        lambda: written(lambda x: x), "returned 1 arrays, not the 2 of out_shape", lambda: written(lambda x: (x, x))
    ),
    "clip_by_value without a bound": Row(
        lambda: ops.clip_by_value(ms.Tensor(X)),
        "clip_by_value: give clip_value_min, clip_value_max, or both",
        lambda: (ops.clip_by_value(ms.Tensor(X), 1.0), ops.clip_by_value(ms.Tensor(X), None, 1.0)),
    ),
    "clip without a bound": Row(
        lambda: ms.Tensor(X).clip(), "Tensor.clip: give xmin, xmax, or both", lambda: ms.Tensor(X).clip(max=1.0)
    ),
    "clip with another bound": Row(
        lambda: ms.Tensor(X).clip(least=1.0),
        "Tensor.clip: least are not all among min and max",
        lambda: ms.Tensor(X).clip(1.0),
    ),
    "gradients by a list of a function": Row(
        lambda: ops.GradOperation(get_by_list=True)(ops.tanh),
        "give the parameters, GradOperation(...)(fn, weights)",
        lambda: ops.GradOperation(get_by_list=True)(nn.Dense(4, 2))(ms.Tensor(X)),
    ),
    "padding without pad_mode": Row(
        lambda: ops.Conv2D(1, 1, pad_mode="valid", pad=1)(IMAGES, np.ones((1, 1, 1, 1), np.float32)),
        "padding must be positive, and needs pad_mode='pad'",
        lambda: ops.Conv2D(1, 1, pad_mode="pad", pad=1)(IMAGES, np.ones((1, 1, 1, 1), np.float32)),
    ),
    "slice with an end too few": Row(
        lambda: ops.StridedSlice()(X, (0, 1), (2,), (1, 1)),
        "begin (0, 1), end (2,) and strides (1, 1) must be equally long",
        lambda: ops.StridedSlice()(X, (0, 1), (2, 2)),
    ),
    "product of what does not fit": Row(
        lambda: ops.MatMul()(X, X),
        "x (3, 4) and y (3, 4) (transpose_a=False, transpose_b=False) contract 4 elements with 3; make them equal",
        lambda: ops.MatMul(transpose_b=True)(X, X),
    ),
    "product of a batch": Row(
        lambda: ops.MatMul()(X[None], X.T), "must have two dims; use BatchMatMul for more", lambda: ops.MatMul()(X, X.T)
    ),
    "place of the greatest as a float": Row(
        lambda: ops.Argmax(-1, np.float32)(X), "must be int32 or int64", lambda: ops.Argmax(-1, np.int64)(X)
    ),
    "split that is uneven": Row(
        lambda: ops.Split(1, 3)(X), "dim 1 of (3, 4) cannot be split into 3 equal pieces", lambda: ops.Split(1, 4)(X)
    ),
    "concatenation of what does not fit": Row(
        lambda: ops.Concat(0)((X, X.T)),
        "(4, 3) cannot be concatenated with (3, 4) along dim 0",
        lambda: ops.Concat(0)((X, X)),
    ),
    "transposition by no permutation": Row(
        lambda: ops.Transpose()(X, (0, 0)),
        "(0, 0) is no permutation of the 2 dims of (3, 4)",
        lambda: ops.Transpose()(X, (1, 0)),
    ),
    "broadcast to fewer dims": Row(
        lambda: ops.BroadcastTo((4,))(X), "(3, 4) cannot be broadcast to (4,)", lambda: ops.BroadcastTo((3, 4))(X)
    ),
    "broadcast to a new dim of no extent": Row(
        lambda: ops.BroadcastTo((-1, 3, 4))(X),
        "-1 stands for an extent that the tensor has, and the first 1 dims are new; give them numbers",
        lambda: ops.BroadcastTo((2, -1, 4))(X),
    ),
    "Nesterov's momentum with a dampening": Row(
        lambda: sgd(nesterov=True, dampening=0.5),
        "nesterov=True needs dampening=0.0, not 0.5",
        lambda: (sgd(nesterov=True), sgd(dampening=0.5)),
    ),
    "strategy with a cut of 0": Row(
        lambda: StrategyItem(((1, 0),)),
        "strategy ((1, 0),) has a cut below 1; write 1",
        lambda: StrategyItem(((1, 1),)),
    ),
    "strategy with more parts than ranks can be": Row(
        lambda: StrategyItem(((2**30, 2),)),
        "cuts an input into more than 2147483647 parts",
        lambda: StrategyItem(((2**31 - 1,),)),
    ),
    "stage below 0": Row(
        lambda: StrategyItem(((1,),), -1),
        "stage -1 is not one; stages are counted from 0",
        lambda: StrategyItem(((1,),), 0),
    ),
    "checkpoint with unknown information": Row(
        lambda: CheckpointConfig(append_info=["epoch"]),
        "append_info has 'epoch'; give 'epoch_num', 'step_num' and dicts by name",
        lambda: CheckpointConfig(append_info=["epoch_num", {"rate": 0.1}]),
    ),
    "precision of what is no cell": Row(
        lambda: ms.amp.custom_mixed_precision(ops.tanh),
        "network is a",
        lambda: ms.amp.custom_mixed_precision(nn.Dense(2, 2), white_list=[nn.Dense]),
    ),
    "reshard with an unknown option": Row(
        lambda: reshard({}, {}, {}, alone(), window=3),
        "reshard: unknown option 'window'; there are",
        lambda: reshard({}, {}, {}, alone()),
    ),
    "initial value of no rule": Row(
        lambda: _NoRule().part("w", (2,), Box.whole((2,))),
        "initializer _NoRule has neither part(self, name, shape, box) nor _initialize(self, array); define one",
        lambda: Zero().part("w", (2,), Box.whole((2,))),
    ),
    "out_strategy with an entry too many": Row(
        lambda: place_outputs("relu", [Layout.replicated((2, 2), DeviceMatrix((2,)))], ((2, 1), (1, 1))),
        "relu: out_strategy ((2, 1), (1, 1)) has 2 entries for 1 outputs; give each one",
        lambda: place_outputs("relu", [Layout.replicated((2, 2), DeviceMatrix((2,)))], ((2, 1),)),
    ),
    "message of another length": Row(
        lambda: run_world(2, exchanged, 2),
        "exchange: member 0 sends 3 bytes to member 1, which expects 2 bytes",
        lambda: run_world(2, exchanged, 3),
    ),
    "show: neither script nor schedule": Row(
        lambda: commanded("show"),
        "show: give either a script",
        lambda: commanded("show", "--pipeline", "1f1b", "--stages", "2"),
    ),
    "simulate: neither ranks nor a search": Row(
        lambda: commanded("simulate", "train.py"), "simulate: give either --ranks N or --find", dict
    ),
    "simulate: most of what is not sought": Row(
        lambda: commanded("simulate", "-n", "2", "--most", "4", "train.py"), "--most: goes with --find", dict
    ),
    "more ranks than slots": Row(
        lambda: hosts_of(3), "the hostfile has 2 slots for 3 ranks; raise the slots of its hosts", lambda: hosts_of(2)
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_refusal_says_what_was_given_and_its_neighbour_is_taken(name: str) -> None:
    row = TABLE[name]
    with pytest.raises(MpiParallelError, match=re.escape(row.told)):
        row.refused()
    row.taken()
