"""MindSpore's module paths that are other modules here: importing one gives what those offer.

>>> from mpiparallel.nn.optim.momentum import Momentum
>>> from mpiparallel import nn
>>> Momentum is nn.Momentum
True
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from mpiparallel.compatibility.absent_names import getattr_of

if TYPE_CHECKING:
    from importlib.abc import Loader

_FILES: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "_c_expression": (("train.private_names",), ""),
    "boost": (("nn.wrap.gradient_accumulation",), ""),
    "common.api": (("ops.just_in_time",), ""),
    "common.seed": (("context",), ""),
    "dataset.engine": (
        ("dataset",),
        "datasets datasets_standard_format datasets_user_defined datasets_vision samplers",
    ),
    "nn.layer": (("nn",), "activation basic container conv dense embedding math normalization padding pooling"),
    "nn.loss": (("nn.losses.loss", "nn"), "loss"),
    "nn.optim": (("nn.optimizer", "nn"), "adam momentum optimizer sgd"),
    "nn.wrap": (("nn.wrap", "nn"), "cell_wrapper grad_reducer"),
    "ops.function": (
        ("ops.functional",),
        "array_func clip_func grad linalg_func math_func nn_func other_func parameter_func random_func",
    ),
    "ops.operations": (
        ("ops.operations", "ops.primitive_names"),
        "array_ops comm_ops control_ops debug_ops inner_ops math_ops nn_ops other_ops random_ops",
    ),
    "ops.primitive": (("ops.primitive_names",), ""),
    "parallel._auto_parallel_context": (("train.private_names",), ""),
    "parallel._utils": (("train.private_names",), ""),
    "parallel.nn": (("nn.transformer", "nn"), ""),
    "train.train_thor": (("train",), "dataset_helper"),
}
"""A path of MindSpore, the modules here that have its names, and the files that MindSpore has in that folder."""

PATHS: Final[dict[str, tuple[str, ...]]] = {
    path: places
    for folder, (places, files) in _FILES.items()
    for path in (folder, *(f"{folder}.{file}" for file in files.split()))
}
"""Every path of MindSpore that is no file here, or may be none, and the modules here that have its names."""

_PACKAGE: Final = __name__.partition(".")[0]


def places_of(path: str) -> tuple[str, ...] | None:
    """Return the modules here that have the names of a MindSpore path, None for a path that is none of these.

    >>> places_of("mpiparallel.nn.optim.momentum")
    ('mpiparallel.nn.optimizer', 'mpiparallel.nn')
    """
    package, _, rest = path.partition(".")
    if package != _PACKAGE or rest not in PATHS:
        return None
    return tuple(f"{_PACKAGE}.{place}" for place in PATHS[rest])


class _Door:
    """Makes a module that looks names up in others: a ``Loader``, without the base class, which takes long to load."""

    def __init__(self, places: tuple[str, ...]) -> None:
        self._places = places

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        modules = [importlib.import_module(place) for place in self._places]
        refuse = getattr_of(module.__name__)
        offered = sorted({name for one in modules for name in _offered(one)})

        def look_up(name: str) -> Any:
            # Files inside the places are no names of MindSpore's.
            found = (vars(one)[name] for one in modules if name in vars(one))
            value = next((item for item in found if not isinstance(item, ModuleType)), None)
            return refuse(name) if value is None else value

        vars(module).update(
            __getattr__=look_up,
            __all__=offered,
            __dir__=lambda: offered,
            __doc__=f"MindSpore's door to {' and '.join(self._places)}.",
        )


def _offered(module: ModuleType) -> list[str]:
    """Return the names that a module exports; without such a list, the names that it defines."""
    listed: list[str] | None = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if not isinstance(vars(module).get(name), ModuleType)]
    own = (name for name, item in vars(module).items() if getattr(item, "__module__", "").startswith(_PACKAGE))
    return [name for name in own if not name.startswith("__")]


class _PathFinder:
    """Finds the paths of MindSpore that are other modules here, after Python has looked for a file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        places = places_of(fullname)
        if places is None:
            return None
        return ModuleSpec(fullname, cast("Loader", _Door(places)), is_package=True)


def install() -> None:
    """Let Python find the paths; once in a process."""
    if not any(isinstance(finder, _PathFinder) for finder in sys.meta_path):
        sys.meta_path.append(_PathFinder())
