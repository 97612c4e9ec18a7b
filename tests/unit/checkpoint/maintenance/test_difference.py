from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.checkpoint.maintenance.difference import TensorDifference, ValueDifference, diff
from mpiparallel.errors import CheckpointError
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from tests.conformance.trainings.saved_checkpoint import LAYOUTS, held, save, whole

RECUT = {
    name: Layout(layout.global_shape, DeviceMatrix((3,)), ((), *((0,) if dim == 1 else () for dim in range(1, 2))))
    if len(layout.global_shape) == 2
    else Layout(layout.global_shape, DeviceMatrix((3,)), ((0,),))
    for name, layout in LAYOUTS.items()
}


def found(first: Path, second: Path) -> dict[str, TensorDifference]:
    return {tensor.name: tensor for tensor in diff(first, second)}


def one_file(path: Path, **arrays: NDArray[Any]) -> Path:
    write_file(path, infos_of(arrays), arrays.items(), {})
    return path


def compared(tmp_path: Path, one: NDArray[Any], other: NDArray[Any]) -> TensorDifference:
    first, second = one_file(tmp_path / "one.h5", w=one), one_file(tmp_path / "other.h5", w=other)
    return found(first, second)["w"]


def test_the_same_state_cut_otherwise_on_other_ranks_is_equal(tmp_path: Path) -> None:
    save(tmp_path / "8")
    save(tmp_path / "3", layouts=RECUT)
    tensors = found(tmp_path / "8", tmp_path / "3")
    assert tensors.keys() == LAYOUTS.keys()
    assert {tensor.verdict for tensor in tensors.values()} == {"equal"}
    assert not any(tensor.same_layout for tensor in tensors.values())
    assert [name for name, tensor in tensors.items() if tensor.by_digest] == ["empty"]


def test_differences_are_counted_across_layouts(tmp_path: Path) -> None:
    save(tmp_path / "8")
    save(tmp_path / "3", 80, layouts=RECUT)
    for name, tensor in found(tmp_path / "8", tmp_path / "3").items():
        one, other = whole(name, 77), whole(name, 80)
        expected = ValueDifference(
            one.size,
            int((one != other).sum()),
            float(np.abs(one.astype("f8") - other.astype("f8")).max(initial=0)),
            0,
            (0,) * one.ndim if one.size else None,
        )
        assert tensor.values == expected
        assert tensor.verdict == ("differs" if one.size else "equal")


def test_one_element_of_one_slice_is_found_by_the_digests_of_the_others(tmp_path: Path) -> None:
    save(tmp_path / "one")
    # Both replicas of the slice, which has columns 5 to 9 of rows 0 to 5.
    changed = held("net.w", 77, 1).copy()
    changed[2, 3] += 5
    save(tmp_path / "other", changed={rank: {"net.w": changed} for rank in (1, 5)})
    tensors = found(tmp_path / "one", tmp_path / "other")
    box = LAYOUTS["net.w"].box(1)
    assert tensors["net.w"].values == ValueDifference(120, 1, 5.0, 0, (box.start[0] + 2, box.start[1] + 3))
    assert found(tmp_path / "other", tmp_path / "one")["net.w"].values == tensors["net.w"].values
    assert {name for name, tensor in tensors.items() if tensor.by_digest} == LAYOUTS.keys() - {"net.w"}


def test_the_first_difference_is_told_by_element_not_by_slice(tmp_path: Path) -> None:
    save(tmp_path / "one")
    changed = {rank: {"net.w": held("net.w", 77, rank).copy()} for rank in (0, 4, 1, 5)}
    for rank, row in ((0, 3), (4, 3), (1, 0), (5, 0)):
        changed[rank]["net.w"][row, 1] += 1
    save(tmp_path / "other", changed=changed)
    # The slice of rank 0, with the columns before those of rank 1, comes first.
    assert found(tmp_path / "one", tmp_path / "other")["net.w"].values == ValueDifference(120, 2, 1.0, 0, (0, 6))


