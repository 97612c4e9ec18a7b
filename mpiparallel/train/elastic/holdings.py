"""What the ranks hold of a training, and what moves: tensors by name with their layouts on the ranks of the job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mpiparallel.errors import ReshardError
from mpiparallel.graph.parameter import Parameter
from mpiparallel.layout.device_matrix import DeviceMatrix
from mpiparallel.layout.layout import Layout
from mpiparallel.nn.cell import Cell
from mpiparallel.train.elastic.leader_message import MovedParameter, ReshardCommand

LayoutPair = tuple[Layout, Layout]


def parameters_of(cells: Iterable[Cell]) -> dict[str, Parameter]:
    """Return the parameters of cells, each once, by names that are their own wherever they can be.

    Every process that makes the same cells gets the same names. Transient ones are left out.
    """
    found: dict[str, Parameter] = {}
    seen: set[int] = set()
    for cell in cells:
        for parameter in cell.get_parameters():
            if id(parameter) in seen or parameter.transient:
                continue
            seen.add(id(parameter))
            name = parameter.name
            while name in found:
                name = f"{name} (another)"
            found[name] = parameter
    return found


def whole_on(shape: tuple[int, ...], count: int) -> Layout:
    """Return the layout that gives each of ``count`` ranks the whole tensor."""
    return Layout.replicated(shape, DeviceMatrix((count,) if count > 1 else ()))


def carried(parameter: Parameter, target: Layout | None, before: Sequence[int], after: Sequence[int]) -> MovedParameter:
    """Return what is to be done to a parameter; what no graph lays out is whole on every rank afterwards.

    Raises ReshardError for a parameter that is each rank's own and that would be lost, or be missing.
    """
    source = parameter.layout or whole_on(parameter.shape, len(before))
    count = max(source.devices.members) + 1
    if count > len(before):
        raise ReshardError(
            f"Model.reshard: parameter {parameter.name!r} is laid out on {count} ranks, but "
            f"{len(before)} train; a network is moved by the Model that has run it"
        )
    if parameter.layerwise_parallel and source.partial and tuple(before) != tuple(after):
        raise ReshardError(
            f"Model.reshard: parameter {parameter.name!r} is layerwise_parallel, so that each rank has one of its "
            f"own, and {len(before)} of them do not fit {len(after)} other ranks; cut it by a strategy instead"
        )
    return MovedParameter(parameter.spec, source, target or whole_on(parameter.shape, len(after)))


def pairs_of(command: ReshardCommand) -> dict[str, LayoutPair]:
    """Return the source and target layout of all that moves, on the ranks of the job.

    What is each rank's own, such as moving averages of its own batches, counts as one tensor for each rank. A rank that
    trains on keeps it. A rank that joins takes that of the rank of its number, counted round. Where it is to be the
    same on all ranks, it is that of the first.
    """
    pairs: dict[str, LayoutPair] = {}
    # Thousands of tensors move alike.
    known: dict[int, LayoutPair] = {}
    for name, one in command.tensors.items():
        if one.source.partial and one.target.partial:
            for source, takers in _heirs(command.living, command.after).items():
                kept = whole_on(one.spec.shape, 1).on_ranks([source])
                pairs[own_name(name, source)] = kept, whole_on(one.spec.shape, len(takers)).on_ranks(takers)
            continue
        if id(one) not in known:
            known[id(one)] = _on_the_job(one, command)
        pairs[name] = known[id(one)]
    return pairs


def _on_the_job(one: MovedParameter, command: ReshardCommand) -> LayoutPair:
    """Return the layouts of a tensor, of which one at most is each rank's own, on the ranks of the job."""
    source = on_numbers(one.source, command.before)
    if one.source.partial:
        source = whole_on(one.spec.shape, 1).on_ranks(command.living[:1])
    target = whole_on(one.spec.shape, len(command.after)) if one.target.partial else one.target
    return source, on_numbers(target, command.after)


def on_numbers(layout: Layout, numbers: Sequence[int]) -> Layout:
    """Return a layout over ranks 0, 1, ... over those that have these numbers in the job.

    >>> on_numbers(whole_on((8,), 2), [4, 7]).devices.members
    (4, 7)
    """
    return layout.on_ranks([numbers[rank] for rank in layout.devices.members])


def own_name(name: str, rank: int) -> str:
    """Return the name under which the ``name`` of one rank moves."""
    return f"{name} of rank {rank}"


def _heirs(before: Sequence[int], after: Sequence[int]) -> dict[int, list[int]]:
    """Return for each rank that trained who takes what is its own; ranks that nobody follows are left out."""
    heirs: dict[int, list[int]] = {}
    for place, rank in enumerate(after):
        heirs.setdefault(rank if rank in before else before[place % len(before)], []).append(rank)
    return heirs


def keys_before(command: ReshardCommand, rank: int) -> dict[str, str]:
    """Return which parameters a rank gives, and under which name each moves."""
    if rank not in command.living:
        return {}
    followed = rank in _heirs(command.living, command.after)
    keys = {}
    for name, one in command.tensors.items():
        if one.source.partial and one.target.partial:
            keys.update({name: own_name(name, rank)} if followed else {})
        elif rank == command.living[0] if one.source.partial else command.before.index(rank) in one.source.devices:
            keys[name] = name
    return keys


def keys_after(command: ReshardCommand, rank: int) -> dict[str, str]:
    """Return which parameters a rank holds afterwards, and under which name each has moved."""
    if rank not in command.after:
        return {}
    heirs = _heirs(command.living, command.after)
    source = next(source for source, takers in heirs.items() if rank in takers)
    place = command.after.index(rank)
    return {
        name: own_name(name, source) if one.source.partial and one.target.partial else name
        for name, one in command.tensors.items()
        if place in one.target.devices
    }
