"""Every fault that rows of examples can have, from a file to what the command line says of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glassbert.cli.main import main
from helpers.small_model import small_folder

TEXTS = ["a e i", "b c d", "a o u l", "c d f m", "e i o", "b g f"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("given") / "model")


def labelled(*more: str) -> str:
    rows = [f"{text}\t{'good' if text[0] in 'ae' else 'bad'}" for text in TEXTS]
    return "".join(f"{row}\n" for row in ["text\tlabel", *rows, *more])


def spans(*more: tuple[str, int, int]) -> str:
    rows = [(text, 0, 1) for text in TEXTS]
    contents = [
        {"text": text, "spans": [{"start": start, "end": end, "label": "X"}]}
        for text, start, end in [*rows, *more]
    ]
    return "".join(json.dumps(content) + "\n" for content in contents)


def questions(*more: dict[str, Any]) -> str:
    rows = [question(str(number), text, text[0], 0) for number, text in enumerate(TEXTS)]
    return "".join(json.dumps(row) + "\n" for row in [*rows, *more])


def question(name: str, context: str, answer: str, start: int) -> dict[str, Any]:
    answers = [{"text": answer, "answer_start": start}]
    return {"id": name, "question": "a", "context": context, "answers": answers}


def train(
    task: str, model: Path, folder: Path, rows: str | bytes, dev: str | None = None, *options: str
) -> int:
    """Train a step on rows of a file, and measure on others; by default on the right ones."""
    suffix = "tsv" if task == "classify" else "jsonl"
    right = {"classify": labelled(), "tag": spans(), "answer": questions()}[task]
    (folder / f"train.{suffix}").write_bytes(rows if isinstance(rows, bytes) else rows.encode("utf-8"))
    (folder / f"dev.{suffix}").write_text(right if dev is None else dev, encoding="utf-8")
    files = ["--train", str(folder / f"train.{suffix}"), "--dev", str(folder / f"dev.{suffix}")]
    settings = ["--set", "train.steps=1", "--out", str(folder / "out"), *options]
    return main(["train", task, "--model", str(model), *files, *settings])


@pytest.mark.parametrize(
    ("task", "rows", "reported"),
    [
        (
            "classify",
            labelled("a e i\tbad", "b c d\tbad"),
            "train: 2 rows have a text that another row labels differently, such as {train}:2 and {train}:8",
        ),
        (
            "tag",
            spans(("a e i", 2, 3)),
            "train: 2 rows have a text that another row labels differently, such as {train}:1 and {train}:7",
        ),
        (
            "classify",
            labelled("\u7532\u4e59\tgood", "\u4e19\tbad"),
            "train: 2 rows consist of unknown characters only; extend the vocabulary",
        ),
        (
            "tag",
            spans(("a e i", 0, 2), ("b c d", 1, 4)),
            "2 of 8 spans do not end where pieces do: moved to whole pieces",
        ),
        ("tag", spans(("a  e", 1, 3)), "1 of 7 spans have no piece of their own: left out"),
        (
            "answer",
            questions(question("7", "a e i o", "e i", 4), question("8", "b c d", "d", 0)),
            "train: wrong answer_start, moved to the nearest place of the answer's text: 2",
        ),
        (
            "answer",
            questions(question("0", "a e i o", "e i", 2), question("0", "b c", "c", 2)),
            "train: ids that occurred before, made unique by a number: 2",
        ),
    ],
    ids=["noise", "noise in spans", "unknown", "askew", "between", "answer_start", "ids"],
)
def test_tolerable_faults_are_counted(
    model: Path, tmp_path: Path, task: str, rows: str, reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(task, model, tmp_path, rows) == 0
    reported = reported.format(train=next(tmp_path.glob("train.*")))
    assert reported in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("task", "rows", "dev", "message"),
    [
        (
            "classify",
            "text\tlabel\na\tgood\nb\tgood\n",
            None,
            "all 2 training rows have the label 'good'; expected at least two",
        ),
        ("classify", labelled(), "text\tlabel\n", "{dev}: no rows in it; is it the right file?"),
        ("tag", spans(), "", "{dev}: no rows in it; is it the right file?"),
        ("classify", labelled(), labelled("a\tawful"), "{dev}:8: label 'awful' is in no training row"),
        (
            "tag",
            spans(),
            spans().replace('"X"', '"Y"'),
            "{dev}:1: label 'Y' is in no training row; the training rows have X",
        ),
        (
            "answer",
            questions(question("7", "a e i o", "u", 4)),
            None,
            "{train}:7: the answer 'u' is not in the context",
        ),
        ("tag", spans(("a e", 2, 9)), None, "{train}:7: "),
        ("classify", labelled("only text"), None, "{train}:8: 1 columns, expected 2"),
    ],
    ids=["one class", "empty dev", "empty dev of tag", "label", "span", "answer", "beyond", "columns"],
)
def test_a_fault_that_stops_the_run_is_one_line_with_its_place(
    model: Path,
    tmp_path: Path,
    task: str,
    rows: str,
    dev: str | None,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train(task, model, tmp_path, rows, dev) == 3
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("glassbert")]
    places = {name: next(tmp_path.glob(f"{name}.*")) for name in ("train", "dev")}
    assert message.format(**places) in error
    assert not (tmp_path / "out").exists()


def test_bad_rows_that_may_be_left_out_are_reported(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = labelled("only text", "\tgood")
    assert train("classify", model, tmp_path, rows, None, "--skip-bad", "2") == 0
    reported = capsys.readouterr().err
    assert f"train: left out {tmp_path / 'train.tsv'}:8: 1 columns, expected 2" in reported
    assert f"train: left out {tmp_path / 'train.tsv'}:9: the text is empty" in reported


CHINESE = ["\u4eca\u5929\u597d", "\u4eca\u5929", "\u597d\u5929", "\u597d"] * 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_of_any_encoding_train_and_predict_alike(
    model: Path, tmp_path: Path, encoding: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(lines: Sequence[str]) -> bytes:
        return end.join([*lines, ""]).encode(encoding)

    rows = [f"{text}\t{'good' if text[0] == CHINESE[0][0] else 'bad'}" for text in CHINESE]
    assert train("classify", model, tmp_path, written(["text\tlabel", *rows])) == 0
    reported = capsys.readouterr().err
    assert "2 labels: bad (6), good (6)" in reported
    assert "0.00% of the pieces are unknown" in reported
    assert ("read as GB18030" in reported) == (encoding == "gb18030")
    (tmp_path / "texts.txt").write_bytes(written(CHINESE[:4]))
    assert main(["predict", str(tmp_path / "out"), str(tmp_path / "texts.txt")]) == 0
    printed = capsys.readouterr()
    assert [json.loads(line)["tokens"] for line in printed.out.splitlines()] == [5, 4, 4, 3]
    assert ("read as GB18030" in printed.err) == (encoding == "gb18030")
