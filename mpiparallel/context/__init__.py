"""The public front for how a program runs: modes, devices, parallel settings, seeds (MindSpore's ``context``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mpiparallel.compatibility.absent_names import getattr_of
from mpiparallel.context.default_values import GRAPH_MODE as GRAPH_MODE
from mpiparallel.context.default_values import PYNATIVE_MODE as PYNATIVE_MODE
from mpiparallel.context.device import set_device as set_device
from mpiparallel.context.parameter_server import get_ps_context as get_ps_context
from mpiparallel.context.parameter_server import reset_ps_context as reset_ps_context
from mpiparallel.context.parameter_server import set_ps_context as set_ps_context
from mpiparallel.context.seeds import get_seed as get_seed
from mpiparallel.context.seeds import initial_seed as initial_seed
from mpiparallel.context.seeds import manual_seed as manual_seed
from mpiparallel.context.seeds import set_seed as set_seed
from mpiparallel.context.settings import get_auto_parallel_context as get_auto_parallel_context
from mpiparallel.context.settings import get_context as get_context
from mpiparallel.context.settings import reset_auto_parallel_context as reset_auto_parallel_context
from mpiparallel.context.settings import set_auto_parallel_context as set_auto_parallel_context
from mpiparallel.context.settings import set_context as set_context
from mpiparallel.parallel.configuration import ParallelMode as ParallelMode

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_auto_parallel_context",
    "get_context",
    "get_ps_context",
    "get_seed",
    "initial_seed",
    "manual_seed",
    "reset_auto_parallel_context",
    "reset_ps_context",
    "set_auto_parallel_context",
    "set_context",
    "set_device",
    "set_ps_context",
    "set_seed",
]

if not TYPE_CHECKING:
    __getattr__ = getattr_of(__name__)
