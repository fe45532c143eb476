import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.metrics.answers import AnswerReport, best_no_answer_threshold, cmrc, squad
from helpers import naive_scores

# Words that normalisation drops or changes are as frequent as plain ones.
PLAIN = ["cat", "dog", "dogs", "xy", "theatre", "tre", "tithe", "ti", "1"]
words = st.sampled_from([*PLAIN, "the", "a", "An", "Cat", "!", "dog's", "x-y"])
texts = st.lists(words, max_size=5).map(" ".join)
answer_lists = st.lists(texts, min_size=1, max_size=3)
chinese = st.text(alphabet="中文国a b，。《-", max_size=10)


def by_id(rows: list[tuple[list[str], str]]) -> tuple[dict[str, list[str]], dict[str, str]]:
    gold = {str(index): answers for index, (answers, _) in enumerate(rows)}
    return gold, {str(index): guess for index, (_, guess) in enumerate(rows)}


@given(st.lists(st.tuples(answer_lists, texts), min_size=1, max_size=6))
def test_questions_with_answers_are_scored_as_squad_1_does(rows: list[tuple[list[str], str]]) -> None:
    gold, guess = by_id(rows)
    assert squad(gold, guess).metrics() == pytest.approx(naive_scores.squad_1(gold, guess))


@given(st.lists(st.tuples(st.just([]) | answer_lists, texts), max_size=6))
def test_questions_without_answers_are_scored_as_squad_2_does(rows: list[tuple[list[str], str]]) -> None:
    gold, guess = by_id([([], ""), *rows])
    report, expected = squad(gold, guess), naive_scores.squad_2(gold, guess)
    for prefix, part in (("", report), ("has_answer_", report.has_answer), ("no_answer_", report.no_answer)):
        assert part.exact_match == pytest.approx(expected[f"{prefix}exact_match"])
        assert part.f1 == pytest.approx(expected[f"{prefix}f1"])
    assert report.metrics()["no_answer_accuracy"] == pytest.approx(expected["no_answer_exact_match"])


@given(st.lists(st.tuples(st.lists(chinese, min_size=1, max_size=3), chinese), min_size=1, max_size=6))
def test_mixed_answers_are_scored_as_cmrc_does(rows: list[tuple[list[str], str]]) -> None:
    gold, guess = by_id(rows)
    assert cmrc(gold, guess).metrics() == pytest.approx(naive_scores.cmrc(gold, guess, str.split))


@pytest.mark.parametrize(
    ("gold", "guess", "exact", "f1"),
    [
        (["Denver Broncos"], "The Denver Broncos!", 1, 1),
        (["Denver Broncos", "Broncos"], "broncos", 1, 1),
        (["24 to 10"], "24-10", 0, 0),  # the hyphen goes, and with it the border of the words
        (["in the late 1990s"], "late 1990s", 0, 0.8),
        (["to to be"], "to be be", 0, 2 / 3),
        (["tithe an ant"], "ti ant", 0, 0.5),
        (["the"], "a", 1, 0),  # equal after normalisation, yet no word in common: so says version 1.1
        (["caf\u00e9"], "cafe", 0, 0),
    ],
)
def test_squad_on_cases_by_hand(gold: list[str], guess: str, exact: float, f1: float) -> None:
    assert squad({"q": gold}, {"q": guess}).metrics() == pytest.approx({"exact_match": exact, "f1": f1})


@pytest.mark.parametrize(
    ("gold", "guess", "exact", "f1"),
    [
        (["1990年12月"], "1990年12月。", 1, 1),
        (["《红楼梦》"], "红楼梦", 1, 1),
        (["中华人民共和国"], "人民", 0, 4 / 9),
        (["北京和上海"], "北京，上海", 0, 4 / 9),  # runs, not sets: only one of both cities counts
        (["Apple iPhone手机"], "iphone 手机", 0, 6 / 7),
        (["18.5%"], "18.5", 0, 2 / 3),
        (["刘备", "刘玄德"], "刘玄德", 1, 1),
        (["刘备"], "", 0, 0),
        (["。"], "，", 1, 0),
    ],
)
def test_cmrc_on_cases_by_hand(gold: list[str], guess: str, exact: float, f1: float) -> None:
    assert cmrc({"q": gold}, {"q": guess}).metrics() == pytest.approx({"exact_match": exact, "f1": f1})


