"""A pasted text makes the same examples as the same text in a file."""

from pathlib import Path

import numpy as np
import pytest

from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.pasted import PastedCorpus
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.model_names import model_folder
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective
from glassbert.text.segment import segmenter
from glassbert.text.wordpiece.tokenizer import Tokenizer

TEXT = """The cat sat on the mat. It looked at the bird. The bird flew away!
Then it slept.

Paris is the capital of France. The city lies on the Seine.
\t
北京是中国的首都。这座城市有三千年的历史。
"""


@pytest.mark.parametrize("words", [None, "rjieba"])
def test_batches_are_those_of_a_corpus_on_disk(tmp_path: Path, words: str | None) -> None:
    tokenizer = Tokenizer.load(model_folder("demo"))
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    build_corpus(
        [tmp_path / "text.txt"],
        tokenizer=tokenizer,
        out=tmp_path / "corpus",
        segmenter=words,
        form="paragraphs",
    )
    on_disk = Corpus.open(tmp_path / "corpus")
    pasted = PastedCorpus.of(TEXT, tokenizer, None if words is None else segmenter(words))
    assert np.array_equal(pasted.sentence_ends, on_disk.sentence_ends)
    assert np.array_equal(pasted.document_ends, on_disk.document_ends)
    objective = make_objective(ObjectiveSettings(max_length=32), tokenizer.vocabulary)
    both = [CorpusBatches(one, objective, batch_tokens=64, seed=5) for one in (pasted, on_disk)]
    for step in range(4):
        ours, theirs = (batches.batch(step) for batches in both)
        assert ours.lengths == theirs.lengths
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.labels["nsp"].values, theirs.labels["nsp"].values)
    starts = [one.word_starts(0, int(one.sentence_ends[-1])) for one in (pasted, on_disk)]
    assert np.array_equal(*starts)
