"""Our scores against what the official scripts printed: golden/official_scores.json keeps their figures.

The scripts are evaluate-v1.1.py and evaluate-v2.0.py of SQuAD, cmrc2018_evaluate.py (with nltk 3.10.4 and its
punkt_tab) and conlleval.pl of 2004-01-26; none of them is here, nor needed. Figures are percent, as printed.

"random" are answers put together from words that normalisation drops, changes or divides, and tags in any
order, legal or not. "real" are predictions of two models: the demo model, fine-tuned by `train answer` and
`train tag` for some minutes (in part on questions made from templates), asked about texts that were written
for this file in English and Chinese.
"none" is the probability that there is no answer. Each row of answers has its own two figures, exact match
and F1.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Span
from glassbert.data.rows.schemes import TagScheme
from glassbert.metrics.answers import Measure, best_no_answer_threshold, cmrc, measure_for, squad
from glassbert.metrics.spans import SpanReport, span_f1

GOLDEN = json.loads((Path(__file__).parent / "golden" / "official_scores.json").read_text(encoding="utf-8"))
SOURCES = ["random", "real"]
ROUNDED = 0.00501  # conlleval prints two decimals


def by_number(rows: list[list[Any]], column: int) -> dict[str, Any]:
    return {str(number): row[column] for number, row in enumerate(rows)}


def assert_rows(measure: Measure, rows: list[list[Any]]) -> None:
    for gold, guess, exact, f1 in rows:
        found = measure.best(gold, guess)
        assert [100 * score for score in found] == pytest.approx([exact, f1], abs=1e-5), (gold, guess)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["squad_1", "cmrc"])
def test_answers_are_scored_as_the_script_scores_them(source: str, name: str) -> None:
    golden = GOLDEN[source][name]
    gold, guess = by_number(golden["rows"], 0), by_number(golden["rows"], 1)
    assert_rows(measure_for("cmrc" if name == "cmrc" else "squad", gold), golden["rows"])
    found = (cmrc if name == "cmrc" else squad)(gold, guess).metrics()
    assert {key: 100 * value for key, value in found.items()} == pytest.approx(golden["scores"], abs=1e-5)
    assert 0 < found["exact_match"] < 1


@pytest.mark.parametrize("source", SOURCES)
def test_questions_without_an_answer_are_scored_as_by_squad_2(source: str) -> None:
    golden = GOLDEN[source]["squad_2"]
    gold, guess = by_number(golden["rows"], 0), by_number(golden["rows"], 1)
    assert_rows(measure_for("squad", gold), golden["rows"])
    report = squad(gold, guess)
    found = {
        "exact": report.exact_match,
        "f1": report.f1,
        "HasAns_exact": report.has_answer.exact_match,
        "HasAns_f1": report.has_answer.f1,
        "NoAns_exact": report.no_answer.exact_match,
        "NoAns_f1": report.no_answer.f1,
    }
    expected = golden["scores"]
    assert {key: 100 * value for key, value in found.items()} == pytest.approx(
        {key: expected[key] for key in found}, abs=1e-5
    )
    best = best_no_answer_threshold(gold, guess, dict(zip(gold, golden["none"], strict=True)))
    assert (100 * best.exact_match, best.exact_match_threshold) == pytest.approx(
        (expected["best_exact"], expected["best_exact_thresh"]), abs=1e-5
    )
    assert (100 * best.f1, best.f1_threshold) == pytest.approx(
        (expected["best_f1"], expected["best_f1_thresh"]), abs=1e-5
    )


def test_what_the_model_really_answered_is_scored_as_by_squad_2() -> None:
    golden = GOLDEN["real"]["squad_2"]
    gold = by_number(golden["rows"], 0)
    found = squad(gold, dict(zip(gold, golden["answered"], strict=True)))
    assert "" in golden["answered"]
    assert 100 * found.f1 == pytest.approx(golden["answered_scores"]["f1"], abs=1e-5)
    assert 100 * found.no_answer.f1 == pytest.approx(golden["answered_scores"]["NoAns_f1"], abs=1e-5)


def assert_conlleval(report: SpanReport, expected: dict[str, Any]) -> None:
    counts = (report.support, report.guessed, report.right)
    assert counts == (expected["phrases"], expected["found"], expected["correct"])
    for name in ("precision", "recall", "f1"):
        assert 100 * getattr(report, name) == pytest.approx(expected[name], abs=ROUNDED)
    assert [score.label for score in report.per_type] == list(expected["types"])
    for score in report.per_type:
        precision, recall, f1, guessed = expected["types"][score.label]
        assert score.guessed == guessed
        assert [100 * score.precision, 100 * score.recall, 100 * score.f1] == pytest.approx(
            [precision, recall, f1], abs=ROUNDED
        )


def test_tags_in_any_order_are_read_and_scored_as_by_conlleval() -> None:
    golden = GOLDEN["random"]["conlleval"]
    sides = [[TagScheme().spans(row[side].split()) for row in golden["rows"]] for side in (0, 1)]
    assert_conlleval(span_f1(*sides), golden["scores"])


def test_real_spans_are_scored_as_by_conlleval() -> None:
    golden = GOLDEN["real"]["conlleval"]
    gold, guess = ([[Span(*span) for span in row[side]] for row in golden["rows"]] for side in (1, 2))
    assert_conlleval(span_f1(gold, guess), golden["scores"])
    assert 0 < golden["scores"]["correct"] < golden["scores"]["found"]