def test_results_are_told_by_the_length_of_the_shortest_answer() -> None:
    gold = {"a": ["one two three", "one"], "b": ["one two three"], "c": ["one two three four"], "d": []}
    guess = {"a": "one two three", "b": "one", "c": "one two three four", "d": "x"}
    rows = [(row.low, row.high, row.exact_match, row.support) for row in squad(gold, guess).by_length]
    assert rows == [(1, 1, 1.0, 1), (3, 4, 0.5, 2)]
    long = {"a": ["x " * 40]}
    assert [(row.low, row.high) for row in squad(long, {"a": ""}).by_length] == [(33, None)]


rows_with_scores = st.lists(
    st.tuples(st.just([]) | answer_lists, texts, st.sampled_from([-3.0, -0.5, 0.0, 0.25, 1.0])),
    min_size=1,
    max_size=8,
)


@given(rows_with_scores)
def test_the_threshold_gives_what_it_promises_and_none_gives_more(
    rows: list[tuple[list[str], str, float]],
) -> None:
    gold, guess = by_id([(answers, text) for answers, text, _ in rows])
    no_answer = {str(index): score for index, (_, _, score) in enumerate(rows)}
    best = best_no_answer_threshold(gold, guess, no_answer)
    if all(gold.values()):
        naive = {key: naive_scores.squad_1({key: gold[key]}, guess) for key in gold}
    else:
        naive = {key: naive_scores.squad_2({key: gold[key]}, guess) for key in gold}
    for name, promised, threshold in (
        ("exact_match", best.exact_match, best.exact_match_threshold),
        ("f1", best.f1, best.f1_threshold),
    ):
        scores = {key: of_one[name] if gold[key] else not guess[key] for key, of_one in naive.items()}
        candidates = [-1e9, *no_answer.values()]
        assert naive_scores.score_at(threshold, gold, no_answer, scores) == pytest.approx(promised)
        assert promised == pytest.approx(
            max(naive_scores.score_at(one, gold, no_answer, scores) for one in candidates)
        )


@given(
    st.lists(
        st.tuples(st.just([]) | st.just(["cat dog"]), st.sampled_from(["cat dog", "cat", "x"])), min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_without_ties_the_threshold_is_that_of_the_script(
    rows: list[tuple[list[str], str]], random: Random
) -> None:
    gold, guess = by_id(rows)
    heights = [(index + 1) / (len(rows) + 1) for index in range(len(rows))]
    random.shuffle(heights)
    no_answer = dict(zip(gold, heights, strict=True))
    best = best_no_answer_threshold(gold, guess, no_answer)
    exact = {key: naive_scores.squad_2_of_one(gold[key], guess[key])[0] for key in gold}
    assert (best.exact_match, best.exact_match_threshold) == pytest.approx(
        naive_scores.script_threshold(gold, guess, no_answer, exact)
    )


def test_no_questions_score_zero_and_never_nan() -> None:
    for report in (squad({}, {}), cmrc({}, {})):
        assert report.metrics() == {"exact_match": 0.0, "f1": 0.0}
        assert report.by_length == ()
    assert best_no_answer_threshold({}, {}, {}).f1 == 0.0


def test_a_report_is_plain_json() -> None:
    report: AnswerReport = squad({"a": ["x y"], "b": []}, {"a": "x", "b": ""})
    again = json.loads(json.dumps(report.to_json()))
    assert again["has_answer"] == {"exact_match": 0.0, "f1": pytest.approx(2 / 3), "support": 1}
    assert again["by_length"][0]["high"] == 2
