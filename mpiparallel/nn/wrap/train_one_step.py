"""One step of training: gradients, what is done to them, and the update."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mpiparallel import ops
from mpiparallel.compatibility.arguments import only
from mpiparallel.context.settings import current_configuration
from mpiparallel.errors import ConfigurationError
from mpiparallel.graph.execution.guard import only_if, put_back_updates, take_back_updates
from mpiparallel.graph.execution.program import Profile
from mpiparallel.graph.execution.random_stream import drawing_at
from mpiparallel.graph.graph import Node
from mpiparallel.graph.parameter import Parameter
from mpiparallel.graph.tensor import Tensor
from mpiparallel.nn.cell import Cell, ParameterTuple
from mpiparallel.nn.optimizer.optimizer import Optimizer
from mpiparallel.nn.wrap.finite_check import FiniteCheck
from mpiparallel.nn.wrap.gradient_sums import GradientSums
from mpiparallel.ops.gradients.gradient import value_and_grad
from mpiparallel.parallel.configuration import ParallelMode


class DistributedGradReducer:
    """The mean of the ranks' gradients where each has a batch of its own and ``gradients_mean`` asks for it.

    Elsewhere gradients stay as they are: the sum over ranks follows from their layouts.

    Parameters
    ----------
    parameters : sequence of Parameter
        Those that gradients are of.
    mean : bool, optional
        Whether it is the mean; by default what ``gradients_mean`` of the context says.

    Examples
    --------
    Where each rank has the whole batch, gradients stay as they are:

    >>> from mpiparallel import nn
    >>> network = nn.Dense(2, 1)
    >>> [one.tolist() for one in DistributedGradReducer([network.weight])([Tensor([[1.0, 2.0]])])]
    [[[1.0, 2.0]]]
    """

    def __init__(self, parameters: Sequence[Parameter], mean: bool | None = None) -> None:
        self._parameters = tuple(parameters)
        self._mean = mean

    def __call__(self, gradients: Sequence[Tensor], share: float = 1.0) -> tuple[Tensor, ...]:
        """Return the gradients times ``share``, as means over ranks."""
        configuration = current_configuration()
        mean = configuration.gradients_mean if self._mean is None else self._mean
        own = 1.0 / configuration.device_num if mean and configuration.mode in ParallelMode.OWN_BATCH else 1.0
        factors = [share if parameter.layerwise_parallel else share * own for parameter in self._parameters]
        return tuple(
            gradient if factor == 1.0 else gradient * factor
            for gradient, factor in zip(gradients, factors, strict=True)
        )


class TrainOneStepCell(Cell):
    """One step of training: loss and gradients of ``network`` and the update of ``optimizer``, in one program.

    It returns the loss, as ``network`` does. Called directly, dropout takes its masks from the optimizer's count of
    steps, so that training goes on the same after a restart.

    A subclass may do more to the gradients. In ``construct`` it does so from
    ``self.grad(self.network, self.weights)(*inputs, sens)`` and ``self.grad_reducer`` on, as MindSpore's users write
    it. In ``prepared`` it keeps all else.

    Parameters
    ----------
    network : Cell
        It returns the loss.
    optimizer : Optimizer
        Of the parameters of ``network``.
    sens : float, optional
        The loss is multiplied by it before it is differentiated. An optimizer with ``loss_scale=sens`` divides the
        gradients by it again.
    return_grad : bool
        False.
    accumulation_steps : int
        How many calls make one update, by the mean of their gradients. Ranks sum the gradients once an update.

    Raises
    ------
    ConfigurationError
        For what is not offered.

    Examples
    --------
    >>> from mpiparallel import nn
    >>> network = nn.WithLossCell(nn.Dense(1, 1, weight_init="zeros"), nn.MSELoss())
    >>> step = TrainOneStepCell(network, nn.SGD(network.trainable_params(), 0.25))
    >>> [float(step(Tensor([[1.0]]), Tensor([[2.0]]))) for _ in range(2)]
    [4.0, 0.0]
    """

    def __init__(
        self,
        network: Cell,
        optimizer: Optimizer,
        sens: float | None = None,
        return_grad: bool = False,
        accumulation_steps: int = 1,
    ) -> None:
        super().__init__(auto_prefix=False)
        only("TrainOneStepCell", "return_grad", return_grad, False, "ops.value_and_grad returns gradients")
        self.network = network
        self.optimizer = optimizer
        self.sens = 1.0 if sens is None else sens
        # Not as a cell's own parameters: those of the network come first.
        object.__setattr__(self, "weights", optimizer.parameters)
        self.weights: ParameterTuple
        self.grad = ops.GradOperation(get_by_list=True, sens_param=True)
        self.grad_reducer = DistributedGradReducer(self.weights)
        self.sums = GradientSums(self.weights, accumulation_steps)
        self.finite_check: FiniteCheck | None = None
        self.skips_unsound = False

    @property
    def seeks_scale(self) -> bool:
        """Whether an overflow of gradients is part of finding a scale of the loss."""
        return False

    @property
    def batches_a_step(self) -> int:
        """How many calls make one update; programs keep numbers of their own as ``accumulation_steps``."""
        return self.sums.steps

    def check_accumulation(self, wanted: int) -> None:
        """Raise ConfigurationError where as many batches as ``wanted`` are to make an update, and others do."""
        if wanted not in (1, self.batches_a_step):
            raise ConfigurationError(
                f"Model: grad_accumulation_step {wanted} does not change a {type(self).__name__}, which was made for "
                f"{self.batches_a_step} a step; give Model(network, loss_fn, optimizer), which adds up gradients itself"
            )

    def check_finite(self, skip: bool) -> FiniteCheck:
        """Look in each step whether loss and gradients are finite, and with ``skip`` leave the update out if not."""
        if self.finite_check is None:
            self.finite_check = FiniteCheck(self.weights)
        self.skips_unsound |= skip
        return self.finite_check

    def check_as_made(self) -> None:
        """Look no more, unless the step is made to."""
        self.finite_check, self.skips_unsound = None, False

    def _training_flags(self) -> tuple[object, ...]:
        return (*super()._training_flags(), self.finite_check is not None, self.skips_unsound)

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Train on one batch and return the loss."""
        batches = 0 if self.batches_a_step == 1 else int(self.sums.count.asnumpy())
        with drawing_at(self.optimizer.step * self.batches_a_step + batches):
            return super().__call__(*inputs, **options)

    def run(self, step: int, inputs: Sequence[Any], profile: Profile | None = None) -> Any:
        """Train on one batch and return what ``construct`` returns; ``step`` is where dropout takes its masks from."""
        with drawing_at(step):
            return self.program(*inputs, profile=profile)

    def construct(self, *inputs: Any) -> Any:
        """Return the loss from before the update."""
        (_, loss), gradients = value_and_grad(self._scaled_loss, None, list(self.weights), has_aux=True)(*inputs)
        self.descend(loss, gradients)
        return loss

    def _scaled_loss(self, *inputs: Any) -> tuple[Tensor, Tensor]:
        loss: Tensor = self.network(*inputs)
        return (loss if self.sens == 1.0 else loss * self.sens), loss

    def descend(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        """Update along the gradients of a batch, or add them to those of others first."""
        if self.batches_a_step == 1:
            self._judged(loss, gradients)
            return
        totals = self.sums.add(gradients)
        only_if(self.sums.full, partial(self._judged_together, loss, totals))

    def _judged_together(self, loss: Tensor, totals: Sequence[Tensor]) -> None:
        self._judged(loss, totals)
        self.sums.clear()

    def _judged(self, loss: Tensor, gradients: Sequence[Tensor]) -> None:
        """Update, but not along what is not finite where that is to be skipped."""
        if self.finite_check is None:
            self.update(gradients)
            return
        # Moving averages of an unsound batch are to be left out too; over several batches the first are made already.
        held_back = take_back_updates() if self.skips_unsound and self.batches_a_step == 1 else []
        self.finite_check.judge(loss, gradients)
        if self.skips_unsound:
            only_if(self.finite_check.sound, partial(self._update_all, gradients, held_back))
        else:
            self.update(gradients)

    def _update_all(self, gradients: Sequence[Tensor], held_back: list[Node]) -> None:
        put_back_updates(held_back)
        self.update(gradients)

    def update(self, gradients: Sequence[Tensor]) -> None:
        """Update along sums of gradients over the batches of a step."""
        ready = self.grad_reducer(gradients, 1.0 / self.batches_a_step)
        self.optimizer(self.prepared(ready))

    def prepared(self, gradients: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return what the optimizer is given: the gradients, already reduced; a subclass may clip them."""
        return gradients
