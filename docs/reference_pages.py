"""The pages of the reference: each public name, in the folder from which users import it.

A name that several folders offer is explained in the first of them, and the others lead there.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
from pathlib import Path
from types import ModuleType

from mpiparallel.ops import door

FRONTS = (
    "mpiparallel",
    "mpiparallel.nn",
    "mpiparallel.nn.transformer",
    "mpiparallel.nn.initializer",
    "mpiparallel.nn.optimizer",
    "mpiparallel.nn.wrap",
    "mpiparallel.ops",
    "mpiparallel.train",
    "mpiparallel.train.callback",
    "mpiparallel.context",
    "mpiparallel.communication",
    "mpiparallel.communication.threads",
    "mpiparallel.communication.gathering",
    "mpiparallel.communication.fault_injection",
    "mpiparallel.dataset",
    "mpiparallel.dataset.text",
    "mpiparallel.dataset.transforms",
    "mpiparallel.dataset.vision",
    "mpiparallel.layout",
    "mpiparallel.reshard",
    "mpiparallel.pipeline",
    "mpiparallel.testing",
    "mpiparallel.common",
)
_INTRODUCTION = """The tests run every example, with ``np`` for NumPy, the names of ``mpiparallel``,
and those of the folder on whose page it stands.

"""


def names_of(front: str) -> list[str]:
    """Return the public names of a folder; ``ops`` puts its own together when it is imported."""
    module = importlib.import_module(front)
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    values = door.public(module)
    return sorted(name for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value))


def pages() -> dict[str, str]:
    """Return the text of each page, in reStructuredText, by the name of its file."""
    explained: dict[int, str] = {}
    found = {f"{front}.rst": _page(front, explained) for front in FRONTS}
    listed = "\n".join(f"   {front}" for front in FRONTS)
    found["index.rst"] = f"{_title('Reference')}{_INTRODUCTION}.. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    return found


def write_pages(folder: Path) -> None:
    """Write the pages into a folder: what has not changed is left, so that it is not read anew, and others go."""
    folder.mkdir(exist_ok=True)
    made = pages()
    for path in folder.iterdir():
        if path.is_dir() and path.name not in FRONTS:
            shutil.rmtree(path)
        elif path.is_file() and path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(front: str, explained: dict[int, str]) -> str:
    module = importlib.import_module(front)
    here, elsewhere, values = [], [], []
    for name in names_of(front):
        value, path = getattr(module, name), f"{front}.{name}"
        if isinstance(value, ModuleType):
            elsewhere.append((name, f":doc:`{name} <{path}>`" if path in FRONTS else f"``{path}``"))
        elif not _is_ours(value):
            values.append(name)
        elif explained.setdefault(id(value), path) == path:
            here.append(name)
        else:
            elsewhere.append((name, f":py:obj:`{name} <{explained[id(value)]}>`"))
    parts = [_title(front), f"{(module.__doc__ or '').strip().splitlines()[0]}\n"]
    if here:
        summary = "".join(f"   {name}\n" for name in here)
        parts.append(
            f".. currentmodule:: {front}\n\n.. autosummary::\n   :toctree: {front}\n   :nosignatures:\n\n{summary}"
        )
    if elsewhere:
        parts.append(f"{_heading('Also here')}{''.join(f'- {link}{chr(10)}' for _, link in elsewhere)}")
    if values:
        parts.append(f"{_heading('Values')}{''.join(f'- ``{name}``{chr(10)}' for name in values)}")
    return "\n".join(parts)


def _is_ours(value: object) -> bool:
    """Whether a value is a class or function of the package; ``functools.partial``, say, is explained by Python."""
    return (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith("mpiparallel")


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n\n"


def _heading(text: str) -> str:
    return f"{text}\n{'-' * len(text)}\n\n"
