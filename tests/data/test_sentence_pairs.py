import gzip
import json
import re
from pathlib import Path

import pytest

from glassbert.data.sentence_pairs import ParallelFiles, SentencePair
from glassbert.errors import DataError, UserError


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def texts(files: ParallelFiles) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in files.pairs()]


ROWS = [("Go.", "Ve."), (" two  spaces\u00a0", "dos"), ('a "quote"', "\u4f60\u597d")]


def test_tsv_is_taken_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "".join(f"{source}\t{target}\n" for source, target in ROWS))
    assert list(ParallelFiles.of(path).pairs())[0] == SentencePair("Go.", "Ve.", 1)
    assert texts(ParallelFiles.of(path)) == ROWS


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{source}\t{target}\r\n" for source, target in ROWS)
    assert texts(ParallelFiles.of(tmp_path / "a.tsv.gz")) == ROWS


def test_jsonl_holds_pairs_flat_or_within_translation(tmp_path: Path) -> None:
    lines = [
        json.dumps({"source": "Go.", "target": "Ve."}),
        json.dumps({"translation": {"source": "Hi.", "target": "Hola."}, "id": 7}),
    ]
    path = written(tmp_path / "a.jsonl", "\n".join(lines))
    assert texts(ParallelFiles.of(path)) == [("Go.", "Ve."), ("Hi.", "Hola.")]


def test_the_keys_of_jsonl_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"translation": {"en": "Go.", "es": "Ve."}}')
    assert texts(ParallelFiles.of(path, source_key="es", target_key="en")) == [("Ve.", "Go.")]


def test_two_files_are_aligned_line_by_line(tmp_path: Path) -> None:
    written(tmp_path / "a.en", "Go.\ntab\there\n")
    written(tmp_path / "a.es", "Ve.\ntab\tac\u00e1")
    files = ParallelFiles.of(f"{tmp_path / 'a.en'},{tmp_path / 'a.es'}")
    assert files.paths == (tmp_path / "a.en", tmp_path / "a.es")
    assert texts(files) == [("Go.", "Ve."), ("tab\there", "tab\tac\u00e1")]


def test_a_name_with_a_comma_is_one_file_if_it_is_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a,b.tsv", "Go.\tVe.\n")
    assert texts(ParallelFiles.of(path)) == [("Go.", "Ve.")]


@pytest.mark.parametrize(("num_sources", "num_targets", "longer"), [(3, 2, "a.en"), (2, 5, "a.es")])
def test_uneven_files_are_refused_with_the_line(
    tmp_path: Path, num_sources: int, num_targets: int, longer: str
) -> None:
    source = written(tmp_path / "a.en", "one\n" * num_sources)
    target = written(tmp_path / "a.es", "uno\n" * num_targets)
    # Not one bad row among others: every pair before it may be shifted.
    files = ParallelFiles.of(f"{source},{target}", skip_bad=10)
    with pytest.raises(DataError, match=rf"{longer}:3: .* ends before this line, after 2"):
        list(files.pairs())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a\tb\na\n", "a.tsv:2: 1 columns; expected source TAB target"),
        ("a.tsv", "a\tb\tc\n", "a.tsv:1: 3 columns"),
        ("a.tsv", "a\tb\n\nc\td\n", "a.tsv:2: a blank line"),
        ("a.tsv", "a\tb\n \tc\n", "a.tsv:2: empty source"),
        ("a.tsv", "a\t\n", "a.tsv:1: empty target"),
        ("a.tsv", "\u3000\t \n", "a.tsv:1: empty source and target"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source": 1}\n', "a.jsonl:2: no string under 'source'"),
        ("a.jsonl", '{"source": "a"}\n', "a.jsonl:1: no string under 'target'"),
        ("a.jsonl", '{"translation": "a"}\n', "a.jsonl:1: no string under 'source'"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: no string under 'source'"),
        ("a.jsonl", "{\n", "a.jsonl:1: not JSON"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        list(ParallelFiles.of(written(tmp_path / name, text)).pairs())


@pytest.mark.parametrize(
    ("sources", "targets", "blamed"), [("a\n\n", "b\nc\n", "a.en"), ("a\nb\n", "c\n\n", "a.es")]
)
def test_of_aligned_files_the_one_with_the_empty_line_is_named(
    tmp_path: Path, sources: str, targets: str, blamed: str
) -> None:
    source, target = written(tmp_path / "a.en", sources), written(tmp_path / "a.es", targets)
    with pytest.raises(DataError, match=rf"{blamed}:2: empty .* --skip-bad 10"):
        list(ParallelFiles.of(f"{source},{target}").pairs())


def test_bad_rows_may_be_left_out_up_to_a_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\n\nx\nc\td\n\t\n")
    files = ParallelFiles.of(path, skip_bad=3)
    assert texts(files) == texts(files) == [("a", "b"), ("c", "d")]
    assert [row.where.split(":")[-1] for row in files.bad] == ["2", "3", "5"]
    with pytest.raises(DataError, match=r"a\.tsv:5: .* \(2 bad rows before it\)"):
        list(ParallelFiles.of(path, skip_bad=2).pairs())


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(UserError, match="skip_bad=-1"):
        ParallelFiles(source=Path("a"), skip_bad=-1)


def test_a_byte_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"a\tb\nca\xf1a\tcane\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: byte 3 \(0xf1\) is not UTF-8"):
        list(ParallelFiles.of(tmp_path / "a.tsv").pairs())


def test_pairs_in_gb18030_are_read_and_noted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("The weather is fine today.\t今天的天气很好。\n".encode("gb18030") * 2)
    files = ParallelFiles.of(path)
    assert texts(files) == texts(files) == [("The weather is fine today.", "今天的天气很好。")] * 2
    assert capsys.readouterr().err.count("read as GB18030") == len(files.notes) == 1
