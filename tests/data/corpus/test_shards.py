import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glassbert.data.corpus.shards import CorpusWriter, Tokens, ids_dtype
from helpers.small_corpus import FLAT, VOCABULARY, in_one_run, sentence_by_sentence, write_corpus


@pytest.mark.parametrize("runs", [in_one_run, sentence_by_sentence])
@pytest.mark.parametrize(("shard_tokens", "num_shards"), [(1, 4), (4, 3), (5, 2), (6, 2), (1000, 1)])
def test_what_is_written_is_read_whatever_the_shards(
    runs: Callable[[], list[Tokens]], shard_tokens: int, num_shards: int, tmp_path: Path
) -> None:
    corpus = write_corpus(tmp_path, runs(), shard_tokens)
    assert len(corpus.manifest.shards) == num_shards
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (4, 8, 19)
    assert corpus.sentence_ends.tolist() == [3, 4, 8, 10, 11, 12, 17, 19]
    assert corpus.document_ends.tolist() == [2, 5, 6, 8]
    assert corpus.sentence_ends.dtype == corpus.document_ends.dtype == np.int64
    starts = [0, *corpus.sentence_ends[corpus.document_ends - 1].tolist()]
    for start, stop in zip(starts, starts[1:], strict=False):
        for first in range(start, stop):
            assert corpus.tokens(first, stop).tolist() == FLAT[first:stop]
            expected = [VOCABULARY.pieces[id_][0] != "#" for id_ in FLAT[first:stop]]
            assert corpus.word_starts(first, stop).tolist() == expected
    assert corpus.manifest.num_unknown == 1


def test_the_bytes_do_not_depend_on_how_documents_are_split_into_runs(tmp_path: Path) -> None:
    one = write_corpus(tmp_path / "one", in_one_run(), 6)
    many = write_corpus(tmp_path / "many", sentence_by_sentence(), 6)
    assert one.manifest == many.manifest
    assert one.manifest.has_documents


def test_a_document_without_tokens_leaves_no_trace(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, [Tokens.of_documents([[], [[5]], [], [[6]], []], VOCABULARY)], 1)
    assert corpus.document_ends.tolist() == [1, 2]
    assert len(corpus.manifest.shards) == 2


def test_a_finished_shard_is_reported_with_the_documents_that_it_took(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path, VOCABULARY, 9)
    assert list(writer.add(in_one_run()[0])) == [2]
    assert list(writer.add(in_one_run()[0])) == [1, 4]
    assert [shard.num_tokens for shard in writer.shards] == [11, 12, 15]


def test_ids_take_two_bytes_as_long_as_they_fit() -> None:
    assert ids_dtype(65536).itemsize == 2
    assert ids_dtype(65537).itemsize == 4


def test_the_manifest_can_be_read_by_people(tmp_path: Path) -> None:
    write_corpus(tmp_path, in_one_run(), 6)
    content = json.loads((tmp_path / "manifest.json").read_text())
    assert content["totals"] == {
        "num_documents": 4,
        "num_sentences": 8,
        "num_tokens": 19,
        "num_unknown": 1,
        "num_bytes": 0,
        "has_documents": True,
    }
    assert content["shards"][1]["num_tokens"] == 8
