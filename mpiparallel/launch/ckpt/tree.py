"""Names with dots, as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def tree(rows: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of the tree of the names of ``rows``, with the columns of each row beside its leaf.

    >>> print(*tree({"net.w": ["f4", "all"], "net.bias": ["f4", "all"], "step": ["i8", "all"]}), sep=chr(10))
    ├── net
    │   ├── bias  f4  all
    │   └── w     f4  all
    └── step      i8  all
    """
    root: _Node = _Node("")
    for name in sorted(rows):
        node = root
        for part in name.split("."):
            node = node.children.setdefault(part, _Node(part))
        node.row = rows[name]
    lines = list(_lines(root, ""))
    columns = max((len(row) for _, row in lines), default=0)
    width = max((len(label) for label, row in lines if row), default=0)
    widths = [max(len(row[column]) for _, row in lines if len(row) > column) for column in range(columns)]
    return [
        "  ".join(
            [
                f"{label:<{width}}" if row else label,
                *(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=False)),
            ]
        ).rstrip()
        for label, row in lines
    ]


class _Node:
    def __init__(self, label: str) -> None:
        self.label = label
        self.row: Sequence[str] = ()
        self.children: dict[str, _Node] = {}


def _lines(node: _Node, indent: str) -> Iterator[tuple[str, Sequence[str]]]:
    # A stack instead of recursion: names come from files, and may have hundreds of dots.
    stack = [(child, indent, place == 0) for place, child in enumerate(reversed(node.children.values()))]
    while stack:
        child, indent, is_last = stack.pop()
        yield f"{indent}{'└── ' if is_last else '├── '}{child.label}", child.row
        deeper = indent + ("    " if is_last else "│   ")
        stack += [(inner, deeper, place == 0) for place, inner in enumerate(reversed(child.children.values()))]
