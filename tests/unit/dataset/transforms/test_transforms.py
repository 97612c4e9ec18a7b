from __future__ import annotations

import numpy as np
import pytest

from mpiparallel.dataset import transforms
from mpiparallel.dataset.transforms import c_transforms
from mpiparallel.errors import DatasetError


@pytest.mark.parametrize("dtype", [np.float16, "int32", np.dtype("uint8"), bool])
def test_type_cast_gives_the_dtype_and_keeps_the_shape(dtype: type) -> None:
    result = transforms.TypeCast(dtype)(np.ones((2, 3)))
    assert result.dtype == np.dtype(dtype)
    assert result.shape == (2, 3)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(DatasetError, match="'int33' is no dtype"):
        transforms.TypeCast("int33")


def test_compose_hands_several_values_on_and_the_generator_to_random_operations_only() -> None:
    class Draw:
        random = True

        def __call__(self, a: int, b: int, generator: np.random.Generator) -> float:
            return a + b + generator.random()

    composed = transforms.Compose([lambda a: (a, a), Draw()])
    assert composed.random
    assert composed(1, generator=np.random.default_rng(3)) == 2 + np.random.default_rng(3).random()


def test_the_older_door_leads_to_the_same_operations() -> None:
    assert c_transforms.__all__ == transforms.__all__
    assert c_transforms.TypeCast is transforms.TypeCast
    assert c_transforms.Compose is transforms.Compose
