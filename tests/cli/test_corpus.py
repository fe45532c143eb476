import json
import subprocess
import sys
from pathlib import Path

import cyclopts
import pytest

from glassbert.cli.corpus import app
from glassbert.cli.main import main
from glassbert.data.corpus.reader import Corpus
from glassbert.data.corpus.resume import Progress
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.full_disk import disk

TEXT = "the cat sat.\nit slept.\n\nthe dog 北京.\nit ran.\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    words = ("the", "cat", "dog", "sat", "it", "slept", "ran", ".", "北")
    Tokenizer(Vocabulary((*SPECIALS, *words))).save(folder)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in ("corpus", *arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_verbs_are_build_and_check() -> None:
    assert isinstance(app, cyclopts.App)
    assert {"build", "check"} <= set(app)


def test_build_writes_a_corpus_and_reports_the_form(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "corpus"
    code, printed, errors = run(capsys, "build", text, "--tokenizer", tokenizer, "--out", out)
    assert code == 0
    assert "form: sentences (detected; change it with --form), 1 file such as text.txt" in errors
    assert "15 tokens in 1 shard" in printed
    assert "1 [UNK]" in printed
    corpus = Corpus.open(out, verify=True)
    assert (corpus.num_documents, corpus.num_sentences, corpus.num_tokens) == (2, 4, 15)
    assert len(corpus.tokenizer().vocabulary) == 14


def test_build_prints_the_manifest_as_json_and_does_not_build_twice(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("build", text, "--tokenizer", tokenizer, "--out", tmp_path / "out", "--json")
    code, printed, _ = run(capsys, *arguments, "--form", "documents", "--drop-duplicates")
    report = json.loads(printed)
    assert code == 0
    assert report["totals"]["num_documents"] == 4
    assert report["sources"][0]["form"] == "documents"
    assert report["num_duplicate_lines_dropped"] == 0
    code, again, errors = run(capsys, *arguments, "--form", "documents", "--drop-duplicates")
    assert (code, again) == (0, printed)
    assert "1 of 1 shard was there already" in errors
    code, _, errors = run(capsys, *arguments)
    assert (code, "another corpus" in errors) == (2, True)
    assert run(capsys, *arguments, "--force")[0] == 0


def test_build_warns_of_a_single_document(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_text("the cat sat. it slept.\n")
    code, _, errors = run(capsys, "build", text, "--tokenizer", tokenizer, "--out", tmp_path / "out")
    assert code == 0
    assert "one document only" in errors


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"),
    [
        (b"", [], 3, "no text in it"),
        (b"One.\nTwo.\nThree.\n", [], 3, "--form documents"),
        (b"One.\nTwo.\n\nb\xff\n", [], 3, "text.txt:4: byte 2"),
        (b'{"txt": "One."}\n', [], 3, 'text.txt:1: no string under "text"'),
        (b"One.", ["--form", "book"], 2, "book"),
        (b"One.", ["--processes", "0"], 2, '"0" for --processes. Expected at least 1'),
        (b"One.", ["--held-out", "5"], 2, '"5.0" for --held-out. Expected at least 0 and less than 1'),
        (b"One.", ["--held-out", "0.001"], 3, "held_out=0.001 of all documents is none"),
        (b"One.", ["--segmenter", "nope"], 2, "unknown segmenter 'nope'"),
        (b"One.", ["--tokenizer", "nope"], 4, "nope: no such folder"),
        (None, [], 2, "No such file"),
    ],
)
def test_bad_input_is_one_line_with_the_right_code_and_writes_nothing(
    content: bytes | None,
    arguments: list[str],
    code: int,
    message: str,
    tokenizer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    before = set(tmp_path.iterdir())
    given = [] if "--tokenizer" in arguments else ["--tokenizer", tokenizer]
    found, printed, errors = run(capsys, "build", path, "--out", tmp_path / "out", *given, *arguments)
    assert (found, printed) == (code, "")
    # Remarks on the files may precede it; the error is the last line and the only one of its kind.
    assert message in errors.splitlines()[-1]
    assert errors.count("glassbert: ") == 1
    assert set(tmp_path.iterdir()) == before


def test_check_prints_figures_and_findings(
    text: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "check", text, "--tokenizer", tokenizer, "--json")
    report = json.loads(printed)
    assert code == 0
    assert (report["num_documents"], report["num_tokens"], report["num_unknown"]) == (2, 15, 1)
    assert [finding["kind"] for finding in report["findings"]] == ["unknown"]
    code, printed, _ = run(capsys, "check", text)
    assert code == 0
    assert "nothing would go wrong" in printed
    assert "latin 9" in printed


def test_check_ends_with_the_code_of_bad_data_when_a_build_would_stop(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_bytes(b"One.\nTwo.\n\nb\xff\n")
    code, printed, errors = run(capsys, "check", text)
    assert (code, errors.count("\n")) == (3, 1)
    assert "text.txt:4: byte 2" in printed


def test_corpora_do_not_wait_for_torch(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    code = """
import sys
from glassbert.cli.main import main
text, tokenizer, out = sys.argv[1:]
assert main(["corpus", "build", text, "--tokenizer", tokenizer, "--out", out]) == 0
assert main(["corpus", "check", text]) == 0
assert "torch" not in sys.modules
"""
    command = [sys.executable, "-c", code, str(text), str(tokenizer), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_interrupted_build_says_how_to_resume(
    text: Path,
    tokenizer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("glassbert.data.corpus.build.build_corpus", interrupt)
    code, _, errors = run(capsys, "build", text, "--tokenizer", tokenizer, "--out", tmp_path / "out")
    assert (code, "run the same command again to resume" in errors) == (130, True)


def test_held_out_documents_are_reported(
    text: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text.write_text("\n".join("the cat sat.\nit ran.\n" for _ in range(40)))
    arguments = ("build", text, "--tokenizer", tokenizer, "--out", tmp_path / "out", "--held-out", "0.25")
    code, printed, errors = run(capsys, *arguments)
    held_out = Corpus.open(tmp_path / "out" / "held-out")
    assert code == 0
    num_documents = held_out.num_documents
    assert f"held out    {num_documents} more documents ({num_documents / 40:.1%} of all)" in printed
    assert "one document only" not in errors
    report = json.loads(run(capsys, *arguments, "--json")[1])
    assert report["held_out"]["num_documents"] == num_documents
    assert report["totals"]["num_documents"] == 40 - num_documents


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_is_one_line_and_exit_1_and_the_same_command_resumes(
    text: Path,
    tokenizer: Path,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text.write_text("\n".join(f"the cat {'sat ' * 5000}.\nit ran.\n" for _ in range(6)))
    arguments = ("build", text, "--tokenizer", tokenizer, "--shard-tokens", 5000, "--processes", 1)
    assert run(capsys, *arguments, "--out", tmp_path / "whole")[0] == 0
    save = Progress.save
    with disk(kind, tmp_path / "disk", 1_000_000) as small:

        def fill_after_two_shards(progress: Progress, folder: Path) -> None:
            save(progress, folder)
            if len(progress.shards) == 2:
                small.fill(5_000)

        monkeypatch.setattr(Progress, "save", fill_after_two_shards)
        code, printed, errors = run(capsys, *arguments, "--out", small.folder / "out")
        assert (code, printed) == (1, "")
        assert "no space left on its disk; 2 finished shards are kept" in errors.splitlines()[-1]
        assert errors.count("glassbert: ") == 1
        monkeypatch.undo()
        small.clear()
        code, _, errors = run(capsys, *arguments, "--out", small.folder / "out")
        assert (code, "2 of 6 shards were there already" in errors) == (0, True)
        for path in (tmp_path / "whole").iterdir():
            assert (small.folder / "out" / path.name).read_bytes() == path.read_bytes(), path.name
