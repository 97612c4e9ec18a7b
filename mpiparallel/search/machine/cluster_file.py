"""Machines as JSON files: read with every problem by its line and field, and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from math import inf
from pathlib import Path
from typing import Any, Final

from mpiparallel.cluster.json_document import child, shown
from mpiparallel.cluster.json_lines import line_numbers
from mpiparallel.cluster.text_file import read_text
from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ConfigurationError, RankTableError
from mpiparallel.search.machine.kernel_times import PARTS, KernelTimes
from mpiparallel.search.machine.machine import COLLECTIVES, CollectiveTimes, Link, Machine

Pairs = tuple[tuple[float, float], ...]

_MICRO: Final = 1e-6
_GIGA: Final = 1e9
_PICO: Final = 1e-12
_WHOLE: Final = ("hosts", "ranks_per_host", "cores")
_NUMBERS: Final = {
    "memory_gb": ("memory", _GIGA),
    "libraries_gb": ("libraries", _GIGA),
    "operands_gb": ("operand_bandwidth", _GIGA),
    "gflops": ("operation_rate", _GIGA),
    "memory_bandwidth_gb": ("memory_bandwidth", _GIGA),
    "reduction_gb": ("reduction_rate", _GIGA),
    "launch_us": ("launch", _MICRO),
    "resuming_us": ("resuming", _MICRO),
}
"""The fields of the file, each with that of a machine and its unit; gb is 1e9 bytes, or as many a second."""
_LINK: Final = {"latency_us": ("latency", _MICRO), "bandwidth_gb": ("bandwidth", _GIGA)}
_KERNEL: Final = {
    "call_us": ("call", _MICRO),
    "operand_us": ("operand", _MICRO),
    **{f"{part}_ps": (part, _PICO) for part in PARTS[2:]},
}
"""The fields of a kernel: microseconds of a call and of each operand, picoseconds of an operation or a byte."""
_PRODUCTS: Final = ("products", "products_16")
_FIELDS: Final = (*_WHOLE, *_NUMBERS, *_PRODUCTS, "inside", "between", "kernels", "collectives")


def load_machine(path: str | Path) -> Machine:
    """Return the machine that a file describes; what it leaves out is as by default.

    Raises ConfigurationError with file, line and field of each problem, or why the file cannot be read.
    """
    try:
        text = read_text(path, "cluster file")
    except RankTableError as error:
        raise ConfigurationError(str(error)) from None
    return parse_machine(text, str(path))


def parse_machine(text: str, source: str) -> Machine:
    """Return the machine of JSON ``text``; ``source`` names it in errors."""
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ConfigurationError(f"{source}:{line}: {error}; write well-formed JSON") from None
    reading = _Reading()
    values = reading.machine(document)
    if reading.problems:
        lines = line_numbers(text, [path for path in reading.problems if path])
        told = sorted(
            (lines.get(path, 1), f"{path}: {problem}".lstrip(": ")) for path, problem in reading.problems.items()
        )
        raise ConfigurationError("\n".join(f"{source}:{line}: {problem}" for line, problem in told))
    return Machine(**values)


def machine_json(machine: Machine) -> str:
    """Return the text of a file that describes a machine.

    >>> parse_machine(machine_json(Machine(hosts=2)), "copy").hosts
    2
    """
    document: dict[str, Any] = {name: getattr(machine, name) for name in _WHOLE if getattr(machine, name)}
    for name, (attribute, unit) in _NUMBERS.items():
        if 0 < getattr(machine, attribute) < inf:
            document[name] = _rounded(getattr(machine, attribute) / unit)
    for name in _PRODUCTS:
        if getattr(machine, name):
            document[name] = [[_rounded(size), _rounded(rate / _GIGA)] for size, rate in getattr(machine, name)]
    for name in ("inside", "between"):
        link = getattr(machine, name)
        document[name] = {key: _rounded(getattr(link, attribute) / unit) for key, (attribute, unit) in _LINK.items()}
    collectives: dict[str, dict[str, Any]] = {}
    for one in machine.collectives:
        times = [[_rounded(size), _rounded(seconds / _MICRO)] for size, seconds in one.times]
        collectives.setdefault(one.kind, {})[str(one.ranks)] = times
    if collectives:
        document["collectives"] = collectives
    if machine.kernels:
        document["kernels"] = {one.name: dict(_kernel_fields(one)) for one in machine.kernels}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in document.items())
    return f"{{\n{lines}\n}}\n"


def _kernel_fields(times: KernelTimes) -> Iterator[tuple[str, float]]:
    for key, (part, unit) in _KERNEL.items():
        seconds = getattr(times, part)
        if seconds:
            yield key, _rounded(seconds / unit)


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")


@dataclass
class _Reading:
    """The values of a machine as they are read, and what is wrong, by the path of the field."""

    problems: dict[str, str] = field(default_factory=dict)

    def machine(self, document: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in self._object("", document, _FIELDS).items():
            if name in _WHOLE:
                found[name] = self._number(name, value, whole=True)
            elif name in _NUMBERS:
                attribute, unit = _NUMBERS[name]
                found[attribute] = self._number(name, value) * unit
            elif name in _PRODUCTS:
                found[name] = self._pairs(name, value, ("operations", "gflops"), _GIGA)
            elif name == "kernels":
                found[name] = tuple(self._kernels(name, value))
            elif name == "collectives":
                found[name] = tuple(self._collectives(name, value))
            else:
                link = self._object(name, value, tuple(_LINK))
                missing = [key for key in _LINK if key not in link]
                if missing:
                    self.problems.setdefault(name, f"{missing[0]} is missing; give latency_us and bandwidth_gb")
                    continue
                found[name] = Link(
                    **{_LINK[key][0]: self._number(child(name, key), one) * _LINK[key][1] for key, one in link.items()}
                )
        return found

    def _object(self, path: str, value: Any, known: tuple[str, ...] | str) -> Mapping[str, Any]:
        """Return an object of ``known`` fields; where that is a text, of any, and it says what they are."""
        if not isinstance(value, dict):
            told = known if isinstance(known, str) else ", ".join(known)
            self.problems[path] = f"{shown(value)} is no object; write {{...}} with {told}"
            return {}
        if isinstance(known, str):
            return value
        for name in value:
            if name not in known:
                self.problems[child(path, name)] = f"is not known; known are {', '.join(known)}"
        return {name: one for name, one in value.items() if name in known}

    def _number(self, path: str, value: Any, whole: bool = False) -> Any:
        kinds = (int,) if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < inf:
            self.problems[path] = f"{shown(value)} must be a {'whole ' if whole else ''}number above 0"
            return 1
        return value

    def _kernels(self, path: str, value: Any) -> Iterator[KernelTimes]:
        for name, parts in self._object(path, value, "names of kernels").items():
            place = child(path, name)
            given = self._object(place, parts, tuple(_KERNEL))
            numbers = {_KERNEL[key]: self._number(child(place, key), one) for key, one in given.items()}
            yield KernelTimes(name, **{part: number * unit for (part, unit), number in numbers.items()})

    def _collectives(self, path: str, value: Any) -> Iterator[CollectiveTimes]:
        for kind, groups in self._object(path, value, COLLECTIVES).items():
            inner = child(path, kind)
            for ranks, times in self._object(inner, groups, "numbers of ranks").items():
                place = child(inner, ranks)
                if not (ranks.isdecimal() and int(ranks) > 1):
                    self.problems[place] = f"{shown(ranks)} must be a number of ranks, 2 or more"
                    continue
                pairs = self._pairs(place, times, ("bytes", "microseconds"), _MICRO)
                if pairs:
                    yield CollectiveTimes(kind, int(ranks), pairs)

    def _pairs(self, path: str, value: Any, names: tuple[str, str], unit: float) -> Pairs:
        told = f"[{', '.join(names)}]"
        if not isinstance(value, list) or not value:
            self.problems[path] = f"{shown(value)} must be a list of {told}"
            return ()
        found: list[tuple[float, float]] = []
        for place, pair in enumerate(value):
            inner = child(path, place)
            if not isinstance(pair, list) or len(pair) != 2:
                self.problems[inner] = f"{shown(pair)} must be a pair {told}"
                continue
            size, amount = (self._number(child(inner, index), one) for index, one in enumerate(pair))
            if child(inner, 0) in self.problems:
                continue
            if found and size <= found[-1][0]:
                self.problems[inner] = f"{shown(size)} {names[0]} come after {found[-1][0]:g}; begin with the smallest"
            found.append((float(size), amount * unit))
        return tuple(found)
