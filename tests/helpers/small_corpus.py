"""A corpus of four documents, on disk."""

from dataclasses import replace
from pathlib import Path

from glassbert.data.corpus.manifest import Manifest, Source
from glassbert.data.corpus.reader import Corpus
from glassbert.data.corpus.shards import CorpusWriter, Tokens, ids_dtype
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


def write_corpus(folder: Path, runs: list[Tokens], shard_tokens: int) -> Corpus:
    """Write a corpus folder and open it."""
    tokenizer = Tokenizer(VOCABULARY)
    tokenizer.save(folder)
    writer = CorpusWriter(folder, VOCABULARY, shard_tokens)
    for run in runs:
        list(writer.add(run))
    writer.finish_shard()
    Manifest(
        vocab_sha256=VOCABULARY.sha256,
        vocab_size=len(VOCABULARY),
        tokenizer=tokenizer.settings.rules,
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
