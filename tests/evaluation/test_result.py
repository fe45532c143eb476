import json

import pytest

from helpers.report_samples import ALL, single


@pytest.mark.parametrize("name", ALL)
def test_an_evaluation_is_plain_json_with_its_metrics_in_one_table(name: str) -> None:
    evaluation = ALL[name]()
    again = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert again["metrics"] == evaluation.metrics()
    assert again["examples"] == evaluation.examples


def test_metrics_of_report_and_calibration_come_together() -> None:
    names = set(single().metrics())
    assert {"accuracy", "f1", "mcc", "ece"} <= names
