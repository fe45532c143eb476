"""Small models of every task with random weights, to be served."""

import io
from pathlib import Path
from typing import Any

import torch

from glassbert.config import ModelConfig, preset
from glassbert.heads import Head
from glassbert.interop.folder import write_model
from glassbert.model.init import new_bert
from glassbert.serve.front import Front
from glassbert.serve.http.keys import Hosts, Keys
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.oracles import small_tokenizer
from helpers.sentence_pairs import write_arbitrary_translator

VOCAB_SIZE = 60
TASKS: dict[str, tuple[Head, tuple[str, ...], dict[str, Any]]] = {
    "fill": ("pretraining", (), {}),
    "classify": ("classify", ("bad", "good", "so-so"), {"task": {"name": "classify"}}),
    "pair": ("classify", ("contradiction", "entailment"), {"task": {"name": "pair"}}),
    "rerank": ("classify", ("score",), {"task": {"name": "pair"}}),
    "tag": ("tag", ("O", "B-PER", "I-PER", "B-LOC", "I-LOC"), {"task": {"name": "tag"}}),
    "answer": ("answer", (), {"task": {"name": "answer"}}),
}


def write_small(name: str, folder: Path, *, seed: int = 0, max_length: int = 40) -> Path:
    """Write a model folder for a task; every weight is random, so that every label can win."""
    folder.mkdir(parents=True, exist_ok=True)
    if name == "translate":
        return write_arbitrary_translator(folder)
    head, labels, run = TASKS[name]
    shape = preset(
        "tiny",
        vocab_size=VOCAB_SIZE,
        max_position_embeddings=max_length,
        hidden_size=32,
        intermediate_size=48,
        num_attention_heads=2,  # of 16 features: with fewer, rounding depends on the number of threads
    )
    network = new_bert(ModelConfig(encoder=shape, head=head, labels=labels), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    write_model(network, small_tokenizer(VOCAB_SIZE), folder, run=run)
    return folder


def write_all(folder: Path) -> dict[str, str]:
    """Write a model for each task; return the folders by name."""
    return {name: str(write_small(name, folder / name)) for name in (*TASKS, "translate")}


class served:  # noqa: N801
    """A server of its own over some of the small models."""

    def __init__(self, folders: dict[str, str], *names: str, keys: str = "", **changes: Any) -> None:
        given = {"threads": 1, "timeout": 60, "max_wait": 60, "batch_tokens": 64, **changes}
        self.lines = io.StringIO()
        self.front = Front(
            {name: folders[name] for name in names},
            ServeSettings(**given),
            read_keys=lambda: Keys.of(keys.splitlines(), "keys") if keys else Keys(),
            hosts=Hosts.allowed("127.0.0.1"),
            log=Log(self.lines),
        )

    def __enter__(self) -> Front:
        self.front.start()
        return self.front

    def __exit__(self, *error: object) -> None:
        self.front.stop()
