"""One thing that a stage of a pipeline does: compute, start a message, reduce or update."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class Kind(IntEnum):
    """What is done. A receive starts there; the computation that needs the message waits for it.

    Examples
    --------
    >>> Kind.INPUT_GRADIENT.words
    'input gradient'
    """

    FORWARD = 0
    INPUT_GRADIENT = 1
    WEIGHT_GRADIENT = 2
    SEND_ACTIVATIONS = 3
    RECEIVE_ACTIVATIONS = 4
    SEND_GRADIENTS = 5
    RECEIVE_GRADIENTS = 6
    REDUCE = 7
    UPDATE = 8

    @property
    def words(self) -> str:
        """The kind in words."""
        return self.name.replace("_", " ").lower()


COMPUTATIONS: Final = (Kind.FORWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)
"""The kinds that take computing time, for a micro-batch through a chunk."""
ENDINGS: Final = (Kind.REDUCE, Kind.UPDATE)
"""The kinds that a stage does once a step: sum its gradients over ranks, then change its weights."""
_IN_WORDS: Final = {Kind.FORWARD: "forward pass", Kind.REDUCE: "sum of gradients over ranks"}
LETTERS: Final = ("F", "I", "W", "F", "F", "I", "I", "R", "U")
"""How each kind's text begins."""
MARKS: Final = ("", "", "", ">", "<", ">", "<", "", "")
"""What stands before the peer: ``>`` to it, ``<`` from it; nothing where there is no peer."""


class Action(NamedTuple):
    """A ``kind``, and of which ``micro_batch`` and ``chunk`` of the stage; messages have a ``peer``, the other stage.

    A send names the computation whose result it takes, a receive the one that waits for it. Reduce and update are of
    the whole step, so both numbers stay 0.

    Parameters
    ----------
    kind : Kind
        What is done.
    micro_batch, chunk : int
        Of which; a chunk is one of the parts of a stage.
    peer : int, optional
        The other stage of a message.

    Examples
    --------
    >>> print(Action(Kind.FORWARD, 3), Action(Kind.SEND_ACTIVATIONS, 3, 1, peer=2), Action(Kind.UPDATE))
    F3 F3.1>2 U
    """

    kind: Kind
    micro_batch: int = 0
    chunk: int = 0
    peer: int | None = None

    @property
    def pattern(self) -> str:
        """What is done in words, with ``#`` in place of the micro-batch.

        >>> Action(Kind.FORWARD, 3).pattern, Action(Kind.SEND_GRADIENTS, 3, 1, peer=0).pattern
        ('forward pass of micro-batch #', 'sending of the gradients of micro-batch # to stage 0')
        """
        if self.kind in ENDINGS:
            return _IN_WORDS.get(self.kind, self.kind.words)
        if self.peer is None:
            name = _IN_WORDS.get(self.kind, self.kind.words)
            return f"{name}{f' through chunk {self.chunk}' if self.chunk else ''} of micro-batch #"
        doing, what = self.kind.words.split()
        end = f"to stage {self.peer}" if doing == "send" else f"from stage {self.peer}"
        return f"{'sending' if doing == 'send' else 'receiving'} of the {what} of micro-batch # {end}"

    def words_in(self, stage: int) -> str:
        """Return what is done, and in which stage.

        >>> Action(Kind.INPUT_GRADIENT, 3).words_in(1), Action(Kind.UPDATE).words_in(0)
        ("stage 1's input gradient of micro-batch 3", "stage 0's update")
        """
        return f"stage {stage}'s {self.pattern.replace('#', str(self.micro_batch))}"

    def __str__(self) -> str:
        micro_batch = "" if self.kind in ENDINGS else self.micro_batch
        chunk = f".{self.chunk}" if self.chunk else ""
        peer = "" if self.peer is None else f"{MARKS[self.kind]}{self.peer}"
        return f"{LETTERS[self.kind]}{micro_batch}{chunk}{peer}"


REDUCE: Final = Action(Kind.REDUCE)
"""The sum of a stage's gradients over ranks."""
