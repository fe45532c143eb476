import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from glassbert.config import PRESETS, BertConfig, Head, ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.accounting import Accounting, Group, params
from glassbert.interop.bert_config import write_bert_config
from glassbert.model.bert import Bert
from helpers.oracles import CLASSES, make_oracle

GOLDEN = Path(__file__).parent.parent / "golden"
POOLER, MLM, NSP = 1_049_600, 1_072_776, 2_050  # of bert-large-zh


def group(accounting: Accounting, name: str) -> Group:
    return next(group for group in (*accounting.groups, *accounting.uncounted) if group.name == name)


def count(accounting: Accounting, group_name: str, row_name: str) -> int:
    return next(row.count for row in group(accounting, group_name).rows if row.name == row_name)


@pytest.fixture(scope="module")
def large() -> Accounting:
    return params("bert-large-zh")


def test_embeddings_of_large_chinese_bert_are_as_published(large: Accounting) -> None:
    rows = {row.name: row.count for row in group(large, "embeddings").rows}
    assert rows == {"token": 21_635_072, "segment": 2_048, "position": 524_288, "norm": 2_048}
    assert group(large, "embeddings").count == 22_163_456


@pytest.mark.parametrize("index", [0, 11, 23])
def test_every_block_of_large_chinese_bert_is_as_published(large: Accounting, index: int) -> None:
    block = f"block {index}"
    projections = ("query", "key", "value", "output")
    assert sum(count(large, block, f"attention.{name}") for name in projections) == 4_198_400
    assert count(large, block, "attention_norm") == 2_048
    assert count(large, block, "mlp.inner") == 4_198_400
    assert count(large, block, "mlp.outer") == 4_195_328
    assert count(large, block, "mlp_norm") == 2_048
    subtotals = {"attention": 4_198_400, "LayerNorm": 2 * 2_048, "feed-forward": 8_393_728}
    assert group(large, block).subtotals == subtotals
    assert group(large, block).count == 12_596_224


def test_large_chinese_bert_adds_up_to_the_published_total_and_says_what_is_in_it(large: Accounting) -> None:
    assert len(large.blocks) == 24
    assert sum(block.count for block in large.blocks) == 302_309_376
    assert large.total == sum(group.count for group in large.groups) == 324_472_832
    assert large.includes == ("embeddings", "encoder")
    assert {group.name: group.count for group in large.uncounted} == {
        "pooler": POOLER,
        "mlm": MLM,
        "nsp": NSP,
    }
    assert "does not count: pooler (1,049,600), mlm (1,072,776), nsp (2,050)" in large.notes[0]


def test_each_published_way_to_count_has_its_total(large: Accounting) -> None:
    assert large.totals == {
        "encoder": 324_472_832,
        "with pooler": 324_472_832 + POOLER,
        "with pooler, MLM and NSP heads": 324_472_832 + POOLER + MLM + NSP,
    }
    assert params("bert-base").totals["with pooler"] == 109_482_240
    assert params("bert-large").totals["with pooler"] == 335_141_888


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_may_be_named_without_its_prefix(name: str) -> None:
    assert params(name.removeprefix("bert-")).groups == params(name).groups


def test_a_row_shows_how_its_count_comes_about(large: Accounting) -> None:
    inner = next(row for row in group(large, "block 0").rows if row.name == "mlp.inner")
    assert (inner.symbols, inner.formula) == ("D x I + I", "1024 x 4096 + 4096")
    assert inner.shape == "4096 x 1024, 4096"
    assert inner.bytes == 4 * 4_198_400
    assert inner.share == 4_198_400 / 324_472_832


def test_formulas_evaluate_to_counts_and_shares_add_up_to_one(large: Accounting) -> None:
    rows = [row for group in large.groups for row in group.rows]
    for row in rows:
        assert eval(row.formula.replace("x", "*")) == row.count
        assert eval(row.symbols.replace("x", "*"), dict(large.symbols)) == row.count
    assert math.isclose(sum(row.share for row in rows), 1)


def test_notes_say_what_gamma_multiplies_in_both_languages(large: Accounting) -> None:
    english, chinese = large.notes, params("bert-large-zh", language="zh").notes
    assert len(english) == len(chinese)
    assert any("feature j is multiplied by gamma[j]" in note and "2,048 numbers" in note for note in english)
    assert any("第 j 个特征乘以 gamma[j]" in note and "2,048 个数" in note for note in chinese)


