from dataclasses import asdict, replace
from typing import Any

import pytest

import glassbert as gb
from glassbert.config import BertConfig, Head, ModelConfig, preset
from glassbert.data.pretraining.masking import Masking
from glassbert.errors import ModelError, UserError
from glassbert.interop.folder import EncoderFolder
from glassbert.tasks.objectives import registry
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import OBJECTIVES, objective_type, settings_of_run
from glassbert.typed import settings_from

SHAPE: BertConfig = preset("tiny")


def config(head: Head) -> ModelConfig:
    return ModelConfig(encoder=SHAPE, head=head)


def run(**objective: Any) -> dict[str, Any]:
    return {"glassbert": "0.1.0", "recipe": {"objective": objective, "train": {"steps": 7}}}


@pytest.mark.parametrize(
    ("name", "head", "has_pooler"),
    [("mlm", "mlm", False), ("mlm+nsp", "pretraining", True), ("sop", "pretraining", True)],
)
def test_the_model_has_the_heads_that_the_objective_needs(name: str, head: str, has_pooler: bool) -> None:
    made = OBJECTIVES[name].model_config(SHAPE)
    assert (made.encoder, made.head, made.has_pooler) == (SHAPE, head, has_pooler)


@pytest.mark.parametrize("name", ["rtd", "mae"])
def test_a_setting_of_the_mask_leaves_the_others_as_the_objective_has_them(name: str) -> None:
    kind = objective_type(name).settings_type
    settings = settings_from(kind, {"name": name, "mask": {"select_prob": 0.25}}, "objective")
    assert settings.mask == replace(kind(name=name).mask, select_prob=0.25)
    assert settings.mask.mask_prob == 1.0


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"objective\.name='nsp'; expected one of mlm, mlm\+nsp, sop"):
        objective_type("nsp")


def test_a_saved_model_is_what_its_run_says_whatever_its_heads() -> None:
    settings = ObjectiveSettings(
        name="sop", max_length=64, short_prob=0.3, mask=Masking(whole_words=True, select_prob=0.2)
    )
    assert settings_of_run(run(**asdict(settings)), config("pretraining")) == settings


def test_a_run_of_an_older_version_has_the_defaults_of_what_it_does_not_say() -> None:
    found = settings_of_run(run(name="sop", max_length=64, mask={"mask_prob": 0.9}), config("pretraining"))
    assert found == ObjectiveSettings(name="sop", max_length=64, mask=Masking(mask_prob=0.9))


def test_the_default_model_is_measured_with_the_objective_of_its_run() -> None:
    of_run = EncoderFolder.open("demo").run
    found = settings_of_run(of_run, config("pretraining"))
    told = of_run["recipe"]["objective"]
    assert (found.name, found.max_length) == (told["name"], told["max_length"])
    assert found.mask.select_prob == told["mask"]["select_prob"]


@pytest.mark.parametrize("content", [{}, {"recipe": {"task": {}}}])
@pytest.mark.parametrize(("head", "name"), [("mlm", "mlm"), ("pretraining", "mlm+nsp"), ("none", "mlm+nsp")])
def test_where_no_run_tells_the_heads_decide(content: dict[str, Any], head: Head, name: str) -> None:
    assert settings_of_run(content, config(head)).name == name


def test_a_run_of_a_newer_version_is_not_misread() -> None:
    with pytest.raises(ModelError, match=r"unknown key objective\.mask\.spans; .* newer glassbert\?"):
        settings_of_run(run(name="mlm", mask={"spans": 3}), config("mlm"))
    with pytest.raises(UserError, match=r"objective\.name='electra'; expected one of"):
        settings_of_run(run(name="electra"), config("mlm"))


@pytest.mark.parametrize(
    "objective",
    [
        {},
        {"name": 5},
        {"name": "mlm", "mask": 5},
        {"name": "mlm", "max_length": "x"},
        {"name": "mlm", "mask": {"mask_prob": 9}},
    ],
)
def test_a_damaged_run_is_an_error_of_the_model(objective: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"run\.json: objective\."):
        settings_of_run(run(**objective), config("mlm"))


def test_an_objective_of_ones_own_gets_a_name_that_no_other_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "OBJECTIVES", dict(OBJECTIVES))
    gb.register_objective("mine", OBJECTIVES["mlm"])
    assert objective_type("mine") is OBJECTIVES["mlm"]
    with pytest.raises(gb.UserError, match="there is an objective 'mine' already"):
        gb.register_objective("mine", OBJECTIVES["sop"])
