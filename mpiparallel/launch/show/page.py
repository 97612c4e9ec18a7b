"""A network with its cuts as one HTML page, which loads nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Final

from mpiparallel.launch.plan.report import amount, duration
from mpiparallel.launch.show.reasons import alike, reason_words
from mpiparallel.launch.show.stages import stages_panel
from mpiparallel.launch.simulate.report import several
from mpiparallel.pipeline.svg_drawing import picture
from mpiparallel.search.forecast.forecast import Forecast
from mpiparallel.search.forecast.reason import Reason

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_MOST_PARTS: Final = 16
_HINT: Final = "What other cuts would cost is worked out by mpiparallel show --why with its name."


def page(forecast: Forecast, name: str, reasons: Sequence[Reason]) -> str:
    """Return the page of a forecast of a script called ``name``; ``reasons`` are of some of its operators."""
    data = json.dumps(_data(forecast, name, reasons), separators=(",", ":")).replace("</", "<\\/")
    title = escape(f"{name} on {several(forecast.ranks, 'rank')}")
    template = _TEMPLATE.read_text(encoding="utf-8")
    # The title comes last: it stands above the data, and may hold the mark of these.
    return template.replace("DATA", data, 1).replace("TITLE", title, 1)


def _data(forecast: Forecast, name: str, reasons: Sequence[Reason]) -> dict[str, Any]:
    operators = [one for stage in forecast.stages for one in stage.operators]
    places = {(one.stage, one.name): place for place, one in enumerate(operators)}
    parameters = [one for stage in forecast.stages for one in stage.parameters]
    parts = {one.parts[:_MOST_PARTS]: None for one in parameters}
    part_places = {one: place for place, one in enumerate(parts)}
    panel = stages_panel(forecast)
    known = {alike(one.operator): place for place, one in enumerate(reasons)}
    return {
        "title": f"{name} on {several(forecast.ranks, 'rank')}",
        "tiles": list(_tiles(forecast)),
        "busy": forecast.slowest.time.busy,
        "hint": _HINT,
        "seconds": forecast.seconds,
        "timeLines": "" if panel is None else picture([panel]),
        "stages": [
            {
                "ranks": stage.ranks,
                "busy": stage.time.busy,
                "memory": _memory(stage.memory),
                "collectives": list(map(asdict, stage.collectives)),
            }
            for stage in forecast.stages
        ],
        "operators": [
            {
                **asdict(one),
                "sources": [places[one.stage, source] for source in one.sources if (one.stage, source) in places],
                "reason": known.get(alike(one.name)),
            }
            for one in operators
        ],
        "moves": [
            {**asdict(move), "owner": places.get((number, move.operator), -1)}
            for number, stage in enumerate(forecast.stages)
            for move in stage.moves
        ],
        # Parameters that are cut alike have their parts in common.
        "parts": [list(map(asdict, one)) for one in parts],
        "parameters": [
            {**asdict(replace(one, parts=())), "parts": part_places[one.parts[:_MOST_PARTS]]} for one in parameters
        ],
        "reasons": [{**asdict(reason), "words": reason_words(reason)} for reason in reasons],
    }


def _memory(memory: Any) -> dict[str, Any]:
    return {**asdict(memory), "total": memory.total}


def _tiles(forecast: Forecast) -> Sequence[Mapping[str, Any]]:
    """Return what stands above all: names and values."""
    bound, part = forecast.bound
    parts = forecast.slowest.parts
    moving = sum(seconds for name, seconds in parts.items() if name.startswith("communication"))
    has = f" of {amount(int(forecast.machine.memory))}" if isfinite(forecast.machine.memory) else ""
    found = [
        {"name": f"{several(forecast.hosts, 'host')} of {forecast.machine.ranks_per_host}", "value": forecast.mode},
        {"name": "a step by the cost model", "value": duration(forecast.seconds)},
        {"name": f"most of it, {part * 100:.0f} %", "value": bound},
        {"name": "communication", "value": duration(moving)},
        {"name": "memory of a rank", "value": f"{amount(forecast.fullest.memory.total)}{has}"},
    ]
    if forecast.missing_memory > 0:
        found[-1]["bad"] = "1"
    if len(forecast.stages) > 1:
        idle = f"{forecast.bubble * 100:.0f} % idle"
        found.append({"name": f"{len(forecast.stages)} stages by {forecast.schedule}", "value": idle})
    return found
