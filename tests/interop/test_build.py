from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.errors import ModelError
from glassbert.interop.build import LoadReport, tensors_for_file
from glassbert.interop.families import BERT
from glassbert.interop.folder import EncoderFolder
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from helpers.oracles import CLASSES, make_oracle, save_oracle

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}


def load(folder: Path, **options: object) -> tuple[Bert, LoadReport]:
    return EncoderFolder.open(folder).build(**options)  # type: ignore[arg-type]


def expected_output(oracle: transformers.PreTrainedModel, padded: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the oracle's answers under our names, packed."""
    visible = padded["attention_mask"].bool()
    out = oracle(**padded, output_hidden_states=True)
    answers = {"hidden": out.hidden_states[-1][visible]}
    name = type(oracle).__name__
    if name == "BertModel":
        answers["pooled"] = out.pooler_output
    if name == "BertForPreTraining":
        answers |= {"mlm": out.prediction_logits[visible], "nsp": out.seq_relationship_logits}
    if name == "BertForMaskedLM":
        answers["mlm"] = out.logits[visible]
    if name == "BertForNextSentencePrediction":
        answers["nsp"] = out.logits
    if name == "BertForSequenceClassification":
        answers["labels"] = out.logits
    if name == "BertForTokenClassification":
        answers["labels"] = out.logits[visible]
    if name == "BertForQuestionAnswering":
        answers["span"] = torch.stack([out.start_logits[visible], out.end_logits[visible]], dim=-1)
    return answers


def run(model: Bert, batch: Batch, tap: Tap | None = None) -> Output:
    return model(batch, predict_at=torch.arange(batch.layout.num_tokens), tap=tap)


@pytest.mark.parametrize("class_name", CLASSES)
@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize("is_glass", [False, True])
def test_every_head_answers_as_transformers_does(
    tmp_path: Path, padded_input: dict[str, Tensor], class_name: str, is_training: bool, is_glass: bool
) -> None:
    oracle = make_oracle(class_name)
    model, _ = load(save_oracle(oracle, tmp_path))
    oracle.train(is_training)
    model.train(is_training)
    tap = Tap(lambda _, value: value) if is_glass else None
    batch = Batch.from_padded(
        padded_input["input_ids"], padded_input["attention_mask"], padded_input["token_type_ids"]
    )
    with torch.no_grad():
        answers = expected_output(oracle, padded_input)
        got = run(model, batch, tap)
    for name, value in answers.items():
        torch.testing.assert_close(
            getattr(got, name), value, **TOLERANCE, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("class_name", CLASSES)
def test_one_sequence_alone_answers_as_in_the_padded_batch_of_transformers(
    tmp_path: Path, padded_input: dict[str, Tensor], class_name: str
) -> None:
    oracle = make_oracle(class_name)
    model, _ = load(save_oracle(oracle, tmp_path))
    with torch.no_grad():
        answers = expected_output(oracle, padded_input)["hidden"]
        got = run(model, Batch.from_lists([padded_input["input_ids"][0, :7].tolist()], [[0] * 5 + [1] * 2]))
    torch.testing.assert_close(got.hidden, answers[:7], **TOLERANCE)


@pytest.mark.parametrize("preset", ["mini", "base"])
def test_published_sizes_agree_with_transformers(tmp_path: Path, preset: str) -> None:
    shape = {"mini": (256, 4, 4, 1024), "base": (768, 12, 12, 3072)}[preset]
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    config = transformers.BertConfig(**dict(zip(names, shape, strict=True)), vocab_size=1000)
    torch.manual_seed(0)
    oracle = transformers.BertForPreTraining(config).eval()
    oracle.save_pretrained(tmp_path)
    model, _ = load(tmp_path)
    ids = torch.randint(5, 1000, (2, 64))
    mask = (torch.arange(64) < torch.tensor([64, 23])[:, None]).long()
    with torch.no_grad():
        out = oracle(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        got = run(model, Batch.from_padded(ids, mask))
    torch.testing.assert_close(got.hidden, out.hidden_states[-1][mask.bool()], **TOLERANCE)
    torch.testing.assert_close(got.mlm, out.prediction_logits[mask.bool()], **TOLERANCE)
    torch.testing.assert_close(got.nsp, out.seq_relationship_logits, **TOLERANCE)


@pytest.mark.parametrize("class_name", CLASSES)
def test_a_round_trip_changes_no_bit(tmp_path: Path, class_name: str) -> None:
    save_oracle(make_oracle(class_name), tmp_path)
    model, report = load(tmp_path)
    original, written = load_file(tmp_path / "model.safetensors"), tensors_for_file(BERT, model)
    assert written.keys() == original.keys()
    assert all(torch.equal(written[name], original[name]) for name in original)
    assert not report.new
    assert not report.unexpected


def test_half_precision_is_computed_in_single_and_reported(tmp_path: Path) -> None:
    oracle = make_oracle("BertForMaskedLM").half()
    model, report = load(save_oracle(oracle, tmp_path))
    assert report.dtype == "float16"
    assert model.encoder.embeddings.token.weight.dtype == torch.float32
    original = load_file(tmp_path / "model.safetensors")
    written = tensors_for_file(BERT, model, "float16")
    assert all(torch.equal(written[name], original[name]) for name in original)


def test_shards_are_read_like_one_file(tmp_path: Path) -> None:
    oracle = make_oracle("BertForPreTraining")
    oracle.save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 1
    oracle.save_pretrained(tmp_path / "whole")
    sharded, whole = load(tmp_path / "sharded")[0], load(tmp_path / "whole")[0]
    assert all(torch.equal(a, b) for a, b in zip(sharded.parameters(), whole.parameters(), strict=True))


def test_older_spellings_are_read(tmp_path: Path) -> None:
    oracle = make_oracle("BertForMaskedLM")
    save_oracle(oracle, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in tensors.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(40)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"].clone()
    save_file(old, tmp_path / "model.safetensors")
    model, report = load(tmp_path)
    assert not report.unexpected
    written = tensors_for_file(BERT, model)
    assert all(torch.equal(written[name], tensors[name]) for name in tensors)


def test_a_new_head_is_fresh_and_said_to_be_new(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    model, report = load(tmp_path, head="classify", labels=["no", "yes"], seed=5)
    assert report.new == (
        "classifier.bias",
        "classifier.weight",
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
    )
    assert "cls.predictions.bias" in report.unexpected
    assert model.config == replace(model.config, head="classify", labels=("no", "yes"))
    again, _ = load(tmp_path, head="classify", labels=["no", "yes"], seed=5)
    assert torch.equal(model.labels.dense.weight, again.labels.dense.weight)
    assert model.labels.dense.weight.std() > 0


def test_a_head_of_another_size_starts_fresh(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForSequenceClassification"), tmp_path)
    model, report = load(tmp_path, head="classify", labels=["no", "yes"])
    assert "classifier.weight" in report.new
    assert model.labels.dense.weight.shape == (2, 32)


def edit(folder: Path, **changes: Tensor | None) -> None:
    """Change tensors of the folder's file; None removes one. Dots are written as double underscores."""
    tensors = load_file(folder / "model.safetensors")
    for key, value in changes.items():
        name = key.replace("__", ".")
        if value is None:
            del tensors[name]
        else:
            tensors[name] = value
    save_file(tensors, folder / "model.safetensors")


def test_missing_weights_are_an_error_that_names_one(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    edit(tmp_path, cls__predictions__bias=None)
    with pytest.raises(
        ModelError, match=r"cls\.predictions\.bias is missing; the weights do not fit config.json"
    ):
        load(tmp_path)


def test_a_misspelt_weight_is_named_with_the_one_it_resembles(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertModel"), tmp_path)
    edit(tmp_path, pooler__dense__weight=None, pooler__dence__weight=torch.zeros(32, 32))
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace("{", '{"has_pooler": true,', 1))
    with pytest.raises(
        ModelError,
        match=r"bert\.pooler\.dense\.weight is missing \(the file has bert\.pooler\.dence\.weight\)",
    ):
        load(tmp_path)


def test_unexpected_weights_are_reported_with_the_nearest_name(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    edit(tmp_path, cls__predictions__biass=torch.zeros(60))
    _, report = load(tmp_path)
    assert report.unexpected == ("cls.predictions.biass",)
    assert any("nearest known name cls.predictions.bias" in line for line in report.lines())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(60, 31), r"shape \(60, 31\); config.json asks for \(60, 32\)"),
        (torch.full((60, 32), float("nan")), "holds NaN or infinity"),
        (torch.zeros(60, 32, dtype=torch.int64), "holds torch.int64; expected one of float32"),
    ],
)
def test_a_tensor_that_cannot_be_used_is_named(tmp_path: Path, value: Tensor, message: str) -> None:
    save_oracle(make_oracle("BertModel"), tmp_path)
    edit(tmp_path, embeddings__word_embeddings__weight=value)
    with pytest.raises(ModelError, match=message):
        load(tmp_path)


def test_a_decoder_that_contradicts_its_tie_is_refused(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    edit(tmp_path, cls__predictions__decoder__weight=torch.zeros(60, 32))
    with pytest.raises(
        ModelError,
        match="config.json ties cls.predictions.decoder.weight to the token embedding, but they differ",
    ):
        load(tmp_path)


def test_an_untied_decoder_is_kept_apart(tmp_path: Path, padded_input: dict[str, Tensor]) -> None:
    oracle = make_oracle("BertForMaskedLM", tie_word_embeddings=False)
    model, _ = load(save_oracle(oracle, tmp_path))
    assert isinstance(model.config, ModelConfig)
    assert not model.config.encoder.tie_word_embeddings
    batch = Batch.from_padded(
        padded_input["input_ids"], padded_input["attention_mask"], padded_input["token_type_ids"]
    )
    with torch.no_grad():
        torch.testing.assert_close(
            run(model, batch).mlm, expected_output(oracle, padded_input)["mlm"], **TOLERANCE
        )
    assert "cls.predictions.decoder.weight" in tensors_for_file(BERT, model)
