"""Dropout with masks that do not depend on how a tensor is cut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mpiparallel.backend.counter_random import RandomBox, stream_key
from mpiparallel.backend.protocol import Array
from mpiparallel.backend.tensor_spec import Part, TensorSpec
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.blocks import Blockwise, block_size, element_blocks
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.execution.runtime import RandomState, Runtime
from mpiparallel.graph.expression.term import Term
from mpiparallel.graph.input_checks import check_floating, check_shape
from mpiparallel.graph.operator import Kernel, Operator, register
from mpiparallel.graph.tensor import Tensor
from mpiparallel.graph.written_kernels.random_mask import dropout
from mpiparallel.graph.written_kernels.written_text import has_written_kernels
from mpiparallel.layout.box import Box

Tensors = Sequence[Tensor]


def _check_probability(name: str, keep_prob: float) -> float:
    if not 0.0 < keep_prob <= 1.0:
        raise ConfigurationError(f"{name}: keep_prob={keep_prob} must be above 0 and at most 1")
    return keep_prob


@register
class Dropout(Operator):
    """``x / keep_prob`` at each element with probability ``keep_prob``, else 0; and the mask, bool, of what was kept.

    The mask follows from the program's seed, ``Seed0``, ``Seed1``, the operator's place in the network, the draw and
    the element's place in the whole tensor. It is another one at each call.

    Parameters
    ----------
    keep_prob : float
        Above 0 and at most 1.
    Seed0, Seed1 : int
        Others draw other elements.

    Raises
    ------
    ConfigurationError
        When ``keep_prob`` is not in (0, 1].

    Examples
    --------
    >>> y, mask = Dropout(1.0)([1.0, 2.0])
    >>> y.asnumpy().tolist(), mask.asnumpy().tolist()
    ([1.0, 2.0], [True, True])
    """

    is_random = True
    part: Part = Part.whole(())
    """What is held here of the whole tensor."""
    piece: tuple[int, int] = 0, 1
    """Which piece of the batch it is given, and of how many, along dim 0."""

    def __init__(self, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0) -> None:  # noqa: N803
        self.keep_prob = _check_probability(self.name, keep_prob)
        self.seeds = (Seed0, Seed1)

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_floating(x=inputs[0])
        return inputs[0], TensorSpec(inputs[0].shape, np.dtype(np.bool_))

    def equation(self, *inputs: TensorSpec) -> Equation:
        return Equation.same(len(inputs[0].shape), outputs=2)

    def local(self, inputs: Sequence[Part], outputs: Sequence[Part]) -> Dropout:
        part, (index, count) = outputs[0], self.piece
        if count > 1:
            rows, *others = part.global_shape
            start, stop = ((index * rows + end[0], *end[1:]) for end in (part.box.start, part.box.stop))
            part = Part((count * rows, *others), Box(start, stop))
        return self.configured(part=part)

    def kernel(self, runtime: Runtime, inputs: Sequence[Array], outputs: Sequence[Array]) -> Kernel:
        xp, x, (target, mask) = runtime.array_module, inputs[0], outputs
        if self.keep_prob == 1.0:
            return self._identity(xp, x, target, mask)
        if (
            has_written_kernels(runtime, x.dtype)
            and all(one.flags.c_contiguous for one in (x, target, mask))
            and x.size
        ):
            return self._launch(runtime, x, target, mask)
        numbers = RandomBox(xp, self.part.global_shape, self.part.box)
        blocks = element_blocks([x, mask, target], block_size(runtime))
        random, scale = runtime.random, 1.0 / self.keep_prob

        def run() -> None:
            numbers.keep(self._key(random), self.keep_prob, out=mask)
            for block in blocks:
                _scale_kept(xp, scale, *block)

        return run

    def _launch(self, runtime: Runtime, *arrays: Array) -> Kernel:
        key = runtime.numbers.add(partial(self._key, runtime.random))
        return dropout(runtime, self.keep_prob, self.part.global_shape, self.part.box, key, arrays)

    def _key(self, random: RandomState) -> int:
        return stream_key(random.seed, *self.seeds, self.scope, random.draw)

    @staticmethod
    def _identity(xp: Any, x: Array, target: Array, mask: Array) -> Kernel:
        def run() -> None:
            mask.fill(True)
            xp.copyto(target, x)

        return run

    def gradient(self, inputs: Tensors, outputs: Tensors, gradients: Tensors) -> Sequence[Tensor | None]:
        return (DropoutGrad(self.keep_prob)(gradients[0], outputs[1]),)


def _scale_kept(xp: Any, scale: float, x: Array, mask: Array, target: Array) -> None:
    xp.multiply(x, mask, out=target)
    xp.multiply(target, scale, out=target)


@register
class DropoutGrad(Blockwise):
    """``dy / keep_prob`` where ``mask``, the second output of Dropout, holds; 0 elsewhere.

    Parameters
    ----------
    keep_prob : float
        As of Dropout.

    Examples
    --------
    >>> DropoutGrad(0.5)([1.0, 2.0], [True, False]).asnumpy().tolist()
    [2.0, 0.0]
    """

    reuses = (0,)

    def __init__(self, keep_prob: float = 0.5) -> None:
        self.keep_prob = _check_probability(self.name, keep_prob)

    def __call__(self, dy: Any, mask: Any) -> Any:
        return super().__call__(dy, mask)

    def infer(self, *inputs: TensorSpec) -> tuple[TensorSpec, ...]:
        check_shape(inputs[0].shape, mask=inputs[1])
        return (inputs[0],)

    def expression(self, *inputs: Term) -> Sequence[Term]:
        dy, mask = inputs
        return (dy * mask * (1.0 / self.keep_prob),)
