"""What a rank leaves behind: its folder ``device<rank>`` with its log, its environment and how it ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Failure:
    """How a rank failed: seconds since 1970 by its host's clock, one line, the traceback, and its exit code."""

    rank: int
    time: float
    exception: str
    traceback: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class RankFolder:
    """The folder of one rank under the log directory, laid out as by the tutorial's ``run.sh``.

    ``train.log<rank>`` is all the rank printed, ``env<rank>.log`` its environment. ``completed`` is there only if it
    ended well, ``failure.json`` only if it ended by an exception or a non-zero exit. ``stack<rank>.log`` says where it
    was when it was told to end.
    """

    log_dir: Path
    rank: int

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.log_dir / f"device{self.rank}"

    @property
    def log(self) -> Path:
        """The rank's stdout and stderr."""
        return self.path / f"train.log{self.rank}"

    @property
    def environment(self) -> Path:
        """The rank's environment variables, one a line."""
        return self.path / f"env{self.rank}.log"

    @property
    def stack(self) -> Path:
        """The rank's stacks at the moment it was told to end."""
        return self.path / f"stack{self.rank}.log"

    @property
    def completed(self) -> Path:
        """The mark of a rank that ended well."""
        return self.path / "completed"

    @property
    def failure(self) -> Path:
        """The record of a rank that failed."""
        return self.path / "failure.json"

    def clear(self) -> None:
        """Remove what an earlier job left in the folder; other files in it stay."""
        for path in (self.log, self.environment, self.stack, self.completed, self.failure):
            path.unlink(missing_ok=True)

    def write_failure(self, failure: Failure) -> None:
        """Write ``failure``; a reader sees all of it or nothing."""
        partial = self.failure.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(failure), indent=2) + "\n", encoding="utf-8")
        partial.replace(self.failure)

    def read_failure(self) -> Failure | None:
        """Return the failure of the rank, or None if it left none."""
        try:
            return Failure(**json.loads(self.failure.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
