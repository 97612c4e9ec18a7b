"""Messages of the control channel: put together from pieces, bounded, and sealed by who says them."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mpiparallel.errors import LaunchError
from mpiparallel.launch.control.message import Inbox, encode, encode_sealed
from mpiparallel.launch.control.seal import Seal


def heard(inbox: Inbox, *pieces: bytes) -> list[Any]:
    return [message for piece in pieces for message in inbox.add(piece)]


def cuts(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    for place in range(len(content) + 1):
        yield content[:place], content[place:]


def test_a_message_is_a_line_of_json_with_its_word() -> None:
    content = encode("hello", rank=1, nonce="é")
    assert content.endswith(b"\n")
    assert content.count(b"\n") == 1
    assert json.loads(content) == {"word": "hello", "rank": 1, "nonce": "é"}


def test_messages_are_the_same_wherever_they_are_cut() -> None:
    content = encode("first", number=1) + encode("second")
    for first, second in cuts(content):
        inbox = Inbox()
        assert heard(inbox, first, second) == [{"word": "first", "number": 1}, {"word": "second"}]
        assert heard(inbox, b"") == []


def test_a_message_may_be_as_long_as_is_said_and_no_longer() -> None:
    content = encode("x" * 50)
    longest = len(content) - 1
    assert len(heard(Inbox(longest), content)) == 1
    assert len(heard(Inbox(longest), content[:-1], b"\n")) == 1
    for pieces in ((content,), (content[:-1],)):
        with pytest.raises(LaunchError, match=f"a message on the control channel has more than {longest - 1} bytes"):
            heard(Inbox(longest - 1), *pieces)


def test_many_messages_together_may_be_longer_than_one() -> None:
    content = encode("word")
    assert len(heard(Inbox(len(content)), content * 100)) == 100


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{\n", "is no JSON"),
        (b"\xff\n", "is no JSON"),
        (b"[" * 100_000 + b"\n", "is no JSON"),
        (b"[]\n", "has no word"),
        (b"{}\n", "has no word"),
        (b'{"word": 1}\n', "has no word"),
        (b"\n", "is no JSON"),
    ],
)
def test_what_is_no_message_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(LaunchError, match=f"^a message on the control channel {said}$"):
        heard(Inbox(), line)


def test_a_seal_is_the_digest_of_the_place_of_a_message_and_of_its_words() -> None:
    seal = Seal(b"key")
    for place, words in enumerate((b"first", b"", b"second" * 100)):
        mark = hmac.new(b"key", place.to_bytes(8, "big") + words, hashlib.sha256).hexdigest()
        assert seal.closed(words) == mark.encode() + b" " + words


def test_sealed_messages_are_heard_in_their_order_alone() -> None:
    said = Seal(b"key")
    lines = [encode_sealed(said, "word", number=number) for number in range(3)]
    inbox = Inbox()
    inbox.seal = Seal(b"key")
    assert [one["number"] for one in heard(inbox, b"".join(lines))] == [0, 1, 2]
    for wrong in ([lines[1]], [lines[0], lines[0]], [lines[0], lines[2]]):
        inbox = Inbox()
        inbox.seal = Seal(b"key")
        with pytest.raises(LaunchError, match="has not the seal of the other side"):
            heard(inbox, *wrong)


@pytest.mark.parametrize("change", [lambda one: one[:-1] + b"x", lambda one: b"0" + one[1:], lambda one: one[1:]])
def test_what_is_changed_on_its_way_has_no_seal(change: Any) -> None:
    content = change(Seal(b"key").closed(b"words"))
    for seal in (Seal(b"key"), Seal(b"other")):
        with pytest.raises(LaunchError, match="has not the seal of the other side"):
            seal.opened(content)


@pytest.mark.parametrize("content", [b"", b" ", b"words", b"0" * 64, b"0" * 64 + b" ", b"0" * 65 + b"words"])
def test_what_was_never_sealed_is_refused(content: bytes) -> None:
    with pytest.raises(LaunchError, match="has not the seal of the other side"):
        Seal(b"key").opened(content)


def test_nothing_may_be_sealed_too() -> None:
    assert Seal(b"key").opened(Seal(b"key").closed(b"")) == b""
