import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from glassbert.config import TRANSLATOR_PRESETS, BertConfig, LstmConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.accounting import Accounting, Group, params
from glassbert.interop.folder import TranslatorFolder, TranslatorNetwork, write_network
from glassbert.interop.marian_config import write_marian_config
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from helpers.small_translators import KINDS, small_network, small_transformer


def group(accounting: Accounting, name: str) -> Group:
    return next(group for group in accounting.groups if group.name == name)


def tensors_of(accounting: Accounting) -> dict[str, tuple[int, ...]]:
    return {name: shape for group in accounting.groups for row in group.rows for name, shape in row.tensors}


def shapes_of(network: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}


def test_the_published_transformer_is_counted_as_by_hand(tmp_path: Path) -> None:
    width, inner, vocabulary = 512, 2048, 37_000  # the pieces of the paper's English and German
    attention, norm = 4 * (width * width + width), 2 * width
    feed_forward = width * inner + inner + inner * width + width
    config = TransformerConfig(encoder=replace(TransformerConfig().encoder, vocab_size=vocabulary))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(write_marian_config(config, "float32")), encoding="utf-8")
    accounting = params(path)
    for index in range(6):
        encoder = group(accounting, f"encoder block {index}")
        assert encoder.count == attention + feed_forward + 2 * norm == 3_152_384
        decoder = group(accounting, f"decoder block {index}")
        assert decoder.count == 2 * attention + feed_forward + 3 * norm == 4_204_032
        parts = {"attention": attention, "cross": attention, "feed-forward": feed_forward}
        assert decoder.subtotals == {**parts, "LayerNorm": 3 * norm}
    assert len(accounting.blocks) == 12
    assert group(accounting, "embeddings").count == vocabulary * width == 18_944_000
    assert group(accounting, "output").count == vocabulary
    assert accounting.total == sum(group.count for group in accounting.groups) == 63_119_496
    assert accounting.includes == ("embeddings", "encoder", "decoder", "output")


def test_a_recurrent_translator_is_counted_as_by_hand() -> None:
    width, half = 256, 128
    accounting = params("lstm-small")
    direction = 4 * half * width + 4 * half * half + 2 * 4 * half
    assert group(accounting, "encoder layer 1").count == 2 * direction == 395_264
    assert group(accounting, "decoder layer 1").count == 2 * (4 * width * width + 4 * width) == 526_336
    assert group(accounting, "attention").count == 4 * (width * width + width)
    assert accounting.total == 8000 * width + 2 * (395_264 + 526_336) + 263_168 + 2 * width + 8000
    without = params("lstm-small-without-attention")
    assert without.total == accounting.total - 263_168
    assert without.includes == ("embeddings", "encoder", "decoder", "norm", "output")


@pytest.mark.parametrize("name", TRANSLATOR_PRESETS)
def test_a_preset_counts_what_its_network_has(name: str) -> None:
    config = TRANSLATOR_PRESETS[name]
    with torch.device("meta"):
        network = Lstm(config) if isinstance(config, LstmConfig) else Transformer(config)
    accounting = params(name)
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())
    assert tensors_of(accounting) == shapes_of(network)
    rows = [row for group in accounting.groups for row in group.rows]
    for row in rows:
        assert eval(row.formula.replace("x", "*")) == row.count
        assert eval(row.symbols.replace("x", "*"), dict(accounting.symbols)) == row.count
    assert math.isclose(sum(row.share for row in rows), 1)


@st.composite
def transformers(draw: st.DrawFn) -> TransformerConfig:
    heads, half_head = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    encoder = BertConfig(
        vocab_size=draw(st.integers(2, 60)),
        hidden_size=heads * half_head * 2,
        num_hidden_layers=draw(st.integers(1, 3)),
        num_attention_heads=heads,
        intermediate_size=draw(st.integers(1, 50)),
        max_position_embeddings=draw(st.integers(1, 40)),
        type_vocab_size=1,
        tie_word_embeddings=draw(st.booleans()),
        norm_position=draw(st.sampled_from(["post", "pre"])),
        positions=draw(st.sampled_from(["learned", "sinusoidal", "rotary"])),
        gated_mlp=draw(st.booleans()),
        use_bias=draw(st.booleans()),
    )
    return TransformerConfig(encoder=encoder, num_decoder_layers=draw(st.integers(1, 3)))


