import gzip
import json
import random
from pathlib import Path

import pytest

from glassbert.data.corpus.check import CheckReport, Finding, check_corpus
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

GOOD = (
    "It rained all day long. We stayed at home.\nThe next day was dry.\n\n"
    "Dogs bark at cats. Cats run.\nThey do.\n\n"
)


def write(folder: Path, text: str | bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def kinds(report: CheckReport) -> dict[str, str]:
    return {finding.kind: finding.level for finding in report.findings}


def the(report: CheckReport, kind: str) -> str:
    (finding,) = [finding for finding in report.findings if finding.kind == kind]
    return finding.message


def test_good_text_has_figures_and_no_findings(tmp_path: Path) -> None:
    report = check_corpus([write(tmp_path, GOOD, "b.txt")], form="paragraphs")
    assert report.findings == ()
    assert (report.num_documents, report.num_sentences, report.num_lines) == (2, 6, 4)
    assert report.num_bytes == len(GOOD) - 6
    assert (report.sentence_lengths.maximum, report.longest_line) == (23, 42)
    assert report.sentence_lengths.median == 18
    assert report.scripts == {"latin": 1.0}
    assert report.num_tokens is None


def test_one_document_makes_next_sentence_prediction_impossible(tmp_path: Path) -> None:
    report = check_corpus([write(tmp_path, GOOD.replace("\n\n", "\n"))], form="sentences")
    assert kinds(report) == {"one_document": "warning"}
    assert "objective mlm or sop" in the(report, "one_document")


def test_documents_of_one_sentence_are_reported(tmp_path: Path) -> None:
    report = check_corpus([write(tmp_path, "One.\nTwo.\nThree.\n")], form="documents")
    assert kinds(report) == {"short_documents": "warning"}


def test_an_ambiguous_form_is_an_error_but_the_text_is_examined(tmp_path: Path) -> None:
    report = check_corpus([write(tmp_path, "One.\nTwo\x01.\nThree.\n")])
    assert kinds(report) == {"form": "error", "control": "warning", "one_document": "warning"}
    assert "--form documents" in the(report, "form")
    assert the(report, "control").startswith(f"{tmp_path / 'a.txt'}:2: 1 lines")


def test_a_file_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    lines = [json.dumps({"text": "Good text here. And more."})] * 3
    files = [
        write(tmp_path, "\n".join([*lines, "{"]), "a.jsonl"),
        write(tmp_path, b"One.\nTwo.\n\nThr\xffee.\n", "b.txt"),
        write(tmp_path, gzip.compress(GOOD.encode() * 999)[:-9], "c.txt.gz"),
        write(tmp_path, "", "d.txt"),
        write(tmp_path, GOOD, "e.txt"),
    ]
    report = check_corpus(files)
    errors = [finding.message for finding in report.findings if finding.level == "error"]
    assert len(errors) == 3
    assert any("a.jsonl:4: not JSON" in error for error in errors)
    assert any("b.txt:4: byte 4" in error for error in errors)
    assert any("c.txt.gz: damaged" in error for error in errors)
    assert the(report, "empty").startswith(f"{tmp_path / 'd.txt'}: no text")
    assert report.num_documents >= 5


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    report = check_corpus([write(tmp_path, " \n")])
    levels = [finding.level for finding in report.findings if finding.kind == "empty"]
    assert levels == ["error", "warning"]


def test_repeated_lines_are_counted_exactly_with_both_places(tmp_path: Path) -> None:
    line = "This very line comes again and again."
    one = write(tmp_path, f"Something else stands here.\n{line}\n\nShort.\n{line}\nShort.\n", "a.txt")
    two = write(tmp_path, f"Other text is found here.\n\n{line}\nMore text is found here.\n", "b.txt")
    report = check_corpus([one, two])
    assert (report.num_compared_lines, report.num_repeated_lines) == (6, 2)
    message = the(report, "repeated_lines")
    assert f"{one}:2 occurs 3 times, next at {one}:5" in message
    assert "--drop-duplicates" in message


def test_documents_that_are_nearly_the_same_are_found(tmp_path: Path) -> None:
    draw = random.Random(1)
    documents = [[f"word{draw.randrange(9999)}" for _ in range(200)] for _ in range(5)]
    documents.append([*documents[1][:195], "quite", "another", "end", "of", "it"])
    path = write(tmp_path, "\n".join(" ".join(words) for words in documents))
    report = check_corpus([path], form="documents")
    assert (report.num_compared_documents, report.num_near_duplicates) == (6, 1)
    assert f"{path}:6 is like {path}:2" in the(report, "near_duplicates")


def test_many_unknown_words_are_reported_with_the_most_frequent(tmp_path: Path) -> None:
    Tokenizer(Vocabulary((*SPECIALS, *"abc."))).save(tmp_path / "tokenizer")
    path = write(tmp_path, "A b c. C zebra.\n\nA zebra.\n")
    report = check_corpus([path], form="paragraphs", tokenizer=tmp_path / "tokenizer")
    assert (report.num_tokens, report.num_unknown) == (10, 2)
    assert report.unknown_examples == (("zebra", 2),)
    assert "20.0% of the tokens are [UNK], such as zebra" in the(report, "unknown")


@pytest.mark.parametrize("processes", [1, 2])
def test_the_report_is_the_same_on_any_number_of_processes(
    processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from glassbert.text import sources

    monkeypatch.setattr(sources, "_BLOCK_CHARACTERS", 100)
    files = [write(tmp_path, GOOD * 9, "a.txt"), write(tmp_path, GOOD * 2, "b.txt")]
    report = check_corpus(files, processes=processes)
    assert report.num_repeated_lines == 3 * 10
    assert report.num_documents == 22
    assert isinstance(report.findings[0], Finding)