def test_slices_with_equal_digests_are_not_read(tmp_path: Path) -> None:
    save(tmp_path / "one")
    save(tmp_path / "other")
    for path in tmp_path.rglob("*.h5"):
        path.unlink()
    assert {tensor.verdict for tensor in diff(tmp_path / "one", tmp_path / "other")} == {"equal"}


def test_slices_that_only_some_replicas_wrote_are_compared_by_digest_too(tmp_path: Path) -> None:
    save(tmp_path / "one")
    save(tmp_path / "other", remove_redundancy=True)
    for first, second in (("one", "other"), ("other", "one"), ("other", "other")):
        tensors = diff(tmp_path / first, tmp_path / second)
        assert {(tensor.verdict, tensor.by_digest) for tensor in tensors} == {("equal", True)}


def test_tensors_of_one_state_only_and_other_shapes_and_dtypes_are_told(tmp_path: Path) -> None:
    first = one_file(tmp_path / "a.npz", a=np.zeros(3), s=np.zeros(3), d=np.arange(4, dtype="f4"))
    second = one_file(tmp_path / "b.safetensors", b=np.zeros(3), s=np.zeros((3, 1)), d=np.arange(4, dtype="f8"))
    tensors = found(first, second)
    assert {name: tensor.verdict for name, tensor in tensors.items()} == {
        "a": "only in first",
        "b": "only in second",
        "d": "differs",
        "s": "other shape",
    }
    assert (tensors["a"].second, tensors["b"].first, tensors["s"].values) == (None, None, None)
    assert (tensors["d"].same_dtype, tensors["d"].values) == (False, ValueDifference(4, 0, 0.0, 0, None))


@pytest.mark.parametrize(
    ("one", "other", "differing", "largest", "not_finite"),
    [
        (np.float32([1, np.nan, np.inf]), np.float32([1, np.nan, np.inf]), 0, 0.0, 0),
        (np.float32([1, np.nan, np.inf]), np.float32([2, 0, -np.inf]), 3, 1.0, 2),
        (np.float32([1, 2]), np.float32([np.nan, 2.5]), 2, 0.5, 1),
        (np.float64([0.0]), np.float64([-0.0]), 1, 0.0, 0),
        (np.float16([1, 2]), np.float64([1, 2.5]), 1, 0.5, 0),
        (np.float32([np.nan]), np.float64([np.nan]), 0, 0.0, 0),
        (np.uint8([0, 255]), np.uint8([255, 0]), 2, 255.0, 0),
        (np.int64([-(2**62)]), np.int64([2**62]), 1, 2.0**63, 0),
        (np.int64([2**60]), np.int64([2**60 + 1]), 1, 1.0, 0),
        (np.bool_([True, False]), np.bool_([False, False]), 1, 1.0, 0),
        (np.complex64([1 + 2j]), np.complex64([4 + 6j]), 1, 5.0, 0),
        (np.complex128([1 + 2j, 0]), np.complex128([1 + 2j, 3]), 1, 3.0, 0),
        (np.float32(3), np.float32(4), 1, 1.0, 0),
        (np.float32([np.nan, 2]), np.float32([1, 2]), 1, 0.0, 1),
        (np.float32([np.nan, 1, 3]), np.float64([1, np.nan, 5]), 3, 2.0, 2),
        (np.float64([1.5e308]), np.float64([-1.5e308]), 1, np.inf, 0),
        (np.int32([7]), np.complex64([4 + 4j]), 1, 5.0, 0),
        (np.complex64([4 + 4j]), np.int32([7]), 1, 5.0, 0),
        (np.complex128([[1 + 2j, 3 + 1j]]), np.complex128([[1 + 3j, 3 + 1j]]), 1, 1.0, 0),
        (np.float16([np.nan]), np.float16([-np.nan]), 1, 0.0, 1),
        (np.int8([[-128, 1]]), np.int8([[127, 1]]), 1, 255.0, 0),
    ],
)
def test_values_are_compared_as_their_dtype_asks_for(
    tmp_path: Path, one: NDArray[Any], other: NDArray[Any], differing: int, largest: float, not_finite: int
) -> None:
    values = compared(tmp_path, np.asarray(one), np.asarray(other)).values
    assert values is not None
    assert (values.differing, values.largest, values.not_finite) == (differing, largest, not_finite)