lstms = st.builds(
    lambda half, **sizes: LstmConfig(hidden_size=2 * half, **sizes),
    half=st.integers(1, 12),
    vocab_size=st.integers(2, 60),
    num_hidden_layers=st.integers(1, 3),
    has_attention=st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(config=st.one_of(transformers(), lstms))
def test_the_table_is_the_network(
    config: TransformerConfig | LstmConfig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("config") / "config.json"
    kind = "Lstm" if isinstance(config, LstmConfig) else "Transformer"
    path.write_text(json.dumps({"architectures": [kind], **asdict(config)}), encoding="utf-8")
    with torch.device("meta"):
        network = Lstm(config) if isinstance(config, LstmConfig) else Transformer(config)
    accounting = params(path)
    assert tensors_of(accounting) == shapes_of(network)
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_verified_against_its_weights(kind: str, tmp_path: Path) -> None:
    network = small_network(kind)
    write_network(network, tmp_path)
    accounting = params(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    assert accounting.total == sum(tensor.numel() for tensor in stored.values())
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())
    assert f"Verified against the file: its {len(stored)} tensors" in accounting.notes[1]
    assert accounting.groups == params(tmp_path / "config.json").groups


def test_a_run_folder_means_its_best_model(tmp_path: Path) -> None:
    (tmp_path / "run" / "best").mkdir(parents=True)
    write_network(small_transformer(), tmp_path / "run" / "best")
    assert params(tmp_path / "run").source == str(tmp_path / "run" / "best")


Tensors = dict[str, torch.Tensor]


def changed(
    folder: Path, network: TranslatorNetwork, change: Callable[[Tensors], None], **config: Any
) -> Path:
    """Write a model whose tensors, or config, were changed after the fact."""
    write_network(network, folder)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    data = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(data | config), encoding="utf-8")
    return folder


def test_what_older_files_of_marian_hold_besides_is_reported_and_counted_once(tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        tensors["lm_head.weight"] = tensors["model.shared.weight"].clone()
        tensors["model.decoder.embed_tokens.weight"] = tensors["model.shared.weight"].clone()
        tensors["model.encoder.embed_positions.weight"] = torch.zeros(48, 16)

    network = small_transformer()
    folder = changed(tmp_path, network, change)
    TranslatorFolder.open(folder).build()  # such a file is read
    accounting = params(folder)
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())
    twice = next(note for note in accounting.notes if note.startswith("Stored twice"))
    assert twice.count(",") == 2
    assert "model.decoder.embed_tokens.weight" in twice
    note_of_buffers = "not weights, not counted: model.encoder.embed_positions.weight"
    assert any(note_of_buffers in note for note in accounting.notes)


def drop(name: str) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__delitem__(name)


def add(name: str, *shape: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: torch.zeros(shape)})


@pytest.mark.parametrize(
    ("kind", "change", "config", "message"),
    [
        (
            "post",
            add("model.adapter.weight", 3),
            {},
            r"model\.adapter\.weight \(3,\) is not a tensor of a Marian translator",
        ),
        ("post", drop("model.shared.weight"), {}, r"asks for model\.shared\.weight \(20, 16\), which the fi"),
        ("post", add("lm_head.weight", 19, 16), {}, r"weight has shape \(\d\d, 16\); expected \(\d\d, 16\)"),
        ("post", add("final_logits_bias", 1, 19), {}, r"final_logits_bias has shape \(19,\); expected \(20,"),
        (
            "post",
            add("final_logits_bias", 2, 20),
            {},
            r"final_logits_bias has shape \(2, 20\); expected \(20",
        ),
        (
            "post",
            lambda _: None,
            {"decoder_layers": 1},
            r"holds model\.decoder\.layers\.1\S+ .*no place for",
        ),
        ("post", lambda _: None, {"encoder_layers": 3}, r"asks for model\.encoder\.layers\.2\S+ .*lacks"),
        ("pre", drop("decoder.final_norm.bias"), {}, r"asks for decoder\.final_norm\.bias \(16,\), which"),
        ("lstm", add("other", 3), {}, r"the file holds other \(3,\), which config\.json has no place for"),
        ("lstm", lambda _: None, {"has_attention": False}, r"holds attention\.\S+ .*no place for"),
        ("lstm", lambda _: None, {"hidden_size": 18}, r"\S+ has shape \(.*16\S*\); expected"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_tensors_name(
    tmp_path: Path, kind: str, change: Callable[[Tensors], None], config: dict[str, object], message: str
) -> None:
    folder = changed(tmp_path, small_network(kind), change, **config)
    with pytest.raises(ModelError, match=message) as caught:
        params(folder)
    assert "\n" not in str(caught.value)


def test_notes_say_what_is_shared_and_what_is_not_given_in_both_languages() -> None:
    for name in ("transformer-tiny", "lstm-small"):
        english, chinese = params(name).notes, params(name, language="zh").notes
        assert len(english) == len(chinese)
        assert any("one token embedding, which is counted once" in note for note in english)
        assert any("共用一个词表" in note for note in chinese)
        assert any("8,000 pieces" in note for note in english), "the vocabulary of a preset is a guess"
        assert english[-1].startswith("Operations and activation memory are not given for translators")
    assert any("Positions are computed" in note for note in params("transformer-tiny").notes)
    assert any("four gates" in note for note in params("lstm-small").notes)


def test_a_folder_names_its_own_vocabulary_not_that_of_presets(tmp_path: Path) -> None:
    write_network(small_transformer(), tmp_path)
    assert not any("preset" in note for note in params(tmp_path).notes)
    untied = tmp_path / "untied"
    untied.mkdir()
    write_network(small_transformer(tie_word_embeddings=False), untied)
    assert group(params(untied), "output").count == 20 * 16 + 20
    assert not any("of its own the output" in note for note in params(untied).notes)


def test_costs_of_a_translator_are_refused_not_guessed() -> None:
    accounting = params("transformer-tiny")
    assert accounting.usual_lengths == ()
    assert accounting.totals == {}
    with pytest.raises(UserError, match="length=128, but costs of translators are not computed"):
        accounting.cost(128)
    assert params("bert-tiny").usual_lengths == (128, 512)


def test_a_path_that_exists_wins_over_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lstm-small").mkdir()
    write_network(small_transformer(), tmp_path / "lstm-small")
    total = params("lstm-small").total
    monkeypatch.chdir(tmp_path)
    assert params("lstm-small").total != total
    shutil.rmtree(tmp_path / "lstm-small")
    assert params("lstm-small").total == total
