import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Answer, AnswerExample, ReadOptions, Table
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError
from glassbert.tasks.answer.rows import ANSWER

Write = Callable[[str, str | bytes], Path]
CONTEXT = "The river Rhine runs from the Alps. The Rhine ends in the North Sea."


def squad(*questions: dict[str, Any], context: str = CONTEXT, version: str = "1.1") -> str:
    paragraphs = [{"context": context, "qas": list(questions)}]
    return json.dumps({"version": version, "data": [{"title": "Rhine", "paragraphs": paragraphs}]})


def question(answers: Any, **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Where?", "answers": answers, **more}


def only(table: Table[AnswerExample]) -> AnswerExample:
    (example,) = table.examples
    return example


def test_questions_of_squad_are_read_with_their_context(write: Write) -> None:
    answers = [{"text": "the Alps", "answer_start": 26}, {"text": "Alps", "answer_start": 30}]
    table = read_examples(ANSWER, write("a.json", squad(question(answers))))
    example = only(table)
    assert (example.id, example.question, example.context) == ("q1", "Where?", CONTEXT)
    assert example.answers == (Answer("the Alps", 26), Answer("Alps", 30))
    assert example.where.endswith("a.json:1:data[0].paragraphs[0].qas[0]")
    assert (table.format, table.notes) == ("squad", [])


def test_a_document_over_many_lines_is_read_too(write: Write) -> None:
    text = json.dumps(json.loads(squad(question([]))), indent=1)
    example = only(read_examples(ANSWER, write("a.json", text)))
    assert example.where.endswith("a.json:data[0].paragraphs[0].qas[0]")


def test_questions_without_an_answer_differ_from_those_nobody_answered(write: Write) -> None:
    plausible = [{"text": "Alps", "answer_start": 30}]
    possible = question([{"text": "Alps", "answer_start": 30}], is_impossible=False)
    path = write("a.json", squad(question(plausible, is_impossible=True), {**possible, "id": "q2"}))
    assert [example.answers for example in read_examples(ANSWER, path).examples] == [
        (),
        (Answer("Alps", 30),),
    ]
    path = write("b.json", squad({"id": "q", "question": "Where?"}))
    assert only(read_examples(ANSWER, path)).answers is None
    path = write("c.json", squad({"id": "q", "question": "Where?"}, possible))
    with pytest.raises(DataError, match=r"qas\[0\]: no answers, though other rows have them"):
        read_examples(ANSWER, path)


@pytest.mark.parametrize(
    ("reported", "found"),
    [(0, 10), (9, 10), (11, 10), (30, 40), (41, 40), (-1, 10), (999, 40), (None, 10)],
)
def test_a_wrong_place_is_moved_to_the_nearest_one(write: Write, reported: int | None, found: int) -> None:
    path = write("a.json", squad(question([{"text": "Rhine", "answer_start": reported}])))
    table = read_examples(ANSWER, path)
    assert only(table).answers == (Answer("Rhine", found),)
    assert table.notes == (
        ["wrong answer_start, moved to the nearest place of the answer's text: 1"]
        if reported is not None
        else []
    )


def test_an_answer_is_found_without_the_full_stop_that_was_added(write: Write) -> None:
    path = write("a.json", squad(question([{"text": " the Alps。", "answer_start": -1}])))
    table = read_examples(ANSWER, path)
    assert only(table).answers == (Answer("the Alps", 26),)
    assert table.notes == ["answers found without the spaces or the full stop around them: 1"]


def test_an_answer_that_is_not_in_the_context_is_left_out_or_makes_the_row_bad(write: Write) -> None:
    lost, found = {"text": "Danube", "answer_start": 3}, {"text": "Alps", "answer_start": 30}
    table = read_examples(ANSWER, write("a.json", squad(question([lost, found]))))
    assert only(table).answers == (Answer("Alps", 30),)
    assert table.notes == ["answers that are not in their context, left out (the question has others): 1"]
    with pytest.raises(DataError, match=r"qas\[0\]: the answer 'Danube' is not in the context"):
        read_examples(ANSWER, write("b.json", squad(question([lost]))))


def test_the_id_of_a_paragraph_is_not_that_of_its_questions(write: Write) -> None:
    paragraph = {"id": "P", "context": CONTEXT, "qas": [{"question": "Where?", "answers": []}]}
    example = only(read_examples(ANSWER, write("a.jsonl", json.dumps(paragraph) + "\n")))
    assert example.id == example.where
    assert example.where.endswith("a.jsonl:1.qas[0]")


def test_equal_ids_are_made_different_and_counted(write: Write) -> None:
    path = write("a.json", squad(*[question([])] * 3, {**question([]), "id": "q1#2"}))
    table = read_examples(ANSWER, path)
    assert [example.id for example in table.examples] == ["q1", "q1#2", "q1#3", "q1#2#2"]
    assert table.notes == ["ids that occurred before, made unique by a number: 3"]


def test_the_first_form_of_cmrc_is_read(write: Write) -> None:
    text = "莱茵河发源于瑞士的阿尔卑斯山。"
    qas = [{"query_id": "Q1", "query_text": "发源于哪里？", "answers": ["阿尔卑斯山", "瑞士的阿尔卑斯山"]}]
    item = {"context_id": "C1", "context_text": text, "title": "莱茵河", "qas": qas}
    table = read_examples(ANSWER, write("a.json", json.dumps([item], ensure_ascii=False)))
    example = only(table)
    assert (example.id, example.question, example.context) == ("Q1", "发源于哪里？", text)
    assert example.answers == (Answer("阿尔卑斯山", 9), Answer("瑞士的阿尔卑斯山", 6))
    assert table.format == "squad"


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["Alps"], "answer_start": [30]},
        [{"text": "Alps", "answer_start": 30}],
        {"text": "Alps", "answer_start": 30},
        ["Alps"],
        "Alps",
    ],
)
def test_flat_rows_have_answers_in_any_form(write: Write, answers: Any) -> None:
    row = {"question": "Where?", "context": CONTEXT, "answers": answers}
    example = only(read_examples(ANSWER, write("a.jsonl", json.dumps(row) + "\n")))
    assert example.answers == (Answer("Alps", 30),)
    assert example.id == example.where  # rows without an id are distinguished by their place


