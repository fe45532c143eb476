from pathlib import Path

import pytest

from glassbert.data.corpus.reader import Corpus
from glassbert.errors import DataError, ModelError
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.small_corpus import VOCABULARY, in_one_run, write_corpus


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
