"""One rule says which GPU a rank takes, from what its launcher and its user have set."""

from __future__ import annotations

import pytest

from mpiparallel.backend.gpu.rule import choose_device, take_own_part, visible_entries
from mpiparallel.errors import ConfigurationError

OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
SRUN = {
    "SLURM_PROCID": "5",
    "SLURM_STEP_ID": "0",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_TASKS_PER_NODE": "4(x2)",
}


@pytest.mark.parametrize(
    ("variables", "count", "asked", "number"),
    [
        ({}, 1, None, 0),
        ({}, 4, None, 0),
        ({}, 4, 2, 2),
        ({"DEVICE_ID": "2"}, 4, None, 2),
        ({"DEVICE_ID": "2"}, 4, 1, 1),
        ({"DEVICE_ID": "5"}, 4, None, 1),
        ({"DEVICE_ID": "5"}, 1, None, 0),
        ({"DEVICE_ID": "6", "CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 4, None, 2),
        ({"DEVICE_ID": "1", "CUDA_VISIBLE_DEVICES": "4,5,6,7"}, 4, None, 1),
        ({"DEVICE_ID": "1", "CUDA_VISIBLE_DEVICES": "1,0"}, 2, None, 0),
        ({"DEVICE_ID": "1", "CUDA_VISIBLE_DEVICES": "GPU-8a,GPU-9b"}, 2, None, 1),
        ({"DEVICE_ID": "7", "CUDA_VISIBLE_DEVICES": "0,9,7"}, 1, None, 0),
        (OPENMPI, 4, None, 3),
        (OPENMPI, 2, None, 1),
        ({**OPENMPI, "DEVICE_ID": "0"}, 4, None, 0),
        (SRUN, 4, None, 1),
        ({**SRUN, "CUDA_VISIBLE_DEVICES": "2"}, 1, None, 0),
    ],
)
def test_the_rank_takes_the_gpu_that_is_named_first(
    variables: dict[str, str], count: int, asked: int | None, number: int
) -> None:
    choice = choose_device(variables, count, asked)
    assert (choice.number, bool(choice.why)) == (number, True)


def test_a_gpu_that_is_asked_for_and_not_seen_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"device_id 2 .* sees 2 GPUs \(CUDA_VISIBLE_DEVICES is 4,5\)"):
        choose_device({"CUDA_VISIBLE_DEVICES": "4,5"}, 2, 2)


@pytest.mark.parametrize(
    ("listed", "left"),
    [("MIG-a,MIG-b", "MIG-b"), ("MIG-a", "MIG-a"), ("0,1", "0,1"), ("GPU-a,GPU-b", "GPU-a,GPU-b"), ("", "")],
)
def test_each_rank_of_a_host_takes_a_part_of_a_card_of_its_own(listed: str, left: str) -> None:
    variables = {**SRUN, "CUDA_VISIBLE_DEVICES": listed}
    take_own_part(variables)
    assert variables["CUDA_VISIBLE_DEVICES"] == left


@pytest.mark.parametrize(
    ("variables", "count", "asked", "why"),
    [
        ({}, 1, None, "this rank sees no other"),
        ({"DEVICE_ID": "0"}, 4, 3, "the program asks for it"),
        ({"DEVICE_ID": "5"}, 4, None, "DEVICE_ID is 5, and the rank sees 4 GPUs"),
        (
            {"DEVICE_ID": "6", "CUDA_VISIBLE_DEVICES": "4, 6"},
            2,
            None,
            "DEVICE_ID 6 is in place 1 of CUDA_VISIBLE_DEVICES 4, 6",
        ),
        (OPENMPI, 2, None, "the rank is number 3 on its host, with 2 GPUs"),
    ],
)
def test_the_reason_names_what_has_decided(variables: dict[str, str], count: int, asked: int | None, why: str) -> None:
    assert choose_device(variables, count, asked).why == why


@pytest.mark.parametrize(("count", "asked"), [(2, 2), (2, 3), (0, 0)])
def test_gpus_are_counted_from_zero(count: int, asked: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        choose_device({}, count, asked)
    assert str(caught.value) == (
        f"device_id {asked} is asked for, but this rank sees {count} GPUs, counted from 0; ask for another, or leave "
        "it out"
    )
    assert choose_device({}, asked + 1, asked).number == asked


def test_gpus_are_listed_without_blanks_and_empty_places() -> None:
    assert visible_entries({}) == visible_entries({"CUDA_VISIBLE_DEVICES": " , "}) == []
    assert visible_entries({"CUDA_VISIBLE_DEVICES": " 3 ,,GPU-a,"}) == ["3", "GPU-a"]


@pytest.mark.parametrize("listed", ["MIG-a,0", "MIG-a,GPU-b", " MIG-a "])
def test_a_list_of_parts_and_whole_cards_stays(listed: str) -> None:
    variables = {**SRUN, "CUDA_VISIBLE_DEVICES": listed}
    take_own_part(variables)
    assert variables["CUDA_VISIBLE_DEVICES"] == listed
    three = {**SRUN, "CUDA_VISIBLE_DEVICES": "MIG-a,MIG-b,MIG-c", "DEVICE_ID": "5"}
    take_own_part(three)
    assert three["CUDA_VISIBLE_DEVICES"] == "MIG-c"
