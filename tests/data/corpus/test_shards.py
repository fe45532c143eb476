import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from glassbert.data.corpus.manifest import Manifest, Source
from glassbert.data.corpus.shards import Corpus, CorpusWriter, Tokens, ids_dtype, starts_word, tokenizer_rules
from glassbert.errors import DataError, ModelError
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

VOCABULARY = Vocabulary((*SPECIALS, *"abcd", "##e", "##f"))
DOCUMENTS = [
    [[5, 9, 10], [6]],
    [[7, 7, 7, 7], [8, 9], [1]],
    [[5]],
    [[6, 10, 9, 10, 9], [8, 8]],
]
FLAT = [id_ for document in DOCUMENTS for sentence in document for id_ in sentence]


def write(folder: Path, runs: list[Tokens], shard_tokens: int) -> Corpus:
    """Write a corpus folder with all that `Corpus.open` reads."""
    tokenizer = Tokenizer(VOCABULARY)
    tokenizer.save(folder)
    writer = CorpusWriter(folder, VOCABULARY, shard_tokens)
    for run in runs:
        list(writer.add(run))
    writer.finish_shard()
    Manifest(
        vocab_sha256=VOCABULARY.sha256,
        vocab_size=len(VOCABULARY),
        tokenizer=tokenizer_rules(tokenizer),
        dtype=ids_dtype(len(VOCABULARY)).str,
        segmenter=None,
        shard_tokens=shard_tokens,
        num_duplicate_lines_dropped=None,
        sources=(Source("a.txt", 3, "00", "sentences"),),
        shards=tuple(writer.shards),
    ).save(folder)
    return Corpus.open(folder, verify=True)


def in_one_run() -> list[Tokens]:
    return [Tokens.of_documents(DOCUMENTS, VOCABULARY)]


def sentence_by_sentence() -> list[Tokens]:
    """Every sentence in a run of its own; each document ends in a run without sentences."""
    runs = []
    for document in DOCUMENTS:
        for sentence in document:
            run = Tokens.of_documents([[sentence]], VOCABULARY)
            runs.append(replace(run, document_sizes=run.document_sizes[:0]))
        runs.append(Tokens.of_documents([[]], VOCABULARY))
    return runs


@pytest.mark.parametrize("runs", [in_one_run, sentence_by_sentence])
@pytest.mark.parametrize(("shard_tokens", "num_shards"), [(1, 4), (4, 3), (5, 2), (6, 2), (1000, 1)])
def test_what_is_written_is_read_again_whatever_the_shards(
    runs: Callable[[], list[Tokens]], shard_tokens: int, num_shards: int, tmp_path: Path
) -> None:
    corpus = write(tmp_path, runs(), shard_tokens)
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


def test_the_bytes_do_not_depend_on_how_the_documents_come(tmp_path: Path) -> None:
    one = write(tmp_path / "one", in_one_run(), 6)
    many = write(tmp_path / "many", sentence_by_sentence(), 6)
    assert one.manifest == many.manifest
    assert one.manifest.has_documents


def test_a_document_without_tokens_leaves_no_trace(tmp_path: Path) -> None:
    corpus = write(tmp_path, [Tokens.of_documents([[], [[5]], [], [[6]], []], VOCABULARY)], 1)
    assert corpus.document_ends.tolist() == [1, 2]
    assert len(corpus.manifest.shards) == 2


def test_a_finished_shard_is_told_with_the_documents_that_it_took(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path, VOCABULARY, 9)
    assert list(writer.add(in_one_run()[0])) == [2]
    assert list(writer.add(in_one_run()[0])) == [1, 4]
    assert [shard.num_tokens for shard in writer.shards] == [11, 12, 15]


def test_ids_take_two_bytes_as_long_as_they_fit() -> None:
    assert ids_dtype(65536).itemsize == 2
    assert ids_dtype(65537).itemsize == 4


def test_word_starts_are_the_pieces_without_hashes() -> None:
    assert starts_word(VOCABULARY).tolist() == [True] * 9 + [False] * 2


def test_a_folder_without_a_manifest_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="corpus build"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_broken_manifest_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json: .*build the corpus again"):
        Corpus.open(tmp_path)


def test_a_missing_cut_or_changed_shard_is_named(tmp_path: Path) -> None:
    write(tmp_path, in_one_run(), 6)
    path = tmp_path / "shard-00001.ids"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"\x01")
    Corpus.open(tmp_path)  # sizes only
    with pytest.raises(DataError, match=r"shard-00001\.ids: damaged"):
        Corpus.open(tmp_path, verify=True)
    path.write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"shard-00001\.ids: 15 bytes, .* 16"):
        Corpus.open(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=r"shard-00001\.ids: missing"):
        Corpus.open(tmp_path)


def test_a_tokenizer_with_other_ids_is_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path, in_one_run(), 6)
    corpus.check_fits(corpus.tokenizer())
    corpus.check_fits(Tokenizer(VOCABULARY, max_length=7, strip_accents=True))
    with pytest.raises(ModelError, match="another vocabulary"):
        corpus.check_fits(Tokenizer(Vocabulary((*SPECIALS, *"dcba", "##e", "##f"))))
    with pytest.raises(ModelError, match="lowercase=True"):
        corpus.check_fits(Tokenizer(VOCABULARY, lowercase=False))


def test_the_manifest_can_be_read_by_people(tmp_path: Path) -> None:
    write(tmp_path, in_one_run(), 6)
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
