from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings

from glassbert.inference.decode import Decoder, DecodeSettings
from glassbert.interop.build import tensors_for_file
from glassbert.interop.families import MARIAN
from glassbert.interop.folder import TranslatorFolder, write_network
from glassbert.model.layout import Batch, unpack
from glassbert.model.seq2seq import Transformer
from helpers.small_translators import END, START, VOCAB_SIZE, small_transformer, sources

SETTINGS: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 40,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "d_model": 18,  # 9 pairs of features: the halves have no common order with the pairs
    "activation_function": "relu",
    "scale_embedding": True,
    "pad_token_id": START,
    "decoder_start_token_id": START,
    "eos_token_id": END,
    "forced_eos_token_id": None,
}


def make_marian(**changes: Any) -> transformers.MarianMTModel:
    """Return a model whose every weight is random; the position table stays what it is."""
    model = transformers.MarianMTModel(transformers.MarianConfig(**SETTINGS | changes)).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
        model.final_logits_bias.copy_(torch.randn(1, VOCAB_SIZE, generator=generator))
        model.final_logits_bias[0, START] = -1e4  # what Marian forbids when it generates
    return model


@pytest.fixture(scope="module")
def marian() -> transformers.MarianMTModel:
    return make_marian()


@pytest.fixture(scope="module")
def ours(marian: transformers.MarianMTModel, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    return read_back(marian, tmp_path_factory.mktemp("marian"))


def read_back(marian: transformers.MarianMTModel, folder: Path) -> Transformer:
    marian.save_pretrained(folder)
    network = TranslatorFolder.open(folder).build()[0]
    assert isinstance(network, Transformer)
    return network


@torch.no_grad()
def logits_of(marian: transformers.MarianMTModel, source: Batch, target: Batch) -> torch.Tensor:
    mask = unpack(torch.ones_like(source.ids), source.layout)
    padded = marian(
        input_ids=unpack(source.ids, source.layout),
        attention_mask=mask,
        decoder_input_ids=unpack(target.ids, target.layout),
    ).logits
    return padded[target.layout.owners, target.layout.positions]


@settings(deadline=None, max_examples=20)
@given(texts=sources)
def test_logits_are_marians(
    marian: transformers.MarianMTModel, ours: Transformer, texts: list[list[int]]
) -> None:
    source = Batch.from_lists(texts)
    target = Batch.from_lists([[START, *reversed(text), 5][: 1 + len(text) // 2] for text in texts])
    with torch.no_grad():
        logits = ours.output(ours(source, target))
    torch.testing.assert_close(logits, logits_of(marian, source, target), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ["swish", "gelu"])
def test_logits_are_marians_with_other_activations(activation: str, tmp_path: Path) -> None:
    marian = make_marian(activation_function=activation)
    network = read_back(marian, tmp_path)
    source, target = Batch.from_lists([[3, 4, END]]), Batch.from_lists([[START, 5, 6]])
    with torch.no_grad():
        logits = network.output(network(source, target))
    torch.testing.assert_close(logits, logits_of(marian, source, target), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_beams", [1, 4])
def test_targets_are_those_that_marian_generates(
    marian: transformers.MarianMTModel, ours: Transformer, num_beams: int
) -> None:
    texts = [[3, 4, 5], [6, 7], [8, 9, 10, 11], [12], [13, 14, 15, 16, 17]]
    wanted = DecodeSettings(
        beam_size=num_beams, method="beam" if num_beams > 1 else "greedy", max_length=10, length_penalty=0.6
    )
    found = Decoder.of(ours).decode(texts, wanted)
    for text, (hypothesis,) in zip(texts, found, strict=True):
        extra = {"early_stopping": True, "length_penalty": 0.6} if num_beams > 1 else {}
        generated = marian.generate(
            torch.tensor([text]), num_beams=num_beams, max_new_tokens=10, do_sample=False, **extra
        )[0].tolist()
        assert generated == [START, *hypothesis.ids, *([END] if hypothesis.is_finished else [])]


def test_our_folder_loads_as_marian_with_the_same_numbers(tmp_path: Path) -> None:
    network = small_transformer()
    write_network(network, tmp_path)
    marian = transformers.MarianMTModel.from_pretrained(tmp_path).eval()
    source, target = Batch.from_lists([[3, 4, 5, END]]), Batch.from_lists([[START, 6, 7]])
    with torch.no_grad():
        logits = network.output(network(source, target))
    torch.testing.assert_close(logits_of(marian, source, target), logits, atol=1e-5, rtol=1e-5)
    again = TranslatorFolder.open(tmp_path).build()[0]
    assert again.config == network.config
    for name, value in network.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_the_table_of_names_knows_every_tensor_of_marian(
    marian: transformers.MarianMTModel, ours: Transformer
) -> None:
    theirs = {name: tuple(value.shape) for name, value in marian.state_dict().items()}
    tied = {name for name in theirs if "embed_" in name or name == "lm_head.weight"}
    names = {name: tuple(value.shape) for name, value in tensors_for_file(MARIAN, ours).items()}
    assert names == {name: shape for name, shape in theirs.items() if name not in tied}
