"""What a conversion did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from mpiparallel.dataclass import dataclass


@dataclass(frozen=True)
class TransformReport:
    """The files that this process wrote, by target rank, and what was done for want of something better.

    ``replaced`` says, for each source rank whose file is missing or damaged, why and who stood in for it.
    ``replicated`` are the parameters that no source strategy names, ``omitted`` those that no target rank has.
    """

    files: Mapping[int, Path]
    replaced: Mapping[int, str] = field(default_factory=dict)
    replicated: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as JSON, for another process."""
        return json.dumps(
            {
                "files": {rank: str(path) for rank, path in self.files.items()},
                "replaced": dict(self.replaced),
                "replicated": self.replicated,
                "omitted": self.omitted,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> TransformReport:
        """Return the report that ``to_json`` wrote."""
        told = json.loads(text)
        files = {int(rank): Path(path) for rank, path in told["files"].items()}
        replaced = {int(rank): reason for rank, reason in told["replaced"].items()}
        return cls(files, replaced, tuple(told["replicated"]), tuple(told["omitted"]))

    def __or__(self, other: TransformReport) -> TransformReport:
        """Return what both did together, of one state."""
        return TransformReport(
            dict(sorted({**self.files, **other.files}.items())),
            {**self.replaced, **other.replaced},
            self.replicated,
            self.omitted,
        )

    def __str__(self) -> str:
        lines = [f"{len(self.files)} files written"]
        lines += [f"rank {rank}: {reason}" for rank, reason in sorted(self.replaced.items())]
        lines += [f"in no source strategy, the same on all ranks: {', '.join(self.replicated)}"] * bool(self.replicated)
        lines += [f"in no target strategy, left out: {', '.join(self.omitted)}"] * bool(self.omitted)
        return "\n".join(lines)
