import errno
import io
import json
import sys
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.inference.loading import load
from helpers.oracles import make_oracle, save_oracle


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}, "num_labels": 2}
    oracle = make_oracle("BertForSequenceClassification", **labels)
    return save_oracle(oracle, tmp_path_factory.mktemp("model"))


def give_stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode("utf-8"))))


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        "a b\nc d e\nf\n",
        '{"text": "a b"}\n{"text": "c d e"}\n{"text": "f"}\n',
        "text\tnote\na b\t1\nc d e\t2\nf\t3\n",
    ],
    ids=["plain", "json", "tsv"],
)
def test_lines_of_every_form_are_answered_in_order(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_stdin(monkeypatch, text)
    assert main(["predict", str(folder)]) == 0
    rows = rows_of(capsys)
    expected = load(folder).predict(["a b", "c d e", "f"])
    assert [row["tokens"] for row in rows] == [4, 5, 3]
    assert [row["score"] for row in rows] == pytest.approx([one.score for one in expected], abs=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "a b\n\n  \nf\n",
        '{"text": "a b"}\n{"text": ""}\n{"text": " "}\n{"text": "f"}\n',
        "text\tn\na b\t1\n\t2\n \t3\nf\t4\n",
    ],
    ids=["plain", "json", "tsv"],
)
def test_an_empty_text_is_answered_as_in_python(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_stdin(monkeypatch, text)
    assert main(["predict", str(folder)]) == 0
    rows = rows_of(capsys)
    expected = load(folder).predict(["a b", "", " ", "f"])
    assert [row["tokens"] for row in rows] == [one.tokens for one in expected] == [4, 2, 2, 3]
    assert [row["score"] for row in rows] == pytest.approx([one.score for one in expected], abs=1e-6)


def test_pairs_are_answered_by_a_folder_that_does_not_say_what_it_takes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_stdin(monkeypatch, '{"text_a": "a", "text_b": "b c"}\n')
    assert main(["predict", str(folder), "--task", "pair"]) == 0
    assert rows_of(capsys)[0]["tokens"] == 6


@pytest.mark.parametrize(("options", "code"), [([], 3), (["--skip-bad", "1"], 0)])
def test_a_bad_row_says_so_in_its_place_and_in_the_exit_code(
    folder: Path,
    options: list[str],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    give_stdin(monkeypatch, '{"text": "a"}\n{"words": "a"}\n{"text": "b"}\n')
    assert main(["predict", str(folder), *options]) == code
    printed = capsys.readouterr()
    first, bad, last = [json.loads(line) for line in printed.out.splitlines()]
    assert set(bad) == {"error", "where"}
    assert bad["where"] == "stdin:2"
    assert "label" in first
    assert "label" in last
    assert ("1 of 3 rows could not be used" in printed.err) == (code == 3)


def test_cut_texts_are_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_stdin(monkeypatch, "a\n" + "b " * 100 + "\n")
    assert main(["predict", str(folder)]) == 0
    assert "1 of 2 texts were too long and were cut" in capsys.readouterr().err


def data(tmp_path: Path, *rows: str) -> str:
    (tmp_path / "data.tsv").write_text("text\tlabel\n" + "".join(f"{row}\n" for row in rows))
    return str(tmp_path / "data.tsv")


@pytest.mark.parametrize(
    ("gates", "code", "message"),
    [
        (["--min", "accuracy=0.0"], 0, ""),
        (["--min", "=1"], 2, "expected a metric and a number"),
        (["--min", "accuracy=1.5"], 5, "expected at least 1.5"),
        (["--min", "ece=1.0", "--min", "f1=2"], 5, "f1 is "),
        (["--min", "ece=-1"], 5, "expected at most -1"),
        (["--min", "beauty=1"], 2, "no such metric; there are accuracy, "),
        (["--min", "accuracy"], 2, "expected a metric and a number, such as f1=0.9"),
    ],
)
def test_gates_decide_the_exit_code(
    folder: Path,
    tmp_path: Path,
    gates: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["evaluate", str(folder), data(tmp_path, "a b\tyes", "c\tno"), *gates]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("a\tmaybe", "b\tyes"), "data.tsv:2: label 'maybe' is not one of the model's: no, yes"),
        (("a\t", "b\t"), "data.tsv:2"),
    ],
)
def test_rows_that_cannot_be_measured_are_named(
    folder: Path, tmp_path: Path, rows: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(folder), data(tmp_path, *rows)]) == 3
    assert message in capsys.readouterr().err


