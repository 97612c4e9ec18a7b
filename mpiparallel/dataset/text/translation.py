"""Batches of parallel text for the encoder and the decoder of a Transformer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpiparallel.dataset.batch_stage import BatchStage
from mpiparallel.dataset.dataset import Dataset
from mpiparallel.dataset.source import RandomAccessStage, RowReader, sample_order
from mpiparallel.dataset.stage import Array, Stage, check_count
from mpiparallel.dataset.text.parallel_corpus import Pair
from mpiparallel.dataset.text.vocabulary import EOT, PAD, Vocabulary
from mpiparallel.errors import DatasetError

_NAME = "translation_dataset"
COLUMNS = ("src_ids", "src_position", "attention_mask", "tgt_ids", "tgt_position", "memory_mask", "label")


class TranslationDataset(Dataset):
    """A dataset with the two vocabularies that its ids come from.

    Parameters
    ----------
    stage : Stage
        The last step of the pipeline; ``translation_dataset`` makes it.
    source_vocabulary, target_vocabulary : Vocabulary
        Of the ids.

    Examples
    --------
    >>> pairs = [("the cat", "le chat"), ("the dog", "le chien")]
    >>> translation_dataset(pairs, 2, 2, 6, 2, seed=1).source_vocabulary.encode(["the"])
    [3]
    """

    def __init__(self, stage: Stage, source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> None:
        super().__init__(stage)
        self.source_vocabulary = source_vocabulary
        self.target_vocabulary = target_vocabulary


def translation_dataset(
    pairs: Sequence[Pair],
    source_length: int,
    target_length: int,
    vocab_size: int,
    batch_size: int,
    seed: int,
    *,
    float_type: npt.DTypeLike = np.float32,
    keep_short: bool = True,
    start_token: bool = False,
    shuffle: bool = True,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
) -> TranslationDataset:
    """Return batches of the seven columns of MindSpore's Transformer tutorial, shuffled anew in every epoch.

    With B = batch_size, S = source_length and T = target_length, ids and positions are int32, masks ``float_type``:

    - ``src_ids`` (B, S), ``src_position`` (B, S), ``attention_mask`` (B, S, S);
    - ``tgt_ids`` (B, T), ``tgt_position`` (B, T), ``memory_mask`` (B, T, S);
    - ``label`` (B, T): ``tgt_ids`` one word to the left, then EOT, then PAD.

    Parameters
    ----------
    pairs : sequence of (str, str)
        Source and target. Longer texts are cut.
    source_length, target_length : int
        In words.
    vocab_size : int
        Words of each vocabulary at most, which is made of the kept pairs.
    batch_size : int
        Pairs of a batch; a smaller last batch is dropped.
    seed : int
        Of the order.
    float_type : dtype
        Of the masks.
    keep_short : bool
        Whether short sources are padded with PAD; their columns of both masks are then 0. Without it only sources of
        more than S + 1 words are kept, as in the tutorial, and the masks are 1.
    start_token : bool
        Whether EOT is put before the target, so that the first word is learnt too.
    shuffle : bool
        Whether the order is another in each epoch.
    vocabularies : tuple of Vocabulary, optional
        Those of another dataset.

    Returns
    -------
    TranslationDataset
        With the two vocabularies.

    Raises
    ------
    DatasetError
        If a size is not positive, or the kept pairs do not fill one batch.

    Examples
    --------
    >>> pairs = [("the cat", "le chat"), ("the dog", "le chien")]
    >>> batch = next(iter(translation_dataset(pairs, 2, 3, 6, 2, seed=1).iterate()))
    >>> batch["src_ids"].shape, batch["label"].shape
    ((2, 2), (2, 3))
    """
    for name, value in (("source_length", source_length), ("target_length", target_length)):
        check_count(_NAME, name, value, 1)
    check_count(_NAME, "batch_size", batch_size, 1)
    check_count(_NAME, "seed", seed, 0)
    kept = [pair for pair in pairs if keep_short or len(pair[0].split()) > source_length + 1]
    if len(kept) < batch_size:
        raise DatasetError(
            f"{_NAME}: {len(kept)} of {len(pairs)} pairs are kept, which do not fill a batch of {batch_size}; "
            + ("give a smaller batch_size or more pairs" if keep_short else "give keep_short=True or more pairs")
        )
    source_vocabulary, target_vocabulary = vocabularies or (
        Vocabulary.from_texts((source for source, _ in kept), vocab_size),
        Vocabulary.from_texts((target for _, target in kept), vocab_size),
    )
    sources = [source_vocabulary.encode(source.split())[:source_length] for source, _ in kept]
    targets = [([EOT] if start_token else []) + target_vocabulary.encode(target.split()) for _, target in kept]
    rows = _Rows(sources, [target[:target_length] for target in targets], source_length, target_length, float_type)
    order = sample_order(_NAME, len(kept), seed, shuffle, None, None, None, None)
    stage = RandomAccessStage(RowReader(_NAME, COLUMNS), rows, order)
    return TranslationDataset(BatchStage(stage, batch_size, drop_remainder=True), source_vocabulary, target_vocabulary)


class _Rows:
    """The seven arrays of a pair, made when they are read: the masks of all pairs together would be large."""

    def __init__(
        self,
        sources: list[list[int]],
        targets: list[list[int]],
        source_length: int,
        target_length: int,
        float_type: npt.DTypeLike,
    ) -> None:
        self._sources = sources
        self._targets = targets
        self._source_length = source_length
        self._target_length = target_length
        self._float_type = np.dtype(float_type)

    def __len__(self) -> int:
        return len(self._sources)

    def __getitem__(self, index: int) -> tuple[Array, ...]:
        source, target = self._sources[index], self._targets[index]
        visible = (np.arange(self._source_length) < len(source)).astype(self._float_type)
        return (
            _padded(source, self._source_length),
            np.arange(self._source_length, dtype=np.int32),
            np.tile(visible, (self._source_length, 1)),
            _padded(target, self._target_length),
            np.arange(self._target_length, dtype=np.int32),
            np.tile(visible, (self._target_length, 1)),
            _padded([*target[1:], EOT], self._target_length),
        )


def _padded(ids: list[int], length: int) -> npt.NDArray[np.int32]:
    return np.array(ids + [PAD] * (length - len(ids)), dtype=np.int32)
