"""Evaluation of a network over a dataset: metrics, whole over all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from mpiparallel.communication import world
from mpiparallel.communication.protocol import Communicator
from mpiparallel.context.settings import current_configuration
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.errors import ConfigurationError, DatasetError
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.metrics import Loss, Metric, get_metric_fn
from mpiparallel.nn.wrap.loss_cell import WithEvalCell, WithLossCell
from mpiparallel.parallel.configuration import ParallelMode
from mpiparallel.train.feeding.dataset_check import check_dataset

Batch = list[np.ndarray[Any, Any]]


@contextmanager
def not_training(network: Cell) -> Iterator[Cell]:
    """Have a network and all cells in it behave as in use; then each is as before, so that a training may go on."""
    cells = [(cell, cell.training) for _, cell in network.cells_and_names()]
    try:
        yield network.set_train(False)
    finally:
        for cell, training in cells:
            cell.training = training


def make_metrics(given: Any) -> dict[str, Metric]:
    """Return metrics by name from names, or from metrics or names by the name that their result is to have.

    None stands for the loss alone. Raises ConfigurationError for what is neither.
    """
    if given is None:
        return {"loss": Loss()}
    made = given if isinstance(given, Mapping) else {name: name for name in given}
    # Sorted, because each process has another order of a set, and ranks add up their totals in this one.
    ordered = sorted(made.items(), key=lambda pair: str(pair[0]))
    metrics = {name: get_metric_fn(one) if isinstance(one, str) else one for name, one in ordered}
    for name, one in metrics.items():
        if not isinstance(one, Metric):
            raise ConfigurationError(f"Model: metrics[{name!r}] is a {type(one).__name__}; give a Metric, or its name")
    return metrics


class Evaluation:
    """The metrics of a network that returns its loss or, where ``indexes`` are given, loss, outputs and labels there.

    In data and hybrid parallel mode each rank evaluates batches of its own, as many as it has. The metrics are those of
    all of them. Elsewhere all ranks are fed the same batches.
    """

    def __init__(self, network: Cell, metrics: dict[str, Metric], indexes: Sequence[int] | None) -> None:
        self.network = network
        self._metrics = metrics
        self._indexes = indexes

    @classmethod
    def of(
        cls,
        network: Cell,
        loss_fn: Cell | None,
        metrics: Any,
        eval_network: Cell | None,
        eval_indexes: Sequence[int] | None,
    ) -> Evaluation:
        """Return the evaluation that a ``Model`` of these parameters makes.

        Raises ConfigurationError for a metric that is not known, or that needs outputs which nothing returns.
        """
        made = make_metrics(metrics)
        indexes = (0, 1, 2) if eval_indexes is None else tuple(eval_indexes)
        if len(indexes) != 3 or any(not isinstance(index, int) for index in indexes):
            raise ConfigurationError(
                f"Model: eval_indexes {eval_indexes!r} must be three integers: where eval_network returns the loss, "
                "the outputs and the labels"
            )
        if eval_network is not None:
            return cls(eval_network, made, indexes)
        outputs_needed = [name for name, one in made.items() if not isinstance(one, Loss)]
        if not outputs_needed:
            return cls(network if loss_fn is None else WithLossCell(network, loss_fn), made, None)
        if loss_fn is None:
            raise ConfigurationError(
                f"Model: metrics {outputs_needed} need the outputs and labels; give a loss_fn, or an eval_network that "
                "returns (loss, outputs, labels)"
            )
        return cls(WithEvalCell(network, loss_fn), made, indexes)

    def run(self, dataset: Dataset) -> dict[str, Any]:
        """Return each metric by its name.

        Raises DatasetError on all ranks alike if a rank has no batch. It does so too if the mode needs equally many
        batches on all ranks and they differ. Raises ConfigurationError for a metric that cannot be added up over ranks.
        """
        check_dataset("Model.eval", dataset)
        ranks = _Ranks.of_configuration()
        ranks.check(self._metrics)
        steps = ranks.agree(dataset)
        for metric in self._metrics.values():
            metric.clear()
        with not_training(self.network) as network:
            for batch, counts in _as_many(dataset, steps):
                outputs = network(*batch)
                if counts:
                    self._update(outputs, len(batch[0]))
        ranks.add_up(self._metrics)
        return {name: metric.eval() for name, metric in self._metrics.items()}

    def _update(self, outputs: Any, rows: int) -> None:
        loss, *others = (outputs,) if self._indexes is None else (outputs[index] for index in self._indexes)
        for metric in self._metrics.values():
            if isinstance(metric, Loss):
                metric.update(loss, rows)
            else:
                metric.update(*others)


def _as_many(dataset: Dataset, steps: int | None) -> Iterator[tuple[Batch, bool]]:
    """Yield the batches and True, then the last one again and False until there are ``steps``.

    So a rank with fewer batches takes part in whatever the network does together. Raises DatasetError when there is no
    batch.
    """
    batch: Batch | None = None
    done = 0
    with closing(dataset.iterate()) as batches:
        for columns in batches:
            batch = list(columns.values())
            done += 1
            yield batch, True
    if batch is None:
        raise DatasetError("Model.eval: the dataset has no batch; use a smaller batch_size or drop_remainder=False")
    for _ in range(done, done if steps is None else steps):
        yield batch, False


class _Ranks:
    """The ranks that evaluate together: ``communicator`` is None where there is one; ``own`` says who has batches."""

    def __init__(self, communicator: Communicator | None, mode: str) -> None:
        self._communicator = communicator
        self._mode = mode
        self._own = communicator is not None and mode in ParallelMode.OWN_BATCH

    @classmethod
    def of_configuration(cls) -> _Ranks:
        """Return the ranks that the context speaks of."""
        configuration = current_configuration()
        together = world.initialised() and configuration.mode != ParallelMode.STAND_ALONE
        communicator = world.current() if together else None
        return cls(communicator if communicator is not None and communicator.size > 1 else None, configuration.mode)

    def check(self, metrics: Mapping[str, Metric]) -> None:
        """Raise ConfigurationError where a metric cannot be added up over ranks with batches of their own."""
        for name, metric in metrics.items():
            if self._own and metric.totals is None:
                raise ConfigurationError(
                    f"Model.eval: metric {name!r} has no totals, so that it cannot be added up over the ranks of "
                    f"{self._mode}; keep the sums that its eval needs in the array self.totals"
                )

    def agree(self, dataset: Dataset) -> int | None:
        """Return how many batches the rank with the most has; None where there is one rank."""
        if self._communicator is None:
            return None
        counts = np.zeros(self._communicator.size, np.int64)
        self._communicator.all_gather(np.asarray([dataset.get_dataset_size()], np.int64), counts)
        said = ", ".join(f"rank {rank} has {count}" for rank, count in enumerate(counts.tolist()))
        if not counts.all():
            raise DatasetError(
                f"Model.eval: each rank needs a batch, but {said}; use a smaller batch_size, drop_remainder=False or "
                "fewer ranks"
            )
        if not self._own and counts.min() != counts.max():
            raise DatasetError(
                f"Model.eval: in {self._mode} all ranks go through equally many batches, but {said}; feed all the same "
                "dataset, or equal pieces of each batch with full_batch=False"
            )
        return int(counts.max())

    def add_up(self, metrics: Mapping[str, Metric]) -> None:
        """Make each metric that of the batches of all ranks."""
        if self._communicator is None or not self._own:
            return
        sums = [np.asarray(metric.totals, np.float64) for metric in metrics.values()]
        flat = np.concatenate([one.reshape(-1) for one in sums]) if sums else np.zeros(0)
        self._communicator.all_reduce(flat)
        start = 0
        for metric, one in zip(metrics.values(), sums, strict=True):
            metric.totals = flat[start : start + one.size].reshape(one.shape)
            start += one.size
