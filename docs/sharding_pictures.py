"""Draw the pictures and the table of docs/start/sharding.md from the layouts that operators are given.

python -m docs.sharding_pictures writes the pictures into docs/images, and the table into docs/start/sharding.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mpiparallel import ops
from mpiparallel.backend.tensor_spec import TensorSpec
from mpiparallel.graph.equation import Equation
from mpiparallel.graph.operator import Operator, Strategy
from mpiparallel.layout import Box, DeviceMatrix, Layout
from mpiparallel.parallel.operator_placement import Operands, OperatorPlacement, ShardingRule, place_by_strategy

FOLDER = Path(__file__).parent
PAGE = FOLDER / "start" / "sharding.md"
Shape = tuple[int, ...]

_UNIT, _GAP, _TOP, _LEFT, _LETTER = 14, 60, 62, 24, 10
_TIMES = "\N{MULTIPLICATION SIGN}"
_COLOURS = ("#8ecae6", "#ffd166", "#95d5b2", "#f4a6a6", "#cdb4db", "#f6bd60", "#b8c0ff", "#d9ed92")
_TABLE = re.compile(r"(<!-- cuts: written by python -m docs.sharding_pictures -->\n).*?(<!-- end of cuts -->)", re.S)
_X, _W1, _W2 = (8, 8), (8, 12), (12, 4)


@dataclass(frozen=True)
class Drawn:
    """A tensor in a picture: its name, where it is, and the sign after it."""

    name: str
    layout: Layout
    sign: str = ""


def placed(operator: Operator, strategy: Strategy, ranks: int, *shapes: Shape) -> OperatorPlacement:
    """Return the layouts of an operator's inputs and outputs on so many ranks."""
    specs = [TensorSpec(shape, np.dtype(np.float32)) for shape in shapes]
    outputs = tuple(spec.shape for spec in operator.infer(*specs))
    operands = Operands(operator.name, ShardingRule(operator.equation(*specs), tuple(shapes), outputs))
    return place_by_strategy(operands, strategy, DeviceMatrix((ranks,)))


def pictures() -> dict[str, str]:
    """Return each picture by the name of its file."""
    first = placed(ops.MatMul(), ((2, 1), (1, 2)), 4, _X, _W1)
    second = placed(ops.MatMul(), ((2, 2), (2, 1)), 4, (8, 12), _W2)
    cut = placed(ops.MatMul(), ((4, 1), (1, 1)), 4, _X, _W1)
    terms, weight = second.outputs[0], placed(ops.MatMul(), ((2, 1), (1, 2)), 4, _X, _W1).inputs[1]
    shards = Layout(weight.global_shape, weight.devices, weight.tensor_map, optimizer_axes=weight.replica_axes)
    return {
        "device_matrix.svg": _device_matrix(DeviceMatrix((2, 4))),
        "matrix_product.svg": _row(
            [Drawn("x", first.inputs[0], _TIMES), Drawn("w1", first.inputs[1], "="), Drawn("h", first.outputs[0])]
        ),
        "partial_sums.svg": _row(
            [
                Drawn("h", second.inputs[0], _TIMES),
                Drawn("w2", second.inputs[1], "="),
                Drawn("y, two terms", terms, "→"),
                Drawn("y after AllReduce", terms.reduced()),
            ]
        ),
        "redistribution.svg": _row([Drawn("cut ((4, 1),)", cut.inputs[0], "→"), Drawn("cut ((2, 2),)", _square())]),
        "optimizer_shards.svg": _row([Drawn("weight, in use", weight, ""), Drawn("weight and moments, kept", shards)]),
        "full_batch.svg": _row(
            [
                Drawn("full_batch=True: fed to each", Layout.replicated(_X, DeviceMatrix((4,)))),
                Drawn("full_batch=False: fed in pieces", cut.inputs[0]),
            ]
        ),
    }


def _square() -> Layout:
    return placed(ops.ReLU(), ((2, 2),), 4, _X).inputs[0]


