"""``mpiparallel ckpt cat``."""

from __future__ import annotations

import argparse
import io
import math
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.durable_file import write_at
from mpiparallel.checkpoint.files.portions import portions
from mpiparallel.checkpoint.maintenance.named_state import NamedState, open_named
from mpiparallel.errors import CheckpointError, ConfigurationError
from mpiparallel.launch.ckpt.arguments import IndexBounds
from mpiparallel.launch.ckpt.output import answer
from mpiparallel.launch.command_line.output_file import output_file
from mpiparallel.launch.command_line.progress import progress_bar
from mpiparallel.launch.plan.report import amount
from mpiparallel.layout.box import Box

_EDGE: Final = 3
_PRINTED_WHOLE: Final = 1000
_MOST_ELEMENTS: Final = 1 << 20
_MOST_EDGE_DIMS: Final = 8


def execute(arguments: argparse.Namespace) -> int:
    """Print the values of a tensor or write them to a file; return 0."""
    output: Path | None = arguments.output
    with open_named(arguments.state) as source:
        name: str = arguments.tensor
        if name not in source.state.tensors:
            raise CheckpointError(f'{source.name}: has no tensor "{name}"; mpiparallel ckpt show lists them')
        tensor = source.state.tensors[name]
        shape = tensor.layout.global_shape
        box = _box(name, shape, arguments.box)
        told: dict[str, Any] = {
            "state": source.name,
            "tensor": name,
            "dtype": tensor.dtype.name,
            "shape": list(shape),
            "box": {"start": list(box.start), "stop": list(box.stop)},
        }
        head = f"{name} {tensor.dtype.name} {list(shape)}" + (
            f", of it {_text(box)}" if box != Box.whole(shape) else ""
        )
        if output is not None:
            _write(source, name, box, output)
            size = amount(box.size * tensor.dtype.itemsize)
            told |= {"file": str(output)}
            answer(told, [f"{output}: {head}, {size}"], arguments.json)
        elif arguments.json:
            answer(told | {"values": _values(source, name, box)}, [], True)
        else:
            answer(told, [head, _printed(source, name, box)], False)
    return 0


def _text(box: Box) -> str:
    return f"[{', '.join(f'{start}:{stop}' for start, stop in zip(box.start, box.stop, strict=True))}]"


def _box(name: str, shape: tuple[int, ...], bounds: IndexBounds | None) -> Box:
    given = [*(bounds or ()), *[(None, None)] * (len(shape) - len(bounds or ()))]
    start = tuple(0 if first is None else first for first, _ in given)
    stop = tuple(shape[dim] if last is None and dim < len(shape) else last or 0 for dim, (_, last) in enumerate(given))
    ends = zip(start, stop, shape, strict=False)
    if len(given) > len(shape) or any(not first <= last <= extent for first, last, extent in ends):
        raise ConfigurationError(
            f"--box: tensor {name} has shape {shape}; give start:stop within it for at most {len(shape)} dims"
        )
    return Box(start, stop)


def _printed(source: NamedState, name: str, box: Box) -> str:
    """Return what NumPy prints of a box; of a large one only what is shown is read."""
    threshold = _PRINTED_WHOLE
    if len(box.shape) > _MOST_EDGE_DIMS and box.size > _MOST_ELEMENTS:
        raise ConfigurationError(f"{name} has {box.size} elements there; choose at most {_MOST_ELEMENTS} with --box")
    if box.size <= _PRINTED_WHOLE or len(box.shape) > _MOST_EDGE_DIMS:
        array = source.state.read_box(name, box)
    else:
        threshold = 0
        array = _edges(source, name, box)
    return np.array2string(array, threshold=threshold, edgeitems=_EDGE, max_line_width=118, separator=", ")


def _edges(source: NamedState, name: str, box: Box) -> NDArray[Any]:
    """Return the corners of a box with one element, not read, between them in the dims that are too long to print."""
    spans = [_spans(start, stop) for start, stop in zip(box.start, box.stop, strict=True)]
    shape = tuple(span[-1][1] + span[-1][0].stop - span[-1][0].start for span in spans)
    array: NDArray[Any] = np.zeros(shape, source.state.tensors[name].dtype)
    for chosen in product(*spans):
        corner = Box(tuple(part.start for part, _ in chosen), tuple(part.stop for part, _ in chosen))
        index: tuple[Any, ...] = tuple(slice(at, at + len(part)) for part, at in chosen)
        array[index] = source.state.read_box(name, corner)
    return array


def _spans(start: int, stop: int) -> list[tuple[range, int]]:
    """Return the stretches of a dim that are printed, and where they go."""
    if stop - start <= 2 * _EDGE + 1:
        return [(range(start, stop), 0)]
    return [(range(start, start + _EDGE), 0), (range(stop - _EDGE, stop), _EDGE + 1)]


def _values(source: NamedState, name: str, box: Box) -> Any:
    if box.size > _MOST_ELEMENTS:
        raise ConfigurationError(
            f"--json: {name} has {box.size} elements there; choose at most {_MOST_ELEMENTS} with --box, or write "
            "a file with -o"
        )
    return _as_json(source.state.read_box(name, box).tolist())


def _as_json(value: Any) -> Any:
    """Return values as JSON has them: numbers that are not finite as texts, complex ones as pairs."""
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    if isinstance(value, complex):
        return [_as_json(value.real), _as_json(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _write(source: NamedState, name: str, box: Box, output: Path) -> None:
    dtype = source.state.tensors[name].dtype
    header = io.BytesIO()
    np.lib.format.write_array_header_2_0(
        header, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": box.shape}
    )
    with progress_bar(f"cat {name}") as progress, output_file("--output", output) as descriptor:
        write_at(descriptor, memoryview(header.getvalue()), 0)
        offset = first = len(header.getvalue())
        for part in portions(box, dtype.itemsize):
            content = np.ascontiguousarray(source.state.read_box(name, part)).reshape(-1).view(np.uint8).data
            write_at(descriptor, content, offset)
            offset += content.nbytes
            if progress is not None:
                progress(offset - first, box.size * dtype.itemsize)
