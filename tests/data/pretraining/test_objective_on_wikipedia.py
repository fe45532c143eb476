"""The shares that BERT's objectives promise, counted over 1,000,000 predictions on real text."""

import gzip
import json
from itertools import count, islice
from pathlib import Path

import numpy as np
import pytest

from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.examples import FLIPPED
from glassbert.data.pretraining.masking import Masking
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective
from glassbert.text.segment import segmenter
from glassbert.text.sentences import split_sentences
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.corpora import MemoryCorpus

pytestmark = pytest.mark.slow

NUM_DOCUMENTS = 1500


def wikipedia(shared_data: Path, name: str, vocabulary_name: str, words: str | None) -> MemoryCorpus:
    """Encode some articles."""
    with gzip.open(shared_data / "corpus" / name, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in islice(lines, NUM_DOCUMENTS)]
    with gzip.open(shared_data / "vocab" / vocabulary_name, "rt", encoding="utf-8", newline="\n") as file:
        vocabulary = Vocabulary(tuple(file.read().rstrip("\n").split("\n")))
    documents = [
        [sentence for line in text.split("\n") for sentence in split_sentences(line)] for text in texts
    ]
    sentences = [sentence for document in documents for sentence in document]
    pieces = Tokenizer(vocabulary).pieces_of_batch(sentences)
    ids = np.array([id_ for found in pieces for id_ in found.ids])
    is_word_start = ~np.array([piece.startswith("##") for piece in vocabulary.pieces])[ids]
    if words is not None:
        find = segmenter(words).words
        spans = (find(sentence) for sentence in sentences)
        inner = ({place for start, stop in found for place in range(start + 1, stop)} for found in spans)
        is_inner = [
            o[0] in places for found, places in zip(pieces, inner, strict=True) for o in found.offsets
        ]
        is_word_start &= ~np.array(is_inner)
    return MemoryCorpus(
        ids,
        is_word_start,
        np.cumsum([len(found.ids) for found in pieces]),
        np.cumsum([len(document) for document in documents]),
        vocabulary,
    )


@pytest.mark.parametrize(
    ("name", "vocabulary_name", "words"),
    [
        ("enwiki.jsonl.gz", "bert-base-uncased.txt.gz", None),
        ("zhwiki.jsonl.gz", "bert-base-chinese.txt.gz", "rjieba"),
    ],
)
@pytest.mark.parametrize("whole_words", [False, True])
def test_shares_hold_on_real_text(
    shared_data: Path, name: str, vocabulary_name: str, words: str | None, whole_words: bool
) -> None:
    corpus = wikipedia(shared_data, name, vocabulary_name, words)
    vocabulary = corpus.vocabulary
    objective = make_objective(ObjectiveSettings(mask=Masking(whole_words=whole_words)), vocabulary)
    batches = CorpusBatches(corpus, objective, batch_tokens=1 << 16, seed=1)
    num_maskable = num_chosen = num_hidden = num_kept = num_pairs = num_second = 0
    for step in count():
        batch = batches.batch(step)
        hidden = batch.labels["mlm"]
        ids = batch.ids.copy()
        ids[hidden.places] = hidden.values
        seen = batch.ids[hidden.places]
        num_maskable += np.count_nonzero(~np.isin(ids, vocabulary.special_ids))
        num_chosen += batch.num_labels("mlm")
        num_hidden += np.count_nonzero(seen == vocabulary.mask_id)
        num_kept += np.count_nonzero(seen == hidden.values)
        num_pairs += batch.num_labels("nsp")
        num_second += np.count_nonzero(batch.labels["nsp"].values == FLIPPED)
        assert not np.isin(hidden.values, vocabulary.special_ids).any()
        drawn = set(seen.tolist()) - {vocabulary.mask_id}
        assert not any(vocabulary.pieces[id_].startswith("[unused") for id_ in drawn)
        assert not drawn & set(vocabulary.special_ids)
        if num_chosen > 1_000_000 and num_pairs > 200_000:
            break
    shares = {
        "chosen": num_chosen / num_maskable,
        "hidden": num_hidden / num_chosen,
        "kept": num_kept / num_chosen,
        "second": num_second / num_pairs,
    }
    print(name, f"whole_words={whole_words}", num_chosen, num_pairs, shares)
    assert shares["chosen"] == pytest.approx(0.15, abs=0.001)
    assert shares["hidden"] == pytest.approx(0.8, abs=0.002)
    assert shares["kept"] == pytest.approx(0.1, abs=0.002)
    assert shares["second"] == pytest.approx(0.5, abs=0.005)
