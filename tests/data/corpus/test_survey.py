from pathlib import Path

import pytest

from glassbert.data.corpus.survey import Examiner, TextFacts, file_and_line, place_of, script_counts
from glassbert.text.documents import Part
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

PATH = Path("a.txt")


def part(*lines: str, first_line: int = 1, file: int = 0) -> Part:
    return Part(0, PATH, file, first_line, lines, "paragraphs", True, sum(map(len, lines)))


def test_letters_are_counted_by_script() -> None:
    found = script_counts("Ab1 Éß. 中国，Жи καλός カな한")
    assert found == {
        "latin": 4,
        "chinese": 2,
        "cyrillic": 2,
        "greek": 5,
        "katakana": 1,
        "hiragana": 1,
        "hangul": 1,
    }
    assert script_counts("1 + 1, 。") == {}


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        ("control", "a\x00b"),
        ("control", "a\x85b"),
        ("replacement", "caf\ufffd"),
        ("twice_encoded", "café".encode().decode("latin-1")),
        ("twice_encoded", "it’s".encode().decode("cp1252")),
        ("markup", "a<br/>b"),
        ("markup", "A&amp;B"),
        ("long_line", "word " * 30_000),
    ],
)
def test_a_problem_is_counted_and_its_first_line_known(problem: str, line: str) -> None:
    good = "Café à la carte < 3 & more > 2, it’s 中国。"
    found = Examiner(None)([part(good, "", line, line, first_line=7)]).facts
    assert found.first_places == {problem: (PATH, 9)}
    assert found.counts[problem] == 2


def test_facts_of_two_texts_add_up_and_the_first_place_stays() -> None:
    facts = TextFacts()
    facts.add(Examiner(None)([part("One. Two two.", "x\x01")]).facts)
    facts.add(Examiner(None)([part("x\x01", first_line=20), part("中国。", first_line=30)]).facts)
    assert (facts.counts["documents"], facts.counts["sentences"], facts.counts["lines"]) == (3, 5, 4)
    assert facts.counts["short_documents"] == 2
    assert facts.counts["bytes"] == 13 + 2 + 2 + 9
    assert facts.sentence_lengths[[2, 3, 4, 8]].tolist() == [2, 1, 1, 1]
    assert facts.first_places == {"control": (PATH, 2)}
    assert facts.scripts == {"latin": 11, "chinese": 2}


def test_unknown_tokens_are_those_that_the_tokenizer_gives(tmp_path: Path) -> None:
    vocabulary = Vocabulary((*SPECIALS, "one", "two", ",", "中"))
    Tokenizer(vocabulary).save(tmp_path)
    text = "one,three one 中国 国,three TWO"
    found = Examiner(tmp_path)([part(text)]).facts
    ids = Tokenizer(vocabulary).ids_of_batch([text])[0]
    assert found.counts["tokens"] == len(ids)
    assert found.counts["unknown"] == ids.count(vocabulary.unk_id)
    assert found.unknown == {"three": 2, "国": 2}


def test_places_hold_file_and_line() -> None:
    assert file_and_line(place_of(3, 12_345_678_901)) == (3, 12_345_678_901)
    found = Examiner(None)([part("a line that is long enough", first_line=5, file=2)])
    assert [file_and_line(int(place)) for place in found.line_places] == [(2, 5)]
