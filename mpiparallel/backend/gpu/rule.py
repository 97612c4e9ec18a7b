"""Which of the GPUs that a process sees a rank takes: one rule, and the reason."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Final, NamedTuple

from mpiparallel.cluster.environment import Environment
from mpiparallel.errors import ConfigurationError

VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_PART: Final = "MIG-"


class DeviceChoice(NamedTuple):
    """The number of a GPU among those that the process sees, and ``why`` it is that one."""

    number: int
    why: str


def choose_device(variables: Mapping[str, str], count: int, asked: int | None = None) -> DeviceChoice:
    """Return which of ``count`` visible GPUs this rank takes.

    The first of these decides that says something:

    1. what the program asks for;
    2. the GPU, where there is only one;
    3. ``DEVICE_ID``, the number in the rank table; if ``CUDA_VISIBLE_DEVICES`` lists it, the GPU in that place;
    4. the number of the rank on its host, ``SLURM_LOCALID`` or that of MPI's launcher.

    More ranks than GPUs take them in turns.

    Raises ConfigurationError where the program asks for a GPU that it does not see.

    >>> choose_device({"DEVICE_ID": "6", "CUDA_VISIBLE_DEVICES": "4,6"}, 2)
    DeviceChoice(number=1, why='DEVICE_ID 6 is in place 1 of CUDA_VISIBLE_DEVICES 4,6')
    """
    if asked is not None:
        if asked >= count:
            listed = f" (CUDA_VISIBLE_DEVICES is {variables[VISIBLE]})" if VISIBLE in variables else ""
            raise ConfigurationError(
                f"device_id {asked} is asked for, but this rank sees {count} GPUs{listed}, counted from 0; ask for "
                "another, or leave it out"
            )
        return DeviceChoice(asked, "the program asks for it")
    if count == 1:
        return DeviceChoice(0, "this rank sees no other")
    environment = Environment.read(variables)
    entries = visible_entries(variables)
    if "DEVICE_ID" not in variables:
        local = environment.local_rank
        return DeviceChoice(local % count, f"the rank is number {local} on its host, with {count} GPUs")
    number = environment.device_id
    if str(number) in entries[:count]:
        place = entries.index(str(number))
        return DeviceChoice(place, f"DEVICE_ID {number} is in place {place} of {VISIBLE} {variables[VISIBLE]}")
    return DeviceChoice(number % count, f"DEVICE_ID is {number}, and the rank sees {count} GPUs")


def visible_entries(variables: Mapping[str, str]) -> list[str]:
    """Return what ``CUDA_VISIBLE_DEVICES`` lists: numbers, or names such as GPU-... and MIG-...

    >>> visible_entries({"CUDA_VISIBLE_DEVICES": "0, MIG-1/2"})
    ['0', 'MIG-1/2']
    """
    return [entry.strip() for entry in variables.get(VISIBLE, "").split(",") if entry.strip()]


def take_own_part(variables: MutableMapping[str, str]) -> None:
    """Leave of several parts of cards (MIG) that of this rank visible: CUDA gives a process the first one only.

    It is called before CUDA starts in the process.

    >>> variables = {"CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b", "PMI_RANK": "1", "PMI_SIZE": "2",
    ...     "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    >>> take_own_part(variables)
    >>> variables["CUDA_VISIBLE_DEVICES"]
    'MIG-b'
    """
    entries = visible_entries(variables)
    if len(entries) > 1 and all(entry.startswith(_PART) for entry in entries):
        number = Environment.read(variables).device_id
        variables[VISIBLE] = entries[number % len(entries)]
