"""What a training leaves open for the search to decide, and what has been decided before."""

from __future__ import annotations

from mpiparallel.compatibility.remark import remark
from mpiparallel.context.settings import current_configuration
from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.pipeline_cell import PipelineCell
from mpiparallel.parallel.configuration import EVERYTHING, ParallelConfiguration, ParallelMode
from mpiparallel.train.full_search.training_plan import Plan
from mpiparallel.train.strategies.loaded_strategies import take_loaded_strategies


def is_open(configuration: ParallelConfiguration) -> bool:
    """Return whether more than strategies is to be decided."""
    return configuration.mode == ParallelMode.AUTO_PARALLEL and configuration.search_mode == EVERYTHING


def loaded_plan() -> Plan | None:
    """Read the strategy file of the context, if there is one, and return the plan that it has for as many ranks."""
    said = take_loaded_strategies()
    plan = Plan.of_json(said) if said else None
    configuration = current_configuration()
    if plan is None or configuration.mode not in ParallelMode.ONE_BATCH:
        return None
    if plan.devices != configuration.device_num:
        remark(
            f"strategy_ckpt_load_file: its plan is for {plan.devices} devices, and there are "
            f"{configuration.device_num}: the program's own settings count"
        )
        return None
    return plan


def micro_batched(network: Cell, configuration: ParallelConfiguration, planned: bool) -> Cell:
    """Return a network that can be trained in micro-batches and stages, where these are to be found or ``planned``."""
    if not (planned or is_open(configuration)) or pipeline_of(network) is not None:
        return network
    return PipelineCell(network, "auto", stages="auto")


def pipeline_of(network: Cell) -> PipelineCell | None:
    """Return what cuts the batch of a network into micro-batches, if anything does."""
    return next((cell for _, cell in network.cells_and_names() if isinstance(cell, PipelineCell)), None)
