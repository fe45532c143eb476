import json

import pytest

from helpers.report_samples import ALL, single, translations


@pytest.mark.parametrize("name", ALL)
def test_an_evaluation_is_plain_json_with_its_metrics_in_one_table(name: str) -> None:
    evaluation = ALL[name]()
    again = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert again["metrics"] == evaluation.metrics
    assert again["examples"] == evaluation.examples


def test_metrics_of_report_and_calibration_come_together() -> None:
    assert {"accuracy", "f1", "mcc", "ece"} <= set(single().metrics)


@pytest.mark.parametrize("name", ALL)
def test_the_repr_is_one_line_with_the_figures(name: str) -> None:
    evaluation = ALL[name]()
    text = repr(evaluation)
    assert "\n" not in text
    assert len(text) < 300
    assert f"{evaluation.model} on {evaluation.data}" in text
    assert all(f"{name} {value:.4f}" in text for name, value in evaluation.metrics.items())


def test_the_scores_of_a_translator_stay_at_the_top_of_its_json() -> None:
    content, report = translations().to_json(), translations().report.to_json()
    assert {name: content[name] for name in report} == report
    assert {"bleu", "chrf", "bleu_signature", "chrf_signature", "by_length"} <= set(report)
