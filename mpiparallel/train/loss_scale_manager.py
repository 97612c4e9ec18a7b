"""By what the loss is multiplied, so that small gradients survive in float16 (MindSpore's ``loss_scale_manager``)."""

from __future__ import annotations

from mpiparallel.nn.cell import Cell
from mpiparallel.nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell


class LossScaleManager:
    """What says the scale of the loss; a subclass says how it changes.

    Examples
    --------
    >>> class Doubled(LossScaleManager):
    ...     def get_loss_scale(self):
    ...         return 2.0
    >>> Doubled().get_loss_scale()
    2.0
    """

    def get_loss_scale(self) -> float:
        """Return the first scale."""
        raise NotImplementedError(f"{type(self).__name__}: define get_loss_scale")

    def get_update_cell(self) -> Cell | None:
        """Return a new cell that updates the scale after each step; None where overflow is not looked for."""
        raise NotImplementedError(f"{type(self).__name__}: define get_update_cell")


class FixedLossScaleManager(LossScaleManager):
    """A scale that stays as it is.

    Parameters
    ----------
    loss_scale : float
        Above 0.
    drop_overflow_update : bool
        Whether a step that overflows changes nothing. Without it overflow is not looked for, and the optimizer must be
        given ``loss_scale`` too, to take the scale back.

    Raises
    ------
    ConfigurationError
        When the scale is not above 0.

    Examples
    --------
    >>> FixedLossScaleManager(1024.0).get_loss_scale()
    1024.0
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        self._cell = FixedLossScaleUpdateCell(loss_scale)
        self._drop_overflow_update = drop_overflow_update

    def get_loss_scale(self) -> float:
        """Return the scale."""
        return self._cell.get_loss_scale()

    def get_drop_overflow_update(self) -> bool:
        """Return whether a step that overflows changes nothing."""
        return self._drop_overflow_update

    def get_update_cell(self) -> Cell | None:
        """Return a cell that keeps the scale; None where overflow is not looked for."""
        return FixedLossScaleUpdateCell(self.get_loss_scale()) if self._drop_overflow_update else None


class DynamicLossScaleManager(LossScaleManager):
    """A scale that an overflow divides, and that steps without one multiply.

    Parameters
    ----------
    init_loss_scale : float
        The first, above 0.
    scale_factor : int
        By which it is divided and multiplied, above 1.
    scale_window : int
        After how many steps without overflow it is multiplied, above 0.

    Raises
    ------
    ConfigurationError
        For values out of range.

    Examples
    --------
    >>> DynamicLossScaleManager(2.0**16, 2, 1000).get_loss_scale()
    65536.0
    """

    def __init__(self, init_loss_scale: float = 2.0**24, scale_factor: int = 2, scale_window: int = 2000) -> None:
        self._settings = init_loss_scale, scale_factor, scale_window
        self._cell = DynamicLossScaleUpdateCell(*self._settings)

    def get_loss_scale(self) -> float:
        """Return the first scale."""
        return self._cell.get_loss_scale()

    def get_update_cell(self) -> Cell:
        """Return a cell that updates the scale."""
        return DynamicLossScaleUpdateCell(*self._settings)
