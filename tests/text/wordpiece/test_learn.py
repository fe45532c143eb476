import json
import os
import pydoc_data.topics
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from glassbert.errors import DataError, UserError
from glassbert.text.inspection import inspect_vocabulary
from glassbert.text.vocabulary import SPECIALS
from glassbert.text.wordpiece.learn import (
    LearnedVocabulary,
    LearnFields,
    LearnSettings,
    choose_alphabet,
    learn_vocabulary,
)
from glassbert.text.wordpiece.tokenizer import Tokenizer

CHINESE = """今天天气很好，我们一起去公园散步，看见许多孩子在湖边放风筝。
词表是从文本里学来的：先统计每个词出现的次数，再把最常相邻的两段合并成一段。
汉字总是单独成词，所以词表里不应当有以井号开头的汉字。
他在2024年买了一台GPU服务器，用Python训练模型，准确率达到97.5%。
"""
ENGLISH = """The lower the newer, the wider the river: low, lower, lowest; new, newer; wide, wider, widest.
A tokenizer that is trained twice on the same text must give the same vocabulary twice, byte for byte.
Cafés, naïve coöperation and the Zürich résumé lose their accents when the vocabulary is uncased.
Walking, talking, singing and ringing: the ending is learned once and then used again and again.
"""
# Of 260 pieces from the text above. It may change only when the rules change, and then with a note in the
# changelog: users keep vocabularies for years.
GOLDEN_SHA256 = "292ac08d8036c7336ecbabd9156a6d2aba10cd8de0d181933f24fae5af82c7d4"

