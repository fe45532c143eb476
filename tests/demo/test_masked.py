import pytest

from glassbert.demo.masked import CHINESE, ENGLISH, known_sentences
from glassbert.inference.loading import load
from glassbert.inference.model import Model


@pytest.fixture(scope="module")
def model() -> Model:
    return load("demo", Model)


@pytest.mark.parametrize("sentences", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_the_demo_shows_what_the_model_knows(model: Model, sentences: dict[str, str]) -> None:
    for one in known_sentences(model, sentences, 2):
        [best] = model.fill(one.text, top=1)[0]
        assert (one.rank, best.token) == (1, sentences[one.text]), one
        assert one.score == pytest.approx(best.score, abs=1e-6)


def test_what_a_model_knows_best_is_first(model: Model) -> None:
    found = known_sentences(model, {**ENGLISH, "A [MASK].": "no such piece"}, 100)
    assert len(found) == len(ENGLISH) + 1
    assert [one.rank for one in found if one.rank] == sorted(one.rank for one in found if one.rank)
    right = [one.score for one in found if one.rank == 1]
    assert right == sorted(right, reverse=True)
    assert (found[-1].text, found[-1].rank) == ("A [MASK].", None)
