"""Which devices a range names, which of them are visible, and what their addresses are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpiparallel.errors import ConfigurationError, RankTableError
from mpiparallel.launch.ranktable.devices import device_addresses, device_range, visible_devices


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("[0,8)", range(8)),
        (" [ 4 , 6 ) ", range(4, 6)),
        ("[7,8)", range(7, 8)),
        ("1", range(1)),
        ("8", range(8)),
        ("100000", range(100_000)),
        ("[5,100005)", range(5, 100_005)),
    ],
)
def test_a_range_or_a_number_names_devices(text: str, devices: range) -> None:
    assert device_range(text) == devices


@pytest.mark.parametrize(
    "text", ["", "0", "[3,3)", "[8,0)", "[0,8]", "(0,8)", "-1", "100001", "[5,100006)", "1234567", "\u0663", "eight"]
)
def test_what_names_no_devices_is_refused_with_the_mend(text: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r'^--device-num ".*" names no devices; write "\[0,8\)" for devices 0 to 7'
    ):
        device_range(text)


@pytest.mark.parametrize(
    ("devices", "text", "found"),
    [
        (range(2), "4,5,6,7", [4, 5]),
        (range(2, 4), " 4 , 5 , 6 , 7 ", [6, 7]),
        (range(4), "7,6,5,4", [7, 6, 5, 4]),
        (range(1), "0", [0]),
    ],
)
def test_devices_count_those_that_are_visible(devices: range, text: str, found: list[int]) -> None:
    assert visible_devices(devices, text) == found


ONCE = 'list each device_id once, as in "4,5,6,7"'


@pytest.mark.parametrize(
    ("devices", "text", "told"),
    [
        (range(1), "4,4", f'--visible-devices "4,4": {ONCE}'),
        (range(1), "4,04", f'--visible-devices "4,04": {ONCE}'),
        (range(1), "4,", f'--visible-devices "4,": {ONCE}'),
        (range(1), "", f'--visible-devices "": {ONCE}'),
        (range(1), "a", f'--visible-devices "a": {ONCE}'),
        (
            range(1, 3),
            "4,5",
            '--visible-devices "4,5" has 2 devices, --device-num asks for number 2; --device-num counts those that are '
            'visible: "[0,2)" is all of them',
        ),
    ],
)
def test_devices_that_are_not_visible_are_refused(devices: range, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(told)}$"):
        visible_devices(devices, text)


def test_addresses_are_read_and_other_settings_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hccn.conf"
    path.write_text(
        "  address_0=10.0.0.1\naddress_12 = fe80::1\n#address_3=none\naddress_4=\nnetmask_0=255.255.255.0\n"
    )
    assert device_addresses(path) == {0: "10.0.0.1", 12: "fe80::1"}
    path.write_text("netmask_0=1\naddress_1=host\n")
    told = f'{path}:2: "host" is not an IP address; write that of the device'
    with pytest.raises(RankTableError, match=f"^{re.escape(told)}$"):
        device_addresses(path)
