"""What is kept beside a communicator goes with it: freed in one order on all members, or given up alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mpiparallel.communication.attributes import abandon_all, free_all


def kept_things() -> tuple[dict[str, Any], list[str]]:
    """Return what is kept, and the list in which each writes what has become of it."""
    told: list[str] = []

    def thing(name: str, *ends: str) -> SimpleNamespace:
        return SimpleNamespace(**{end: lambda end=end: told.append(f"{end} {name}") for end in ends})

    kept = {"nccl": thing("nccl", "free", "abandon"), "way": "staging", "ipc": thing("ipc", "free"), "facts": [1]}
    return {**kept, "blocks": thing("blocks", "abandon")}, told


def test_what_can_be_freed_is_freed_in_the_order_of_names() -> None:
    kept, told = kept_things()
    free_all(kept)
    assert (kept, told) == ({}, ["free ipc", "free nccl"])


def test_where_members_have_died_only_what_needs_no_other_is_done() -> None:
    kept, told = kept_things()
    abandon_all(kept)
    assert (kept, sorted(told)) == ({}, ["abandon blocks", "abandon nccl"])
