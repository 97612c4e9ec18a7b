"""What each rank is fed of a batch: the whole of it, or a piece of each input; each stage of a pipeline all pieces."""

from __future__ import annotations

from collections.abc import Sequence

from mpiparallel.errors import ConfigurationError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.parallel.configuration import ParallelConfiguration, ParallelMode

Shape = tuple[int, ...]


def fed_cuts(place: int, shape: Shape, configuration: ParallelConfiguration) -> tuple[int, ...]:
    """Return in how many pieces each dim of the input in this place is cut, of which a rank is fed one.

    Raises ConfigurationError where ``dataset_strategy`` says nothing of such an input.

    >>> fed_cuts(0, (6, 4), ParallelConfiguration(device_num=2, full_batch=False))
    (2, 1)
    """
    if configuration.full_batch or not shape:
        return (1,) * len(shape)
    if not configuration.input_cuts:
        return (configuration.stage_device_num, *(1,) * (len(shape) - 1))
    if place >= len(configuration.input_cuts) or len(configuration.input_cuts[place]) != len(shape):
        raise ConfigurationError(
            f"dataset_strategy {configuration.input_cuts!r}: input {place} of the network has shape {shape}; give the "
            "cuts of every input, a number for each dim"
        )
    return configuration.input_cuts[place]


def global_shapes(fed: Sequence[Shape], configuration: ParallelConfiguration) -> list[Shape]:
    """Return the shapes of the whole inputs where each rank is fed these.

    Where ranks have batches of their own there is no whole.
    """
    if configuration.mode not in ParallelMode.ONE_BATCH:
        return list(fed)
    cuts = [fed_cuts(place, shape, configuration) for place, shape in enumerate(fed)]
    return [tuple(n * cut for n, cut in zip(*pair, strict=True)) for pair in zip(fed, cuts, strict=True)]


def fed_shapes(whole: Sequence[Shape], configuration: ParallelConfiguration) -> list[Shape]:
    """Return the shapes that each rank is fed of inputs of these shapes."""
    if configuration.mode not in ParallelMode.ONE_BATCH:
        return list(whole)
    cuts = [fed_cuts(place, shape, configuration) for place, shape in enumerate(whole)]
    return [tuple(n // cut for n, cut in zip(*pair, strict=True)) for pair in zip(whole, cuts, strict=True)]


def input_layout(place: int, shape: Shape, devices: DeviceMatrix, configuration: ParallelConfiguration) -> Layout:
    """Return where the pieces of the input in this place are: with their ranks, in the order of its dims."""
    if devices.size == 1:
        return Layout.replicated(shape, devices)
    cuts = fed_cuts(place, shape, configuration)
    axes = [dim for dim, cut in enumerate(cuts) if cut > 1]
    if not axes:
        return Layout.replicated(shape, devices)
    tensor_map = tuple((axes.index(dim),) if dim in axes else () for dim in range(len(shape)))
    return Layout(shape, devices.reshaped(tuple(cuts[dim] for dim in axes)), tensor_map)