def _row(tensors: Sequence[Drawn]) -> str:
    """Return a picture of tensors side by side; each part says which ranks hold it."""
    shapes, left = [], _LEFT
    for one in tensors:
        rows, columns = one.layout.global_shape
        for index, term in enumerate(_terms(one.layout)):
            if index:
                shapes.append(_text(left - _GAP // 2, _TOP + rows * _UNIT // 2 + 6, "+", 22))
            shapes += [_part(box, ranks, left) for box, ranks in term.items()]
            if not index:
                shapes.append(_text(left, 24, one.name, 15, "start", "bold"))
                shapes.append(_text(left, 44, f"{rows} {_TIMES} {columns}", 13, "start"))
            left += columns * _UNIT + _GAP
        room = len(_terms(one.layout)) * (columns * _UNIT + _GAP) - _GAP
        left += max(0, len(one.name) * _LETTER - room)
        if one.sign:
            shapes.append(_text(left - _GAP // 2, _TOP + rows * _UNIT // 2 + 6, one.sign, 22))
    height = _TOP + max(one.layout.global_shape[0] for one in tensors) * _UNIT + 20
    return _picture(left - _GAP + _LEFT, height, shapes)


def _terms(layout: Layout) -> list[dict[Box, list[int]]]:
    """Return, for each term of a partial sum, its boxes with the ranks that hold them."""
    terms: dict[tuple[int, ...], dict[Box, list[int]]] = {}
    for rank in layout.devices.members:
        place = layout.devices.coordinates(rank)
        boxes = terms.setdefault(tuple(place[axis] for axis in layout.partial), {})
        boxes.setdefault(layout.box(rank), []).append(rank)
    return list(terms.values())


def _part(box: Box, ranks: list[int], left: int) -> str:
    (top, start), (bottom, stop) = box.start, box.stop
    x, y = left + start * _UNIT, _TOP + top * _UNIT
    width, height = (stop - start) * _UNIT, (bottom - top) * _UNIT
    colour = _COLOURS[ranks[0] % len(_COLOURS)]
    told = ",".join(map(str, ranks))
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}" stroke="#333333"/>' + _text(
        x + width // 2, y + height // 2 + 5, told, 14 if len(told) * 8 < width else 10
    )


def _device_matrix(devices: DeviceMatrix) -> str:
    """Return a picture of the ranks on two axes."""
    side, shapes = 56, [_text(_LEFT + 60, 24, f"device matrix {devices.shape}", 15, "start", "bold")]
    for rank in devices.members:
        row, column = devices.coordinates(rank)
        x, y = _LEFT + 60 + column * side, _TOP + row * side
        colour = _COLOURS[row * devices.shape[1] + column]
        shapes.append(
            f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{colour}" stroke="#333333"/>'
            + _text(x + side // 2, y + side // 2 + 6, str(rank), 18)
        )
    shapes.append(_text(_LEFT + 60, _TOP - 10, f"axis 1: {devices.shape[1]} ranks", 13, "start"))
    shapes.append(_text(_LEFT, _TOP + side, "axis 0:", 13, "start"))
    shapes.append(_text(_LEFT, _TOP + side + 18, f"{devices.shape[0]} ranks", 13, "start"))
    return _picture(2 * _LEFT + 60 + devices.shape[1] * side, _TOP + devices.shape[0] * side + 20, shapes)


def _text(x: int, y: int, text: str, size: int, anchor: str = "middle", weight: str = "normal") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" fill="#222222">'
        f"{text}</text>"
    )


def _picture(width: int, height: int, shapes: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="DejaVu Sans, Arial, sans-serif">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *shapes, "</svg>\n"])


@dataclass(frozen=True)
class Row:
    """An operator of the table, as a user would write it, with the shapes of its inputs."""

    written: str
    operator: Operator
    shapes: tuple[Shape, ...]

    @property
    def equation(self) -> Equation:
        """The operator's sharding rule."""
        return self.operator.equation(*(TensorSpec(shape, np.dtype(np.float32)) for shape in self.shapes))


ROWS = (
    Row("MatMul()", ops.MatMul(), (_X, _W1)),
    Row("BatchMatMul()", ops.BatchMatMul(), ((8, 4, 6), (8, 6, 2))),
    Row("ReLU(), Tanh(), ...", ops.ReLU(), (_X,)),
    Row("Add(), Mul(), ...", ops.Add(), (_X, (8,))),
    Row("BiasAdd()", ops.BiasAdd(), (_X, (8,))),
    Row("Softmax()", ops.Softmax(), (_X,)),
    Row("LayerNorm()", ops.LayerNorm(), (_X, (8,), (8,))),
    Row("Conv2D(8, 3)", ops.Conv2D(8, 3), ((8, 4, 6, 6), (8, 4, 3, 3))),
)


def cuts_table() -> str:
    """Return the table of which dims operators may cut, in Markdown."""
    head = "| operator | dims of its inputs | dims of its output | never cut | where cut, an AllReduce |"
    return "\n".join([head, "|---|---|---|---|---|", *map(_line, ROWS)]) + "\n"


def _line(row: Row) -> str:
    rule = row.equation
    names = {label: label.replace("d0", "a").replace("d1", "b").replace("b0", "batch") for label in rule.labels}
    inputs = "; ".join(_dims(labels, names) for labels in rule.inputs)
    fixed = [names[label] for label in names if label in rule.whole]
    summed = [names[label] for label in names if label not in rule.outputs[0] and label not in rule.whole]
    output = _dims(rule.outputs[0], names)
    return f"| `{row.written}` | {inputs} | {output} | {', '.join(fixed)} | {', '.join(summed)} |"


def _dims(labels: Sequence[str | None], names: dict[str, str]) -> str:
    return f"({', '.join('1' if label is None else names[label] for label in labels)})"


def with_table(page: str) -> str:
    """Return a page with the table as it is now."""
    return _TABLE.sub(lambda found: f"{found[1]}\n{cuts_table()}\n{found[2]}", page)


if __name__ == "__main__":
    for name, picture in pictures().items():
        (FOLDER / "images" / name).write_text(picture, encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