def test_large_tensors_are_compared_in_portions(tmp_path: Path) -> None:
    one = np.zeros((3, 3 << 20), np.float32)
    other = one.copy()
    other[0, 0], other[1, 2 << 20], other[2, -1] = 1, 2, 3
    progress: list[tuple[int, int]] = []
    first, second = one_file(tmp_path / "one.h5", w=one), one_file(tmp_path / "other.h5", w=other)
    (tensor,) = diff(first, second, lambda done, total: progress.append((done, total)))
    assert tensor.values == ValueDifference(one.size, 3, 3.0, 0, (0, 0))
    assert len(progress) > 3
    assert progress[-1] == (one.nbytes, one.nbytes)


def test_what_cannot_be_read_is_told_and_the_rest_compared(tmp_path: Path) -> None:
    save(tmp_path / "one", remove_redundancy=True)
    manifest = save(tmp_path / "other", 78)
    assert manifest.step == 78
    (tmp_path / "one" / "rank_1" / "net-1_77.h5").unlink()
    tensors = found(tmp_path / "one", tmp_path / "other")
    unreadable = {name for name, tensor in tensors.items() if tensor.verdict == "unreadable"}
    assert unreadable
    assert all("is lost" in tensors[name].problem for name in unreadable)
    assert {tensor.verdict for name, tensor in tensors.items() if name not in unreadable} == {"differs", "equal"}


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "one")
    with pytest.raises(CheckpointError, match="other"):
        diff(tmp_path / "one", tmp_path / "other")
    (tmp_path / "text.txt").write_text("no arrays")
    with pytest.raises(CheckpointError, match="tells no format"):
        diff(tmp_path / "one", tmp_path / "text.txt")


def test_a_state_compared_with_itself_is_read_by_digests_and_progress_ends_with_all_bytes(tmp_path: Path) -> None:
    save(tmp_path / "one")
    told: list[tuple[int, int]] = []
    tensors = diff(tmp_path / "one", tmp_path / "one", lambda done, total: told.append((done, total)))
    nbytes = sum(whole(name, 77).nbytes for name in LAYOUTS)
    assert {total for _, total in told} == {nbytes}
    assert told[-1] == (nbytes, nbytes)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert [(tensor.same_dtype, tensor.same_layout, tensor.by_digest) for tensor in tensors] == [(True,) * 3] * 5


def test_what_is_not_compared_counts_for_nothing_in_progress(tmp_path: Path) -> None:
    first = one_file(tmp_path / "a.npz", a=np.zeros(3), s=np.zeros(3), d=np.arange(4, dtype="f4"))
    second = one_file(tmp_path / "b.npz", b=np.zeros(3), s=np.zeros(4), d=np.arange(4, dtype="f8"))
    told: list[tuple[int, int]] = []
    tensors = diff(first, second, lambda done, total: told.append((done, total)))
    assert told == [(16, 16)]
    # What is in one state alone is alike in nothing.
    assert [(tensor.name, tensor.same_dtype, tensor.same_layout) for tensor in tensors] == [
        ("a", False, False),
        ("b", False, False),
        ("d", False, True),
        ("s", True, False),
    ]


def test_files_have_no_digests_that_could_be_compared_in_place_of_values(tmp_path: Path) -> None:
    (tensor,) = diff(one_file(tmp_path / "a.h5", w=np.ones(3)), one_file(tmp_path / "b.h5", w=np.ones(3)))
    assert (tensor.verdict, tensor.by_digest) == ("equal", False)


def test_the_first_difference_in_a_later_portion_is_told_by_its_place_in_the_whole(tmp_path: Path) -> None:
    one = np.zeros((3, 2 << 20), np.float32)
    other = one.copy()
    other[2, 5], other[2, 9] = 1, 2
    first, second = one_file(tmp_path / "one.h5", w=one), one_file(tmp_path / "other.h5", w=other)
    assert found(first, second)["w"].values == ValueDifference(one.size, 2, 2.0, 0, (2, 5))
