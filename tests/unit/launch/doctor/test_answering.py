"""The end of the doctor that runs on another host: it greets, then answers each line of questions."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from mpiparallel.launch.doctor.answering import main

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return what is answered to questions, behind the greeting."""

    def asked(*questions: dict[str, Any]) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{json.dumps(one)}\n" for one in questions)))
        main()
        greeting, *answers = map(json.loads, capsys.readouterr().out.splitlines())
        assert greeting == {"doctor": True, "host": socket.gethostname()}
        assert all(answer.pop("doctor") is True for answer in answers)
        return answers

    return asked


def test_each_question_has_an_answer(ask: Ask) -> None:
    before = time.time()
    first, second = ask({"ask": "clock"}, {"ask": "clock"})
    assert before <= first["clock"] <= second["clock"] <= time.time()
    assert ask() == []


@pytest.mark.parametrize(
    ("caller", "addresses", "tried", "reached"),
    [
        ("", ["127.0.0.1"], ["127.0.0.1"], "127.0.0.1"),
        ("127.0.0.1 40000 10.0.0.2 22", ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"], "127.0.0.1"),
        ("127.0.0.1 40000 10.0.0.2 22", ["127.0.0.1"], ["127.0.0.1"], "127.0.0.1"),
        ("", ["no address", "127.0.0.1", "127.0.0.2"], ["no address", "127.0.0.1", "127.0.0.2"], "127.0.0.1"),
        ("", [], [], ""),
    ],
)
def test_the_first_address_that_can_be_reached_is_told(
    caller: str, addresses: list[str], tried: list[str], reached: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", caller)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        answers = ask({"ask": "connect", "addresses": addresses, "port": port})
    assert answers == [{"reached": reached, "tried": tried}]


def test_where_nobody_listens_nothing_is_reached(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answers = ask({"ask": "connect", "addresses": ["127.0.0.1"], "port": port})
    assert answers == [{"reached": "", "tried": ["127.0.0.1"]}]
