"""What a checkpoint of a training holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from mpiparallel.communication.protocol import Communicator
from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.callback.callback import CallbackParameters
from mpiparallel.train.callback.checkpoint_config import CheckpointConfig
from mpiparallel.train.parameter_files.saved_object import appended_array
from mpiparallel.train.parameter_files.whole_tensors import gathered
from mpiparallel.train.persistence.state import own_tensors, state_of
from mpiparallel.train.persistence.training_record import TrainingRecord, facts_of

Arrays = dict[str, NDArray[Any]]

_WHERE: Final = "CheckpointConfig: append_info"


class Content(NamedTuple):
    """Arrays of this rank, the layouts of all tensors over the ranks, and what the manifest says of the training."""

    arrays: Arrays
    layouts: dict[str, Layout]
    training: dict[str, Any]


class CheckpointContent:
    """Chooses what is saved, as a configuration asks for."""

    def __init__(self, config: CheckpointConfig) -> None:
        self._config = config
        self._appended: dict[str, Any] = {}
        for item in config.append_info or ():
            self._appended |= {item: None} if isinstance(item, str) else item
        for name, value in self._appended.items():
            if value is not None and not isinstance(value, str):
                appended_array(_WHERE, name, value)

    def of(self, parameters: CallbackParameters, communicator: Communicator) -> Content:
        """Return what is saved after a step; all ranks call it together."""
        arrays, layouts = state_of(parameters.staged)
        own = own_tensors(parameters.staged)
        if self._config.saved_network is not None:
            kept = {parameter.name for parameter in self._config.saved_network.get_parameters()}
            arrays = {name: array for name, array in arrays.items() if name in kept}
            layouts = {name: layout for name, layout in layouts.items() if name in kept}
        if self._config.integrated_save:
            shapes = {name: parameters.staged.stored[name].global_shape for name in layouts}
            arrays, layouts = _whole(arrays, layouts, own, shapes, communicator)
            own = frozenset()
        appended = self._tensors(parameters)
        clashing = appended.keys() & layouts.keys()
        if clashing:
            raise ConfigurationError(f"{_WHERE}: {min(clashing)!r} is the name of a parameter")
        devices = DeviceMatrix(() if self._config.integrated_save or communicator.size == 1 else (communicator.size,))
        layouts |= {name: Layout.replicated(array.shape, devices) for name, array in appended.items()}
        if communicator.rank in devices:
            arrays |= appended
        record = TrainingRecord(
            step=parameters.cur_step_num,
            epoch=parameters.cur_epoch_num,
            step_in_epoch=parameters.step_in_epoch,
            ranks=parameters.device_number,
            own=own & layouts.keys(),
            appended=frozenset(appended),
            facts=facts_of(parameters.train_network, parameters.train_dataset, parameters.pieces),
        )
        return Content(arrays, layouts, {**record.as_json(), **self._texts()})

    def _tensors(self, parameters: CallbackParameters) -> Arrays:
        positions = {"epoch_num": parameters.cur_epoch_num, "step_num": parameters.cur_step_num}
        found = {}
        for name, value in self._appended.items():
            if not isinstance(value, str):
                found[name] = appended_array(_WHERE, name, positions.get(name) if value is None else value)
        return found

    def _texts(self) -> dict[str, Any]:
        texts = {name: value for name, value in self._appended.items() if isinstance(value, str)}
        return {"append_info": texts} if texts else {}


def _whole(
    arrays: Arrays,
    layouts: Mapping[str, Layout],
    own: frozenset[str],
    shapes: Mapping[str, tuple[int, ...]],
    communicator: Communicator,
) -> tuple[Arrays, dict[str, Layout]]:
    """Return whole tensors on rank 0, of what is each rank's own that of rank 0, and their layouts there."""
    shared = {name: layout for name, layout in layouts.items() if name not in own}
    found = gathered({name: arrays[name] for name in shared.keys() & arrays.keys()}, shared, [0], communicator)
    if communicator.rank == 0:
        found |= {name: arrays[name].reshape(shapes[name]) for name in own & arrays.keys()}
    return found, {name: Layout.replicated(shapes[name], DeviceMatrix(())) for name in layouts}
