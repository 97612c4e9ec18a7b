"""One file of whole tensors, made from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.checkpoint.files.array_file import Attribute
from mpiparallel.checkpoint.files.meter import Meter, Progress
from mpiparallel.checkpoint.files.portions import portions
from mpiparallel.checkpoint.formats.registry import FORMATS, Format, format_of
from mpiparallel.checkpoint.maintenance.named_state import NamedState, open_named
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.box import Box


class Exported(NamedTuple):
    """What was written: format, tensors and their bytes, and for which ranks others stood in, with the reason."""

    format: str
    tensors: int
    nbytes: int
    replaced: dict[int, str]


def export(
    named: str | Path,
    path: str | Path,
    format: str | None = None,
    wanted: Callable[[str], bool] | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write the whole tensors of a checkpoint, or of a file of arrays, to the file ``path``.

    ``format`` is "h5", "ckpt", "safetensors" or "npz"; by default the suffix of ``path`` says it. ``wanted`` chooses
    tensors by name. One tensor is in memory at a time. Slices that are lost are read from replicas. Raises
    ``CheckpointError``, and then ``path`` is as it was.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise CheckpointError(f'{path}: there is no format "{format}"; use one of {", ".join(FORMATS)}')
    chosen = format_of(path) if format is None else FORMATS[format]
    with open_named(named) as source:
        infos = {
            name: TensorSpec(tensor.layout.global_shape, tensor.dtype)
            for name, tensor in source.state.tensors.items()
            if wanted is None or wanted(name)
        }
        if not infos:
            raise CheckpointError(f"{source.name}: has no tensor that was asked for; mpiparallel ckpt show lists them")
        total = sum(info.byte_count for info in infos.values())
        chosen.write(path, infos, _whole(source, infos, Meter(total, progress)), _attributes(source, chosen))
        return Exported(chosen.name, len(infos), total, dict(source.state.replaced))


def _attributes(source: NamedState, format: Format) -> dict[str, Attribute]:
    # There they are arrays, which other programs would take for parameters.
    if format.name in ("ckpt", "npz"):
        return {}
    if source.manifest is None:
        return source.attributes
    return {"prefix": source.manifest.prefix, "epoch": source.manifest.epoch, "step": source.manifest.step}


def _whole(source: NamedState, infos: dict[str, TensorSpec], meter: Meter) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, info in infos.items():
        try:
            array: NDArray[Any] = np.empty(info.shape, info.dtype)
        except MemoryError as error:
            raise CheckpointError(
                f'{source.name}: tensor "{name}" needs {info.byte_count} bytes of memory; no room for it as a whole'
            ) from error
        for box in portions(Box.whole(info.shape), info.dtype.itemsize):
            within: tuple[Any, ...] = (*box.within(Box.whole(info.shape)), ...)
            view = array[within]
            source.state.fill_box(name, box, view)
            meter.add(view.nbytes)
        yield name, array
        del array
