import os
from pathlib import Path

import pytest

from glassbert.data.corpus import reader
from glassbert.data.corpus.reader import Corpus
from glassbert.errors import DataError, ModelError
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.small_corpus import FLAT, VOCABULARY, in_one_run, write_corpus


def test_a_folder_without_a_manifest_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="corpus build"):
        Corpus.open(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 2}', '{"version": 1}'])
def test_a_broken_manifest_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json: .*build the corpus again"):
        Corpus.open(tmp_path)


def test_a_missing_cut_or_changed_shard_is_named(tmp_path: Path) -> None:
    write_corpus(tmp_path, in_one_run(), 6)
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
    corpus = write_corpus(tmp_path, in_one_run(), 6)
    corpus.check_fits(corpus.tokenizer())
    corpus.check_fits(Tokenizer(VOCABULARY, max_length=7, strip_accents=True))
    with pytest.raises(ModelError, match="another vocabulary"):
        corpus.check_fits(Tokenizer(Vocabulary((*SPECIALS, *"dcba", "##e", "##f"))))
    with pytest.raises(ModelError, match="lowercase=True"):
        corpus.check_fits(Tokenizer(VOCABULARY, lowercase=False))


def test_a_corpus_that_is_cut_short_while_it_is_open_is_an_error(tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path, in_one_run(), 100)
    assert corpus.tokens(0, 3).tolist() == [5, 9, 10]
    for part, read in (("ids", corpus.tokens), ("words", corpus.word_starts)):
        (tmp_path / f"shard-00000.{part}").write_bytes(b"")
        with pytest.raises(DataError, match=rf"shard-00000\.{part}: became shorter since it was opened"):
            read(0, 3)
    (tmp_path / "shard-00000.sentences").write_bytes(b"")
    with pytest.raises(DataError, match="became shorter"):
        corpus.sentence_ends  # noqa: B018


@pytest.mark.parametrize("part", ["ids", "sentences", "documents"])
def test_any_damaged_byte_is_found_or_gives_a_corpus_that_can_be_read(tmp_path: Path, part: str) -> None:
    write_corpus(tmp_path, in_one_run(), 6)
    path = tmp_path / f"shard-00001.{part}"
    whole = path.read_bytes()
    reasons: list[str] = []
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :])
        corpus = Corpus.open(tmp_path)
        try:
            sentence_ends, document_ends = corpus.sentence_ends, corpus.document_ends
            ids = [corpus.tokens(*run) for run in zip([0, *sentence_ends], sentence_ends, strict=False)]
        except DataError as error:
            reasons.append(str(error))
        else:
            assert max(map(max, ids)) < len(VOCABULARY)
            assert (document_ends[-1], sentence_ends[-1]) == (corpus.num_sentences, corpus.num_tokens)
    assert reasons
    assert all(f"shard-00001.{part}: damaged" in reason for reason in reasons)


def test_many_shards_need_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_MAX_OPEN_FILES", 2)
    corpus = write_corpus(tmp_path, in_one_run(), 1)
    assert len(corpus.manifest.shards) == 4
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        assert [corpus.tokens(at, at + 1)[0] for at in range(len(FLAT))] == FLAT
    assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"dtype": "<u2"', '"dtype": "x"', "dtype='x'"),
        ('"dtype": "<u2"', '"dtype": "<f8"', "dtype='<f8'"),
        ('"name": "shard-00000"', '"name": "../../shard-00000"', "not a plain file name"),
    ],
)
def test_a_manifest_that_asks_for_other_files_is_refused(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    write_corpus(tmp_path, in_one_run(), 100)
    path = tmp_path / "manifest.json"
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    with pytest.raises(DataError, match=reason):
        Corpus.open(tmp_path)
