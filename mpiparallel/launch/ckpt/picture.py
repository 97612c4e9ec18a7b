"""The picture of a checkpoint: each way of cutting a tensor, and which ranks have which part of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Final

from mpiparallel.launch.ckpt.held_tensor import HeldSlice, HeldTensor
from mpiparallel.launch.command_line.output_file import write_output
from mpiparallel.launch.plan.report import amount

_PANELS: Final = 12
_COLUMNS: Final = 3
_WIDTH: Final = 330
_HIGHEST: Final = 210
_PANEL_HEAD: Final = 58
_PANEL_GAP: Final = 32
_MARGIN: Final = 24
_HEAD: Final = 84
_BAR: Final = 120
_LEAST_TEXT: Final = 14
_CHARACTER: Final = 6.6
_BARS: Final = 64
_LABEL_WIDTH: Final = 16
_NAME_CHARACTERS: Final = 42
_LOST: Final = "#C1272D"


def draw(path: Path, title: str, tensors: Sequence[HeldTensor], ranks: int, problems: Mapping[int, str]) -> None:
    """Draw who holds which part of ``tensors`` into the SVG file ``path``; ``problems`` are those of lost files.

    Tensors that are cut alike share a panel. Raises ConfigurationError where it cannot be written.
    """
    write_output("--svg", path, picture(title, tensors, ranks, problems).encode(errors="backslashreplace"))


def picture(title: str, tensors: Sequence[HeldTensor], ranks: int, problems: Mapping[int, str]) -> str:
    """Return the SVG of who holds which part of ``tensors``."""
    groups: dict[object, list[HeldTensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.who, []).append(tensor)
    panels = sorted(groups.values(), key=lambda group: -sum(tensor.nbytes for tensor in group))
    shown = panels[:_PANELS]
    rows = [shown[first : first + _COLUMNS] for first in range(0, len(shown), _COLUMNS)]
    tops = list(accumulate((max(map(_panel_height, row)) for row in rows), initial=_HEAD))
    bars_top = tops[-1]
    width, height = _COLUMNS * _WIDTH + 2 * _MARGIN, bars_top + _BAR + 90
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="DejaVu Sans, Verdana, sans-serif" font-size="11" fill="#222">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        _text(_MARGIN, 34, _shortened(title, 90), size=17, weight="bold"),
        *(
            _text(_MARGIN, 56 + _LEAST_TEXT * number, line, fill="#555")
            for number, line in enumerate(_summary(tensors, ranks, len(panels) - len(shown), problems))
        ),
    ]
    for row, top in zip(rows, tops, strict=False):
        for column, group in enumerate(row):
            lines += _panel(group, _MARGIN + column * _WIDTH, top, ranks)
    lines += _bars(tensors, ranks, problems, bars_top)
    return "\n".join([*lines, "</svg>", ""])


def _summary(tensors: Sequence[HeldTensor], ranks: int, hidden: int, problems: Mapping[int, str]) -> Iterator[str]:
    """Yield what is shown, and in a line of its own what is lost or not shown: one line of both leaves the picture."""
    whole = amount(sum(tensor.nbytes for tensor in tensors))
    yield f"{len(tensors)} tensors, {whole}, of {ranks} ranks; numbers are the ranks whose files have a part"
    told = []
    if problems:
        shown = ", ".join(map(str, sorted(problems)[:8])) + (", ..." if len(problems) > 8 else "")
        told.append(f"red: missing or damaged, of rank{'s' * (len(problems) > 1)} {shown}")
    if hidden:
        told.append(f"{hidden} more ways of cutting are not shown")
    if told:
        yield "; ".join(told)


def _largest(group: Sequence[HeldTensor]) -> HeldTensor:
    return max(group, key=lambda tensor: tensor.nbytes)


def _panel_height(group: Sequence[HeldTensor]) -> float:
    tensor = _largest(group)
    return _extent(tensor, *_drawn_dims(tensor))[1] + _PANEL_HEAD + _PANEL_GAP


def _panel(group: Sequence[HeldTensor], left: float, top: float, ranks: int) -> Iterator[str]:
    tensor = _largest(group)
    yield _text(left, top + 14, _shortened(tensor.name, _NAME_CHARACTERS), weight="bold")
    yield _text(left, top + 30, f"{tensor.dtype} {tensor.layout}", fill="#555")
    if len(group) > 1:
        yield _text(left, top + 46, f"and {len(group) - 1} more cut alike", fill="#555")
    down, across = _drawn_dims(tensor)
    wide, high = _extent(tensor, down, across)
    if not tensor.nbytes:
        yield _text(left, top + _PANEL_HEAD + 14, "(no elements)", fill="#555")
        return
    # Lost ones last, so that no neighbour covers their frame.
    for part, others in sorted(_cells(tensor, down, across), key=lambda cell: cell[0].is_lost):
        x, width = _span(tensor, part, across, wide)
        y, height = _span(tensor, part, down, high)
        yield from _cell(part, others, left + x, top + _PANEL_HEAD + y, width, height, ranks)


def _drawn_dims(tensor: HeldTensor) -> tuple[int | None, int | None]:
    """Return which dim goes down and which goes across: cut ones first, in order; None for none."""
    dims = len(tensor.shape)
    if dims < 2:
        return None, (0 if dims else None)
    chosen = [dim for dim in range(dims) if tensor.cuts[dim] > 1][:2]
    chosen += [dim for dim in range(dims) if dim not in chosen][: 2 - len(chosen)]
    return min(chosen), max(chosen)


def _extent(tensor: HeldTensor, down: int | None, across: int | None) -> tuple[float, float]:
    wide, high = float(_WIDTH - 50), float(_HIGHEST)
    if down is None or across is None:
        return wide, 40.0
    # True proportions, within limits in which both sides can be seen.
    ratio = min(max(max(tensor.shape[down], 1) / max(tensor.shape[across], 1), 0.4), 1.5)
    return (wide, wide * ratio) if wide * ratio <= high else (high / ratio, high)


def _cells(tensor: HeldTensor, down: int | None, across: int | None) -> Iterator[tuple[HeldSlice, int]]:
    """Yield a slice for each place of the picture, and how many lie behind it in the dims that are not drawn."""
    seen: dict[tuple[int, ...], list[HeldSlice]] = {}
    for part in tensor.slices:
        seen.setdefault(tuple(part.parts[dim] for dim in (down, across) if dim is not None), []).append(part)
    for parts in seen.values():
        # Of those behind each other one is drawn: one that is lost, where there is one.
        yield max(parts, key=lambda part: part.is_lost), len(parts) - 1


def _span(tensor: HeldTensor, part: HeldSlice, dim: int | None, length: float) -> tuple[float, float]:
    if dim is None or not tensor.shape[dim]:
        return 0.0, length
    scale = length / tensor.shape[dim]
    return part.start[dim] * scale, (part.stop[dim] - part.start[dim]) * scale


def _cell(part: HeldSlice, others: int, x: float, y: float, width: float, height: float, ranks: int) -> Iterator[str]:
    fill = "white" if part.is_lost else _colour(next(rank for rank in part.files if rank not in part.lost), ranks)
    stroke = f'stroke="{_LOST}" stroke-width="1.5" stroke-dasharray="4 2"' if part.is_lost else 'stroke="white"'
    yield (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" {stroke}>'
        f"<title>{_bounds(part)}: ranks {', '.join(map(str, part.files)) or 'none'}</title></rect>"
    )
    words = [(str(rank), rank in part.lost) for rank in part.files] + ([(f"+{others}", False)] if others else [])
    yield from _words(words, x, y, width, height)


def _words(words: list[tuple[str, bool]], x: float, y: float, width: float, height: float) -> Iterator[str]:
    """Yield the words in as many lines as there is room for, centred; what does not fit is told by an ellipsis."""
    lines: list[list[tuple[str, bool]]] = [[]]
    for word, lost in words:
        if lines[-1] and _length([*lines[-1], (word, lost)]) > width - 4:
            lines.append([])
        lines[-1].append((word, lost))
    room = int(height // _LEAST_TEXT)
    if not room or any(_length(line) > width - 2 for line in lines[:room]):
        return
    if len(lines) > room:
        lines = [*lines[: room - 1], [("…", False)]]
    for number, line in enumerate(lines):
        middle = y + height / 2 + 4 + (number - (len(lines) - 1) / 2) * _LEAST_TEXT
        spans = " ".join(
            f'<tspan fill="{_LOST}" text-decoration="line-through">{word}</tspan>' if lost else f"<tspan>{word}</tspan>"
            for word, lost in line
        )
        yield f'<text x="{x + width / 2:.1f}" y="{middle:.1f}" text-anchor="middle">{spans}</text>'


def _length(words: list[tuple[str, bool]]) -> float:
    return _CHARACTER * sum(len(word) + 1 for word, _ in words)


def _bars(tensors: Sequence[HeldTensor], ranks: int, problems: Mapping[int, str], top: float) -> Iterator[str]:
    """Yield how much each rank has in its file."""
    held = [0] * ranks
    for tensor in tensors:
        for part in tensor.slices:
            size = tensor.itemsize
            for start, stop in zip(part.start, part.stop, strict=True):
                size *= stop - start
            for rank in part.files:
                held[rank] += size
    most = max([*held, 1])
    shown = held[:_BARS]
    cut = f", the first {_BARS} of {ranks} ranks" if ranks > _BARS else ""
    yield _text(_MARGIN, top + 14, f"in the file of each rank, at most {amount(most)}{cut}", weight="bold")
    width = min(60.0, (_COLUMNS * _WIDTH) / len(shown))
    for rank, size in enumerate(shown):
        height = _BAR * size / most
        x, y = _MARGIN + rank * width, top + 30 + _BAR - height
        lost = rank in problems
        style = f'fill="white" stroke="{_LOST}" stroke-dasharray="4 2"' if lost else f'fill="{_colour(rank, ranks)}"'
        title = f"<title>rank {rank}: {amount(size)}</title>"
        yield f'<rect x="{x + 1:.1f}" y="{y:.1f}" width="{width - 3:.1f}" height="{height:.1f}" {style}>{title}</rect>'
        if rank % -(-_LABEL_WIDTH // width) == 0:
            yield _text(x + width / 2, top + 46 + _BAR, str(rank), anchor="middle", fill=_LOST if lost else "#222")


def _colour(rank: int, ranks: int) -> str:
    """Return a light colour; neighbours are far apart in hue where there are few ranks."""
    return f"hsl({rank * 360 // max(ranks, 1)}, 60%, {76 if rank % 2 else 83}%)"


def _bounds(part: HeldSlice) -> str:
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in zip(part.start, part.stop, strict=True)) + "]"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _text(
    x: float, y: float, text: str, size: int = 11, weight: str = "normal", anchor: str = "start", fill: str = "#222"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{fill}">{escape(text)}</text>'
    )
