import math

import numpy as np
import pytest

from glassbert.data.pretraining import baseline
from glassbert.data.pretraining.baseline import guessing_loss, token_counts
from glassbert.data.pretraining.masking import maskable
from helpers.corpora import FIRST_WORD, VOCABULARY, MemoryCorpus


def corpus_of(ids: list[int]) -> MemoryCorpus:
    return MemoryCorpus(
        np.array(ids), np.ones(len(ids), dtype=bool), np.array([len(ids)]), np.array([1], dtype=np.int64)
    )


def test_counts_do_not_depend_on_the_blocks_they_are_read_in(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.arange(1000) ** 2 % 400
    monkeypatch.setattr(baseline, "_BLOCK_TOKENS", 64)
    counts = token_counts(corpus_of(ids.tolist()), len(VOCABULARY))
    assert counts.tolist() == np.bincount(ids, minlength=len(VOCABULARY)).tolist()


def test_the_guessing_loss_is_minus_the_log_share_with_one_added_to_each_count() -> None:
    corpus, first = corpus_of([FIRST_WORD, FIRST_WORD, FIRST_WORD + 1]), FIRST_WORD
    num_words = int(maskable(VOCABULARY).sum())
    shares = [3 / (3 + num_words), 1 / (3 + num_words)]
    loss = guessing_loss(corpus, VOCABULARY, [np.array([first]), np.array([first + 5])])
    assert loss == pytest.approx(-(math.log(shares[0]) + math.log(shares[1])) / 2)
