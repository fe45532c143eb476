import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.corpus.manifest import Manifest
from glassbert.data.corpus.reader import Corpus
from glassbert.data.corpus.shards import CorpusWriter, Tokens, ids_dtype
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.examples import NO_PAIR
from glassbert.data.pretraining.masking import Masking
from glassbert.errors import DataError, ModelError, UserError
from glassbert.text.vocabulary import Vocabulary
from helpers.corpora import VOCABULARY, MemoryCorpus, batches_of, memory_corpus, objective_of, wiki_corpus

DOCUMENTS = st.lists(st.lists(st.integers(1, 30), min_size=2, max_size=6), min_size=2, max_size=6)
SPECIAL_IDS = (VOCABULARY.cls_id, VOCABULARY.sep_id)


def epoch_batches(made: CorpusBatches, epoch: int = 0) -> list[PretrainBatch]:
    before = sum(made.epochs.num_batches(earlier) for earlier in range(epoch))
    return [made.batch(before + index) for index in range(made.epochs.num_batches(epoch))]


def originals(batch: PretrainBatch) -> list[np.ndarray]:
    """Return the ids of each example as they were before masking."""
    ids = batch.ids.copy()
    ids[batch.labels["mlm"].places] = batch.labels["mlm"].values
    return np.split(ids, np.cumsum(batch.lengths)[:-1])


def digest(batch: PretrainBatch) -> str:
    """Return a fingerprint of everything in a batch."""
    hidden = batch.labels["mlm"]
    pairs = batch.labels["nsp"].values if "nsp" in batch.labels else np.empty(0)
    arrays = (batch.ids, batch.segments, batch.lengths, hidden.places, hidden.values, pairs)
    data = b"".join(np.asarray(array, dtype="<i8").tobytes() for array in arrays)
    return hashlib.sha256(data).hexdigest()[:16]


@pytest.mark.parametrize(
    ("objective", "whole_words", "expected"),
    [
        ("mlm", False, "f2b563b64bc6c0e8"),
        ("mlm+nsp", False, "61340f533b8a5517"),
        ("mlm+nsp", True, "748bf36ddd08e021"),
        ("sop", False, "f9288c3bdcf981ea"),
    ],
)
def test_batches_never_change_unnoticed(objective: str, whole_words: bool, expected: str) -> None:
    """A new value here means that no earlier run can be resumed: say so in the changelog."""
    corpus = memory_corpus([[7, 12, 9, 15, 4], [21, 3, 60], [8, 8, 8, 8], [5], [11, 2, 19, 6, 14, 10]])
    made = batches_of(corpus, objective, mask=Masking(whole_words=whole_words), batch_tokens=96)
    batches = [digest(batch) for epoch in range(3) for batch in epoch_batches(made, epoch)]
    assert hashlib.sha256("".join(batches).encode()).hexdigest()[:16] == expected


