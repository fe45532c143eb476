import sys
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch

from glassbert.errors import ModelError, UserError
from glassbert.inference.decode import Decoder, DecodeSettings
from glassbert.interop.ctranslate2 import export_ctranslate2
from glassbert.model.layout import Batch
from glassbert.model.seq2seq import Transformer
from helpers.small_translators import END, START, VOCAB_SIZE, small_transformer

PIECES = ["<pad>", "</s>", *(f" piece {index}" for index in range(2, VOCAB_SIZE))]
TEXTS = [[3, 4, 5], [6], [7, 8], [9, 10, 11, 12, 13], [14, 15, 16, 17, 18, 19], [2, 3]]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"norm_position": "pre", "positions": "learned", "hidden_act": "silu", "tie_word_embeddings": False},
    {"gated_mlp": True, "hidden_act": "gelu", "use_bias": False},
]


def exported(network: Transformer, folder: Path) -> ctranslate2.Translator:
    export_ctranslate2(network, PIECES, folder)
    return ctranslate2.Translator(str(folder), device="cpu", intra_threads=1)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("options", OPTIONS)
def test_targets_and_scores_are_the_same(options: dict[str, Any], beam_size: int, tmp_path: Path) -> None:
    network = small_transformer(num_decoder_layers=3, **options)
    num_best = min(beam_size, 3)
    theirs = exported(network, tmp_path / "model").translate_batch(
        [[PIECES[token] for token in text] for text in TEXTS],
        beam_size=beam_size,
        num_hypotheses=num_best,
        length_penalty=0.6,
        max_decoding_length=10,
        min_decoding_length=0,
        return_scores=True,
        return_end_token=True,
    )
    wanted = DecodeSettings(
        method="beam" if beam_size > 1 else "greedy",
        beam_size=beam_size,
        num_hypotheses=num_best,
        length_penalty=0.6,
        max_length=10,
    )
    ours = Decoder.of(network).decode([[*text, END] for text in TEXTS], wanted)
    for result, hypotheses in zip(theirs, ours, strict=True):
        texts = [[*h.ids, END] if h.is_finished else list(h.ids) for h in hypotheses]
        assert result.hypotheses == [[PIECES[token] for token in text] for text in texts]
        assert result.scores == pytest.approx([h.score for h in hypotheses], abs=1e-4)


def test_the_alignment_is_the_same(tmp_path: Path) -> None:
    network = small_transformer()
    result = exported(network, tmp_path / "model").translate_batch(
        [[PIECES[3], PIECES[4]]], beam_size=1, max_decoding_length=4, return_attention=True
    )[0]
    written = [PIECES.index(piece) for piece in result.hypotheses[0]]
    assert written
    target = Batch.from_lists([[START, *written[:-1]]])
    with torch.no_grad():
        ours = network.alignments(Batch.from_lists([[3, 4, END]]), target)[0]
    theirs = torch.tensor(result.attention[0])
    torch.testing.assert_close(theirs, ours[:, : theirs.size(1)], atol=1e-4, rtol=1e-4)


def test_an_export_can_be_quantised_and_replaced(tmp_path: Path) -> None:
    network = small_transformer()
    export_ctranslate2(network, PIECES, tmp_path / "model")
    with pytest.raises(UserError, match="not empty"):
        export_ctranslate2(network, PIECES, tmp_path / "model")
    export_ctranslate2(network, PIECES, tmp_path / "model", quantization="int8", overwrite=True)
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert names == [".glassbert-files.json", "config.json", "model.bin", "shared_vocabulary.json"]
    with pytest.raises(UserError, match="CTranslate2 refuses to convert"):
        export_ctranslate2(network, PIECES, tmp_path / "other", quantization="int3")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_cannot_be_exported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no rotary positions"):
        export_ctranslate2(small_transformer(positions="rotary"), PIECES, tmp_path / "model")
    with pytest.raises(ModelError, match="the vocabulary has 19 pieces, but the model has 20 rows"):
        export_ctranslate2(small_transformer(), PIECES[1:], tmp_path / "model")
    monkeypatch.setitem(sys.modules, "ctranslate2.converters.converter", None)
    with pytest.raises(UserError, match="pip install ctranslate2"):
        export_ctranslate2(small_transformer(), PIECES, tmp_path / "model")
