"""The schedules that can be asked for by name, and MindSpore's names for them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from mpiparallel.dataclass import dataclass
from mpiparallel.errors import ScheduleError
from mpiparallel.pipeline.messages import Orders, with_messages
from mpiparallel.pipeline.orders.interleaved import interleaved
from mpiparallel.pipeline.orders.lean_v import zero_bubble_v_lean
from mpiparallel.pipeline.orders.one_chunk import gpipe, one_forward_one_backward, zero_bubble_h1
from mpiparallel.pipeline.orders.v_shape import v_half, zero_bubble_v
from mpiparallel.pipeline.placement import Placement
from mpiparallel.pipeline.schedule import Schedule


@dataclass(frozen=True)
class Family:
    """A schedule for any number of stages and micro-batches.

    ``order`` gives the computations of stages, micro-batches and chunks; ``chunks`` are those of each stage, None where
    the user says how many. ``refusal`` says which rule numbers break, and is empty where they break none.
    """

    title: str
    order: Callable[[int, int, int], Orders]
    place: Callable[[int, int], Placement]
    chunks: int | None = 1
    refusal: Callable[[int, int], str] = lambda stages, micro_batches: ""


def _indivisible(stages: int, micro_batches: int) -> str:
    if micro_batches % stages == 0:
        return ""
    less, more = micro_batches // stages * stages, -(-micro_batches // stages) * stages
    return (
        f'rule "micro-batches divisible by stages": {micro_batches} micro-batches are no multiple of {stages} stages; '
        f"take {f'{less} or {more}' if less else more}, or 1f1b"
    )


def _too_few(stages: int, micro_batches: int) -> str:
    least = 2 * stages - 1
    if micro_batches >= least:
        return ""
    return (
        f'rule "2p - 1 micro-batches for p stages": {micro_batches} micro-batches do not fill {stages} stages; take '
        f"{least} or more, or zb_h1"
    )


def _v_placement(stages: int, chunks: int) -> Placement:
    return Placement.v_shape(stages)


SCHEDULES: Final = MappingProxyType(
    {
        "gpipe": Family("GPipe", lambda stages, count, _: gpipe(stages, count), Placement.loops),
        "1f1b": Family("1F1B", lambda stages, count, _: one_forward_one_backward(stages, count), Placement.loops),
        "interleaved_1f1b": Family("interleaved 1F1B", interleaved, Placement.loops, None, _indivisible),
        "zb_h1": Family("ZB-H1", lambda stages, count, _: zero_bubble_h1(stages, count), Placement.loops),
        "zb_v": Family("ZB-V", lambda stages, count, _: zero_bubble_v(stages, count), _v_placement, 2, _too_few),
        "zb_v_lean": Family(
            "ZB-V, lean", lambda stages, count, _: zero_bubble_v_lean(stages, count), _v_placement, 2, _too_few
        ),
        "v_half": Family("V-half", lambda stages, count, _: v_half(stages, count), _v_placement, 2),
    }
)
"""Each schedule by its name."""
_MINDSPORE: Final = MappingProxyType(
    {
        ("gpipe", False): "gpipe",
        ("1f1b", False): "1f1b",
        ("1f1b", True): "interleaved_1f1b",
        ("zero_bubble_v", False): "zb_v",
        ("zero_bubble_v", True): "zb_v",
    }
)
_CUTS_SEQUENCES: Final = ("seqpipe", "seqvpp", "seqsmartvpp")
_CHUNKS: Final = 2


def schedule_name(scheduler: str, interleave: bool = False) -> str:
    """Return our name of what MindSpore calls ``scheduler``; our own names stay.

    Parameters
    ----------
    scheduler : str
        ``pipeline_scheduler`` of ``pipeline_config``.
    interleave : bool
        ``pipeline_interleave`` of it.

    Returns
    -------
    str
        A name for ``make_schedule``.

    Raises
    ------
    ScheduleError
        For an unknown name.

    Examples
    --------
    >>> schedule_name("1f1b", interleave=True), schedule_name("zero_bubble_v"), schedule_name("zb_h1")
    ('interleaved_1f1b', 'zb_v', 'zb_h1')
    """
    if (scheduler, interleave) in _MINDSPORE:
        return _MINDSPORE[scheduler, interleave]
    if scheduler in _CUTS_SEQUENCES:
        raise ScheduleError(
            f"pipeline_scheduler={scheduler!r} cuts micro-batches along the sequence, which is not offered; take "
            "'1f1b', with pipeline_interleave=True for less idle time, or 'zb_v'"
        )
    if scheduler not in SCHEDULES:
        raise _unknown(scheduler)
    if interleave and SCHEDULES[scheduler].chunks == 1:
        raise ScheduleError(
            f"pipeline_scheduler={scheduler!r} has one chunk a stage, so pipeline_interleave=True does not go with it; "
            "take '1f1b', or leave pipeline_interleave out"
        )
    return scheduler


def make_schedule(
    name: str,
    stages: int,
    micro_batches: int,
    chunks: int | None = None,
    *,
    merged_backward: bool = False,
    blocking: bool = False,
) -> Schedule:
    """Return the schedule that ``SCHEDULES`` has under ``name``, with its messages.

    Input gradients are sent at once.

    Parameters
    ----------
    name : str
        Such as "gpipe", "1f1b", "zb_h1".
    stages, micro_batches : int
        At least 1.
    chunks : int, optional
        Of a stage; it can be chosen for interleaved_1f1b only, where it is 2 if not given.
    merged_backward : bool
        Whether input gradients are sent only after the weight gradient that follows, as where both are one program.
    blocking : bool
        Whether the messages are ordered for sends that wait for their receives; else for tagged sends that block
        nobody.

    Returns
    -------
    Schedule
        For one step.

    Raises
    ------
    ScheduleError
        For numbers that break a rule of the schedule, and names the rule.

    Examples
    --------
    >>> make_schedule("interleaved_1f1b", 4, 8, chunks=2).placement.stages
    (0, 1, 2, 3, 0, 1, 2, 3)
    """
    if name not in SCHEDULES:
        raise _unknown(name)
    family = SCHEDULES[name]
    each = _chunks(name, family, chunks)
    for what, number in (("stages", stages), ("micro_batches", micro_batches), ("chunks", each)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ScheduleError(f'schedule "{name}": {what}={number!r}; give a whole number from 1')
    refusal = family.refusal(stages, micro_batches)
    if refusal:
        raise ScheduleError(f'schedule "{name}": {refusal}')
    placement = family.place(stages, each)
    orders = family.order(stages, micro_batches, each)
    actions = with_messages(name, micro_batches, placement, orders, merged_backward=merged_backward, blocking=blocking)
    return Schedule(name, micro_batches, placement, actions)


def _chunks(name: str, family: Family, chunks: int | None) -> int:
    if family.chunks is None:
        return _CHUNKS if chunks is None else chunks
    if chunks is not None and chunks != family.chunks:
        raise ScheduleError(
            f'schedule "{name}": chunks={chunks!r}, and it has {family.chunks} a stage; leave chunks out, or take '
            "interleaved_1f1b"
        )
    return family.chunks


def _unknown(name: str) -> ScheduleError:
    return ScheduleError(f'there is no schedule "{name}"; there are {", ".join(SCHEDULES)}')