@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, epoch=st.integers(0, 2))
def test_the_examples_of_an_epoch_are_the_whole_corpus(documents: list[list[int]], epoch: int) -> None:
    corpus = memory_corpus(documents)
    texts = [
        text[1:-1] for batch in epoch_batches(batches_of(corpus, "mlm"), epoch) for text in originals(batch)
    ]
    found = sorted(np.concatenate(texts).tolist())
    assert found == sorted(corpus.ids.tolist())


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "sop"])
@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, seed=st.integers(0, 99))
def test_batches_are_packed_as_bert_expects_them(
    objective: str, whole_words: bool, documents: list[list[int]], seed: int
) -> None:
    corpus = memory_corpus(documents)
    made = batches_of(corpus, objective, seed=seed, mask=Masking(whole_words=whole_words))
    flat = corpus.ids.tolist()
    for batch in epoch_batches(made):
        assert batch.num_tokens == sum(batch.lengths) <= 256
        assert list(batch.lengths) == sorted(batch.lengths)
        assert batch.lengths[-1] <= 32
        assert set(batch.labels) == ({"mlm"} if objective == "mlm" else {"mlm", "nsp"})
        places = batch.labels["mlm"].places
        assert places is not None
        assert {array.dtype for array in (batch.ids, batch.segments, places)} == {np.dtype(np.int64)}
        ends = np.cumsum(batch.lengths)
        assert set(np.searchsorted(ends, places, side="right")) == set(range(batch.num_examples))
        for index, ids in enumerate(originals(batch)):
            segments = batch.segments[ends[index] - len(ids) : ends[index]]
            is_pair = "nsp" in batch.labels and batch.labels["nsp"].values[index] != NO_PAIR
            separators = np.flatnonzero(ids == VOCABULARY.sep_id)
            assert ids[0] == VOCABULARY.cls_id
            assert np.count_nonzero(ids == VOCABULARY.cls_id) == 1
            assert len(separators) == 1 + is_pair
            assert separators[-1] == len(ids) - 1
            assert segments.tolist() == [0] * (separators[0] + 1) + [1] * (len(ids) - separators[0] - 1)
            for text in np.split(ids, separators):
                words = text[~np.isin(text, SPECIAL_IDS)].tolist()
                assert any(flat[start : start + len(words)] == words for start in range(len(flat)))


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "sop"])
def test_a_batch_does_not_depend_on_who_asks_for_it_or_when(objective: str) -> None:
    corpus = wiki_corpus(40)
    made = batches_of(corpus, objective)
    num_steps = sum(made.epochs.num_batches(epoch) for epoch in range(3))
    expected = [digest(made.batch(step)) for step in range(num_steps)]
    assert len(set(expected)) == num_steps
    border = made.epochs.num_batches(0)
    for step in (num_steps - 1, 0, num_steps // 2, border, border - 1):
        assert digest(batches_of(corpus, objective).batch(step)) == expected[step]
        assert digest(made.batch(step)) == expected[step]


def test_a_resumed_run_needs_no_plan_of_earlier_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = wiki_corpus(40)
    made = batches_of(corpus)
    step = sum(made.epochs.num_batches(epoch) for epoch in range(5))
    expected = digest(made.batch(step + 1))
    planned = []
    plan = CorpusBatches._planned
    monkeypatch.setattr(
        CorpusBatches, "_planned", lambda self, number: planned.append(number) or plan(self, number)
    )
    resumed = batches_of(corpus)
    resumed.epochs.batch_counts = list(made.epochs.batch_counts)
    assert digest(resumed.batch(step + 1)) == expected
    assert planned == [5]


def test_steps_know_their_epoch() -> None:
    made = batches_of(wiki_corpus(40))
    first, second = made.epochs.num_batches(0), made.epochs.num_batches(1)
    assert made.epochs.place_of(0) == (0, 0)
    assert made.epochs.place_of(first - 1) == (0, first - 1)
    assert made.epochs.place_of(first) == (1, 0)
    assert made.epochs.place_of(first + second + 3) == (2, 3)


def test_examples_do_not_depend_on_the_batch_size() -> None:
    corpus = wiki_corpus(40)
    small, large = (
        sorted(
            (part.ids.tolist(), part.labels["mlm"].values.tolist())
            for batch in epoch_batches(batches_of(corpus, batch_tokens=budget))
            for part in batch.split(batch.num_examples)
        )
        for budget in (64, 4096)
    )
    assert small == large


def test_an_epoch_visits_its_examples_in_an_order_of_its_own() -> None:
    made = batches_of(memory_corpus([[30]] * 60), "mlm", short_prob=0.0)
    orders = [
        [int(text[1]) for batch in epoch_batches(made, epoch) for text in originals(batch)]
        for epoch in range(2)
    ]
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]


def test_words_stay_whole_in_a_batch() -> None:
    corpus = wiki_corpus(30)
    unique = MemoryCorpus(  # ids tell how far into its word a token is
        VOCABULARY.id("w0") + np.where(corpus.is_word_start, 0, 1),
        corpus.is_word_start,
        corpus.sentence_ends,
        corpus.document_ends,
    )
    masking = Masking(whole_words=True, mask_prob=1.0, random_prob=0.0)
    num_words = 0
    for batch in epoch_batches(batches_of(unique, mask=masking)):
        for text, ids in zip(
            originals(batch), np.split(batch.ids, np.cumsum(batch.lengths)[:-1]), strict=True
        ):
            goes_on = text[1:] == VOCABULARY.id("w1")
            follows_word = text[:-1] >= VOCABULARY.id("w0")
            within = goes_on & follows_word
            is_hidden = ids == VOCABULARY.mask_id
            assert np.array_equal(is_hidden[1:][within], is_hidden[:-1][within])
            num_words += np.count_nonzero(within & is_hidden[1:])
    assert num_words > 100


def held_out_batches(
    corpus: MemoryCorpus, num_tokens: int, batch_tokens: int = 256, **options: Any
) -> Iterator[PretrainBatch]:
    objective = objective_of(max_length=32, **options)
    return objective.held_out_batches(corpus, num_tokens, batch_tokens=batch_tokens)  # type: ignore[arg-type]


def held_out(corpus: MemoryCorpus, num_tokens: int, batch_tokens: int = 256, **options: Any) -> list[str]:
    """Return the fingerprints of the held-out examples, in any order."""
    batches = held_out_batches(corpus, num_tokens, batch_tokens, **options)
    return sorted(digest(part) for batch in batches for part in batch.split(batch.num_examples))


def test_held_out_text_is_masked_alike_in_every_run() -> None:
    corpus = wiki_corpus(60)
    other = held_out(corpus, 5000, batch_tokens=1000, mask=Masking(select_prob=0.5, whole_words=True))
    assert held_out(corpus, 5000) == other
    assert set(held_out(corpus, 2000)) < set(held_out(corpus, 5000))


