import pytest

from glassbert.metrics.baselines import Baselines


def of(model: float) -> Baselines:
    return Baselines(
        metric="accuracy", rows=400, model=model, scores={"bag_of_words": 0.84, "majority": 0.51}
    )


@pytest.mark.parametrize(
    ("model", "verdict"),
    [
        (0.60, "not worth its cost"),
        (0.84, "not worth its cost"),
        (0.85, "no clear gain"),
        (0.9, "better by 0.0600"),
    ],
)
def test_the_verdict_says_whether_the_model_is_worth_its_cost(model: float, verdict: str) -> None:
    assert of(model).verdict == verdict
    assert of(model).to_json()["verdict"] == verdict


def test_the_sentence_names_every_method_and_the_model() -> None:
    assert of(0.6).sentence() == (
        "accuracy on 400 dev rows: a bag of words 0.8400, the most frequent label 0.5100, this model 0.6000: "
        "not worth its cost"
    )
