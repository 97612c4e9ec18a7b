"""Parallel text for translation: readers, vocabularies and the dataset that a Transformer learns from."""

from mpiparallel.dataset.text.catalogues import CATALOGUE_PACKAGES as CATALOGUE_PACKAGES
from mpiparallel.dataset.text.catalogues import catalogue_pairs as catalogue_pairs
from mpiparallel.dataset.text.parallel_corpus import load_pairs as load_pairs
from mpiparallel.dataset.text.parallel_corpus import read_pairs as read_pairs
from mpiparallel.dataset.text.parallel_corpus import read_sgm_pairs as read_sgm_pairs
from mpiparallel.dataset.text.translation import TranslationDataset as TranslationDataset
from mpiparallel.dataset.text.translation import translation_dataset as translation_dataset
from mpiparallel.dataset.text.vocabulary import Vocabulary as Vocabulary

__all__ = [
    "CATALOGUE_PACKAGES",
    "TranslationDataset",
    "Vocabulary",
    "catalogue_pairs",
    "load_pairs",
    "read_pairs",
    "read_sgm_pairs",
    "translation_dataset",
]
