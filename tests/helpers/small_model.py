"""A tiny model and examples that it can learn, for tests of fine-tuning."""

import random
from pathlib import Path

from glassbert.config import ModelConfig, preset
from glassbert.data.examples import TextExample
from glassbert.interop.folder import write_model
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from helpers.oracles import small_tokenizer

GOOD, BAD, PLAIN = "aeiou", "bcdfg", "lmnprst"
VOCAB_SIZE = 80


def small_bert(dropout: float = 0.0, max_length: int = 40) -> Bert:
    """Return an untrained encoder of two small blocks."""
    shape = preset(
        "tiny",
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=max_length,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0)


def small_folder(folder: Path, dropout: float = 0.0) -> Path:
    """Write such an encoder as a model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_model(small_bert(dropout), small_tokenizer(VOCAB_SIZE), folder, run={})
    return folder


def sentiment(number: int, seed: int = 0) -> list[TextExample]:
    """Return texts of letters: `good` when they hold more vowels than letters from b to g, else `bad`."""
    generator = random.Random(seed)
    examples = []
    for index in range(number):
        label = generator.choice(["good", "bad"])
        telling = generator.choices(GOOD if label == "good" else BAD, k=generator.randrange(2, 5))
        letters = telling + generator.choices(PLAIN, k=generator.randrange(2, 9))
        generator.shuffle(letters)
        examples.append(TextExample(" ".join(letters), None, (label,), None, f"train.tsv:{index + 1}"))
    return examples


def other_vocabulary(folder: Path) -> Path:
    """Write the same model with a vocabulary of which one piece is another."""
    small_folder(folder)
    pieces = (folder / "vocab.txt").read_text().splitlines()
    pieces[-1] = "zebra"
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    (folder / "tokenizer.json").unlink()
    return folder
