"""Which signals say that a cluster wants its machines back, and what a process remembers of them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.cluster.preemption_signal import (
    PreemptionHandler,
    heed_preemption,
    preemption_handlers,
    preemption_signals,
    signal_that_came,
)
from mpiparallel.errors import ConfigurationError

NAME = "MPIPARALLEL_PREEMPTION_SIGNAL"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (None, ["SIGUSR1"]),
        ("", ["SIGUSR1"]),
        ("off", []),
        (" OFF ", []),
        ("usr2", ["SIGUSR2"]),
        ("SIGTERM", ["SIGTERM"]),
        (" HUP , INT,quit", ["SIGHUP", "SIGINT", "SIGQUIT"]),
        ("XCPU,USR1,XCPU", ["SIGXCPU", "SIGUSR1"]),
    ],
)
def test_the_signals_are_those_that_are_named_once_each(text: str | None, names: list[str]) -> None:
    assert [each.name for each in preemption_signals({} if text is None else {NAME: text})] == names


@pytest.mark.parametrize(("text", "word"), [("KILL", "KILL"), ("USR1,", ""), ("USR1, no", "no"), ("off,USR1", "off")])
def test_a_word_that_is_no_signal_of_a_cluster_is_refused(text: str, word: str) -> None:
    told = f'{NAME}: {word!r} is not one of HUP, INT, QUIT, TERM, USR1, USR2, XCPU or "off"; give those that the'
    with pytest.raises(ConfigurationError) as caught:
        preemption_signals({NAME: text})
    assert str(caught.value) == f"{told} cluster sends, with commas between"


@pytest.fixture
def heeding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the process have USR1 and USR2 for it, handlers as before afterwards, and nothing to do at its end."""
    monkeypatch.setenv(NAME, "USR2,USR1")
    monkeypatch.setattr("atexit.register", lambda *_: None)
    former = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    for number in former:
        signal.signal(number, signal.SIG_IGN)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeding")
def test_a_signal_is_remembered_once_it_is_heeded_and_a_handler_of_before_is_called_too() -> None:
    called: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, frame: called.append(number))
    assert (preemption_handlers(), signal_that_came()) == ((), 0)
    heed_preemption()
    first = preemption_handlers()
    assert [handler.number for handler in first] == [signal.SIGUSR2, signal.SIGUSR1]
    heed_preemption()
    assert preemption_handlers() == first
    assert signal_that_came() == 0
    signal.raise_signal(signal.SIGUSR1)
    assert (signal_that_came(), called) == (signal.SIGUSR1, [signal.SIGUSR1])
    # What was ignored is remembered all the same.
    signal.raise_signal(signal.SIGUSR2)
    assert (signal_that_came(), signal_that_came(first[1:])) == (signal.SIGUSR2, signal.SIGUSR1)


@pytest.mark.usefixtures("heeding")
def test_outside_the_main_thread_nothing_is_heeded() -> None:
    heeding = threading.Thread(target=heed_preemption)
    heeding.start()
    heeding.join()
    assert preemption_handlers() == ()


@pytest.mark.usefixtures("heeding")
def test_a_wrong_word_is_refused_where_signals_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "none")
    with pytest.raises(ConfigurationError, match="'none' is not one of"):
        heed_preemption()


@pytest.mark.parametrize("previous", [signal.default_int_handler, signal.SIG_DFL, None])
def test_an_interrupt_that_means_the_end_of_a_lease_raises_nothing(previous: Any) -> None:
    handler = PreemptionHandler(signal.SIGINT, previous)
    assert not handler.has_come
    handler(signal.SIGINT, None)
    assert handler.has_come
