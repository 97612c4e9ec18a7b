"""Processes that share the target ranks of a conversion; started with ``-m``, this module is one of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Final

from mpiparallel.checkpoint.transform.folder_request import FolderRequest
from mpiparallel.checkpoint.transform.report import TransformReport
from mpiparallel.errors import CheckpointError, ConfigurationError, MpiParallelError, StrategyFileError, TransformError

_KINDS: Final = {
    kind.__name__: kind for kind in (TransformError, StrategyFileError, ConfigurationError, CheckpointError)
}


def run_workers(request: FolderRequest, count: int) -> TransformReport:
    """Carry out ``request`` in ``count`` processes. Raises what the first of them that failed raised."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "mpiparallel.checkpoint.transform.workers"]
    workers = []
    try:
        for share in range(count):
            worker = subprocess.Popen(
                [*command, str(share), str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            workers.append(worker)
        told = [worker.communicate(json.dumps(asdict(request))) for worker in workers]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.wait()
    reports = [_report(worker.returncode, *texts) for worker, texts in zip(workers, told, strict=True)]
    whole = reports[0]
    for report in reports[1:]:
        whole |= report
    return whole


def _report(code: int, output: str, problems: str) -> TransformReport:
    if code == 0:
        return TransformReport.from_json(output)
    try:
        kind, text = json.loads(output)
    except ValueError:
        tail = problems.strip().splitlines()[-1:] or ["no message"]
        raise TransformError(f"a process of process_num ended with {code} ({tail[0]}); try fewer of them") from None
    raise _KINDS.get(kind, TransformError)(text)


def main() -> int:
    """Carry out the share that the arguments name of the request on the standard input."""
    share, shares = map(int, sys.argv[1:])
    try:
        print(FolderRequest(**json.load(sys.stdin)).run(share, shares).to_json())
    except (MpiParallelError, OSError, MemoryError) as error:
        print(json.dumps([type(error).__name__, str(error) or type(error).__name__]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
