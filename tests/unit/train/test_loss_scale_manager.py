"""Managers of the scale of the loss: what a subclass must say."""

from __future__ import annotations

import pytest

from mpiparallel.train.loss_scale_manager import LossScaleManager


class Own(LossScaleManager):
    """Says nothing yet."""


@pytest.mark.parametrize("method", ["get_loss_scale", "get_update_cell"])
def test_a_subclass_is_told_by_its_name_what_it_must_define(method: str) -> None:
    with pytest.raises(NotImplementedError) as raised:
        getattr(Own(), method)()
    assert str(raised.value) == f"Own: define {method}"
