from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpiparallel.cluster.fault_plan import STRIKE_FROM_OUTSIDE, FaultPlan
from mpiparallel.communication.fault_injection import FaultSchedule
from mpiparallel.communication.fault_injection.flipped_bit import flip_newest_shard
from mpiparallel.communication.protocol import Communicator
from mpiparallel.communication.threads import alone, run_world
from mpiparallel.errors import CommunicationError, ConfigurationError
from tests.conformance import patience

PROGRAM = """
import sys
from mpiparallel.communication.fault_injection import FaultSchedule
from mpiparallel.communication.threads import alone
faults, world = FaultSchedule.of_environment(0, 1), alone()
for number in range(1, 10):
    print(f"before {number}", flush=True)
    faults.inject(number, "all_reduce", world)
    while number == 5 and "wait" in sys.argv:
        pass
    faults.left(number)
"""


def process(text: str, *words: str) -> subprocess.Popen[str]:
    known = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MPIPARALLEL_CHAOS": text}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], env=known, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_every_death_is_that_of_a_real_process_at_the_number_named() -> None:
    deaths = {"kill": -signal.SIGKILL, "segfault": -signal.SIGSEGV, "exit": 13, "leave": 0, "exception": 1}
    moments = {"": 5, ":after": 5, ":in": 5}
    cases = [
        (f"{kind}@0:5{moment}", code, last)
        for kind, code in deaths.items()
        for moment, last in moments.items()
        if moment != ":in" or kind in STRIKE_FROM_OUTSIDE
    ]
    started = [(process(text, *(["wait"] if ":in" in text else [])), text, code, last) for text, code, last in cases]
    for child, text, code, last in started:
        output, errors = patience.communicated(child)
        assert (child.returncode, output.splitlines()[-1]) == (code, f"before {last}"), text
        assert f"mpiparallel: chaos: {FaultPlan.parse(text).faults(1)[0]}" in errors


def wait_for_state(process: int, state: str) -> None:
    status = Path(f"/proc/{process}/stat")
    patience.wait_until(lambda: status.read_text().rpartition(")")[2].split()[0] == state)


def test_a_stopped_process_is_stopped_and_one_in_a_loop_works() -> None:
    for text, state in (("stop@0:5", "T"), ("loop@0:5", "R")):
        with process(text) as child:
            try:
                assert child.stderr is not None
                assert any(f"chaos: {FaultPlan.parse(text).faults(1)[0]}\n" in line for line in child.stderr)
                wait_for_state(child.pid, state)
            finally:
                child.kill()


