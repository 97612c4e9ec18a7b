"""The devices of this machine, and ranges of devices as hccl_tools spells them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from mpiparallel.cluster.host_name import is_address
from mpiparallel.cluster.json_document import shown
from mpiparallel.cluster.text_file import read_text
from mpiparallel.errors import ConfigurationError, RankTableError

MOST_DEVICES = 100_000
_RANGE = re.compile(r"\[\s*([0-9]{1,6})\s*,\s*([0-9]{1,6})\s*\)", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,6}", re.ASCII)
_GPU = re.compile(r"GPU ([0-9]{1,6}): ", re.ASCII)
_ADDRESS = re.compile(r"address_([0-9]{1,6})\s*=\s*(\S+)", re.ASCII)
_SECONDS = 60


def device_range(text: str) -> range:
    """Return the devices of ``text``: ``[0,8)`` for 0 to 7, or their number alone.

    Raises ConfigurationError where it is no range, or an empty one.

    >>> list(device_range("[4,8)")), list(device_range("2"))
    ([4, 5, 6, 7], [0, 1])
    """
    match = _RANGE.fullmatch(text.strip())
    found = range(int(match[1]), int(match[2])) if match else range(int(text) if _COUNT.fullmatch(text) else 0)
    if not 0 < len(found) <= MOST_DEVICES:
        raise ConfigurationError(f'--device-num {shown(text)} names no devices; write "[0,8)" for devices 0 to 7, or 8')
    return found


def visible_devices(devices: range, text: str) -> list[int]:
    """Return the ``device_id`` of each of ``devices``, which count those that ``text`` lists.

    >>> visible_devices(range(0, 2), "4,5,6,7")
    [4, 5]
    """
    words = [word.strip() for word in text.split(",")]
    if not all(_COUNT.fullmatch(word) for word in words) or len(set(map(int, words))) < len(words):
        raise ConfigurationError(f'--visible-devices {shown(text)}: list each device_id once, as in "4,5,6,7"')
    if devices.stop > len(words):
        raise ConfigurationError(
            f"--visible-devices {shown(text)} has {len(words)} devices, --device-num asks for number "
            f'{devices.stop - 1}; --device-num counts those that are visible: "[0,{len(words)})" is all of them'
        )
    return [int(words[number]) for number in devices]


def listed_gpus() -> list[int]:
    """Return the numbers of the GPUs that ``nvidia-smi -L`` lists on this machine; raise ConfigurationError if none."""
    try:
        ended = subprocess.run(
            ["nvidia-smi", "-L"],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
    except OSError as error:
        raise ConfigurationError(
            f"--nvidia-smi: nvidia-smi cannot be started ({error.strerror}); put it on the PATH, or give --device-num"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(
            f"--nvidia-smi: nvidia-smi has not answered in {_SECONDS} s; look after the driver, or give --device-num"
        ) from error
    found = [int(match[1]) for line in ended.stdout.splitlines() if (match := _GPU.match(line))]
    if not found:
        said = (ended.stdout.strip() or ended.stderr.strip() or "nothing").splitlines()[0]
        raise ConfigurationError(f"--nvidia-smi: nvidia-smi -L lists no GPU, but says {shown(said)}; give --device-num")
    return found


def device_addresses(path: Path) -> dict[int, str]:
    """Return the address of each device by the lines ``address_0=192.98.92.1`` of ``path``.

    Raises RankTableError for an address that is none; lines of other settings are left alone.
    """
    found = {}
    for number, line in enumerate(read_text(path, "hccn.conf").splitlines(), start=1):
        match = _ADDRESS.fullmatch(line.strip())
        if match is None:
            continue
        if not is_address(match[2]):
            raise RankTableError(f"{path}:{number}: {shown(match[2])} is not an IP address; write that of the device")
        found[int(match[1])] = match[2]
    return found
