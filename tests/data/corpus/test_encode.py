from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.corpus import encode
from glassbert.data.corpus.encode import BlockEncoder, DocumentEncoder, RunEncoder, part_sentences
from glassbert.errors import UserError
from glassbert.text.documents import Form, Part
from glassbert.text.files import read_lines
from glassbert.text.segment import DictionarySegmenter
from glassbert.text.sources import find_sources, read_blocks
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

# Case, accents in both forms, punctuation of both widths, CJK, kana, spaces of all sorts,
# controls that `str.split` takes for spaces, half a surrogate pair.
AWKWARD = (
    "aAéÉe\u0301İß1_-'。，中国\uf900\U00020bb7\U0002b830〇カ"
    " \t\n\r\u3000\u00a0\u2028\u200b\x0b\x1c\x85\x00\ufffd\ud800Σς[MASK]"
)
CHARACTERS = sorted({*"aeiss1_-'。，中国豈𠮷〇カéßσς[]mk", "\u0301", "\u0307", "İ", "A", "É"})
VOCABULARY = Vocabulary((*SPECIALS, *CHARACTERS, *(f"##{character}" for character in CHARACTERS)))
TOKENIZERS = [
    Tokenizer(VOCABULARY),
    Tokenizer(VOCABULARY, lowercase=False),
    Tokenizer(VOCABULARY, lowercase=False, strip_accents=True),
    Tokenizer(VOCABULARY, strip_accents=False),
    Tokenizer(VOCABULARY, tokenize_chinese_chars=False),
]
WORDS = Vocabulary((*SPECIALS, *"我爱北京天门。安", "a", "##b", "ab", "c"))


def part(*lines: str, number: int = 0, form: Form = "paragraphs", is_last: bool = True) -> Part:
    return Part(number, Path("a.txt"), 0, 1, lines, form, is_last, sum(map(len, lines)))


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@given(texts=st.lists(st.text(alphabet=AWKWARD, max_size=30), max_size=4))
@settings(max_examples=100, deadline=None)
def test_looking_up_runs_gives_what_the_engine_gives(tokenizer: Tokenizer, texts: list[str]) -> None:
    encoder = RunEncoder(tokenizer)
    for _ in range(2):  # not known yet, and known
        found = encoder.encode([encoder.runs(text) for text in texts])
        assert [np.frombuffer(ids, "<u2").tolist() for ids in found] == tokenizer.ids_of_batch(texts)


def test_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(VOCABULARY)
    texts = [["a", "1_a"], ["中", "a"], ["e'", "a", "1_a"], ["-"]]
    whole = RunEncoder(tokenizer).encode(texts)
    monkeypatch.setattr(encode, "_MAX_KNOWN", 1)
    forgetful = RunEncoder(tokenizer)
    assert [forgetful.encode([text])[0] for text in texts] == whole
    assert len(forgetful._known) == 1


def test_sentences_and_documents_end_where_they_should() -> None:
    encoder = DocumentEncoder(Tokenizer(WORDS))
    parts = [
        part("ab c. c", " ", "我爱。北京", number=3, is_last=False),
        part("a", number=3),
        part("\u200b", number=4),
        part("c", number=5),
        part("a", number=6, is_last=False),
    ]
    found = encoder.encode(parts)
    tokens = found.tokens
    pieces = [WORDS.pieces[id_] for id_ in tokens.ids]
    assert pieces == ["ab", "c", "[UNK]", "c", "我", "爱", "。", "北", "京", "a", "c", "a"]
    assert tokens.sentence_lengths.tolist() == [4, 3, 2, 1, 1, 1]
    assert tokens.document_sizes.tolist() == [4, 0, 1]
    assert found.document_numbers.tolist() == [3, 4, 5]
    assert tokens.sentence_bytes.tolist() == [7, 9, 6, 1, 1, 1]


def test_a_line_that_is_a_sentence_is_kept_whole_unless_it_is_too_long() -> None:
    encoder = DocumentEncoder(Tokenizer(WORDS))
    lines = ("C. C", "c " * 300)
    assert encoder.encode([part(*lines, form="sentences")]).tokens.sentence_lengths.tolist() == [3, 256, 44]
    assert encoder.encode([part(*lines)]).tokens.sentence_lengths.tolist() == [3, 256, 44]
    lines = ("C c! C", "C")
    assert encoder.encode([part(*lines, form="sentences")]).tokens.sentence_lengths.tolist() == [4, 1]
    assert encoder.encode([part(*lines)]).tokens.sentence_lengths.tolist() == [3, 1, 1]


def test_words_begin_without_hashes_and_where_the_segmenter_says() -> None:
    text = "我爱北京天安门abb ab。门"
    plain = DocumentEncoder(Tokenizer(WORDS)).encode([part(text)]).tokens
    starts = plain.word_starts.astype(int).tolist()
    #                  我 爱 北 京 天 安 门 ab ##b ab 。 门
    assert starts == [1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1]
    words = DictionarySegmenter(["北京", "天安门", "爱北"])
    found = DocumentEncoder(Tokenizer(WORDS), words).encode([part(text)]).tokens
    assert found.word_starts.astype(int).tolist() == [1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 1]
    np.testing.assert_array_equal(found.ids, plain.ids)


def test_a_segmenter_needs_chinese_characters_as_words() -> None:
    with pytest.raises(UserError, match="tokenize_chinese_chars=False"):
        DocumentEncoder(Tokenizer(WORDS, tokenize_chinese_chars=False), DictionarySegmenter(["北京"]))


def test_a_block_encoder_reads_its_tokenizer_and_word_list(tmp_path: Path) -> None:
    Tokenizer(WORDS).save(tmp_path)
    (tmp_path / "words.txt").write_text("北京\n", encoding="utf-8")
    found = BlockEncoder(tmp_path, str(tmp_path / "words.txt"))([part("北京")])
    assert found.tokens.word_starts.tolist() == [True, False]


def test_the_vocabulary_decides_the_type() -> None:
    many = Vocabulary((*SPECIALS, *(f"w{number}" for number in range(1 << 16))))
    found = DocumentEncoder(Tokenizer(many)).encode([part("w65535")])
    assert found.tokens.ids.tolist() == [65540]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "vocabulary"),
    [
        ("enwiki.jsonl.gz", "bert-base-cased.txt.gz"),
        ("zhwiki.jsonl.gz", "bert-base-chinese.txt.gz"),
        ("wikitext2.valid.raw.gz", "bert-base-multilingual-cased.txt.gz"),
    ],
)
def test_real_text_gives_what_the_engine_gives(corpus: str, vocabulary: str, shared_data: Path) -> None:
    pieces = tuple(read_lines(shared_data / "vocab" / vocabulary))
    tokenizer = Tokenizer(Vocabulary(pieces), lowercase="chinese" in vocabulary)
    sources = find_sources([shared_data / "corpus" / corpus])
    encoder = DocumentEncoder(tokenizer)
    for block in islice(read_blocks(sources.texts), 0, None, 6):
        sentences = [sentence for one in block for sentence in part_sentences(one)]
        expected = [ids for ids in tokenizer.ids_of_batch(sentences) if ids]
        tokens = encoder.encode(block).tokens
        assert tokens.sentence_lengths.tolist() == [len(ids) for ids in expected]
        assert tokens.ids.tolist() == list(chain.from_iterable(expected))