def test_tables_of_questions_are_read(write: Write) -> None:
    path = write(
        "a.csv", f'id,问题,上下文,答案,answer_start\n7,Where?,"{CONTEXT}",Rhine,40\n8,Who?,"{CONTEXT}",,\n'
    )
    table = read_examples(ANSWER, path)
    assert [(example.id, example.answers) for example in table.examples] == [
        ("7", (Answer("Rhine", 40),)),
        ("8", ()),
    ]
    assert "empty answers, read as no answer: 1" in table.notes


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (question([{"text": 7, "answer_start": 1}]), "the answer is '7'; expected a string"),
        (
            question([{"text": "Alps", "answer_start": 1.5}]),
            "answer_start is '1.5'; expected a number of characters",
        ),
        (question({"text": ["a"], "answer_start": [1, 2]}), "1 answers, but answer_start is '[1, 2]'"),
        ({"id": "x", "question": " ", "answers": []}, "the question is empty"),
        ({"id": "x", "answers": []}, "no question; name its column with --set data.columns.question=NAME"),
    ],
)
def test_bad_questions_have_a_reason(write: Write, bad: dict[str, Any], reason: str) -> None:
    table = read_examples(ANSWER, write("a.json", squad(bad, question([]))), ReadOptions(skip_bad=1))
    assert [row.reason for row in table.bad] == [reason]
    assert len(table.examples) == 1


def test_what_is_no_paragraph_and_no_question_is_bad(write: Write) -> None:
    good = {"context": CONTEXT, "qas": [question([]), "oops"]}
    path = write("a.json", json.dumps({"data": [{"paragraphs": ["oops", good]}]}))
    table = read_examples(ANSWER, path, ReadOptions(skip_bad=2))
    assert [row.where.split(":", 1)[1].split(":", 1)[1] for row in table.bad] == [
        "data[0].paragraphs[0]",
        "data[0].paragraphs[1].qas[1]",
    ]
