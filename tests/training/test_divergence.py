"""A run whose numbers are no longer usable fails and says so; it never ends as if all were well."""

import math
from pathlib import Path
from unittest.mock import patch

import pytest

from glassbert.errors import RunFailed
from glassbert.tasks.fine_tuning import FineTune
from helpers.small_finetune import run, write_inputs


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_on_held_out_data_that_is_no_number_fails_the_run(
    given: Path, tmp_path: Path, loss: float
) -> None:
    with (
        patch.object(FineTune, "evaluate", lambda self: {"loss": loss, "accuracy": 0.5}),
        pytest.raises(RunFailed, match=r"step \d+: loss on held-out data is (nan|inf); the run has diverged"),
    ):
        run(given, tmp_path / "out")


def test_weights_that_grow_without_bound_fail_the_run_before_they_are_saved(
    given: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        patch("glassbert.training.state._LARGEST_WEIGHT", 1e-3),
        pytest.raises(RunFailed, match=r"step 3: .* has grown to .*; the run has diverged: lower train"),
    ):
        run(given, out)
    assert not list(out.glob("**/*.safetensors"))


def test_a_run_that_fails_before_its_first_line_leaves_no_folder(given: Path, tmp_path: Path) -> None:
    failing = RunFailed("the gradient is not finite")
    with (
        patch("glassbert.training.state.train_step", side_effect=failing),
        pytest.raises(RunFailed, match="not finite"),
    ):
        run(given, tmp_path / "out")
    assert not (tmp_path / "out").exists()
