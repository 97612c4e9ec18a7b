"""The transport of a group: chosen once for its members and their devices, and kept with the group."""

from __future__ import annotations

from functools import partial

from mpiparallel.backend.gpu.links import DeviceLinks
from mpiparallel.backend.protocol import Backend
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.transport.choice import TransportChoice, choose_way
from mpiparallel.communication.transport.facts import gather_facts
from mpiparallel.communication.transport.in_flight import InFlight
from mpiparallel.communication.transport.ipc import IpcTransport
from mpiparallel.communication.transport.ipc_group import IpcGroup
from mpiparallel.communication.transport.mapped import MappedTransport
from mpiparallel.communication.transport.nccl import NcclGroup, NcclTransport
from mpiparallel.communication.transport.on_host import HostTransport
from mpiparallel.communication.transport.protocol import Transport
from mpiparallel.communication.transport.staged import PinnedSlots, StagedTransport
from mpiparallel.compatibility.remark import remark


def open_transport(world: Communicator, communicator: Communicator, backend: Backend, slots: PinnedSlots) -> Transport:
    """Return how the members of a ``communicator`` of a ``world`` move arrays of ``backend``.

    All members call it together. Raises ConfigurationError on all of them where the environment asks for a way that
    cannot be had. Raises CommunicationError on all of them where NCCL or CUDA refuses a member.
    """
    links = backend.links
    if links is None:
        return HostTransport(communicator)
    if communicator.size == 1:
        return StagedTransport(communicator, backend, slots)
    way = _way(communicator, links)
    if way.name == "nccl":
        group = communicator.kept.get("nccl")
        if group is None:
            in_flight = world.kept.setdefault("in_flight", InFlight())
            group = communicator.kept["nccl"] = NcclGroup(
                communicator, links.nccl, in_flight, partial(links.check, backend.communication)
            )
        return NcclTransport(communicator, backend, group)
    if way.name == "ipc":
        shared = communicator.kept.get("ipc")
        if shared is None:
            shared = communicator.kept["ipc"] = IpcGroup(communicator, backend, links.blocks, slots.slot_bytes)
        return IpcTransport(communicator, backend, shared)
    if way.name == "mpi":
        return MappedTransport(communicator, backend)
    return StagedTransport(communicator, backend, slots)


def _way(communicator: Communicator, links: DeviceLinks) -> TransportChoice:
    """Return the way of a group, which is found out when its first array travels."""
    known: TransportChoice | None = communicator.kept.get("way")
    if known is None:
        facts = gather_facts(communicator, links)
        # All members know the same facts, so all of them raise, or none.
        known = choose_way(facts)
        communicator.kept["way"] = known
        remark(f"arrays of GPUs travel by {known.name}: {known.why}")
    return known
