"""An objective that the package does not know: it is added from outside, trained, resumed and measured."""

import signal
from pathlib import Path

import pytest
import torch

import glassbert as gb
from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.packing import Moment
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.interop.convert import convert
from glassbert.interop.extend import extend_vocabulary
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.run import carry_out
from glassbert.tasks.objectives import registry
from glassbert.tasks.objectives.folders import saved_network
from glassbert.tasks.objectives.registry import OBJECTIVES, make_objective, settings_of_run
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.own_objective import Detection, Generated

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "flew", "home", "away", ".")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus on disk; the objective is known for as long as the test lasts."""
    monkeypatch.setattr(registry, "OBJECTIVES", dict(OBJECTIVES))
    gb.register_objective("detection", Detection)
    text = "".join(f"the {a} {b} {c} .\n" for a in WORDS[2:5] for b in WORDS[5:8] for c in WORDS[8:10])
    (tmp_path / "text.txt").write_text(f"{text}\n{text}" * 3)
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *WORDS)), max_length=32)
    build_corpus(tmp_path / "text.txt", tokenizer=tokenizer, out=tmp_path / "corpus")
    return tmp_path / "corpus"


def recipe(corpus: Path, **changes: object) -> PretrainRecipe:
    train = {"batch_tokens": 256, "learning_rate": 3e-3, "save_every": 4, "log_every": 5}
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    return PretrainRecipe.of(
        {
            "data": {"corpus": str(corpus), "held_out": str(corpus), "held_out_tokens": 500},
            "model": {"preset": "tiny", "max_position_embeddings": 32, **sizes},
            "objective": {"name": "detection", "max_length": 32, "last_select_prob": 0.05},
            "train": train | (changes or {"steps": 10}),
        }
    )


def files_of(run: Path) -> dict[str, bytes]:
    return {
        name: (run / name).read_bytes()
        for name in (
            "last/model.safetensors",
            "last/generator/model.safetensors",
            "last/objective.safetensors",
            "metrics.jsonl",
        )
    }


def test_a_new_objective_trains_and_resumes_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    assert carry_out(recipe(corpus), tmp_path / "straight", log=lines.append).step == 10
    stopped = carry_out(
        recipe(corpus), tmp_path / "stopped", log=lambda line: signal.raise_signal(signal.SIGTERM)
    )
    assert not stopped.is_finished
    assert carry_out(recipe(corpus), tmp_path / "stopped", log=lines.append).step == 10
    assert files_of(tmp_path / "straight") == files_of(tmp_path / "stopped")


def test_a_saved_model_is_measured_as_in_its_run(corpus: Path, tmp_path: Path) -> None:
    result = carry_out(recipe(corpus), tmp_path / "run", log=lambda line: None)
    assert set(result.metrics) == {"rtd_loss", "rtd_accuracy", "mlm_loss", "mlm_accuracy"}
    model = load(tmp_path / "run" / "last")
    settings = settings_of_run(model.run, model.config)
    assert settings == recipe(corpus).objective
    objective = make_objective(settings, model.tokenizer.vocabulary)
    network = saved_network(objective, model.network, model.folder)
    batches = objective.held_out_batches(Corpus.open(corpus), 500, batch_tokens=256)
    with torch.no_grad():
        assert objective.measure(network, batches) == result.metrics
    assert isinstance(load(tmp_path / "run" / "last" / "generator"), Model)
    with pytest.raises(ModelError, match="detection has weights beside those of the model"):
        saved_network(objective, model.network, None)


@pytest.mark.parametrize("way", ["save", "convert", "extend"])
def test_what_an_objective_adds_goes_with_its_model(corpus: Path, tmp_path: Path, way: str) -> None:
    carry_out(recipe(corpus, steps=1), tmp_path / "run", log=lambda line: None)
    source, out = tmp_path / "run" / "last", tmp_path / "out"
    if way == "save":
        model = load(source)
        source = source.rename(tmp_path / "moved")  # a loaded model does not need it
        model.save(out)
    elif way == "convert":
        convert(source, out)
    else:
        extend_vocabulary(source, ["newest"], out)
    assert (out / "objective.safetensors").read_bytes() == (source / "objective.safetensors").read_bytes()
    generator = load(out / "generator")
    expected = load(source / "generator").network.encoder.embeddings.token.weight
    assert torch.equal(generator.network.encoder.embeddings.token.weight[: len(expected)], expected)
    model = load(out)
    assert model.config.encoder.vocab_size == generator.config.encoder.vocab_size
    settings = settings_of_run(model.run, model.config)
    saved_network(make_objective(settings, model.tokenizer.vocabulary), model.network, out)


def test_the_mask_rate_falls_with_the_step_and_needs_a_known_end(corpus: Path, tmp_path: Path) -> None:
    objective = make_objective(recipe(corpus).objective, Corpus.open(corpus).tokenizer().vocabulary)
    part = objective.parts[1]
    assert isinstance(part, Generated)
    rates = [part.masking(Moment(0, 0, step, 10)).select_prob for step in (0, 5, 10)]
    assert rates == pytest.approx([0.15, 0.1, 0.05])
    with pytest.raises(UserError, match=r"set train\.steps or train\.epochs instead of train\.minutes"):
        carry_out(recipe(corpus, minutes=1.0), tmp_path / "run", log=lambda line: None)


def test_its_own_settings_are_read_and_those_of_others_refused(corpus: Path) -> None:
    assert recipe(corpus).tables()["objective"]["last_select_prob"] == 0.05
    tables = {"data": {"corpus": str(corpus)}, "objective": {"name": "mlm", "last_select_prob": 0.05}}
    with pytest.raises(UserError, match=r"unknown key objective\.last_select_prob"):
        PretrainRecipe.of(tables)
