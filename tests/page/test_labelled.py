"""The rows of a user's file: every loss is the model's, the worst rows come first, no folder is named."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

import glassbert as gb
from glassbert.model.packed import pack
from glassbert.page.app import Page, in_shell
from glassbert.page.labelled import LabelledRows, losses_of
from glassbert.page.workbench import Workbench
from glassbert.progress import Stopped, listening
from glassbert.serve.http.log import Log
from helpers.asgi import Client
from helpers.browsing import printed_by
from helpers.exact import exact_loss
from helpers.small_served import write_small
from page.conftest import TOKEN, PageClient

LABELS = ("bad", "good", "so-so")
ROWS = [("a b c", "good"), ("x y", "bad"), ("今 天 好", "so-so"), ("d e f g", "bad"), ("z", "good")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("rows")
    write_small("classify", where / "model")
    lines = "".join(f"{text}\t{label}\n" for text, label in ROWS)
    (where / "dev.tsv").write_text(f"text\tlabel\n{lines}", encoding="utf-8")
    return where


@pytest.fixture(scope="module")
def judged(folder: Path) -> PageClient:
    bench = Workbench(folder / "model", data=folder / "dev.tsv")
    return PageClient(Client(in_shell(Page(bench, token=TOKEN), Log(io.StringIO()))))


def test_every_row_has_its_loss_and_the_worst_is_first(folder: Path, judged: PageClient) -> None:
    found = judged.post("api/data", {}).json()
    expected = {
        text: exact_loss(folder / "model", ["[CLS]", *text.split(), "[SEP]"], LABELS.index(label))
        for text, label in ROWS
    }
    losses = [row["loss"] for row in found["rows"]]
    assert losses == sorted(losses, reverse=True)
    assert {row["texts"][0]: row["loss"] for row in found["rows"]} == pytest.approx(expected, rel=1e-5)


def test_right_and_wrong_rows_are_told_apart(folder: Path, judged: PageClient) -> None:
    found = judged.post("api/data", {}).json()
    guesses = [one.label for one in gb.load(folder / "model").predict([text for text, _ in ROWS])]
    expected = {text: (gold, guess, gold == guess) for (text, gold), guess in zip(ROWS, guesses, strict=True)}
    shown = {row["texts"][0]: (row["gold"], row["guess"], row["is_right"]) for row in found["rows"]}
    assert shown == expected
    assert found["wrong"] == sum(not is_right for _, _, is_right in expected.values())
    assert found["metrics"]["accuracy"] == pytest.approx(1 - found["wrong"] / len(ROWS))


def test_copied_python_prints_the_loss_of_a_row(judged: PageClient) -> None:
    for row in judged.post("api/data", {}).json()["rows"]:
        assert printed_by(row["python"]) == [pytest.approx(row["loss"], rel=1e-5)]


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("tag", '{"text": "abc 今", "spans": [{"start": 0, "end": 3, "label": "PER"}]}\n'),
        (
            "answer",
            '{"question": "a b", "context": "c d e", "answers": [{"text": "d", "answer_start": 2}]}\n',
        ),
        ("rerank", '{"text_a": "a b", "text_b": "c", "score": 0.5}\n'),
    ],
)
def test_rows_of_other_tasks_have_the_loss_of_their_trace(tmp_path: Path, task: str, content: str) -> None:
    write_small(task, tmp_path / "model")
    (tmp_path / "dev.jsonl").write_text(content, encoding="utf-8")
    model = gb.load(tmp_path / "model")
    (row,) = LabelledRows(model, str(tmp_path / "model"), tmp_path / "dev.jsonl").judged["rows"]
    assert printed_by(row["python"]) == [pytest.approx(row["loss"], rel=1e-5)]


def test_the_windows_of_a_long_text_count_as_one_row(folder: Path) -> None:
    model = gb.load(folder / "model")
    task = replace(model.task, settings=replace(model.task.settings, long_text="window"))
    model.__dict__["task"] = task
    rows = [task.schemas[0].from_item({"text": " ".join("abcdefg" * 12), "label": "good"}, "long")]
    inputs = task.inputs(rows, with_targets=True)
    assert len(inputs[0]) > 1
    together = task.losses(model.engine(pack(inputs[0])), inputs[0])["loss"] / task.counts(inputs[0])["loss"]
    assert losses_of(model, inputs) == [pytest.approx(float(together), rel=1e-5)]


def test_pairs_of_a_translator_are_ranked_by_their_likeness(tmp_path: Path) -> None:
    write_small("translate", tmp_path / "model")
    (tmp_path / "pairs.tsv").write_text("one two\teins zwei\nthree\tdrei\n", encoding="utf-8")
    model = gb.load(tmp_path / "model")
    found = LabelledRows(model, str(tmp_path / "model"), tmp_path / "pairs.tsv").judged
    scores = [row["chrf"] for row in found["rows"]]
    assert scores == sorted(scores)
    assert {row["gold"] for row in found["rows"]} == {"eins zwei", "drei"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("text\tlabel\na b\tunheard\n", "unheard"),
        ("text\na b\n", "no row has a label"),
        ("", "no rows in it"),
        ("text\tlabel\na b\tgood\tmore\tand more\n", "dev.tsv"),
    ],
)
def test_a_file_that_does_not_fit_is_told_without_its_folder(
    folder: Path, tmp_path: Path, content: str, says: str
) -> None:
    (tmp_path / "dev.tsv").write_text(content, encoding="utf-8")
    bench = Workbench(folder / "model", data=tmp_path / "dev.tsv")
    page = PageClient(Client(in_shell(Page(bench, token=TOKEN), Log(io.StringIO()))))
    response = page.post("api/data", {})
    assert response.status == 422
    assert says in response.json()["error"]
    assert str(tmp_path) not in response.json()["error"]


def test_rows_that_are_not_judged_are_counted_apart(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassbert.page.labelled.MAX_ROWS", 3)
    rows = [*({"text": text, "label": label} for text, label in ROWS), {"text": "a z"}]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = LabelledRows(gb.load(folder / "model"), "model", tmp_path / "dev.jsonl").judged
    assert (found["examples"], found["not_judged"], found["bad"]) == (3, 2, 1)
    assert {row["texts"][0] for row in found["rows"]} == {text for text, _ in ROWS[:3]}


def test_a_translator_judges_no_more_pairs_than_it_can_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassbert.page.labelled.MAX_PAIRS", 2)
    write_small("translate", tmp_path / "model")
    (tmp_path / "pairs.tsv").write_text("one\teins\ntwo\tzwei\nthree\tdrei\n", encoding="utf-8")
    found = LabelledRows(gb.load(tmp_path / "model"), "model", tmp_path / "pairs.tsv").judged
    assert (found["examples"], found["not_judged"]) == (2, 1)


def test_judging_says_how_far_it_is_and_can_be_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.page.labelled.AT_ONCE", 1)
    rows, shares = LabelledRows(gb.load(folder / "model"), "model", folder / "dev.tsv"), list[float]()
    with listening(shares.append):
        assert rows.judged["examples"] == len(ROWS)
    assert shares == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])

    def leave(share: float) -> None:
        raise Stopped

    del rows.__dict__["judged"]
    with pytest.raises(Stopped), listening(leave):
        _ = rows.judged


def test_without_a_file_or_a_task_the_page_says_what_to_do(page: PageClient, folder: Path) -> None:
    assert "--data FILE" in page.post("api/data", {}).json()["error"]
    bench = Workbench("demo", data=folder / "dev.tsv")
    client = PageClient(Client(in_shell(Page(bench, token=TOKEN), Log(io.StringIO()))))
    assert "no task" in client.post("api/data", {}).json()["error"]


def test_a_file_that_is_not_there_ends_the_start(folder: Path) -> None:
    with pytest.raises(gb.DataError, match="no such file"):
        Workbench(folder / "model", data=folder / "nothing.tsv")
