"""The loss of a student, against the formulas written out in float64."""

from typing import Any

import numpy as np
import pytest
import torch

from glassbert.tasks.task import Contest, Input
from glassbert.tasks.teaching import Teaching, num_taught
from glassbert.text.windows import Window


def one(taught: list[Any]) -> Input:
    said = np.atleast_2d(np.array(taught, dtype=np.float32))
    return Input(np.arange(3, dtype=np.int32), np.zeros(3, np.int8), 0, Window(0, 1), taught=said)


def soft(logits: Any, temperature: float) -> Any:
    shifted = np.exp(np.array(logits, dtype=np.float64) / temperature)
    return shifted / shifted.sum(axis=-1, keepdims=True)


def divergence(theirs: Any, ours: Any) -> float:
    return float((theirs * np.log(theirs / ours)).sum())


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_labels_are_taught_by_the_divergence_of_softened_probabilities(temperature: float) -> None:
    ours, theirs = [[1.0, -1.0, 0.5], [0.0, 2.0, 1.0]], [[2.0, 0.0, -1.0], [1.0, 1.0, 1.0]]
    expected = temperature**2 * sum(
        divergence(soft(right, temperature), soft(mine, temperature))
        for right, mine in zip(theirs, ours, strict=True)
    )
    inputs = [one(row) for row in theirs]
    found = Teaching(temperature=temperature).taught_loss(
        [torch.tensor(row) for row in ours], inputs, "labels"
    )
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert num_taught(inputs, "labels") == 2


def test_places_compete_for_the_start_and_for_the_end() -> None:
    ours, theirs = [[1.0, 0.0], [0.0, 3.0], [2.0, 1.0]], [[0.0, 1.0], [4.0, 0.0], [0.0, 2.0]]
    expected = 4 * sum(
        divergence(soft(right, 2.0), soft(mine, 2.0)) / 2
        for right, mine in zip(np.array(theirs).T, np.array(ours).T, strict=True)
    )
    found = Teaching().taught_loss([torch.tensor(ours)], [one(theirs)], "places")
    assert found.item() == pytest.approx(expected, rel=1e-5)
    assert num_taught([one(theirs)], "places") == 1


def test_labels_that_stand_for_themselves_are_taught_one_by_one() -> None:
    ours, theirs = np.array([0.5, -1.0]), np.array([2.0, 0.0])

    def both(logit: float) -> Any:
        return soft([logit, 0.0], 2.0)

    expected = 4 * np.mean(
        [divergence(both(right), both(mine)) for right, mine in zip(theirs, ours, strict=True)]
    )
    found = Teaching().taught_loss([torch.tensor(ours)], [one(theirs.tolist())], "each")
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_a_number_is_taught_as_it_is() -> None:
    found = Teaching().taught_loss([torch.tensor([1.5])], [one([3.0])], "number")
    assert found.item() == pytest.approx(2.25)


@pytest.mark.parametrize("contest", ["labels", "places", "each", "number"])
def test_a_student_that_says_what_its_teacher_says_has_nothing_to_learn(contest: Contest) -> None:
    said = [[0.5, -2.0], [1.0, 3.0]]
    logits = torch.tensor(said, requires_grad=True)
    loss = Teaching().taught_loss([logits], [one(said)], contest)
    loss.backward()
    assert loss.item() == pytest.approx(0.0, abs=1e-6)
    assert logits.grad is not None
    assert logits.grad.abs().max().item() < 1e-6
