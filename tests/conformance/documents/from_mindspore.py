"""The page that tells MindSpore's users where each name is.

``python -m tests.conformance.documents.from_mindspore docs/lookup/from_mindspore.md`` writes it.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from tests.conformance.probes.mindspore_names import DIFFERENCES, NAMES

BEGIN = "<!-- names: written by python -m tests.conformance.documents.from_mindspore -->"
END = "<!-- end of names -->"


def found(path: str) -> Any:
    """Return what a path of MindSpore is here: attributes of modules, and modules where those lack it."""
    here = "mpiparallel"
    item: Any = importlib.import_module(here)
    for part in path.split(".")[1:]:
        here = f"{here}.{part}"
        try:
            item = getattr(item, part)
        except AttributeError:
            item = importlib.import_module(here)
    return item


def _home(path: str) -> str:
    """Return where the class or function is written, "the same" where that is no other file than the path says."""
    item = found(path)
    module, name = getattr(item, "__module__", None), getattr(item, "__qualname__", None)
    return f"`{module}`" if isinstance(module, str) and module.startswith("mpiparallel") and name else ""


def table() -> str:
    """Return the rows: each module or class of MindSpore's, and in it each name, its file and what differs."""
    lines = ["| name | written in | what differs |", "|---|---|---|"]
    for module, names in NAMES.items():
        for name in names.split():
            path = f"{module}.{name}"
            lines.append(f"| `{path}` | {_home(path)} | {DIFFERENCES.get(path, '')} |")
    return "\n".join(lines)


def rewritten(page: str) -> str:
    """Return a page with the table between its comments; ValueError where it has no place for one."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} or no {END}: put both where the table belongs")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.write_text(rewritten(place.read_text(encoding="utf-8")), encoding="utf-8")