@st.composite
def model_configs(draw: st.DrawFn) -> ModelConfig:
    heads, half_head = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    encoder = BertConfig(
        vocab_size=draw(st.integers(1, 90)),
        hidden_size=heads * half_head * 2,
        num_hidden_layers=draw(st.integers(1, 4)),
        num_attention_heads=heads,
        intermediate_size=draw(st.integers(1, 70)),
        max_position_embeddings=draw(st.integers(1, 40)),
        type_vocab_size=draw(st.integers(1, 3)),
        tie_word_embeddings=draw(st.booleans()),
        norm_position=draw(st.sampled_from(["post", "pre"])),
        positions=draw(st.sampled_from(["learned", "sinusoidal", "rotary"])),
        gated_mlp=draw(st.booleans()),
        use_bias=draw(st.booleans()),
    )
    heads_without_pooler: list[Head] = ["none", "mlm", "tag", "answer"]
    has_pooler = draw(st.booleans())
    heads_with_pooler: list[Head] = [*heads_without_pooler, "pretraining", "nsp", "classify"]
    head = draw(st.sampled_from(heads_with_pooler if has_pooler else heads_without_pooler))
    labels = tuple("abcde"[: draw(st.integers(1, 5))]) if head in ("classify", "tag") else ()
    return ModelConfig(encoder=encoder, head=head, has_pooler=has_pooler, labels=labels)


@settings(max_examples=100, deadline=None)
@given(config=model_configs())
def test_the_table_is_the_network(config: ModelConfig, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("config") / "config.json"
    # Only a bare encoder's config.json names its pooler; otherwise the head decides.
    needs_pooler = config.head in ("pretraining", "nsp", "classify")
    config = replace(config, has_pooler=config.has_pooler if config.head == "none" else needs_pooler)
    path.write_text(json.dumps(write_bert_config(config, "float32")), encoding="utf-8")
    with torch.device("meta"):
        network = Bert(config)
    accounting = params(path)
    tensors = {
        name: shape for group in accounting.groups for row in group.rows for name, shape in row.tensors
    }
    assert tensors == {name: tuple(parameter.shape) for name, parameter in network.named_parameters()}
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())


