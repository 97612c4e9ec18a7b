"""The formats that arrays can be read from and written to, chosen by the suffix of a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import ArrayFile, Attribute, NamedArrays
from mpiparallel.checkpoint.shard.reader import open_shard
from mpiparallel.checkpoint.shard.writer import write_shard
from mpiparallel.compatibility.remark import remark
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import CheckpointError


@dataclass(frozen=True)
class Format:
    """How files of a ``suffix`` are read and written.

    ``open`` gives the file after checking all that needs no array to be read. ``write`` replaces a file in one step and
    takes the arrays one at a time, in the order of their infos. Both raise ``CheckpointError``.
    """

    name: str
    suffix: str
    open: Callable[[Path], ArrayFile]
    write: Callable[[Path, Mapping[str, TensorSpec], NamedArrays, Mapping[str, Attribute]], object]


def _loaded_late(name: str, noun: str) -> Format:
    """Return the format of the module ``noun``, which is loaded for the first file of it: most jobs have none."""

    def late(verb: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            module = import_module(f"mpiparallel.checkpoint.formats.{noun}")
            return getattr(module, f"{verb}_{noun}")(*arguments)

        return call

    return Format(name, f".{name}", late("open"), late("write"))


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        format_.name: format_
        for format_ in (
            Format("h5", ".h5", open_shard, write_shard),
            _loaded_late("ckpt", "mindspore_checkpoint"),
            _loaded_late("safetensors", "safetensors"),
            _loaded_late("npz", "numpy_archive"),
        )
    }
)


def format_of(path: str | Path) -> Format:
    """Return the format of a file by its suffix. Raises ``CheckpointError`` if there is none.

    >>> format_of("rank_0/net-1_77.h5").name
    'h5'
    """
    for format_ in FORMATS.values():
        if Path(path).suffix == format_.suffix:
            return format_
    known = ", ".join(format_.suffix for format_ in FORMATS.values())
    raise CheckpointError(f"{path}: its suffix tells no format; use one of {known}")


def existing_file(path: str | Path) -> Path:
    """Return ``path``; where it is missing, the file beside it that has its name in another format, and say so.

    Programs that are written for MindSpore name ``x.ckpt`` where training has written ``x.h5``.
    """
    wanted = Path(path)
    suffixes = [format_.suffix for format_ in FORMATS.values()]
    if wanted.suffix in suffixes and not os.path.lexists(wanted):
        for beside in (wanted.with_suffix(suffix) for suffix in suffixes):
            if beside.is_file():
                # One line for all files of a job.
                remark(f"missing {wanted.suffix} files are replaced by {beside.suffix} files of the same names")
                return beside
    return wanted


def open_file(path: str | Path) -> ArrayFile:
    """Open a file of arrays. Raises ``CheckpointError`` if its suffix or its content is of no format known here."""
    return format_of(path).open(Path(path))


def write_file(
    path: str | Path, infos: Mapping[str, TensorSpec], arrays: NamedArrays, attributes: Mapping[str, Attribute]
) -> None:
    """Replace ``path`` by a file of ``arrays``, in the order of ``infos``. Raises ``CheckpointError``."""
    format_of(path).write(Path(path), infos, arrays, attributes)
