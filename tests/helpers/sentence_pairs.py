"""Parallel text that can be learned in seconds: numbers in words, in one language and in another."""

import random
from pathlib import Path
from typing import Any

import torch

from glassbert.config import BertConfig, TransformerConfig
from glassbert.data.pair_batches import EncodedPairs, encode_pairs
from glassbert.data.sentence_pairs import SentencePair
from glassbert.interop.folder import write_model
from glassbert.model.init import new_transformer
from glassbert.model.seq2seq import Transformer
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.tokenizer import SubwordTokenizer

ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
SPANISH = ["cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"]
VOCAB_SIZE = 320
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def sentence_pairs(count: int, *, longest: int = 5, seed: int = 0) -> list[tuple[str, str]]:
    """Return sentences of a few numbers with their translations."""
    generator = random.Random(seed)
    pairs = []
    for _ in range(count):
        numbers = [generator.randrange(10) for _ in range(generator.randrange(1, longest + 1))]
        source = " ".join(ENGLISH[number] for number in numbers)
        target = " ".join(SPANISH[number] for number in numbers)
        pairs.append((f"{source}.", f"\u00a1{target}!"))
    return pairs


def write_tsv(path: Path, pairs: list[tuple[str, str]]) -> Path:
    """Write pairs as a TSV file."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def small_tokenizer() -> SubwordTokenizer:
    """Return a joint vocabulary of both languages."""
    texts = [text for pair in sentence_pairs(200) for text in pair]
    return learn_subwords(texts, SubwordSettings(size=VOCAB_SIZE)).tokenizer


def encoded(tokenizer: SubwordTokenizer, pairs: list[tuple[str, str]]) -> EncodedPairs:
    """Return pairs as ids."""
    rows = [SentencePair(*pair, line) for line, pair in enumerate(pairs, start=1)]
    return encode_pairs(rows, tokenizer, max_length=64)


def ctranslate2_texts(
    folder: Path, tokenizer: SubwordTokenizer, texts: list[str], *, max_length: int
) -> list[str]:
    """Return what CTranslate2 writes with the model in ``folder``, by a beam of 4."""
    import ctranslate2

    results = ctranslate2.Translator(str(folder), device="cpu").translate_batch(
        [[tokenizer.pieces[id_] for id_ in tokenizer.ids_of(text)] for text in texts],
        beam_size=4,
        max_decoding_length=max_length,
        min_decoding_length=0,
        return_end_token=True,
    )
    ids = {piece: id_ for id_, piece in enumerate(tokenizer.pieces)}
    return [tokenizer.decode([ids[piece] for piece in one.hypotheses[0]]) for one in results]


def small_network(*, seed: int = 0, **changes: Any) -> Transformer:
    """Return a fresh Transformer over the joint vocabulary."""
    published = TransformerConfig().encoder
    shape = BertConfig(**{**vars(published), "vocab_size": VOCAB_SIZE, **SHAPE, **changes})
    return new_transformer(TransformerConfig(encoder=shape, num_decoder_layers=1), seed=seed)


def write_arbitrary_translator(folder: Path) -> Path:
    """Write a translator whose every piece is arbitrary, but which ends its sentences now and then."""
    network = small_network(seed=4)
    with torch.no_grad():
        network.output.bias[1] = 2.5
    write_model(network, small_tokenizer(), folder, run={"note": "random"})
    return folder
