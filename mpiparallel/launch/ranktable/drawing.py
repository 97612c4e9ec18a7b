"""A rank table as a picture: SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil, sqrt

from mpiparallel.cluster.rank_table import Device, RankTable, Server

_CELL = 46
_GAP = 6
_HALF_GAP = 12
_HEAD = 30
_MARGIN = 16
_A_ROW = 8
_HALF = 4
# Paul Tol's bright scheme, which most colour-blind people can tell apart.
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377")


def draw(table: RankTable) -> str:
    """Return an SVG in which each host is a box, each device in it a square with its rank, four and four."""
    servers = sorted(table.servers, key=lambda server: min(device.rank_id for device in server.devices))
    rows = max(ceil(len(server.devices) / _A_ROW) for server in servers)
    longest = max(len(server.devices) for server in servers)
    name = max(len(server.server_id) for server in servers)
    width = max(_x(min(longest, _A_ROW) - 1) + _CELL + 2 * _GAP, 10 * name + 2 * _GAP)
    height = _HEAD + rows * (_CELL + _GAP) + _GAP
    columns = max(1, min(len(servers), round(sqrt(len(servers) * height / width))))
    lines = ceil(len(servers) / columns)
    whole = columns * (width + _MARGIN) + _MARGIN, lines * (height + _MARGIN) + _MARGIN
    body = (
        line
        for place, server in enumerate(servers)
        for line in _host(
            server,
            _COLOURS[place % len(_COLOURS)],
            _MARGIN + place % columns * (width + _MARGIN),
            _MARGIN + place // columns * (height + _MARGIN),
            (width, height),
        )
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}" '
            f'viewBox="0 0 {whole[0]} {whole[1]}" font-family="DejaVu Sans, sans-serif" text-anchor="middle">',
            f"<title>{escape(table.summary)}</title>",
            '<rect width="100%" height="100%" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def _host(server: Server, colour: str, left: int, top: int, size: tuple[int, int]) -> Iterator[str]:
    yield f'<rect x="{left}" y="{top}" width="{size[0]}" height="{size[1]}" rx="6" fill="#F4F4F4" stroke="#BBBBBB"/>'
    yield (
        f'<text x="{left + _GAP + 4}" y="{top + 20}" font-size="14" font-weight="bold" text-anchor="start">'
        f"{escape(server.server_id)}</text>"
    )
    for place, device in enumerate(sorted(server.devices, key=lambda device: device.device_id)):
        x = left + _GAP + _x(place % _A_ROW)
        yield from _device(device, colour, x, top + _HEAD + place // _A_ROW * (_CELL + _GAP))


def _x(place: int) -> int:
    return place * (_CELL + _GAP) + (_HALF_GAP if place >= _HALF else 0)


def _device(device: Device, colour: str, x: int, y: int) -> Iterator[str]:
    yield (
        f"<g><title>rank {device.rank_id}: device {device.device_id}, {escape(device.device_ip)}</title>"
        f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="4" fill="{colour}"/>'
        f'<text x="{x + _CELL // 2}" y="{y + 25}" font-size="17" fill="white">{device.rank_id}</text>'
        f'<text x="{x + _CELL // 2}" y="{y + 40}" font-size="10" fill="white">dev {device.device_id}</text></g>'
    )
