"""Parameters: tensors that training changes and that are saved."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from mpiparallel.backend.protocol import Array, Backend
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.errors import LayoutError
from mpiparallel.graph.parameter_settings import ParameterSettings
from mpiparallel.graph.tensor import Tensor
from mpiparallel.layout.box import Box
from mpiparallel.layout.layout import Layout


class _Absent:
    """Stands for a parameter's values that only other ranks hold; ``whose`` says which ranks, and how to read it."""

    def __init__(self, whose: str) -> None:
        self._whose = whose

    def part(self, name: str, shape: tuple[int, ...], box: Box) -> np.ndarray[Any, Any]:
        self.refuse(name, shape)

    def refuse(self, name: str, shape: tuple[int, ...]) -> NoReturn:
        raise LayoutError(f"parameter {name!r} of shape {shape} is held by other ranks, {self._whose}")


_RESHARDED = (
    "to which Model.reshard has moved it; read it there, where model.active is true, or reshard to this rank again"
)

_IN_STAGE = "of another stage of the pipeline; read it there"


class Parameter(ParameterSettings, Tensor):
    """A tensor that training changes and that is saved: weights, moments, counters.

    Inside a cell the name is prefixed with the cell's place. After a network is compiled ``layout`` says which rank
    holds which box, and ``asnumpy()`` returns that of this rank, unless only others hold any. A ``transient`` one means
    nothing between steps: it is neither saved nor moved. One that ``is_held`` is in a cell, after which it is named.

    Parameters
    ----------
    default_input : Tensor, array or number
        The first value; of a tensor of ``initializer`` each rank makes only its own slice.
    name : str, optional
        By which it is saved.
    requires_grad : bool
        Whether ``trainable_params`` has it.
    layerwise_parallel : bool
        Whether in data and hybrid parallel mode each rank has its own, so that its gradient is not summed over ranks.
    parallel_optimizer : bool
        Whether the parallel optimizer may cut it.

    Examples
    --------
    >>> weight = Parameter(np.zeros((2, 3), np.float32), name="weight")
    >>> weight.name, weight.shape, weight.requires_grad
    ('weight', (2, 3), True)
    """

    def __init__(
        self,
        default_input: Any,
        name: str | None = None,
        requires_grad: bool = True,
        layerwise_parallel: bool = False,
        parallel_optimizer: bool = True,
    ) -> None:
        if isinstance(default_input, Tensor) and default_input.has_init:
            super().__init__(shape=default_input.shape, dtype=default_input.dtype, init=default_input.initial)
        else:
            # A copy: training overwrites a parameter, never what it was made from.
            super().__init__(Tensor(default_input).asnumpy().copy())
        self.name = name or "Parameter"
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer
        self.transient = False
        self.is_held = False
        self.layout: Layout | None = None
        self.rank = 0

    @property
    def box(self) -> Box:
        """The elements of the whole parameter that this rank holds; LayoutError where only others hold any."""
        if self.layout is None:
            return Box.whole(self.shape)
        if isinstance(self._initial, _Absent) and self._array is None:
            self._initial.refuse(self.name, self.shape)
        return self.layout.box(self.rank)

    def place(self, layout: Layout, rank: int, backend: Backend) -> None:
        """Make the slice that ``layout`` gives to ``rank``, from the first value or the whole that the rank holds.

        A parameter that is laid out so already stays as it is. Raises LayoutError when the rank holds only part of it.
        """
        if self.layout is not None and self.layout.canonical == layout.canonical:
            return
        if self.box != Box.whole(self.shape):
            raise LayoutError(
                f"parameter {self.name!r} is laid out as {self.layout}, but wanted as {layout}; make the network anew "
                "after "
                "changing the parallel context, or move its state"
            )
        placed = self.layout is not None
        self.layout, self.rank = layout, rank
        box = self.box
        if placed and box == Box.whole(self.shape):
            # Programs are bound to the array.
            return
        if self._array is None and self._initial is not None:
            part = self._initial.part(self.name, self.shape, box)
        else:
            part = np.asarray(self.asnumpy())[box.within(Box.whole(self.shape))]
        self._array = backend.from_host(np.ascontiguousarray(part, self.dtype).reshape(box.shape), self.name)

    def move(self, layout: Layout, rank: int, array: Array) -> None:
        """Take over the slice of another layout, as resharding made it."""
        self.layout, self.rank, self._array = layout, rank, array

    def forget(self) -> None:
        """Give the slice of a transient parameter back; where it is placed next, it begins anew."""
        self.layout, self._array = None, None

    def leave(self, layout: Layout | None = None, rank: int = 0) -> None:
        """Give the slice back, because other ranks hold the parameter now; until it is moved here it has no values.

        ``layout`` is that in which another stage of the pipeline holds it, of which ``rank`` has nothing.
        """
        whose = _RESHARDED if layout is None else f"{layout.devices.ranks_text}, {_IN_STAGE}"
        self.layout, self.rank, self._array, self._initial = layout, rank, None, _Absent(whose)

    @property
    def is_elsewhere(self) -> bool:
        """Whether only other ranks hold it, so that it has no values here."""
        return self._array is None and isinstance(self._initial, _Absent)

    def set_data(self, data: Any, slice_shape: bool = False) -> Parameter:
        """Overwrite the values with a tensor or an array and return the parameter.

        The whole tensor is given, or with ``slice_shape`` this rank's slice.
        """
        array = data.asnumpy() if isinstance(data, Tensor) else np.asarray(data)
        box = self.box
        if slice_shape and self.layout is None:
            self._spec = TensorSpec(tuple(array.shape), self.spec.dtype)
            box = Box.whole(self.shape)
        elif tuple(array.shape) == self.shape and not slice_shape:
            array = array[box.within(Box.whole(self.shape))]
        if tuple(array.shape) != box.shape:
            raise LayoutError(
                f"parameter {self.name!r} of shape {self.shape}, of which this rank holds {box.shape}, cannot take "
                "data of "
                f"shape {tuple(array.shape)}"
            )
        if self._array is None or self._array.shape != box.shape:
            self._array = np.array(array, self.dtype)
        else:
            self._array[...] = array.astype(self.dtype, copy=False)
        return self

    def _overwrite(self, places: Any, values: Any) -> None:
        if self.box != Box.whole(self.shape):
            raise LayoutError(
                f"parameter {self.name!r} of shape {self.shape} is cut, and this rank holds {self.box.shape} of it; "
                "give its new values to set_data"
            )
        changed = self.asnumpy().copy()
        changed[places] = values
        self.set_data(changed)

    def init_data(self, layout: Any = None, set_sliced: bool = False) -> Parameter:
        """Fill the whole parameter from its initializer, where that has not been done, and return it."""
        self._check_init(layout, set_sliced)
        super().init_data()
        return self

    def twin(self, prefix: str, init: Any) -> Parameter:
        """Return a parameter of the same shape and dtype named ``prefix.name``, laid out like this one."""
        twin = Parameter(Tensor(shape=self.shape, dtype=self.dtype, init=init), f"{prefix}.{self.name}", False)
        return self._set_alike(twin)

    def clone(self, init: Any = "same") -> Parameter:
        """Return a parameter of the same name, shape and dtype; its values are those of this one, or by ``init``.

        ``init`` is "same" or an initializer's tensor of this shape. Raises LayoutError where this rank holds only part.
        """
        if not (isinstance(init, str) and init == "same"):
            return self._set_alike(Parameter(init, self.name, self.requires_grad))
        if self.has_init:
            first = Tensor(shape=self.shape, dtype=self.dtype, init=self.initial)
            return self._set_alike(Parameter(first, self.name, self.requires_grad))
        if self.box != Box.whole(self.shape):
            raise LayoutError(
                f"parameter {self.name!r} of shape {self.shape} is cut, and this rank holds {self.box.shape} of it; "
                "clone it before the network is compiled"
            )
        return self._set_alike(Parameter(self.asnumpy(), self.name, self.requires_grad))

    def renamed(self, name: str) -> Parameter:
        """Name the parameter and return it."""
        self.name = name
        return self

    def _set_alike(self, twin: Parameter) -> Parameter:
        twin.parallel_optimizer = self.parallel_optimizer
        twin.layerwise_parallel = self.layerwise_parallel
        return twin

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} (name={self.name}, shape={self.shape}, dtype={self.dtype}, "
            f"requires_grad={self.requires_grad})"
        )