LEARN = """
import sys
from glassbert.text.wordpiece.learn import learn_vocabulary

if __name__ == "__main__":
    learned = learn_vocabulary(sys.argv[2], size=1500, processes=int(sys.argv[1]), max_words=1500)
    assert learned.report.num_pruned_words > 0, "the text is to be long enough for pruning"
    print(learned.vocabulary.sha256)
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.txt"
    path.write_text(ENGLISH + CHINESE, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some hundred kilobytes in seven files, so that there are seven blocks to share out."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    for number in range(7):
        (folder / f"{number}.txt").write_text("\n".join(texts[number::7]) + CHINESE, encoding="utf-8")
    return folder


def learn(path: Path, size: int, **rules: object) -> LearnedVocabulary:
    return learn_vocabulary(path, size=size, **rules)  # type: ignore[typeddict-item]


def test_bytes_do_not_depend_on_processes_or_hash_seed(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "learn_it.py"
    script.write_text(LEARN, encoding="utf-8")
    found = set()
    for processes, hash_seed in ((1, 0), (2, 1), (3, 2)):
        command = [sys.executable, str(script), str(processes), str(folder)]
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_a_known_text_gives_a_known_vocabulary(small: Path) -> None:
    assert learn(small, 260).vocabulary.sha256 == GOLDEN_SHA256


@pytest.mark.parametrize("size", [350, 351, 1000, 2000])
def test_the_size_is_met_exactly_without_a_row_that_cannot_be_used(folder: Path, size: int) -> None:
    vocabulary = learn(folder, size).vocabulary
    assert len(vocabulary) == size
    assert inspect_vocabulary(Tokenizer(vocabulary)).num_dead == 0


@pytest.mark.parametrize("cased", [False, True])
def test_cjk_characters_never_continue_a_word(small: Path, cased: bool) -> None:
    pieces = learn(small, 260, cased=cased, alphabet_coverage=1.0).vocabulary.pieces
    assert {"今", "词", "2", "##2"} <= set(pieces)
    assert not [piece for piece in pieces if piece.startswith("##") and "\u3400" <= piece[2] <= "\u9fff"]
    assert not [piece for piece in pieces if len(piece) > 1 and "\u3400" <= piece[0] <= "\u9fff"]


def test_rows_are_in_the_order_specials_unused_alphabet_merges(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("abab abab abab ab. cab", encoding="utf-8")
    pieces = learn(path, 5 + 2 + 7 + 3, num_unused=2).vocabulary.pieces
    assert pieces[:5] == SPECIALS
    assert pieces[5:7] == ("[unused1]", "[unused2]")
    assert pieces[7:14] == (".", "a", "b", "c", "##a", "##b", "##c")
    # a ##b and ##a ##b occur four times each; ab ##ab, made by the two, three times.
    assert pieces[14:] == ("ab", "##ab", "abab")


def test_uncased_text_loses_capitals_and_accents_and_cased_text_keeps_them(small: Path) -> None:
    uncased, cased = (
        set("".join(learn(small, 260, cased=cased).vocabulary.pieces[5:])) for cased in (False, True)
    )
    assert not uncased & set("AéZüö")
    assert set("AéZüö") <= cased


def test_every_word_of_kept_characters_can_be_spelled(small: Path) -> None:
    tokenizer = Tokenizer(learn(small, 260, alphabet_coverage=1.0).vocabulary)
    assert tokenizer.vocabulary.unk_id not in tokenizer.pieces_of(ENGLISH + CHINESE + "zzz 7x7x7 gpus").ids


def test_the_alphabet_stops_where_the_coverage_is_reached() -> None:
    counts = Counter({"a": 90, "中": 5, "b": 3, ".": 1, "é": 1})
    alphabet = choose_alphabet(counts, LearnSettings(size=100, alphabet_coverage=0.95, cased=True))
    assert alphabet.pieces == ("a", "中", "##a")
    assert alphabet.dropped == ("b", ".", "é")
    whole = choose_alphabet(counts, LearnSettings(size=100, alphabet_coverage=1.0, cased=True))
    assert whole.pieces == (".", "a", "b", "é", "中", "##a", "##b", "##é")
    capped = choose_alphabet(counts, LearnSettings(size=100, alphabet_coverage=1.0, max_alphabet=2))
    assert capped.characters == ("a", "中")


def test_what_is_left_out_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(f"aa aa aa ab ab aq {'a' * 101}", encoding="utf-8")
    report = learn(path, 10, max_alphabet=2).report
    assert (report.num_words, report.num_distinct_words) == (7, 4)
    assert (report.alphabet_size, report.alphabet_rows) == (2, 4)
    assert report.dropped_examples == (("q", 1),)
    assert report.coverage == pytest.approx(112 / 113)
    assert report.num_unknown_words == 2  # aq, and the word of 101 characters
    assert (report.num_learned, report.last_count) == (1, 3)


def test_a_size_below_the_alphabet_says_what_is_needed(small: Path) -> None:
    with pytest.raises(DataError, match=r"size 50 is too small: .* need (\d+);") as caught:
        learn(small, 50)
    needed = int(str(caught.value).split(" need ")[1].split(";")[0])
    assert len(learn(small, needed).vocabulary) == needed
    with pytest.raises(DataError):
        learn(small, needed - 1)


def test_a_size_beyond_the_text_says_the_largest_possible(small: Path) -> None:
    with pytest.raises(DataError, match="size 9000 is too large") as caught:
        learn(small, 9000, min_count=2)
    largest = int(str(caught.value).split("gives ")[1].split()[0])
    assert len(learn(small, largest, min_count=2).vocabulary) == largest
    with pytest.raises(DataError, match="--min-count"):
        learn(small, largest + 1, min_count=2)
    assert len(learn(small, largest + 1).vocabulary) == largest + 1


@pytest.mark.parametrize("text", ["", "\n \n", "\u200b\x00"])
def test_text_without_a_word_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"empty\.txt: no word found"):
        learn(path, 100)


@pytest.mark.parametrize(
    "rules", [{"size": 0}, {"min_count": 0}, {"alphabet_coverage": 1.1}, {"processes": 0}, {"num_unused": -1}]
)
def test_impossible_settings_are_refused(rules: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(rules))):
        LearnSettings(**({"size": 100} | rules))  # type: ignore[arg-type]


def test_progress_names_both_stages_and_never_passes_the_total(small: Path) -> None:
    calls: list[tuple[int, int, str]] = []
    learn_vocabulary([small], LearnSettings(size=260), on_progress=lambda *call: calls.append(call))
    assert {stage for _, _, stage in calls} == {"count words", "merge pieces"}
    assert all(0 < done <= total for done, total, _ in calls)


def test_settings_may_be_an_object_or_keywords_but_not_both(small: Path) -> None:
    assert {*LearnFields.__annotations__} == {field.name for field in fields(LearnSettings)}
    by_object = learn_vocabulary(small, LearnSettings(size=260, cased=True))
    assert by_object.vocabulary == learn(small, 260, cased=True).vocabulary
    assert not by_object.tokenizer.settings.lowercase
    with pytest.raises(UserError, match="got settings and cased"):
        learn_vocabulary(small, LearnSettings(size=260), cased=True)
    with pytest.raises(UserError, match="size=8000"):
        learn_vocabulary(small)


def test_a_folder_to_write_is_checked_before_any_text_is_read(small: Path, tmp_path: Path) -> None:
    learned = learn_vocabulary(small, size=260, out=tmp_path / "out")
    assert Tokenizer.load(tmp_path / "out").vocabulary == learned.vocabulary
    with pytest.raises(UserError, match="holds a vocabulary"):
        learn_vocabulary(tmp_path / "nope.txt", size=260, out=tmp_path / "out")
    learn_vocabulary(small, size=261, out=tmp_path / "out", overwrite=True)
    assert len(Tokenizer.load(tmp_path / "out")) == 261


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.raw"])
def test_the_syntax_of_json_lines_is_not_learned_whatever_the_name(
    small: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text(
        "".join(json.dumps({"title": "=#{}", "text": line}) + "\n" for line in small.read_text().splitlines())
    )
    assert learn(path, 260).vocabulary == learn(small, 260).vocabulary


def test_the_marks_of_wikitext_headings_are_not_learned(tmp_path: Path) -> None:
    path = tmp_path / "wiki.txt"
    path.write_text(" = Cats = \n \n Cats sleep . \n \n = = Food = = \n \n They eat . \n")
    assert "=" not in learn(path, 36, alphabet_coverage=1.0).vocabulary
    assert "=" in learn(path, 36, alphabet_coverage=1.0, form="documents").vocabulary
