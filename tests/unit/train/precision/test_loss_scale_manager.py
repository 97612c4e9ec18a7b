"""Managers of the scale of the loss: where they begin, what updates them, and what a subclass must say."""

from __future__ import annotations

import pytest

from mpiparallel.nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from mpiparallel.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager


class Own(LossScaleManager):
    """Says nothing yet."""


@pytest.mark.parametrize("method", ["get_loss_scale", "get_update_cell"])
def test_a_subclass_is_told_by_its_name_what_it_must_define(method: str) -> None:
    with pytest.raises(NotImplementedError) as raised:
        getattr(Own(), method)()
    assert str(raised.value) == f"Own: define {method}"


def test_scales_begin_as_in_mindspore_and_each_manager_has_its_own_cell() -> None:
    fixed, dynamic = FixedLossScaleManager(), DynamicLossScaleManager()
    assert (fixed.get_loss_scale(), fixed.get_drop_overflow_update()) == (128.0, True)
    assert dynamic.get_loss_scale() == 2.0**24
    for manager, kind in ((fixed, FixedLossScaleUpdateCell), (dynamic, DynamicLossScaleUpdateCell)):
        one, other = manager.get_update_cell(), manager.get_update_cell()
        assert type(one) is kind
        assert one is not other
        assert one.get_loss_scale() == manager.get_loss_scale()
    unchecked = FixedLossScaleManager(3.0, False)
    assert (unchecked.get_loss_scale(), unchecked.get_update_cell()) == (3.0, None)
