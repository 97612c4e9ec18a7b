"""A SLURM batch script that starts ranks, and comes again after a preemption: its parts, and its text."""

from __future__ import annotations

import shlex
import signal
from typing import Final

from mpiparallel.cluster.exit_codes import REFUSED, REQUEUE, SIGNALLED
from mpiparallel.dataclass import dataclass

LAUNCHERS: Final = ("run", "pmix", "pmi2")
"""``mpiparallel run`` with its mpirun, and srun's ways for Open MPI and for MPICH."""

_HEAD = """\
# It starts as many ranks as the allocation has tasks: with MPIPARALLEL_LAUNCHER=run by mpirun, with pmix by srun for
# Open MPI, with pmi2 by srun for MPICH (default: {launcher}). $PYTHON is the Python to use, by the same path on every
# node (default: {python}). Logs are in <job name>-<job id>.<restarts>/device<rank>/.
"""
_ARGUMENTS = """
if [ $# -eq 0 ] || [ -z "${{SLURM_JOB_ID-}}" ]; then
    echo "usage: sbatch [options of sbatch] {name} script.py [arguments of the script]" >&2
    exit {refused}
fi
"""
_COMMAND = """
set -u
logs=$SLURM_JOB_NAME-$SLURM_JOB_ID.${{SLURM_RESTART_COUNT:-0}}
job=("${{PYTHON:-{python}}}" -m mpiparallel run --log-dir "$logs" {script})
launcher=${{MPIPARALLEL_LAUNCHER:-{launcher}}}
case $launcher in
run) ;;
# Without --kill-on-bad-exit the others may wait for ever for a rank that is gone.
pmix | pmi2) job=(srun --mpi="$launcher" --kill-on-bad-exit=1 "${{job[@]}}") ;;
*)
    echo "MPIPARALLEL_LAUNCHER is \\"$launcher\\"; give run, pmix or pmi2" >&2
    exit {refused}
    ;;
esac
"""
_PLAIN = """\
exec "${job[@]}"
"""
_AGAIN = """\
if [ "$launcher" = pmix ]; then
    # A node that crashed keeps the PMIx socket of the step it ran, so no step may get that one's number again.
    for ((step = 0; step < ${SLURM_RESTART_COUNT:-0}; step++)); do srun --mpi=none true; done
fi
"""
_TOLD = """
# SLURM's signal comes to this shell alone, at any moment, and a shell answers only while it waits.
told= pid=
trap 'told=1; [ -z "$pid" ] || kill -USR1 "$pid"' USR1
"""
_WATCHED = """\
"${job[@]}" &
pid=$!
[ -z "$told" ] || kill -USR1 "$pid"
while wait "$pid"; kill -0 "$pid" 2>/dev/null; do :; done
wait "$pid"
code=$?
"""
_REQUEUED = """\
answers() { # every node of the job still runs what it is asked to
    timeout 60 srun --overlap --mpi=none --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" \\
        --ntasks-per-node=1 true
}
# A checkpoint was committed; or the signal came before the job could heed it; or a node is lost, which this script may
# see long before SLURM does.
if [ "$code" -eq AGAIN ] || { [ -n "$told" ] && [ "$code" -eq EARLY ]; } || { [ "$code" -ne 0 ] && ! answers; }; then
    scontrol requeue "$SLURM_JOB_ID"
fi
""".replace("AGAIN", str(REQUEUE)).replace("EARLY", str(SIGNALLED + signal.SIGUSR1))
_EXIT = """\
exit "$code"
"""


@dataclass(frozen=True)
class BatchScript:
    """A batch script: the file's ``name``, what it is for, sbatch's ``directives``, and how ranks are started.

    ``script`` are the words of the program and its arguments; without any, sbatch is given them behind the file.
    ``requeues`` means that the job comes again after a preemption or the loss of a node. ``is_signalled`` means that it
    is told by SIGUSR1 before its time is up.
    """

    name: str
    title: str
    directives: tuple[str, ...]
    launcher: str = "run"
    python: str = "python"
    script: tuple[str, ...] = ()
    is_signalled: bool = False
    requeues: bool = False

    @property
    def text(self) -> str:
        """The text of the file."""
        usage = f"sbatch {self.name}" + ("" if self.script else " train.py --epochs 3")
        words = {"name": self.name, "launcher": self.launcher, "python": self.python, "refused": REFUSED}
        parts = ["#!/bin/bash\n", f"# {self.title}:\n#     {usage}\n#\n", _HEAD.format(**words)]
        parts += [f"#SBATCH {directive}\n" for directive in self.directives]
        if not self.script:
            parts.append(_ARGUMENTS.format(**words))
        if self.is_signalled or self.requeues:
            parts.append(_TOLD)
        words["python"] = shlex.quote(self.python) if self.python != "python" else "python"
        parts.append(_COMMAND.format(**words, script=shlex.join(self.script) if self.script else '"$@"'))
        if self.is_signalled or self.requeues:
            parts += [_AGAIN, _WATCHED, _REQUEUED, _EXIT] if self.requeues else [_WATCHED, _EXIT]
        else:
            parts.append(_PLAIN)
        return "".join(parts)
