"""The scorers against their plain definitions on real questions, guesses being parts of the contexts."""

import gzip
import json
import random
from pathlib import Path

import pytest

from glassbert.metrics.answers import best_no_answer_threshold, cmrc, squad
from glassbert.metrics.mixed_text import english_tokens
from helpers import naive_scores

pytestmark = pytest.mark.slow
Questions = tuple[dict[str, list[str]], dict[str, str]]


def questions(path: Path, limit: int = 3000) -> Questions:
    """The accepted answers of a file, and for each question an answer, a widened one or any part."""
    gold, guess, rng = {}, {}, random.Random(0)
    data = json.loads(gzip.decompress(path.read_bytes()))["data"]
    paragraphs = [paragraph for article in data for paragraph in article["paragraphs"]]
    for paragraph in paragraphs:
        context = paragraph["context"]
        for question in paragraph["qas"][: limit - len(gold)]:
            answers = question["answers"]
            gold[question["id"]] = [answer["text"] for answer in answers]
            start = rng.choice(answers)["answer_start"] if answers else rng.randrange(len(context))
            length = len(rng.choice(answers)["text"]) if answers else rng.randint(0, 20)
            start = max(0, start + rng.choice([0, 0, -5, 3]))
            guess[question["id"]] = context[start : start + length + rng.choice([0, 0, 1, 10])]
    return gold, guess


def test_squad_1(shared_data: Path) -> None:
    gold, guess = questions(shared_data / "answer" / "squad1.dev.json.gz")
    found = squad(gold, guess).metrics()
    assert found == pytest.approx(naive_scores.squad_1(gold, guess))
    assert 0.2 < found["exact_match"] < found["f1"] < 0.95


def test_squad_2(shared_data: Path) -> None:
    gold, guess = questions(shared_data / "answer" / "squad2.dev.json.gz")
    expected, found = naive_scores.squad_2(gold, guess), squad(gold, guess)
    assert found.f1 == pytest.approx(expected["f1"])
    assert found.has_answer.f1 == pytest.approx(expected["has_answer_f1"])
    assert found.no_answer.exact_match == pytest.approx(expected["no_answer_exact_match"])
    rng = random.Random(1)
    heights = {key: rng.gauss(1 - bool(answers), 1) for key, answers in gold.items()}
    scores = {key: naive_scores.squad_2_of_one(gold[key], guess[key])[1] for key in gold}
    best = best_no_answer_threshold(gold, guess, heights)
    assert (best.f1, best.f1_threshold) == pytest.approx(
        naive_scores.script_threshold(gold, guess, heights, scores)
    )


def test_cmrc(shared_data: Path) -> None:
    gold, guess = questions(shared_data / "answer" / "cmrc2018.dev.json.gz", limit=1000)
    found = cmrc(gold, guess).metrics()
    assert found == pytest.approx(naive_scores.cmrc(gold, guess, english_tokens))
    assert 0.2 < found["exact_match"] < found["f1"] < 0.95
