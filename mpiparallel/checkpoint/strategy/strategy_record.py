"""What a strategy file says: the layout of each parameter and the strategy of each operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from math import prod
from typing import Any, Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import LayoutError, StrategyFileError, about
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout, TensorMap

Cuts = tuple[tuple[int, ...], ...]
MERGED_STAGE: Final = 1

# Ranks and opt_weight_shard_size are C ints in the file and in MPI; extents of a tensor are int64.
_MOST_RANKS = 2**31 - 1
_LONGEST_EXTENT = 2**63 - 1
_MOST_DIMS = 64


@dataclass(frozen=True)
class StrategyItem:
    """How one operator is cut: into ``cuts[input][dim]`` parts, in pipeline stage ``stage``."""

    cuts: Cuts
    stage: int = 0

    def __post_init__(self) -> None:
        if any(parts < 1 for dims in self.cuts for parts in dims):
            raise StrategyFileError(f"strategy {self.cuts} has a cut below 1; write 1 for an uncut dim")
        if any(prod(dims) > _MOST_RANKS for dims in self.cuts):
            raise StrategyFileError(f"strategy {self.cuts} cuts an input into more than {_MOST_RANKS} parts")
        if not 0 <= self.stage <= _MOST_RANKS:
            raise StrategyFileError(f"stage {self.stage} is not one; stages are counted from 0")


@dataclass(frozen=True)
class LayoutItem:
    """How one parameter is cut, over the devices of its pipeline stage, as far as a strategy file says it.

    ``tensor_map`` is that of ``Layout``: axes counted from the left, ``()`` for an uncut dim. ``opt_weight_shard_size``
    says into how many shards the parallel optimizer cuts each part of dim 0. It is 0 without it, and -1 for as many as
    there are replicas. ``opt_weight_shard_step`` is the mean distance in ranks of the shards of a part. ``field``,
    ``param_split_shape`` and ``indices_offset`` belong to embeddings that are cut by the user's own bounds.
    ``tensor_shape``, the global shape, is None where the file does not say it. Raises ``StrategyFileError`` if the
    values contradict each other.

    >>> LayoutItem((2, 4), ((), (1,))).layout((64, 32)).box(5)
    Box(start=(0, 8), stop=(64, 16))
    """

    device_matrix: tuple[int, ...]
    tensor_map: TensorMap
    opt_weight_shard_step: int = 0
    opt_weight_shard_size: int = 0
    field: int = 0
    param_split_shape: tuple[int, ...] = ()
    indices_offset: tuple[int, ...] = ()
    tensor_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        self._check_devices()
        self._check_shapes()
        self._check_shards()

    @classmethod
    def of(cls, layout: Layout, optimizer_weight_shard_size: int = -1) -> LayoutItem:
        """Return what a strategy file says of ``layout``: its device matrix without the axes of one device.

        ``optimizer_weight_shard_size`` is the option of that name: -1 is written as such where optimizer shards take
        up all replicas. Raises ``StrategyFileError`` if the file has no words for ``layout``.
        """
        if layout.partial:
            raise StrategyFileError(f"{layout}: a partial sum cannot be saved; reduce it first")
        if layout.devices.ranks:
            raise StrategyFileError(
                f"{layout}, ranks {layout.devices.ranks_text}: a strategy file knows only ranks that count up; save "
                "the layout of the places, with Layout.on_ranks(range(n))"
            )
        if any(len(axes) > 1 for axes in layout.tensor_map):
            layout = layout.canonical
        if any(len(axes) > 1 for axes in layout.tensor_map):
            raise StrategyFileError(f"{layout}: a strategy file holds one axis a dim; use such a device matrix")
        kept = [axis for axis, extent in enumerate(layout.devices.shape) if extent > 1]
        tensor_map = tuple(tuple(kept.index(axis) for axis in axes if axis in kept) for axes in layout.tensor_map)
        shard_axes = tuple(axis for axis in layout.optimizer_axes if axis in kept)
        cutting = {axis for axes in layout.tensor_map for axis in axes}
        free = tuple(axis for axis in kept if axis not in cutting)
        if shard_axes != free[len(free) - len(shard_axes) :]:
            raise StrategyFileError(f"{layout}: optimizer axes {shard_axes} must be the last of axes {free}")
        all_replicas = shard_axes == free and optimizer_weight_shard_size == -1
        shards = prod(layout.devices.shape[axis] for axis in shard_axes)
        if any(layout.bounds[1:]) or not layout.tiles:
            raise StrategyFileError(f"{layout}: a strategy file has words for bounds of dim 0 only; cut others evenly")
        bounds = layout.bounds[0] if layout.bounds else ()
        return cls(
            tuple(layout.devices.shape[axis] for axis in kept) or (1,),
            tensor_map,
            opt_weight_shard_step=_shard_step(layout.devices.shape, shard_axes),
            opt_weight_shard_size=(-1 if all_replicas else shards) if shard_axes else 0,
            param_split_shape=tuple(stop - start for start, stop in bounds),
            indices_offset=tuple(start for start, _ in bounds),
            tensor_shape=layout.global_shape,
        )

    def layout(self, global_shape: tuple[int, ...] | None = None, first_rank: int = 0) -> Layout:
        """Return the layout of a tensor of ``global_shape`` on ranks from ``first_rank``, the first of the stage.

        Raises ``StrategyFileError`` if the shape is unknown or does not fit, or if the parameter is cut by bounds.
        """
        shape = self.tensor_shape if global_shape is None else global_shape
        if shape is None:
            raise StrategyFileError("its shape is not in the file; give global_shape, or save the strategy as .json")
        if self.tensor_shape not in (None, shape):
            raise StrategyFileError(
                f"it has shape {self.tensor_shape} in the file, not {shape}; use the file of this network"
            )
        if self.field or self.param_split_shape:
            raise StrategyFileError(
                f"it is cut by bounds (field {self.field}, param_split_shape {list(self.param_split_shape)}); "
                "only equal cuts can be read: train it without manual_split"
            )
        devices, shard_axes = self._refined()
        try:
            layout = Layout(shape, DeviceMatrix(self.device_matrix, first_rank), self.tensor_map)
            return replace(layout.reshaped_devices(devices), optimizer_axes=shard_axes)
        except LayoutError as error:
            raise StrategyFileError(f"{error}; use the file of this network") from error

    def _check_devices(self) -> None:
        if max(len(self.device_matrix), len(self.tensor_map)) > _MOST_DIMS:
            raise StrategyFileError(f"it has more than {_MOST_DIMS} axes or dims; NumPy knows no such arrays")
        if not self.device_matrix or min(self.device_matrix) < 1 or prod(self.device_matrix) > _MOST_RANKS:
            raise StrategyFileError(
                f"device matrix {list(self.device_matrix)} is not one; each axis needs a device, all axes together "
                f"at most {_MOST_RANKS}"
            )
        axes = [axis for dim_axes in self.tensor_map for axis in dim_axes]
        if len(axes) != len(set(axes)) or any(not 0 <= axis < len(self.device_matrix) for axis in axes):
            raise StrategyFileError(
                f"tensor map {self.tensor_map} does not fit device matrix {list(self.device_matrix)}; each axis may "
                "cut one dim"
            )
        if any(len(axes) > 1 for axes in self.tensor_map):
            raise StrategyFileError(f"tensor map {self.tensor_map}: a strategy file holds one axis for each dim")

    def _check_shapes(self) -> None:
        shape = self.tensor_shape
        extents = (*(shape or ()), *self.param_split_shape, *self.indices_offset)
        if any(not 0 <= extent <= _LONGEST_EXTENT for extent in extents):
            raise StrategyFileError(f"shapes {extents} are not shapes; extents are 0 to {_LONGEST_EXTENT}")
        if shape is not None and len(shape) != len(self.tensor_map):
            raise StrategyFileError(f"tensor map {self.tensor_map} does not fit shape {shape}; give each dim one entry")
        if not 0 <= self.field <= _MOST_RANKS:
            raise StrategyFileError(f"field {self.field} is not one; it is a number of columns, or 0")
        if len(self.indices_offset) not in (0, len(self.param_split_shape)):
            raise StrategyFileError(
                f"param_split_shape has {len(self.param_split_shape)} entries, indices_offset "
                f"{len(self.indices_offset)}; give each slice one of each"
            )

    def _check_shards(self) -> None:
        if not -1 <= self.opt_weight_shard_size <= _MOST_RANKS:
            raise StrategyFileError(f"opt_weight_shard_size {self.opt_weight_shard_size} is not one; use -1, 0 or more")
        devices, shard_axes = self._refined()
        if shard_axes and not self.tensor_map:
            raise StrategyFileError("a 0-d tensor has no dim 0 for an optimizer shard to cut")
        step = _shard_step(devices, shard_axes)
        if self.opt_weight_shard_step != step:
            raise StrategyFileError(
                f"opt_weight_shard_step {self.opt_weight_shard_step} contradicts opt_weight_shard_size "
                f"{self.opt_weight_shard_size} on device matrix {list(self.device_matrix)}, where it is {step}"
            )

    def _free_axes(self) -> tuple[int, ...]:
        used = {axis for axes in self.tensor_map for axis in axes}
        return tuple(axis for axis, extent in enumerate(self.device_matrix) if extent > 1 and axis not in used)

    def _refined(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return a device matrix in which whole axes hold the optimizer shards, and those axes.

        The ranks that hold a part, ascending, form consecutive chunks; position in the chunk is the shard. So shards
        lie on the last free axes, the first of which may have to be split.
        """
        devices, free = self.device_matrix, self._free_axes()
        left = self.opt_weight_shard_size if self.opt_weight_shard_size != -1 else prod(devices[axis] for axis in free)
        taken: tuple[int, ...] = ()
        for axis in reversed(free):
            extent = devices[axis]
            if left >= extent and left % extent == 0:
                left, taken = left // extent, (axis, *taken)
            elif left > 1 and extent % left == 0:
                split = (*devices[:axis], extent // left, left, *devices[axis + 1 :])
                return split, tuple(later + 1 for later in (axis, *taken))
            else:
                break
        if left > 1:
            raise StrategyFileError(
                f"opt_weight_shard_size {self.opt_weight_shard_size} does not fit the {list(devices)} devices, where "
                f"axes {free} hold replicas; use a product of the last of these"
            )
        return devices, taken


@dataclass(frozen=True)
class StrategyRecord:
    """What one strategy file says.

    ``layouts`` is keyed by parameter or optimizer state, ``strategies`` by operator. An operator's key is its type,
    ``_`` and the name of its first parameter, or its place in the network where it has none. ``current_stage`` is 2 in
    the files that training writes, ``MERGED_STAGE`` in merged ones. ``plan`` is what a search has found beside
    strategies, in JSON; MindSpore's files have none.
    """

    layouts: Mapping[str, LayoutItem]
    strategies: Mapping[str, StrategyItem]
    current_stage: int = 2
    plan: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.current_stage <= _MOST_RANKS:
            raise StrategyFileError(f"current_stage {self.current_stage} is not one; training writes 2, merging 1")
        for name in (*self.layouts, *self.strategies):
            if not name or "\0" in name or name != name.encode(errors="replace").decode():
                raise StrategyFileError(f"{name!r} is no name; parameters and operators need printable names")

    @classmethod
    def of(
        cls,
        layouts: Mapping[str, Layout],
        strategies: Mapping[str, Cuts],
        optimizer_weight_shard_size: int = -1,
        stage: int = 0,
    ) -> StrategyRecord:
        """Return the record of one pipeline stage. Raises ``StrategyFileError`` that names what does not fit."""
        layout_items = {}
        for name, layout in layouts.items():
            with about(f'parameter "{name}"'):
                layout_items[name] = LayoutItem.of(layout, optimizer_weight_shard_size)
        strategy_items = {}
        for name, cuts in strategies.items():
            with about(f'operator "{name}"'):
                strategy_items[name] = StrategyItem(cuts, stage)
        return cls(layout_items, strategy_items)

    def resolve(self, shapes: Mapping[str, tuple[int, ...]], first_rank: int = 0) -> dict[str, Layout]:
        """Return the layout of each parameter on ranks from ``first_rank``.

        ``shapes`` gives the global shapes that the file does not say. Raises ``StrategyFileError`` that names the
        parameter.
        """
        layouts = {}
        for name, item in self.layouts.items():
            with about(f'parameter "{name}"'):
                layouts[name] = item.layout(shapes.get(name), first_rank)
        return layouts


def to_right(item: LayoutItem) -> tuple[int, ...]:
    """Return the tensor map of ``item`` as MindSpore writes it: axes counted from the right, -1 for an uncut dim.

    >>> to_right(LayoutItem((2, 4), ((0,), ())))
    (1, -1)
    """
    return tuple(len(item.device_matrix) - 1 - axes[0] if axes else -1 for axes in item.tensor_map)


def from_right(tensor_map: tuple[int, ...], device_matrix: tuple[int, ...]) -> TensorMap:
    """Return the tensor map that MindSpore writes as ``tensor_map``.

    >>> from_right((1, -1), (2, 4))
    ((0,), ())
    """
    return tuple(() if entry == -1 else (len(device_matrix) - 1 - entry,) for entry in tensor_map)


def _shard_step(devices: tuple[int, ...], shard_axes: tuple[int, ...]) -> int:
    """Return the mean distance in ranks of two neighbouring shards, rounded down."""
    strides = DeviceMatrix(devices).strides
    span = sum((devices[axis] - 1) * strides[axis] for axis in shard_axes)
    return span // max(1, prod(devices[axis] for axis in shard_axes) - 1)
