"""The work of ``mpiparallel simulate``: a script is run until its network is compiled, for ranks that are not there."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from contextvars import copy_context
from pathlib import Path

import numpy as np

import mpiparallel
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.communication import world
from mpiparallel.communication.simulated import simulated_world
from mpiparallel.context.settings import set_auto_parallel_context
from mpiparallel.context.simulation import CompiledNetwork, Simulation, SimulationEndError, simulating
from mpiparallel.errors import ConfigurationError, LaunchError, MpiParallelError
from mpiparallel.launch.job.script import Script
from mpiparallel.launch.simulate.arguments import InputColumn
from mpiparallel.launch.simulate.read_only_disk import read_only_disk
from mpiparallel.search.cost.prices import Prices
from mpiparallel.search.forecast.forecast import Forecast, make_forecast
from mpiparallel.search.machine.machine import Machine

_NOT_OF_USERS = (str(Path(mpiparallel.__file__).parent), "<frozen", *map(sysconfig.get_path, ("stdlib", "purelib")))


def simulated(
    script: Script, ranks: int, machine: Machine, columns: Sequence[InputColumn], cluster: Path | None = None
) -> CompiledNetwork:
    """Return the network that a script trains on so many ranks, laid out; what it prints goes to stderr.

    No file is written, no step is made, and parameters get no values. ``cluster`` is the file that strategies are to
    be searched for. Raises ConfigurationError or LaunchError, with the script's line, where it cannot get there.
    """
    inputs = {column.name: TensorSpec(column.shape, np.dtype(column.dtype)) for column in columns}

    def run() -> CompiledNetwork:
        if cluster is not None:
            set_auto_parallel_context(search_machine=str(cluster))
        with world.use(simulated_world(ranks, machine.ranks_per_host)), simulating(Simulation(inputs)):
            return _network_of(script)

    found = copy_context().run(run)
    if found.staged.rank_count != ranks:
        raise ConfigurationError(
            f"{script.name}: it compiles for {found.staged.rank_count} ranks, though {ranks} are simulated; let it "
            "leave device_num out, or set it to get_group_size()"
        )
    return found


def forecast_of(network: CompiledNetwork, machine: Machine) -> Forecast:
    """Return what a network will do on a machine."""
    return make_forecast(network.staged, network.configuration, Prices(machine))


def _network_of(script: Script) -> CompiledNetwork:
    with _arguments_kept(), redirect_stdout(sys.stderr), read_only_disk():
        try:
            script.run()
        except SimulationEndError as end:
            return end.network
        except MpiParallelError as error:
            raise _placed(error, script) from error
        except SystemExit as end:
            raise LaunchError(
                f"{_line(end, script)}: the script ended by exit({end.code!r}) before it trained"
            ) from end
        except Exception as error:
            # Whatever the program may raise: the line tells more than where we are.
            raise LaunchError(f"{_line(error, script)}: {_told(error)}") from error
    raise LaunchError(
        f"{script.name} ended, but trained no network and ran none on several ranks; does it train only under a "
        "condition? let that hold, or give the arguments that it needs behind --arguments"
    )


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and str(error.strerror).startswith("a simulation writes"):
        return f"{error.strerror}, but the script opens or changes {error.filename!r}; let it do so after the training"
    if isinstance(error, FileNotFoundError):
        return f"{error}; if these are data, give their shapes: --input NAME=SHAPE:DTYPE"
    return f"{type(error).__name__}: {error}"


def _placed(error: MpiParallelError, script: Script) -> MpiParallelError:
    """Return the error with the script's line, unless it says that."""
    line = _line(error, script)
    return error if line in str(error) else type(error)(f"{line}: {error}")


def _line(error: BaseException, script: Script) -> str:
    """Return file and line of the innermost frame that is neither of the package nor of Python's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_OF_USERS)]
    last = own[-1] if own else None
    return f"{last.filename}:{last.lineno}" if last else script.name


@contextmanager
def _arguments_kept() -> Iterator[None]:
    """Put Python's own arguments and search path back: a script has others."""
    words, path = list(sys.argv), list(sys.path)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = words, path
