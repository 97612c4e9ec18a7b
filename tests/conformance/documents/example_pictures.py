"""Draw the picture of each example from the results that its program leaves when its page is followed.

``make pictures [NAMES=...]`` follows the pages, all unless some are named, and writes ``examples/NAME/picture.svg``.
A result is a JSON file: ``lines`` are x and y by label, ``bars`` values by label and series.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.documents.document import EXAMPLES, Reader

RESULTS = "*.result.json"
DRAWN_BY_ITSELF = ("resnet",)
"""Takes minutes, and draws two panels."""
_STYLE: Any = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11,
    "svg.hashsalt": "mpiparallel",
    "svg.fonttype": "path",
}
_SIZE = (7.5, 4.2)
_LONG = 12


def merged(folder: Path) -> dict[str, Any]:
    """Return what the programs in a folder have left as one result."""
    whole: dict[str, Any] = {}
    for file in sorted(folder.glob(RESULTS), key=lambda path: path.stat().st_mtime_ns):
        for key, value in json.loads(file.read_text(encoding="utf-8")).items():
            if isinstance(value, dict):
                kept = whole.setdefault(key, {})
                for series, values in value.items():
                    kept[series] = {**kept.get(series, {}), **values} if isinstance(values, dict) else values
            else:
                whole[key] = value
    return whole


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw lines, the first the widest so that equal ones are all seen; or groups of bars."""
    # Each worker of the tests imports this file, and none of them draws.
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, facecolor="white", layout="constrained")
        axes = figure.subplots()
        for index, (label, (x, y)) in enumerate(result.get("lines", {}).items()):
            axes.plot(x, y, label=label, linewidth=max(6 - 4.5 * index, 1.5), alpha=0.5 if index == 0 else 1)
        groups = result.get("bars", {})
        labels = list(dict.fromkeys(label for values in groups.values() for label in values))
        for index, (series, values) in enumerate(groups.items()):
            places = [labels.index(label) + 0.8 * index / len(groups) for label in values]
            axes.bar(places, list(values.values()), 0.76 / len(groups), align="edge", label=series)
        if labels:
            middles = [place + 0.4 for place in range(len(labels))]
            axes.set_xticks(middles, [label.replace("_", "\n" if len(label) > _LONG else " ") for label in labels])
        axes.set_xlabel(result.get("x", ""))
        axes.set_ylabel(result["y"])
        axes.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Follow the pages, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of examples; default: all")
    names = parser.parse_args().names or [path.parent.name for path in EXAMPLES]
    for page in EXAMPLES:
        if page.parent.name not in names or page.parent.name in DRAWN_BY_ITSELF:
            continue
        with tempfile.TemporaryDirectory() as name:
            os.chdir(name)
            Reader(Path(name)).follow(page)
            draw(merged(Path(name)), page.parent / "picture.svg")
            print(page.parent.name, "drawn")


if __name__ == "__main__":
    main()