def test_a_full_disk_refuses_what_is_written_at_offsets_in_all_threads_and_lets_the_rank_speak(tmp_path: Path) -> None:
    program = """
import errno, os, sys, threading
from mpiparallel.communication.fault_injection.full_disk import fill_disk
there = threading.Event()
def write():
    descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, b"x", 0)
    except OSError as error:
        print(errno.errorcode[error.errno])
def later():
    there.wait()
    write()
thread = threading.Thread(target=later)
thread.start()
fill_disk()
write()
there.set()
thread.join()
"""
    known = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", program, str(tmp_path / "file")]
    ended = subprocess.run(words, env=known, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["ENOSPC", "ENOSPC"]
    assert (tmp_path / "file").stat().st_size == 0


@pytest.mark.parametrize("own", ["rank_", "ckpt_"])
def test_a_flip_changes_one_bit_of_the_newest_committed_shard_of_that_rank(tmp_path: Path, own: str) -> None:
    content = random.Random(1).randbytes(1000)
    for moment, (name, committed) in enumerate((("net-1_10", True), ("net-1_20", True), ("net-1_30", False))):
        for rank in (0, 1):
            shard = tmp_path / "saved" / f"{own}{rank}" / f"{name}.h5"
            shard.parent.mkdir(parents=True, exist_ok=True)
            shard.write_bytes(content)
        if committed:
            manifest = tmp_path / "saved" / f"{name}.manifest.json"
            shards = [{"file": f"{own}{rank}/{name}.h5"} for rank in (0, 1)]
            manifest.write_text(json.dumps({"manifest": {"shards": shards}}))
            os.utime(manifest, (moment, moment))
    told = flip_newest_shard(tmp_path, 1, random.Random(7))
    changed = {
        str(path.relative_to(tmp_path)): bytes(a ^ b for a, b in zip(path.read_bytes(), content, strict=True))
        for path in tmp_path.rglob("*.h5")
        if path.read_bytes() != content
    }
    assert list(changed) == [f"saved/{own}1/net-1_20.h5"]
    assert sum(byte.bit_count() for byte in changed[f"saved/{own}1/net-1_20.h5"]) == 1
    assert f"saved/{own}1/net-1_20.h5: turned over bit" in told
    assert "name its folder by folder=PATH" in flip_newest_shard(tmp_path / "saved" / f"{own}0", 1, random.Random(7))


def test_a_flip_finds_its_bit_in_a_shard_of_one_byte_each_time(tmp_path: Path) -> None:
    shard = tmp_path / "net-1_1.h5"
    (tmp_path / "net-1_1.manifest.json").write_text(json.dumps({"manifest": {"shards": [{"file": shard.name}]}}))
    flipped = set()
    for seed in range(64):
        shard.write_bytes(b"\0")
        assert "of byte 0" in flip_newest_shard(tmp_path, 0, random.Random(seed))
        flipped.add(shard.read_bytes())
    assert flipped == {bytes([1 << bit]) for bit in range(8)}


def mismatched(communicator: Communicator, text: str) -> str:
    faults = FaultSchedule(FaultPlan.parse(text).faults(communicator.size), communicator.rank)
    array = np.ones(8, np.float32)
    try:
        for number in range(1, 4):
            faults.inject(number, "all_reduce", communicator)
            communicator.all_reduce(array)
    except CommunicationError as error:
        return f"{number}: {error}"
    return "nothing happened"


@pytest.mark.parametrize("kind", ["wrong-operation", "wrong-dtype", "wrong-count", "wrong-root"])
def test_a_wrong_collective_does_not_match_those_of_the_others(kind: str) -> None:
    told = run_world(3, mismatched, f"{kind}@1:2")
    assert all(words.startswith("2: ") for words in told), told


def test_a_fault_after_a_collective_that_goes_on_strikes_before_the_next() -> None:
    faults = FaultSchedule(FaultPlan.parse("exception@0:2:after").faults(1), 0)
    faults.inject(2, "start_all_reduce", alone())
    with pytest.raises(RuntimeError, match="after collective 2"):
        faults.inject(3, "all_reduce", alone())


@pytest.mark.parametrize(
    ("fault", "begun"),
    [
        ("exception@0:2/F1", ["F0", "W3", "F1", "W3", "", "F0", "W3", "F1"]),
        ("exception@0:2/F1:after", ["F0", "W3", "F1", "W3", "", "F0", "W3", "F1", "W3"]),
        # Once a step, though it comes back to it.
        ("exception@0:2/W3", ["F0", "W3", "F1", "W3", "", "F0", "W3"]),
        ("exception@0:1/W3:after", ["F0", "W3", "F1"]),
        ("exception@0:3/F1", []),
        ("exception@1:1/F1", []),
    ],
)
def test_a_fault_strikes_at_an_action_of_the_step_named(fault: str, begun: list[str]) -> None:
    faults, told = FaultSchedule(FaultPlan.parse(fault).faults(2), 0), []
    steps = ["F0", "W3", "F1", "W3", ""] * 2
    try:
        for action in steps:
            told.append(action)
            faults.begin(action)
            faults.inject(len(told), "all_reduce", alone())
    except RuntimeError:
        assert told == begun
    else:
        assert not begun


def struck(rank: int, **variables: str) -> list[str]:
    known = {f"MPIPARALLEL_{name}": word for name, word in variables.items()}
    faults, told = FaultSchedule.of_environment(rank, 2, known), []
    for number in (1, 2, 2, 3, 3):
        try:
            faults.inject(number, "all_reduce", alone())
        except RuntimeError as error:
            told.append(str(error))
    return told


def test_a_fault_strikes_one_rank_once_in_the_attempts_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    plan, words = "exception@1:2", "chaos: raise an exception on rank 1 at collective 2"
    assert struck(0, CHAOS=plan) == []
    assert struck(1, CHAOS=plan) == [words]
    assert struck(1) == []
    assert struck(1, CHAOS=plan, RESTART_COUNT="1") == []
    assert struck(1, CHAOS=f"{plan},attempts=0-1", RESTART_COUNT="1") == [words]
    # Rank 0 once, as it begins, and rank 1 at each blow.
    assert capsys.readouterr().err == f"mpiparallel: {words}\n" * 3
    with pytest.raises(ConfigurationError, match="is no number of restarts"):
        struck(1, CHAOS=plan, RESTART_COUNT="x")