def test_a_config_that_names_no_architecture_is_counted_as_a_preset_is(
    tmp_path: Path, large: Accounting
) -> None:
    path = tmp_path / "config.json"
    shape = {"vocab_size": 21128, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    path.write_text(json.dumps(shape | {"intermediate_size": 4096}), encoding="utf-8")
    accounting = params(str(path))
    assert accounting.groups == large.groups
    assert accounting.includes == ("embeddings", "encoder")


@pytest.mark.parametrize("class_name", CLASSES)
def test_a_folder_of_transformers_is_verified_against_its_weights(tmp_path: Path, class_name: str) -> None:
    oracle = make_oracle(class_name)
    oracle.save_pretrained(tmp_path)
    accounting = params(tmp_path)
    assert accounting.total == oracle.num_parameters()
    # The file keeps a tied decoder once, so its numbers are the total.
    stored = load_file(tmp_path / "model.safetensors")
    assert sum(tensor.numel() for tensor in stored.values()) == accounting.total
    assert f"its {len(stored)} tensors" in accounting.notes[1]


def test_a_folder_of_googles_is_verified_against_its_checkpoint() -> None:
    accounting = params(GOLDEN / "tf1" / "tiny")
    assert accounting.includes == ("embeddings", "encoder", "pooler", "mlm", "nsp")
    assert accounting.total == accounting.totals["with pooler, MLM and NSP heads"]
    assert any("optimiser variables skipped" in note for note in accounting.notes)


Tensors = dict[str, torch.Tensor]


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def save_changed(class_name: str, change: Callable[[Tensors], None], **config: object) -> Path:
        """Write a model whose tensors, or config, were changed after the fact."""
        make_oracle(class_name).save_pretrained(tmp_path)
        tensors = load_file(tmp_path / "model.safetensors")
        change(tensors)
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
        data = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
        (tmp_path / "config.json").write_text(json.dumps(data | config), encoding="utf-8")
        return tmp_path

    return save_changed


def test_what_is_stored_twice_or_is_no_weight_is_reported_and_counted_once(save: Callable[..., Path]) -> None:
    def change(tensors: Tensors) -> None:
        words = tensors["bert.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = words.clone()
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
        tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]

    accounting = params(save("BertForPreTraining", change))
    assert accounting.total == accounting.totals["with pooler, MLM and NSP heads"]
    twice = next(note for note in accounting.notes if note.startswith("Stored twice"))
    assert "cls.predictions.decoder.weight" in twice
    assert "cls.predictions.decoder.bias" in twice or "cls.predictions.bias" in twice
    assert any("not weights, not counted: bert.embeddings.position_ids" in note for note in accounting.notes)


def test_what_a_file_holds_beyond_its_architecture_is_counted_and_reported(save: Callable[..., Path]) -> None:
    folder = save("BertForPreTraining", lambda tensors: None, architectures=["BertForMaskedLM"])
    accounting = params(folder)
    assert accounting.includes == ("embeddings", "encoder", "pooler", "mlm", "nsp")
    assert any("does not use; it is counted: pooler, nsp" in note for note in accounting.notes)


def test_an_untied_decoder_is_counted(save: Callable[..., Path]) -> None:
    tied = params("bert-tiny")

    def untie(tensors: Tensors) -> None:
        tensors["cls.predictions.decoder.weight"] = torch.zeros(60, 32)

    accounting = params(save("BertForMaskedLM", untie, tie_word_embeddings=False))
    assert count(accounting, "mlm", "decoder") == 60 * 32 + 60
    assert count(tied, "mlm", "decoder (tied)") == 30522
    assert any("counted once" in note for note in tied.notes)
    assert not any("counted once" in note for note in accounting.notes)


def drop(name: str) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__delitem__(name)


def add(name: str, *shape: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({name: torch.zeros(shape)})


@pytest.mark.parametrize(
    ("change", "config", "message"),
    [
        (
            add("bert.pooler.dense.bias", 31),
            {},
            r"bert\.pooler\.dense\.bias has shape \(31,\); expected \(32,\)",
        ),
        (add("bert.adapter.weight", 3), {}, r"bert\.adapter\.weight \(3,\) is not a tensor of a BERT"),
        (
            drop("bert.pooler.dense.bias"),
            {},
            r"asks for bert\.pooler\.dense\.bias \(32,\), which the file lacks",
        ),
        (add("cls.predictions.decoder.weight", 59, 32), {}, r"decoder\.weight has shape \(59, 32\)"),
        (lambda _: None, {"intermediate_size": 50}, r"intermediate\.dense\.weight has shape \(48, 32\)"),
        (lambda _: None, {"num_hidden_layers": 2}, r"holds bert\.encoder\.layer\.2\S+ .*no place for"),
        (lambda _: None, {"num_hidden_layers": 4}, r"asks for bert\.encoder\.layer\.3\S+ .*lacks"),
        (lambda _: None, {"use_bias": False}, r"holds bert\.encoder\.layer\.0\S+\.bias .*no place for"),
        (lambda _: None, {"vocab_size": 61}, r"word_embeddings\.weight has shape \(60, 32\)"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_the_tensors_name(
    save: Callable[..., Path], change: Callable[[Tensors], None], config: dict[str, object], message: str
) -> None:
    folder = save("BertForPreTraining", change, **config)
    with pytest.raises(ModelError, match=message) as caught:
        params(folder)
    assert "\n" not in str(caught.value)


def test_a_path_that_exists_wins_over_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_oracle("BertModel").save_pretrained(tmp_path / "base")
    monkeypatch.chdir(tmp_path)
    assert params("base").total != params("bert-base").total


@pytest.mark.parametrize("source", ["nowhere/model", "nowhere/", "nowhere.json", Path("nowhere")])
def test_a_missing_path_is_not_taken_for_a_preset(source: str | Path) -> None:
    with pytest.raises(ModelError, match="no file or folder"):
        params(source)


def test_an_unknown_preset_is_answered_with_those_there_are() -> None:
    with pytest.raises(UserError, match="'huge'.*bert-tiny, .*bert-large-zh") as caught:
        params("huge")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]"])
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="JSON"):
        params(path)