def test_held_out_tokens_are_as_many_as_asked_for_or_as_there_are() -> None:
    corpus = wiki_corpus(60)
    num_tokens = sum(batch.num_tokens for batch in held_out_batches(corpus, 5000))
    assert 5000 - 32 < num_tokens <= 5000
    assert len(held_out(corpus, 1)) == 1
    everything = sum(batch.num_tokens for batch in held_out_batches(corpus, 10**9))
    of_an_epoch = sum(batch.num_tokens for batch in epoch_batches(batches_of(corpus)))
    assert everything == pytest.approx(of_an_epoch, rel=0.1)


def on_disk(corpus: MemoryCorpus, folder: Path, shard_tokens: int) -> Corpus:
    """Write the same corpus as shards."""
    writer = CorpusWriter(folder, VOCABULARY, shard_tokens)
    lengths = np.diff(np.concatenate(([0], corpus.sentence_ends)))
    sizes = np.diff(np.concatenate(([0], corpus.document_ends)))
    no_sources, no_bytes = np.zeros_like(sizes), np.zeros_like(lengths)
    list(writer.add(Tokens(corpus.ids, corpus.is_word_start, lengths, sizes, no_sources, no_bytes)))
    writer.finish_shard()
    Manifest(
        vocab_sha256=VOCABULARY.sha256,
        vocab_size=len(VOCABULARY),
        tokenizer={},
        dtype=ids_dtype(len(VOCABULARY)).str,
        segmenter=None,
        shard_tokens=shard_tokens,
        num_duplicate_lines_dropped=None,
        sources=(),
        shards=tuple(writer.shards),
    ).save(folder)
    return Corpus.open(folder)


@pytest.mark.parametrize("shard_tokens", [1 << 20, 700])
def test_shards_on_disk_give_the_batches_of_the_corpus_in_memory(shard_tokens: int, tmp_path: Path) -> None:
    corpus = wiki_corpus(40)
    stored = on_disk(corpus, tmp_path, shard_tokens)
    masking = Masking(whole_words=True)
    expected = [digest(batch) for batch in epoch_batches(batches_of(corpus, mask=masking))]
    assert [digest(batch) for batch in epoch_batches(batches_of(stored, mask=masking))] == expected


def test_held_out_examples_know_their_file_where_there_are_a_few() -> None:
    corpus = replace(wiki_corpus(60), source_ends=np.array([20, 60]))
    first_of_zh = int(corpus.sentence_ends[corpus.document_ends[19] - 1])
    found = {"en": 0, "zh": 0}
    for batch in held_out_batches(corpus, 10**9, partner="file"):
        assert batch.sources is not None
        assert len(batch.sources) == batch.num_examples
        for name, part in batch.by_source():
            found[str(name)] += part.num_tokens
            assert set(part.sources or ()) == {name}
    assert found["en"] / first_of_zh == pytest.approx(found["zh"] / (len(corpus.ids) - first_of_zh), rel=0.15)
    for ends in (np.array([60]), np.arange(1, 61)):
        many = replace(corpus, source_ends=ends, source_names=tuple(map(str, range(60))))
        assert all(batch.sources is None for batch in held_out_batches(many, 2000))


def test_a_partner_is_refused_where_no_partner_is_drawn() -> None:
    with pytest.raises(UserError, match=r"objective\.partner=file with objective\.name=mlm, which takes no"):
        objective_of("mlm", partner="file")


def test_one_document_is_refused_only_for_random_pairs() -> None:
    corpus = memory_corpus([[5, 6, 7]])
    with pytest.raises(DataError, match=r"one document.*set objective\.name to mlm or sop"):
        batches_of(corpus)
    assert batches_of(corpus, "sop").batch(0).num_examples > 0
    assert batches_of(corpus, "mlm").batch(0).num_examples > 0


def test_documents_of_one_sentence_are_refused_for_pairs() -> None:
    corpus = memory_corpus([[5], [6], [7]])
    for objective in ("mlm+nsp", "sop"):
        with pytest.raises(DataError, match=r"one sentence.*set objective\.name to mlm"):
            batches_of(corpus, objective)
    assert batches_of(corpus, "mlm").batch(0).num_examples == 3


def test_a_corpus_without_text_is_refused() -> None:
    with pytest.raises(DataError, match="holds no text"):
        batches_of(memory_corpus([[]]))


def test_another_vocabulary_is_refused() -> None:
    other = Vocabulary((*VOCABULARY.pieces[:-1], "z"))
    with pytest.raises(ModelError, match="another vocabulary"):
        batches_of(replace(wiki_corpus(2), vocabulary=other))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "nsp"}, "objective.name='nsp'; expected one of mlm, mlm\\+nsp, sop"),
        ({"batch_tokens": 20}, "batch_tokens=20 is less than a sequence of max_length=32"),
        ({"max_length": 4}, "max_length=4 leaves no room; expected at least 5"),
        ({"short_prob": 2.0}, "short_prob=2.0"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        batches_of(wiki_corpus(2), **options)
