"""The state that a plan is about, read from strategy files and checkpoints: layouts, and bytes of an element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import lcm
from pathlib import Path

import numpy as np

from mpiparallel.checkpoint.catalogue import find
from mpiparallel.checkpoint.manifest import MANIFEST_SUFFIX
from mpiparallel.checkpoint.strategy.strategy_file import read_strategy
from mpiparallel.checkpoint.strategy.strategy_record import LayoutItem
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, StrategyFileError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.reshard.planning.layout_digest import LayoutPair

Shape = tuple[int, ...]


@dataclass(frozen=True)
class StateFile:
    """What a strategy file or a checkpoint says of each tensor: ``LayoutItem`` where it may lack the shape."""

    name: str
    tensors: Mapping[str, LayoutItem | Layout]
    itemsizes: Mapping[str, int]

    @classmethod
    def read(cls, name: str) -> StateFile:
        """Read a strategy file, the newest checkpoint of a folder, or a manifest.

        Raises StrategyFileError or CheckpointError.
        """
        path = Path(name)
        if path.is_dir() or path.name.endswith(MANIFEST_SUFFIX):
            tensors = find(path)[1].tensors
            itemsizes = {tensor: np.dtype(entry.dtype).itemsize for tensor, entry in tensors.items()}
            return cls(name, {tensor: entry.layout for tensor, entry in tensors.items()}, itemsizes)
        return cls(name, dict(read_strategy(path).layouts), {})

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shapes that it says."""
        return {
            tensor: shape
            for tensor, said in self.tensors.items()
            if (shape := said.global_shape if isinstance(said, Layout) else said.tensor_shape) is not None
        }

    def layouts(self, shapes: Mapping[str, Shape]) -> dict[str, Layout]:
        """Return the layout of each tensor. Raises StrategyFileError where its shape is not among ``shapes``."""
        found = {}
        for tensor, said in self.tensors.items():
            if isinstance(said, Layout):
                found[tensor] = said
                continue
            if tensor not in shapes:
                raise StrategyFileError(
                    f'{self.name}: parameter "{tensor}": its shape is not in the file; give --shapes with a .json '
                    "strategy file or a checkpoint folder of this network"
                )
            try:
                found[tensor] = said.layout(shapes[tensor])
            except StrategyFileError as error:
                raise StrategyFileError(f'{self.name}: parameter "{tensor}": {error}') from error
        return found


@dataclass(frozen=True)
class PlannedState:
    """The layouts of each tensor before and after, and the bytes of one of its elements."""

    layouts: Mapping[str, LayoutPair]
    itemsizes: Mapping[str, int]

    def with_moments(self, moments: int) -> PlannedState:
        """Return the state with ``moments`` more tensors for each, of its layouts.

        Raises ConfigurationError where optimizer states are among the tensors already.
        """
        if not moments:
            return self
        for tensor in self.layouts:
            if tensor.partition(".")[2] in self.layouts:
                raise ConfigurationError(
                    f'--moments {moments}: the state of the optimizer is in the file already, like "{tensor}"; leave '
                    "--moments out"
                )
        names = {f"moment{number}.{tensor}": tensor for number in range(1, moments + 1) for tensor in self.layouts}
        return PlannedState(
            {**self.layouts, **{name: self.layouts[tensor] for name, tensor in names.items()}},
            {**self.itemsizes, **{name: self.itemsizes[tensor] for name, tensor in names.items()}},
        )


def read_state(source: str, target: str | int, shapes_from: str | None, itemsize: int) -> PlannedState:
    """Return the state that goes from ``source`` to ``target``, a file or a number of ranks.

    ``itemsize`` is that of tensors whose dtype no file says. Raises StrategyFileError or CheckpointError for files that
    cannot be read or do not fit each other. Raises ConfigurationError for a number of ranks that the strategy cannot
    have.
    """
    before = StateFile.read(source)
    after = before if isinstance(target, int) else StateFile.read(target)
    files = [before, after, *([] if shapes_from is None else [StateFile.read(shapes_from)])]
    shapes = {tensor: shape for file in reversed(files) for tensor, shape in file.shapes.items()}
    sizes = {tensor: size for file in reversed(files) for tensor, size in file.itemsizes.items()}
    if not before.tensors:
        raise StrategyFileError(f"{source}: it has no tensors; give the file of a network with parameters")
    for one, other in ((before, after), (after, before)):
        for tensor in sorted(one.tensors.keys() - other.tensors.keys())[:1]:
            raise StrategyFileError(
                f'{other.name}: it has no "{tensor}", which {one.name} has; give two files of one network'
            )
    held = before.layouts(shapes)
    wanted = on_ranks(held, target, source) if isinstance(target, int) else after.layouts(shapes)
    for tensor in held:
        if held[tensor].global_shape != wanted[tensor].global_shape:
            raise StrategyFileError(
                f'{after.name}: "{tensor}" has shape {wanted[tensor].global_shape}, in {before.name} '
                f"{held[tensor].global_shape}; give two files of one network"
            )
    return PlannedState(
        {tensor: (held[tensor], wanted[tensor]) for tensor in held},
        {tensor: sizes.get(tensor, itemsize) for tensor in held},
    )


def on_ranks(layouts: Mapping[str, Layout], ranks: int, name: str) -> dict[str, Layout]:
    """Return the layouts of the same strategy on another number of ranks.

    Cuts stay; the outermost axis of replicas or optimizer shards gets the devices that the new count asks for. Raises
    ConfigurationError, which names the file ``name``, unless that is a whole number of them.

    >>> layout = Layout((8, 6), DeviceMatrix((2, 4)), ((1,), ()), optimizer_axes=(0,))
    >>> on_ranks({"w": layout}, 12, "w.json")["w"].devices.shape
    (3, 4)
    """
    fixed = {tensor: layout.devices.size // _extent(layout) for tensor, layout in layouts.items()}
    multiple = lcm(*fixed.values())
    if ranks % multiple:
        tensor = next(tensor for tensor in fixed if ranks % fixed[tensor])
        raise ConfigurationError(
            f'{name}: "{tensor}" is cut {layouts[tensor]}, which {ranks} ranks cannot hold with the same cuts; give a '
            f"multiple of {multiple}, or as DST a strategy file for {ranks} ranks"
        )
    return {tensor: _with_extent(layout, ranks // fixed[tensor]) for tensor, layout in layouts.items()}


def _free_axes(layout: Layout) -> Iterator[int]:
    return iter(sorted((*layout.replica_axes, *layout.optimizer_axes)))


def _extent(layout: Layout) -> int:
    axis = next(_free_axes(layout), None)
    return 1 if axis is None else layout.devices.shape[axis]


def _with_extent(layout: Layout, extent: int) -> Layout:
    axis = next(_free_axes(layout), None)
    shape = layout.devices.shape
    if axis is None:
        # A new first axis holds the replicas, so all others count one more.
        moved = tuple(tuple(axis + 1 for axis in axes) for axes in layout.tensor_map)
        return replace(layout, devices=DeviceMatrix((extent, *shape)), tensor_map=moved)
    return replace(layout, devices=DeviceMatrix((*shape[:axis], extent, *shape[axis + 1 :])))
