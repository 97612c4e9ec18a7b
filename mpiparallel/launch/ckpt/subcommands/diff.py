"""``mpiparallel ckpt diff``."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mpiparallel.checkpoint.maintenance.difference import TensorDifference, differences
from mpiparallel.checkpoint.maintenance.named_state import open_named
from mpiparallel.checkpoint.stored_state import StoredTensor
from mpiparallel.launch.ckpt.output import answer, several, table
from mpiparallel.launch.command_line.progress import progress_bar

_SHOWN: Final = 50


def execute(arguments: argparse.Namespace) -> int:
    """Compare two states; return 1 where tensors, dtypes, shapes or values differ; how they are cut does not count."""
    with open_named(arguments.first) as first, open_named(arguments.second) as second:
        names = first.name, second.name
        with progress_bar("diff") as progress:
            found = list(differences(first, second, progress))
    is_equal = all(tensor.verdict == "equal" for tensor in found)
    told = {
        "first": names[0],
        "second": names[1],
        "equal": is_equal,
        "tensors": [_told(tensor) for tensor in found],
    }
    answer(told, _lines(*names, found), arguments.json)
    return 0 if is_equal else 1


def _told(tensor: TensorDifference) -> dict[str, Any]:
    values = tensor.values
    return {
        "name": tensor.name,
        "verdict": tensor.verdict,
        "problem": tensor.problem or None,
        "first": _described(tensor.first),
        "second": _described(tensor.second),
        "same_layout": tensor.same_layout,
        "by_digest": tensor.by_digest,
        "elements": None if values is None else values.size,
        "differing": None if values is None else values.differing,
        "largest": values.largest if values is not None and math.isfinite(values.largest) else None,
        "not_finite": None if values is None else values.not_finite,
        "first_at": list(values.first) if values is not None and values.first is not None else None,
    }


def _described(tensor: StoredTensor | None) -> dict[str, Any] | None:
    if tensor is None:
        return None
    layout = tensor.layout
    return {"dtype": tensor.dtype.name, "shape": list(layout.global_shape), "layout": str(layout)}


def _lines(first: str, second: str, found: Sequence[TensorDifference]) -> Iterator[str]:
    equal = [tensor for tensor in found if tensor.verdict == "equal"]
    others = [tensor for tensor in found if tensor.verdict != "equal"]
    recut = sum(not tensor.same_layout for tensor in equal)
    digests = sum(tensor.by_digest for tensor in equal)
    told = f" ({digests} of them by the digests that were saved)" if digests else ""
    cut = f", {recut} of them cut otherwise" if recut else ""
    if not others:
        yield f"equal: {first} and {second} have the same {several(len(equal), 'tensor')}, bit for bit{told}{cut}"
        return
    yield f"DIFFERENT: {first} and {second} differ in {len(others)} of {several(len(found), 'tensor')}"
    yield from table(("  tensor", "difference"), [(f"  {t.name}", _text(t)) for t in others[:_SHOWN]], "ll")
    if len(others) > _SHOWN:
        yield f"  and {len(others) - _SHOWN} more; --json tells all"


def _text(tensor: TensorDifference) -> str:
    before, after, values = tensor.first, tensor.second, tensor.values
    if before is None or after is None:
        return tensor.verdict
    if tensor.problem:
        return "cannot be read; mpiparallel ckpt verify says why"
    if values is None:
        return f"shape {before.layout.global_shape} against {after.layout.global_shape}"
    dtypes = "" if tensor.same_dtype else f"{before.dtype} against {after.dtype}, "
    if not values.differing:
        return f"{dtypes}values equal"
    strange = f", {values.not_finite:,} of them infinite or no number" if values.not_finite else ""
    return (
        f"{dtypes}{values.differing:,} of {several(values.size, 'element')} differ, by at most {values.largest:.6g}"
        f"{strange}, first at {list(values.first or ())}"
    )
