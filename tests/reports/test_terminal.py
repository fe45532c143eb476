from dataclasses import replace

import numpy as np
import pytest

from glassbert.evaluation.result import Evaluation
from glassbert.metrics.classes import classification
from glassbert.reports.axes import width_of
from glassbert.reports.terminal import render
from helpers.report_samples import ALL, NASTY, answers, single, spans


@pytest.mark.parametrize("name", ALL)
def test_every_metric_is_shown_and_no_line_is_too_wide(name: str) -> None:
    evaluation = ALL[name]()
    text = render(evaluation, width=80)
    for metric, value in evaluation.metrics.items():
        assert any(line.split() == [metric, f"{value:.4f}"] for line in text.splitlines())
    assert max(map(width_of, text.splitlines())) <= 80


def test_the_confusion_has_gold_in_rows() -> None:
    report = classification(np.array([0, 0, 1]), np.array([1, 1, 1]), ("cat", "dog"))
    text = render(Evaluation(task="classify", model="m", data="d", examples=3, report=report))
    rows = [line.split() for line in text.splitlines()]
    assert ["gold", "\\", "guess", "cat", "dog"] in rows
    assert ["cat", "0", "2"] in rows


def test_texts_cannot_steer_the_terminal() -> None:
    nasty = replace(single(), notes=(f"\x1b[31mred {NASTY}",), model="\x1b]0;title\x07", task="\nx")
    text = render(nasty)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    text.encode("utf-8")


def test_of_many_classes_the_frequent_ones_are_shown() -> None:
    labels = tuple(f"class-{index}" for index in range(100))
    gold = np.repeat(np.arange(100), np.arange(100))
    report = classification(gold, gold, labels)
    text = render(Evaluation(task="classify", model="m", data="d", examples=len(gold), report=report))
    assert "class-99" in text
    assert "class-59" not in text
    assert "and 60 rarer ones" in text


def test_answers_and_spans_are_told_in_their_own_way() -> None:
    assert "1 (33.3%) of the spans found; wrong label 1, wrong bounds 1, missed 0, invented 1" in render(
        spans()
    )
    rows = [line.split() for line in render(answers()).splitlines()]
    assert ["without", "an", "answer", "0.000", "0.000", "1"] in rows
    assert ["3", "to", "4", "words", "0.000", "0.800", "1"] in rows
    assert ["1", "word", "0.500", "0.500", "2"] in rows


def test_a_mistake_takes_two_lines_however_long_its_text_is() -> None:
    lines = render(single(), width=60).splitlines()
    first = lines.index("worst mistakes")
    assert [line.strip()[:14] for line in lines[first + 1 : first + 5 : 2]] == [
        "negative taken",
        "不知道 taken for n"[:14],
    ]
    assert lines[first + 4].endswith("\u2026")


def test_truncation_and_unknown_tokens_are_counted() -> None:
    lines = render(single()).splitlines()
    assert "texts seen only in part: 12 (2.0%)" in lines
    assert "unknown tokens: 37 (0.1%)" in lines
    assert "calibration error 0.051 at temperature 2.423, 0.194 without" in lines
