import random
import shutil
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassbert.config import ModelConfig, preset
from glassbert.errors import ModelError, UserError
from glassbert.inference.decode import Decoder, DecodeSettings
from glassbert.inference.engine import Engine
from glassbert.inference.linear import int8
from glassbert.inference.linear.int8 import Int8Embedding, Int8Linear
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.prepare import choose_precision, prepared
from glassbert.inference.translator import Translator
from glassbert.interop.convert import convert
from glassbert.interop.folder import write_model
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.linear import Linear
from helpers.oracles import small_tokenizer
from helpers.sentence_pairs import small_tokenizer as small_pieces
from helpers.small_translators import VOCAB_SIZE, small_lstm, small_network

CPU = torch.device("cpu")
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "odd widths": {"hidden_size": 36, "intermediate_size": 56, "num_attention_heads": 3},
    "pre-norm, rotary, gated": {"norm_position": "pre", "positions": "rotary", "gated_mlp": True},
    "no biases, relu": {"use_bias": False, "hidden_act": "relu"},
    "untied": {"tie_word_embeddings": False},
}


def make(kind: str = "plain", head: Any = "pretraining", **options: Any) -> Bert:
    small = {"vocab_size": 80, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4}
    shape = preset("tiny", **small | {"max_position_embeddings": 80} | SHAPES[kind])
    network = new_bert(ModelConfig(encoder=shape, head=head, **options), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():  # gains and biases start as ones and zeros
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return network.eval()


def sequences(number: int) -> list[list[int]]:
    generator = random.Random(0)
    return [[generator.randrange(5, 80) for _ in range(generator.randrange(1, 60))] for _ in range(number)]


def outputs(engine: Engine, batch: Batch) -> dict[str, torch.Tensor]:
    found = engine(batch, predict_at=batch.layout.starts, heads_only=False)
    return {name: value for name, value in vars(found).items() if value is not None}


HEADS = [("pretraining", {}), ("tag", {"labels": ("a", "b", "c")}), ("answer", {}),
         ("classify", {"labels": ("a", "b"), "has_pooler": True})]  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_every_layer_becomes_int8_and_answers_stay_close(kind: str) -> None:
    for head, options in HEADS:
        network = make(kind, head, **options)
        exact, rough = Engine.of(network), Engine.of(network, precision="int8")
        twin = rough.network
        assert not any(isinstance(part, Linear) for part in twin.modules())
        assert isinstance(twin.encoder.embeddings.token, Int8Embedding)
        num_layers = sum(isinstance(part, Linear) for part in network.modules())
        assert sum(isinstance(part, Int8Linear) for part in twin.modules()) == num_layers
        batch = Batch.from_lists(sequences(12))
        expected, got = outputs(exact, batch), outputs(rough, batch)
        assert expected.keys() == got.keys()
        for name in expected:
            apart = (expected[name] - got[name]).abs().mean() / expected[name].abs().mean()
            assert apart < 0.1, (head, name)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_text_has_the_same_bits_alone_and_in_any_batch(kind: str) -> None:
    engine = Engine.of(make(kind), precision="int8")
    texts = sequences(24)
    together = outputs(engine, Batch.from_lists(texts))
    turned = outputs(engine, Batch.from_lists(texts[::-1]))
    alone = [outputs(engine, Batch.from_lists([text])) for text in texts]
    for name, value in together.items():
        joined = torch.cat([one[name] for one in alone])
        assert torch.equal(joined, value), name
        if name != "hidden":  # one row for each text
            assert torch.equal(turned[name].flip(0), value), name


@pytest.mark.parametrize("kind", ["post", "pre", "learned", "rotary"])
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_translation_has_the_same_bits_alone_and_in_any_batch(kind: str, method: Any) -> None:
    decoder = Decoder.of(small_network(kind), precision="int8")
    generator = random.Random(1)
    sources = [[generator.randrange(2, VOCAB_SIZE) for _ in range(generator.randrange(1, 40))] + [1]
               for _ in range(10)]  # fmt: skip
    settings = DecodeSettings(method=method, beam_size=3, max_length=8)
    together = decoder.decode(sources, settings)
    assert together == [decoder.decode([source], settings)[0] for source in sources]
    assert together == decoder.decode(sources[::-1], settings)[::-1]
    exact = Decoder.of(small_network(kind)).decode(sources, settings)
    gaps = [abs(a[0].log_prob - b[0].log_prob) for a, b in zip(exact, together, strict=True)]
    assert np.mean(gaps) < 1.0


def test_a_loss_over_the_vocabulary_keeps_its_weights() -> None:
    network = make()
    twin = prepared(network, device=CPU, precision="int8", has_long_batches=True, with_heads=False)
    assert twin.mlm is not None
    assert twin.mlm.decoder.weight is twin.encoder.embeddings.token.weight
    assert sum(isinstance(part, Int8Linear) for part in twin.modules()) == 12


def test_a_cpu_without_the_product_computes_in_float32_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(int8, "is_available", lambda: False)
    model = Model(make(), small_tokenizer(80), precision="int8")
    assert model.precision == "float32"
    assert "int8': torch has no exact product of integers on this CPU; computing in float32" in (
        capsys.readouterr().err
    )
    assert not any(isinstance(part, Int8Linear) for part in model.engine.network.modules())


def test_what_int8_cannot_compute_is_refused() -> None:
    with pytest.raises(UserError, match="this is an LSTM, which has no int8 form; use 'float32'"):
        Decoder.of(small_lstm(), precision="int8")
    with pytest.raises(UserError, match="precision='int8' is computed on CPUs only; use the device 'cpu'"):
        choose_precision("int8", torch.device("cuda"))
    network = make()
    with torch.no_grad():
        network.encoder.blocks[1].mlp.inner.weight[0, 0] = float("nan")  # type: ignore[union-attr,index]
    with pytest.raises(ModelError, match=r"encoder\.blocks\.1\.mlp\.inner: a weight is NaN or infinite"):
        Engine.of(network, precision="int8")


def test_a_trace_and_an_explanation_are_of_float32() -> None:
    model = Model(make(), small_tokenizer(80), precision="int8")
    for ask in (model.trace, model.why):
        with pytest.raises(
            UserError, match="shows the formula, which has no int8; use the precision float32"
        ):
            ask("a [MASK] b")
    assert model.in_precision("float32").trace("a b").names


@pytest.mark.slow
def test_a_thousand_texts_have_the_same_bits_alone_in_any_batch_and_in_any_order() -> None:
    model = load("demo", precision="int8")
    generator = random.Random(0)
    words = ["the", "city", "of", "北京", "was", "old", "its", "river", "很长", "火车", "ran", "town"]
    texts = [" ".join(generator.choices(words, k=generator.randrange(1, 90))) for _ in range(1000)]
    together = np.asarray(model.embed(texts))
    order = generator.sample(range(1000), 1000)
    assert np.array_equal(np.asarray(model.embed([texts[index] for index in order])), together[order])
    assert np.array_equal(np.stack([np.asarray(model.embed(text)) for text in texts]), together)


FOLDERS: dict[str, Any] = {
    **{f"bert, {kind}": partial(make, kind) for kind in SHAPES},
    **{f"bert, {head}": partial(make, "plain", head, **options) for head, options in HEADS},
    **{
        f"translator, {kind}": partial(small_network, kind, vocab_size=320)
        for kind in ("post", "pre", "rotary")
    },
}


def written(network: Any, folder: Path) -> Path:
    folder.mkdir()
    tokenizer = small_tokenizer(80) if isinstance(network, Bert) else small_pieces()
    write_model(network, tokenizer, folder, run={})
    return folder


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_read_into_the_numbers_that_its_network_would_become(kind: str, tmp_path: Path) -> None:
    folder = written(FOLDERS[kind](), tmp_path / "model")
    network, model = load(folder).network, load(folder, precision="int8")
    found = (model.engine if isinstance(model, Model) else model.decoder).network
    expected = prepared(network, device=CPU, precision="int8", has_long_batches=True)
    layers = [dict(one.named_modules()) for one in (found, expected)]
    assert layers[0].keys() == layers[1].keys()
    for name, layer in layers[0].items():
        other = layers[1][name]
        assert type(layer) is type(other), name
        if isinstance(layer, Int8Linear | Int8Embedding):
            for part in ("packed", "numbers", "scale", "bias"):
                value, wanted = getattr(layer, part, None), getattr(other, part, None)
                assert (value is None) == (wanted is None), (name, part)
                assert value is None or torch.equal(dense(value), dense(wanted)), (name, part)
    others = dict(expected.named_parameters())
    for name, value in found.named_parameters():
        assert torch.equal(value, others[name]), name
    assert model.num_parameters == sum(one.numel() for one in network.parameters())
    assert "network" not in vars(model)


def dense(value: torch.Tensor) -> torch.Tensor:
    return value.to_dense() if value.is_mkldnn else value


def test_the_weights_of_a_folder_are_never_in_memory_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(make(), tmp_path / "model")
    convert(folder, tmp_path / "int8", to="int8")
    read, most = SafetensorsFile.part, 0
    there: list[weakref.ref[Any]] = []

    def counted(file: SafetensorsFile, name: str, *indices: int) -> torch.Tensor:
        nonlocal most
        tensor = read(file, name, *indices)
        there.append(weakref.ref(tensor.untyped_storage()))
        kept = [storage for one in there if (storage := one()) is not None]
        most = max(most, sum(storage.nbytes() for storage in kept))
        return tensor

    monkeypatch.setattr(SafetensorsFile, "part", counted)
    for name in ("model", "int8"):
        most = 0
        load(tmp_path / name, precision="int8")
        size = (tmp_path / name / "model.safetensors").stat().st_size
        assert 0 < most < size / 3, name
    load(folder)
    assert most > size / 3


def test_float32_weights_are_those_of_the_file_that_was_loaded_even_if_its_folder_was_replaced(
    tmp_path: Path,
) -> None:
    network = make()
    folder = written(network, tmp_path / "model")
    model = load(folder, precision="int8")
    exact = np.asarray(load(folder).embed("a b c"))
    shutil.rmtree(folder)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    written(network, folder)
    assert np.array_equal(np.asarray(model.in_precision("float32").embed("a b c")), exact)
    assert "network" not in vars(model)
    model.save(tmp_path / "saved")
    assert np.array_equal(np.asarray(load(tmp_path / "saved").embed("a b c")), exact)
    assert np.array_equal(
        np.asarray(model.in_precision("float32").in_precision("int8").embed("a b c")),
        np.asarray(model.embed("a b c")),
    )


def test_what_reads_the_float32_weights_does_not_give_them_its_state_of_torch(tmp_path: Path) -> None:
    folder = written(small_network("post", vocab_size=320), tmp_path / "model")
    models = [load(folder, Translator, precision="int8") for _ in range(3)]
    models[0].translate(["a b"], with_alignment=True)  # without gradients, inside
    with torch.inference_mode():
        assert models[1].network
    with torch.device("meta"):
        assert models[2].network
    for model in models:
        assert "network" in vars(model)
        assert model.in_precision("float32").trace("a b", grad=True).names


def test_weights_stay_with_the_model(tmp_path: Path) -> None:
    model = Model(make(), small_tokenizer(80), precision="int8")
    before = [parameter.clone() for parameter in model.network.parameters()]
    model.embed(["a b c"])
    assert all(torch.equal(a, b) for a, b in zip(before, model.network.parameters(), strict=True))
    model.save(tmp_path / "saved")
    assert load(tmp_path / "saved").precision == "float32"
