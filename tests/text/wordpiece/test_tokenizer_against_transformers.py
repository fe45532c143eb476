"""Slow: real text by the million characters, through us, through transformers and through the reference."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from glassbert.text.files import read_lines
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.wordpiece.reference import ReferenceTokenizer
from glassbert.text.wordpiece.tokenizer import Tokenizer

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parents[2] / "golden"
RELEASED = {
    "bert-base-uncased": True,
    "bert-base-cased": False,
    "bert-base-chinese": True,
    "bert-base-multilingual-cased": False,
}
CHUNK = 2000


def released_vocabulary(shared_data: Path, name: str) -> Vocabulary:
    raw = gzip.decompress((shared_data / "vocab" / f"{name}.txt.gz").read_bytes())
    return Vocabulary(tuple(raw.decode("utf-8").removesuffix("\n").split("\n")))


def paragraphs(path: Path) -> Iterator[str]:
    for line in read_lines(path):
        yield from json.loads(line)["text"].split("\n")


def real_lines(shared_data: Path) -> Iterator[str]:
    """Yield lines of six corpora, English and Chinese, encyclopedia, reviews, tweets and questions."""
    corpus = shared_data / "corpus"
    yield from islice(read_lines(corpus / "wikitext2.train.raw.gz"), 25_000)
    yield from islice(read_lines(corpus / "zh_sentences_sample.txt.gz"), 20_000)
    yield from islice(paragraphs(corpus / "enwiki.jsonl.gz"), 15_000)
    yield from islice(paragraphs(corpus / "zhwiki.jsonl.gz"), 15_000)
    yield from islice(read_lines(shared_data / "classify" / "ChnSentiCorp.train.tsv.gz"), 5_000)
    yield from islice(read_lines(shared_data / "pair" / "AFQMC.train.tsv.gz"), 15_000)
    yield from islice(read_lines(shared_data / "tag" / "wnut17.train.conll.gz"), 10_000)


@pytest.mark.parametrize(("name", "lowercase"), RELEASED.items())
def test_real_text_gives_what_transformers_and_the_reference_give(
    shared_data: Path, name: str, lowercase: bool
) -> None:
    from transformers import BertTokenizerFast

    vocabulary = released_vocabulary(shared_data, name)
    ours = Tokenizer(vocabulary, lowercase=lowercase)
    reference = ReferenceTokenizer(vocabulary, lowercase=lowercase)
    theirs = BertTokenizerFast(vocab=vocabulary.ids, do_lower_case=lowercase)
    lines = real_lines(shared_data)
    num_lines = num_pieces = num_cut = 0
    while chunk := list(islice(lines, CHUNK)):
        # Every line alone at the usual limit; then each beside the next, at a limit that changes and cuts.
        # Those are short: for a cut pair, transformers also joins what fell off a with what fell off b, run
        # by run, which is gigabytes for whole paragraphs.
        short = [text[:200] for text in chunk]
        tight = 11 + num_lines // CHUNK
        for texts, pairs, max_length in ((chunk, None, 512), (short, short[1:] + short[:1], tight)):
            found = ours.encode_batch(texts, pairs, max_length=max_length)
            expected = theirs(
                texts, pairs, truncation="longest_first", max_length=max_length, return_offsets_mapping=True
            )
            assert [e.ids for e in found] == expected["input_ids"]
            assert [e.segments for e in found] == expected["token_type_ids"]
            assert [e.offsets for e in found] == expected["offset_mapping"]
            assert [e.pieces for e in found] == [expected.tokens(number) for number in range(len(texts))]
            for number, encoding in enumerate(found):
                pair = None if pairs is None else pairs[number]
                pieces = reference.encode(texts[number], pair, max_length=max_length)
                assert encoding.pieces == [piece.text for piece in pieces]
                assert encoding.segments == [piece.segment for piece in pieces]
                assert encoding.offsets == [(piece.start, piece.end) for piece in pieces]
            num_pieces += sum(len(encoding.ids) for encoding in found)
            num_cut += sum(encoding.truncated for encoding in found)
        num_lines += len(chunk)
    print(
        f"{name}: {num_lines} lines alone and in pairs, {num_pieces} pieces, {num_cut} inputs cut, all equal"
    )
    assert num_lines >= 100_000
    assert num_cut >= 10_000


@pytest.mark.parametrize(
    "settings",
    [
        {"lowercase": True},
        {"lowercase": False},
        {"lowercase": True, "strip_accents": False},
        {"lowercase": False, "strip_accents": True},
        {"lowercase": True, "tokenize_chinese_chars": False},
    ],
)
def test_a_folder_of_ours_is_the_same_tokenizer_in_transformers(
    tmp_path: Path, settings: dict[str, bool]
) -> None:
    from transformers import AutoTokenizer, BertTokenizerFast

    golden = json.loads((GOLDEN / "tokenizer.json").read_text(encoding="utf-8"))
    ours = Tokenizer(Vocabulary(tuple(golden["pieces"])), **settings, max_length=99)
    ours.save(tmp_path)
    for loader in (AutoTokenizer, BertTokenizerFast):
        theirs = loader.from_pretrained(tmp_path)
        assert theirs.model_max_length == 99
        for case in golden["cases"]:
            text = case["text"]
            encoding = ours.encode(text)
            expected = theirs(text, return_offsets_mapping=True, truncation=True)
            assert encoding.ids == expected["input_ids"]
            assert encoding.offsets == expected["offset_mapping"]
            assert ours.decode(encoding.ids) == theirs.decode(encoding.ids, skip_special_tokens=True)


@pytest.mark.parametrize("keep", ["head", "tail"])
def test_cut_pairs_are_those_of_transformers_on_either_side(keep: str) -> None:
    from transformers import BertTokenizerFast

    golden = json.loads((GOLDEN / "tokenizer.json").read_text(encoding="utf-8"))
    ours = Tokenizer(Vocabulary(tuple(golden["pieces"])))
    theirs = BertTokenizerFast(
        vocab=ours.vocabulary.ids, truncation_side={"head": "right", "tail": "left"}[keep]
    )
    words = list("abcdefghijkl")
    for num_a in range(12):
        for num_b in range(1, 12):
            for max_length in range(3, 28):
                a, b = " ".join(words[:num_a]), " ".join(words[:num_b])
                expected = theirs([a], [b], truncation="longest_first", max_length=max_length)["input_ids"]
                assert [ours.encode(a, b, max_length=max_length, keep=keep).ids] == expected


def test_the_golden_file_is_what_transformers_gives_today(tmp_path: Path) -> None:
    script = (GOLDEN / "make_tokenizer.py").read_bytes()
    (tmp_path / "make_tokenizer.py").write_bytes(script)
    subprocess.run([sys.executable, tmp_path / "make_tokenizer.py"], check=True)
    assert (tmp_path / "tokenizer.json").read_bytes() == (GOLDEN / "tokenizer.json").read_bytes()


def test_the_chinese_vocabulary_beside_what_transformers_saved_of_it_is_read(
    shared_data: Path, tmp_path: Path
) -> None:
    """transformers strips U+2028 from two rows, which no text can give."""
    from transformers import BertTokenizer

    raw = gzip.decompress((shared_data / "vocab" / "bert-base-chinese.txt.gz").read_bytes())
    (tmp_path / "vocab.txt").write_bytes(raw)
    BertTokenizer.from_pretrained(tmp_path).save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    both = Tokenizer.load(tmp_path)
    assert both.vocabulary == released_vocabulary(shared_data, "bert-base-chinese")
    assert [note for note in both.assumptions if "differs in 2 of them, such as row 343" in note]
    (tmp_path / "vocab.txt").unlink()
    assert Tokenizer.load(tmp_path).encode("北京 ABC") == both.encode("北京 ABC")
