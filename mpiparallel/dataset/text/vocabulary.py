"""The words of one language and their ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from mpiparallel.errors import DatasetError

UNK, PAD, EOT = 0, 1, 2
_SPECIAL = ("UNK", "PAD", "EOT")


class Vocabulary:
    """Gives each word an id: UNK 0, PAD 1, EOT 2, then the words.

    Parameters
    ----------
    words : sequence of str
        In the order of their ids, from 3 on.

    Raises
    ------
    DatasetError
        If a word occurs twice, or is named as one of the three.

    Examples
    --------
    >>> words = Vocabulary.from_texts(["the cat", "the dog"], max_size=5)
    >>> words.encode("the dog sleeps".split())
    [3, 0, 0]
    >>> words.decode([3, 4, 2])
    ['the', 'cat', 'EOT']
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = (*_SPECIAL, *words)
        self._ids = {word: position for position, word in enumerate(self.words)}
        if len(self._ids) < len(self.words):
            twice = next(word for word, times in Counter(self.words).items() if times > 1)
            raise DatasetError(
                f'Vocabulary: word "{twice}" occurs twice; give each word once, without UNK, PAD and EOT'
            )

    @classmethod
    def from_texts(cls, texts: Iterable[str], max_size: int) -> Vocabulary:
        """Return the vocabulary of white-space-separated words, the most frequent first and ties in alphabetical order.

        Raises:
            DatasetError: if ``max_size``, which counts UNK, PAD and EOT too, leaves no place for a word.
        """
        if max_size <= len(_SPECIAL):
            raise DatasetError(f"Vocabulary: max_size is {max_size}, of which UNK, PAD and EOT take 3; give 4 or more")
        counts = Counter(word for text in texts for word in text.split() if word not in _SPECIAL)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(ordered[: max_size - len(_SPECIAL)])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the id of each word, UNK for one that is not in the vocabulary."""
        return [self._ids.get(word, UNK) for word in words]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the word of each id.

        Raises:
            DatasetError: if an id is not in the vocabulary.
        """
        words = []
        for position in ids:
            if not 0 <= position < len(self.words):
                raise DatasetError(f"Vocabulary: id {position} is outside; the ids are 0 to {len(self.words) - 1}")
            words.append(self.words[position])
        return words