def test_columns_of_any_name_can_be_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.tsv"
    path.write_text("id\tprose\tverdict\n1\ta b\tyes\n2\tc\tno\n")
    names = ["--set", "data.columns.text=prose", "--set", "data.columns.label=verdict"]
    assert main(["evaluate", str(folder), str(path), *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["examples"] == 2
    assert main(["predict", str(folder), str(path), *names[:2]]) == 0
    assert [row["tokens"] for row in rows_of(capsys)] == [4, 3]
    assert main(["predict", str(folder), str(path), "--set", "train.steps=3"]) == 2


@pytest.fixture(scope="module")
def multi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    labels = {"id2label": {0: "no", 1: "yes"}, "label2id": {"no": 0, "yes": 1}, "num_labels": 2}
    kind = {"problem_type": "multi_label_classification"}
    oracle = make_oracle("BertForSequenceClassification", **labels, **kind)
    return save_oracle(oracle, tmp_path_factory.mktemp("multi"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"text": "a", "labels": ["maybe"]},
            "data.jsonl:1: label 'maybe' is not one of the model's: no, yes",
        ),
        (
            {"text": "a", "genres": ["yes"]},
            "no row has a label; name its column with --set",
        ),
    ],
)
def test_rows_that_a_model_of_many_labels_cannot_be_measured_on_are_named(
    multi: Path, tmp_path: Path, row: dict[str, object], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert main(["evaluate", str(multi), str(path)]) == 3
    assert message in capsys.readouterr().err


def test_a_model_of_many_labels_does_not_abstain_by_halves(
    multi: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give_stdin(monkeypatch, "a\n")
    assert main(["predict", str(multi), "--abstain-below", "0.9"]) == 2
    assert "only a model that gives one label can abstain" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["tag", "answer"])
def test_a_model_cannot_do_another_task(
    folder: Path, tmp_path: Path, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = data(tmp_path, "a\tyes")
    for verb in ("predict", "evaluate"):
        assert main([verb, str(folder), path, "--task", task]) == 2
        assert f"task={task}: the model does classify; leave it out" in capsys.readouterr().err


def test_how_the_columns_were_read_is_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data.csv").write_text("title,content,year\na,b c,1\n")
    assert main(["predict", str(folder), str(tmp_path / "data.csv"), "--format", "csv"]) == 0
    reported = capsys.readouterr().err
    assert main(["evaluate", str(folder), str(tmp_path / "data.csv")]) == 3
    of_evaluate = [line for line in capsys.readouterr().err.splitlines() if "title" in line]
    assert of_evaluate
    assert of_evaluate[0] in reported


def test_a_result_is_printed_even_if_its_report_cannot_be_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, evaluation: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("glassbert.reports.page.write_report", no_room)
    arguments = ["evaluate", str(folder), data(tmp_path, "a\tyes"), "--json"]
    assert main([*arguments, "--report", str(tmp_path / "report.html")]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["examples"] == 1
    assert "report.html" in captured.err.splitlines()[-1]


def test_a_report_below_a_file_is_refused_before_any_work(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", str(folder), data(tmp_path, "a\tyes"), "--json"]
    assert main([*arguments, "--report", str(tmp_path / "data.tsv" / "report.html")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "data.tsv" in captured.err.splitlines()[-1]
