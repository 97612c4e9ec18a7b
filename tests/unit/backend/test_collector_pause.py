"""The collector is paused without a walk over all that a program holds, and what that has frozen is left so."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from mpiparallel.backend.collector_pause import collector_paused

PROGRAM = """
import gc
from mpiparallel.backend.collector_pause import collector_paused

frozen, counts = {frozen}, 0
count = gc.get_freeze_count


def counted():
    global counts
    counts += 1
    return count()


if frozen:
    gc.freeze()
before, gc.get_freeze_count = count(), counted
for _ in range(3):
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
assert (count() > 0) == frozen and count() >= before
print(counts)
"""


def told(frozen: bool) -> str:
    program = PROGRAM.format(frozen=frozen)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_what_a_program_has_frozen_stays_frozen_and_is_counted_once() -> None:
    assert told(frozen=True) == "1\n"


def test_nothing_is_left_frozen_where_nothing_was() -> None:
    assert told(frozen=False) == "1\n"


LOADING = """
import gc
import mpiparallel as ms

looks = []
gc.callbacks.append(lambda phase, told: looks.append(told["generation"]))
ms.nn.Dense
assert not looks, "there is no garbage in what is loaded"
assert gc.get_count()[0] < 700 and gc.get_freeze_count() == 0
gc.freeze()
frozen = gc.get_freeze_count()
ms.Model, ms.dataset
assert gc.get_freeze_count() > frozen / 2, "what was frozen between two loads stays so"
print(frozen > 10_000)
"""


def test_what_the_public_names_load_counts_as_old_and_what_is_frozen_between_them_stays_so() -> None:
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize("runs", [True, False])
def test_the_collector_goes_on_after_an_error_and_stays_off_where_it_was(runs: bool) -> None:
    def failing() -> None:
        with collector_paused(), collector_paused():
            assert not gc.isenabled()
            raise KeyError

    was = gc.isenabled()
    (gc.enable if runs else gc.disable)()
    try:
        with pytest.raises(KeyError):
            failing()
        assert gc.isenabled() is runs
    finally:
        (gc.enable if was else gc.disable)()
