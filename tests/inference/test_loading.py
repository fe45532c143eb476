from pathlib import Path

import numpy as np
import pytest

import glassbert
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import sentence_pairs, write_arbitrary_translator, write_tsv


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_oracle(make_oracle("BertForMaskedLM"), tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_arbitrary_translator(tmp_path_factory.mktemp("translator"))


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_becomes_what_it_holds(bert: Path, translator: Path, kind: type) -> None:
    assert isinstance(load(kind(bert)), Model)
    assert isinstance(load(kind(translator)), Translator)
    assert isinstance(load(kind(bert), Model), Model)
    assert isinstance(load(kind(translator), Translator), Translator)


def test_a_model_of_the_wrong_kind_is_one_clear_line(bert: Path, translator: Path) -> None:
    with pytest.raises(ModelError, match="is a translator; use `glassbert translate "):
        load(translator, Model)
    with pytest.raises(ModelError, match="is a BERT, not a translator; train one with `glassbert train"):
        load(bert, Translator)


def test_a_model_runs_on_the_device_and_in_the_precision_asked_for(bert: Path, translator: Path) -> None:
    for folder in (bert, translator):
        plain, half = (load(folder, device="cpu", precision=name) for name in ("float32", "bfloat16"))
        assert (plain.device.type, plain.precision, half.precision) == ("cpu", "float32", "bfloat16")
        assert "device='cpu', precision='bfloat16')" in repr(half)
    exact, rough = (load(bert, Model, precision=name).embed(["a b c"]) for name in ("float32", "bfloat16"))
    assert rough.dtype == exact.dtype == np.float32
    assert not np.array_equal(exact, rough)
    np.testing.assert_allclose(exact, rough, atol=0.1)
    exact, rough = (
        load(translator, Translator, precision=name).translate(["one two"])[0].score
        for name in ("float32", "bfloat16")
    )
    assert exact != rough
    assert rough == pytest.approx(exact, abs=0.2)


def test_a_model_is_measured_by_its_own_method_too(translator: Path, tmp_path: Path) -> None:
    loaded = load(translator, Translator)
    path = write_tsv(tmp_path / "pairs.tsv", sentence_pairs(4, seed=2))
    expected = glassbert.evaluate(loaded, path)
    assert expected.examples == 4
    assert loaded.evaluate(str(path)) == expected
    rows = [{"text": "a", "label": "LABEL_0"}, {"text": "b", "label": "LABEL_1"}]
    oracle = make_oracle("BertForSequenceClassification")
    classifier = load(save_oracle(oracle, tmp_path / "classifier"), Model)
    assert classifier.evaluate(rows).metrics == glassbert.evaluate(classifier, rows).metrics
    with pytest.raises(UserError, match="task"):
        loaded.evaluate(path, task="pair")


def test_an_unknown_device_or_precision_is_refused_at_once(bert: Path) -> None:
    with pytest.raises(UserError, match="device='tpu'; expected one of auto, cpu, cuda"):
        load(bert, device="tpu")
    with pytest.raises(UserError, match="precision='int3'; expected one of float32"):
        load(bert, precision="int3")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    for kind in (Model, Translator):
        with pytest.raises(ModelError, match="nowhere"):
            load(tmp_path / "nowhere", kind)
