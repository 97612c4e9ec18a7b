"""The picture of a rank table: words lie where they belong and on nothing else."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree.ElementTree import Element, fromstring

import pytest

from mpiparallel.cluster.rank_table import Device, RankTable, Server
from mpiparallel.launch.ranktable.drawing import draw
from tests.conformance.documents.drawn_area import Area, box, words

SVG = "{http://www.w3.org/2000/svg}"


def named(hosts: int, name: str) -> list[str]:
    """Return names of hosts, of which the last one is short."""
    return [*(f"{name}{host}" for host in range(hosts - 1)), "z"]


def drawn(hosts: int, devices: int, name: str) -> Element:
    servers = tuple(
        Server(title, tuple(Device(place, "192.168.1.1", host * devices + place) for place in reversed(range(devices))))
        for host, title in enumerate(named(hosts, name))
    )
    return fromstring(draw(RankTable(servers)))


@pytest.mark.parametrize(("hosts", "devices", "name"), [(1, 1, "host"), (3, 4, "1" * 50), (2, 8, ""), (7, 12, "n")])
def test_each_host_and_each_device_has_its_words_inside_of_it_and_on_nothing(
    hosts: int, devices: int, name: str
) -> None:
    root = drawn(hosts, devices, name)
    whole = Area(0, 0, float(root.get("width", "")), float(root.get("height", "")))
    boxes = [box(one) for one in root.findall(f"{SVG}rect")[1:]]
    heads = root.findall(f"{SVG}text")
    for text in root.iter(f"{SVG}text"):
        text.set("text-anchor", text.get("text-anchor", root.get("text-anchor", "")))
    squares = [(box(group[1]), group.findall(f"{SVG}text")) for group in root.iter(f"{SVG}g")]
    assert (len(boxes), len(squares)) == (hosts, hosts * devices)
    assert [one.text for one in heads] == named(hosts, name)
    assert [[one.text for one in inside] for _, inside in squares] == [
        [str(rank), f"dev {rank % devices}"] for rank in range(hosts * devices)
    ]
    for host, (around, head) in enumerate(zip(boxes, heads, strict=True)):
        own = squares[host * devices : (host + 1) * devices]
        areas = [words(head), *(square for square, _ in own)]
        assert whole.holds(around)
        assert all(map(around.holds, areas))
        assert not any(one.touches(other) for one, other in combinations(areas, 2))
    for square, inside in squares:
        rank, device = map(words, inside)
        assert square.holds(rank)
        assert square.holds(device)
        assert not rank.touches(device)
    assert not any(one.touches(other) for one, other in combinations(boxes, 2))


def test_devices_stand_in_rows_of_eight_with_a_gap_in_the_middle() -> None:
    squares = [box(group[1]) for group in drawn(1, 16, "n").iter(f"{SVG}g")]
    for row in (squares[:8], squares[8:]):
        assert len({one.top for one in row}) == 1
        gaps = [other.left - one.right for one, other in pairwise(row)]
        assert gaps[3] > gaps[0] > 0
        assert gaps[:3] == gaps[4:] == [gaps[0]] * 3
    assert [one.left for one in squares[:8]] == [one.left for one in squares[8:]]


@pytest.mark.parametrize("hosts", [16, 250])
@pytest.mark.parametrize("devices", [1, 8])
def test_many_hosts_are_drawn_about_as_high_as_wide(hosts: int, devices: int) -> None:
    root = drawn(hosts, devices, "n")
    assert 0.6 < float(root.get("width", "")) / float(root.get("height", "")) < 1.7
