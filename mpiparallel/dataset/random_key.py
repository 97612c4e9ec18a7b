"""Random numbers by address: the same seed, place, epoch and index give the same numbers in every process."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mpiparallel.dataclass import dataclass

_BLOCK = 1024


@dataclass(frozen=True)
class RandomKey:
    """The address of one stage's random numbers: the seed and the stage's place in its pipeline.

    Philox is counter-based: seed and epoch are its key; place and index are the high words of its counter, so no two
    addresses share numbers. Only raw words are used for orders, because NumPy keeps those the same in all its versions.

    >>> RandomKey(seed=1, place=0).permutation(epoch=0, length=5)
    array([3, 2, 0, 1, 4])
    """

    seed: int
    place: int

    def _bits(self, epoch: int, index: int) -> np.random.Philox:
        key = np.array([self.seed, epoch], dtype=np.uint64)
        return np.random.Philox(key=key, counter=np.array([0, 0, index, self.place], dtype=np.uint64))

    def permutation(self, epoch: int, length: int) -> npt.NDArray[np.int64]:
        """Return the order of ``length`` samples in ``epoch``: an int64 array of shape ``(length,)``."""
        return np.argsort(self._bits(epoch, 0).random_raw(length), kind="stable")

    def words(self, epoch: int) -> Iterator[int]:
        """Yield the 64-bit words of ``epoch`` without end."""
        bits = self._bits(epoch, 0)
        while True:
            yield from bits.random_raw(_BLOCK).tolist()

    def generator(self, epoch: int, index: int) -> np.random.Generator:
        """Return a generator of its own for sample ``index`` in ``epoch``."""
        return np.random.Generator(self._bits(epoch, index))
