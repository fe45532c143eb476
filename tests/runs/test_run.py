import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

from glassbert.errors import UserError
from glassbert.messages import Log
from glassbert.runs.folder import RECIPE
from glassbert.runs.recipe import Tables, write_recipe
from glassbert.runs.run import RunResult, Session, carry_out, only_training
from glassbert.storage import locked, read_json
from glassbert.training.settings import TrainSettings
from helpers.small_finetune import run, write_inputs

KEYS = ["out", "model", "step", "is_finished", "metrics", "best_by", "best", "best_step", "runs", "report"]


@dataclass
class Preparation:
    """A run that trains nothing and notes what the folder is like while it works."""

    settings: TrainSettings = field(default_factory=TrainSettings)
    data: dict[str, Any] = field(default_factory=lambda: {"text": {"sha256": "a"}})
    sessions: list[Session] = field(default_factory=list)
    was_locked: bool = False

    def carry_out(self, session: Session) -> RunResult:
        self.sessions.append(session)
        assert (session.out / RECIPE).is_file()
        try:
            with locked(session.out, "another run"):
                self.was_locked = False
        except UserError:
            self.was_locked = True
        return RunResult(out=session.out, model=session.out / "last", step=1, is_finished=True)


@dataclass
class Plan:
    """A recipe with one setting."""

    steps: int = 5
    preparation: Preparation = field(default_factory=Preparation)

    def tables(self) -> Tables:
        return {"train": {"steps": self.steps}}

    def completed(self, before: Tables) -> Tables:
        return before

    def reads(self) -> list[Path]:
        return []

    def prepare(self, out: Path, log: Log) -> Preparation:
        if self.steps < 1:
            raise UserError("nothing to do")
        return self.preparation


def say_nothing(line: str) -> None:
    pass


def test_a_run_works_in_a_folder_that_is_claimed_and_locked(tmp_path: Path) -> None:
    plan = Plan()
    carry_out(plan, tmp_path / "run", log=say_nothing)
    [session] = plan.preparation.sessions
    assert plan.preparation.was_locked
    assert session.about == {"recipe": plan.tables(), "data": plan.preparation.data, "seed": 0}
    assert read_json(tmp_path / "run" / "data.json") == plan.preparation.data
    carry_out(plan, tmp_path / "run", log=say_nothing)
    with pytest.raises(UserError, match=r"another train\.steps \(5, now 6\)"):
        carry_out(Plan(steps=6), tmp_path / "run", log=say_nothing)


@pytest.mark.parametrize("plan", [Plan(steps=0), Plan(preparation=Preparation(TrainSettings(device="cuda")))])
def test_a_recipe_that_cannot_be_carried_out_leaves_no_folder_behind(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="nothing to do|torch sees no GPU"):
        carry_out(plan, tmp_path / "run", log=say_nothing)
    assert not (tmp_path / "run").exists()


def test_only_the_main_process_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    plan, lines = Plan(), list[str]()
    carry_out(plan, tmp_path / "run", log=lines.append)
    plan.preparation.sessions[0].log("a line")
    assert not lines


def test_a_result_is_one_form_of_json_and_shows_what_matters(tmp_path: Path) -> None:
    result = RunResult(
        out=tmp_path, model=tmp_path / "best", step=3, is_finished=True, metrics={"f1": 0.5}, best_by="f1"
    )
    assert list(result.to_json()) == KEYS
    assert result.to_json()["model"] == str(tmp_path / "best")
    assert result.to_json()["report"] is None
    assert "f1" in repr(result)
    assert "evaluation" not in repr(result)


def test_a_run_that_was_started_with_the_keys_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    given, out = write_inputs(tmp_path), tmp_path / "out"
    short = {"train": {"epochs": None, "steps": 1}}
    first = run(given, out, **short)
    recipe = tomllib.loads((out / RECIPE).read_text())
    model = recipe["model"]
    recipe["model"] = {"folder": model["start"], "attention_dropout": model["attention_probs_dropout_prob"]}
    (out / RECIPE).write_text(write_recipe(recipe))
    assert run(given, out, **short).metrics == first.metrics
    assert tomllib.loads((out / RECIPE).read_text())["model"] == model
    (out / RECIPE).write_text(write_recipe(recipe))
    with pytest.raises(UserError, match=r"another model\.hidden_dropout_prob \(None, now 0\.5\)"):
        run(given, out, model={"hidden_dropout_prob": 0.5}, **short)


def test_a_second_thread_may_not_train_and_a_run_within_a_run_may() -> None:
    refused: list[str] = []

    def train() -> None:
        try:
            with only_training():
                pass
        except UserError as error:
            refused.append(str(error))

    with only_training(), only_training():
        thread = Thread(target=train)
        thread.start()
        thread.join()
    train()
    assert len(refused) == 1
    assert "another thread of this process is training" in refused[0]


def test_a_run_neither_takes_nor_uses_random_numbers_of_its_caller(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    weights = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        result = run(tmp_path, tmp_path / f"run-{seed}", train={"steps": 2, "epochs": None})
        assert torch.equal(torch.get_rng_state(), before)
        weights.append((result.model / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
