"""What of a training is saved, in which layouts, and which saved tensors fit it again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mpiparallel import Parameter
from mpiparallel.checkpoint.files.array_file import infos_of
from mpiparallel.checkpoint.formats.registry import write_file
from mpiparallel.checkpoint.stored_state import StoredState, StoredTensor
from mpiparallel.communication.threads import run_world
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.train.persistence.state import (
    misfit,
    own_tensors,
    parameters_in,
    read_state,
    saved_layout,
    state_of,
    take_state,
)
from tests.conformance.trainings.moving_product import normed_model, small_rows

STATISTICS = {"norm.moving_mean", "norm.moving_variance"}


def partial(shape: tuple[int, ...], count: int) -> Layout:
    """Return the layout of what each of some ranks has of its own."""
    return Layout(shape, DeviceMatrix((count,)), ((),) * len(shape), partial=(0,))


@pytest.mark.parametrize(
    ("layout", "saved"),
    [
        (partial((4, 6), 3), Layout((12, 6), DeviceMatrix((3,)), ((0,), ()))),
        (partial((5,), 2), Layout((10,), DeviceMatrix((2,)), ((0,),))),
        (partial((), 3), Layout((3,), DeviceMatrix((3,)), ((0,),))),
        (Layout((4, 6), DeviceMatrix((2,)), ((), (0,))), Layout((4, 6), DeviceMatrix((2,)), ((), (0,)))),
    ],
)
def test_what_is_each_ranks_own_is_saved_as_rows_rank_after_rank(layout: Layout, saved: Layout) -> None:
    assert saved_layout(layout) == saved


def test_a_rank_saves_what_it_holds_and_its_own_statistics_as_its_rows() -> None:
    def job(communicator: Any) -> Any:
        model = normed_model()
        staged = model.build(small_rows())
        assert staged is not None
        model.predict_network.norm.moving_mean.set_data(np.full(6, communicator.rank, np.float32))
        arrays, layouts = state_of(staged)
        assert own_tensors(staged) == STATISTICS
        assert arrays.keys() == layouts.keys() == parameters_in(staged).keys()
        assert STATISTICS | {"weight", "norm.gamma", "norm.beta", "moments.weight"} <= arrays.keys()
        assert layouts["weight"].global_shape == arrays["weight"].shape == (6, 12)
        return layouts["norm.moving_mean"], arrays["norm.moving_mean"].tolist()

    rows = Layout((12,), DeviceMatrix((2,)), ((0,),))
    assert run_world(2, job) == [(rows, [0.0] * 6), (rows, [1.0] * 6)]


def test_a_slice_is_taken_into_a_parameter_that_is_cut() -> None:
    cut = Parameter(np.zeros(4), "cut")
    cut.move(Layout((4,), DeviceMatrix((2,)), ((0,),)), 1, np.zeros(2))
    staged: Any = SimpleNamespace(parameters={"cut": cut})
    take_state(staged, {"cut": np.array([3.0, 4.0])})
    assert cut.asnumpy().tolist() == [3.0, 4.0]


def test_what_is_no_state_between_steps_and_what_other_ranks_hold_is_not_saved() -> None:
    held, elsewhere, passing = (Parameter(np.ones(2), name) for name in ("held", "elsewhere", "passing"))
    elsewhere.leave()
    passing.transient = True
    number = Parameter(np.float64(3.0), "number")
    parameters = {one.name: one for one in (held, elsewhere, passing, number)}
    whole = Layout.replicated((2,), DeviceMatrix((2,)))
    stored = dict.fromkeys(parameters, whole) | {"number": partial((), 2)}
    staged: Any = SimpleNamespace(parameters=parameters, stored=stored)
    arrays, layouts = state_of(staged)
    assert {name: array.tolist() for name, array in arrays.items()} == {"held": [1.0, 1.0], "number": [3.0]}
    assert layouts.keys() == {"held", "elsewhere", "number"}
    assert parameters_in(staged).keys() == {"held", "elsewhere", "number"}


ONE = Layout.replicated((6, 12), DeviceMatrix((1,)))
ROWS_OF_2 = Layout((12,), DeviceMatrix((2,)), ((0,),))
ROWS_OF_3 = Layout((18,), DeviceMatrix((3,)), ((0,),))
OTHER = Layout.replicated((6, 13), DeviceMatrix((1,)))
ODD = Layout((13,), DeviceMatrix((2,)), ((),))
FITS: list[tuple[str, Layout, str, bool, list[str]]] = [
    ("weight", ONE, "float32", True, []),
    ("another", ONE, "float32", True, []),
    ("weight", OTHER, "float32", False, ["'weight' has shape (6, 13) there, (6, 12) here"]),
    ("weight", ONE, "float64", True, ["'weight' is float64 there, float32 here"]),
    ("weight", ONE, "float64", False, []),
    ("weight", ONE, "float16", False, []),
    ("weight", ONE, "int32", False, ["'weight' is int32 there, float32 here"]),
    ("weight", OTHER, "int32", True, ["'weight' has shape (6, 13) there, (6, 12) here"]),
    ("norm.moving_mean", ROWS_OF_2, "float32", True, []),
    ("norm.moving_mean", ROWS_OF_3, "float32", True, []),
    ("norm.moving_mean", ODD, "float32", True, ["'norm.moving_mean' has shape (13,) there, (6,) here"]),
    (
        "norm.moving_mean",
        Layout((14,), DeviceMatrix((2,)), ((0,),)),
        "float32",
        True,
        ["'norm.moving_mean' has shape (7,) there, (6,) here"],
    ),
    ("norm.moving_mean", ROWS_OF_2, "float64", True, ["'norm.moving_mean' is float64 there, float32 here"]),
]


def test_stored_tensors_that_do_not_fit_are_told_with_what_is_here() -> None:
    def job(communicator: Any) -> list[list[str]]:
        staged = normed_model().build(small_rows())
        assert staged is not None
        return [
            misfit({name: StoredTensor(layout, np.dtype(dtype))}, staged, STATISTICS, strict)
            for name, layout, dtype, strict, _ in FITS
        ]

    assert run_world(2, job) == [[said for *_, said in FITS]] * 2


def test_weights_of_each_rank_alone_fit_as_many_ranks_only() -> None:
    def job(communicator: Any) -> list[list[str]]:
        staged = normed_model(alone=True).build(small_rows())
        assert staged is not None
        layouts = (Layout((6 * count, 12), DeviceMatrix((count,)), ((0,), ())) for count in (2, 3))
        stored = ({"weight": StoredTensor(layout, np.dtype(np.float32))} for layout in layouts)
        # One that was the same on all of three ranks is none of each rank's own.
        alike = {"weight": StoredTensor(Layout.replicated((6, 12), DeviceMatrix((3,))), np.dtype(np.float32))}
        return [*(misfit(one, staged, {"weight"}, True) for one in stored), misfit(alike, staged, (), True)]

    words = "'weight' is layerwise_parallel, so that each rank has one of its own, and those of 3 ranks do not fit 2"
    assert run_world(2, job) == [[[], [words], []]] * 2


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [
        ("own", (3,), []),
        ("own", (6,), ["'own' has shape (2,) there, () here"]),
        ("alike", (), []),
        ("alike", (1,), ["'alike' has shape (1,) there, () here"]),
    ],
)
def test_a_number_that_is_each_ranks_own_lies_in_a_row_of_one(name: str, shape: tuple[int, ...], said: Any) -> None:
    staged: Any = SimpleNamespace(parameters={name: Parameter(np.float32(1.0), name)}, rank_count=3)
    stored = StoredTensor(Layout.replicated(shape, DeviceMatrix((3,))), np.dtype(np.float32))
    assert misfit({name: stored}, staged, {"own"}, True) == said


def test_several_that_do_not_fit_are_all_told() -> None:
    parameters = {name: Parameter(np.ones(2), name) for name in ("a", "b", "c")}
    staged: Any = SimpleNamespace(parameters=parameters)
    stored = {
        name: StoredTensor(Layout.replicated((3,), DeviceMatrix((1,))), np.dtype(np.float64)) for name in ("a", "c")
    }
    assert misfit(stored, staged, (), True) == [f"'{name}' has shape (3,) there, (2,) here" for name in ("a", "c")]


def test_a_state_is_taken_into_the_parameters_also_where_it_was_read_in_place() -> None:
    first, second, third = (Parameter(np.zeros(2), name) for name in ("first", "second", "third"))
    staged: Any = SimpleNamespace(parameters={one.name: one for one in (first, second, third)})
    held = second.array
    held[:] = 5.0
    take_state(staged, {"first": np.array([1.0, 2.0]), "second": held})
    assert [one.asnumpy().tolist() for one in (first, second, third)] == [[1.0, 2.0], [5.0, 5.0], [0.0, 0.0]]
    assert second.array is held


ROWS_0_TO_3 = np.arange(12.0).reshape(4, 3)
OWN_BEFORE = {
    "own": Layout((4, 3), DeviceMatrix((2,)), ((0,), ())),
    "number": Layout((2,), DeviceMatrix((2,)), ((0,),)),
}


def stored_by_two(folder: Path) -> StoredState:
    """Return two rows and a number of each of two ranks, and two rows that were the same on both."""
    files = {rank: folder / f"{rank}.npz" for rank in range(2)}
    for rank, file in files.items():
        rows = ROWS_0_TO_3[2 * rank : 2 * rank + 2]
        arrays = {"own": rows, "number": np.array([5.0 + rank]), "alike": ROWS_0_TO_3[:2]}
        write_file(file, infos_of(arrays), arrays.items(), {})
    layouts = {**OWN_BEFORE, "alike": Layout.replicated((2, 3), DeviceMatrix((2,)))}
    return StoredState.of_files(
        files, {name: StoredTensor(layout, np.dtype(np.float64)) for name, layout in layouts.items()}
    )


@pytest.mark.parametrize(
    ("stored", "first_rows", "numbers"),
    [
        ({"own": partial((2, 3), 3), "number": partial((), 3), "alike": partial((2, 3), 3)}, [0, 2, 0], [5, 6, 5]),
        (
            {
                "own": Layout.replicated((2, 3), DeviceMatrix((3,))),
                "number": Layout.replicated((1,), DeviceMatrix((3,))),
                "alike": Layout.replicated((2, 3), DeviceMatrix((3,))),
            },
            [0, 0, 0],
            [5, 5, 5],
        ),
    ],
    ids=["still each rank's own", "alike from now on"],
)
def test_ranks_take_what_was_their_own_counted_round_or_all_of_them_that_of_the_first(
    stored: dict[str, Layout], first_rows: list[int], numbers: list[int], tmp_path: Path
) -> None:
    staged: Any = SimpleNamespace(stored=stored)

    def job(communicator: Any) -> Any:
        with stored_by_two(tmp_path) as state:
            found = read_state(state, staged, stored, {"own", "number"}, communicator)
        row, number = first_rows[communicator.rank], numbers[communicator.rank]
        np.testing.assert_array_equal(found["own"], ROWS_0_TO_3[row : row + 2], strict=True)
        np.testing.assert_array_equal(found["number"].reshape(()), number)
        np.testing.assert_array_equal(found["alike"], ROWS_0_TO_3[:2], strict=True)
        return found["number"].shape

    assert run_world(3, job) == [stored["number"].global_shape] * 3
