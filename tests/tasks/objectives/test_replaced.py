import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import UserError
from glassbert.evaluation.evaluate import evaluate
from glassbert.inference.loading import load
from glassbert.model.layout import Batch, Layout
from glassbert.runs.pretrain import PretrainRecipe, make_trainable
from glassbert.runs.run import carry_out
from glassbert.tasks.objectives.replaced import TABLE, ReplacedNetwork
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.step import train_step

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "flew", "home", "away", ".")
FILES = (
    "last/model.safetensors",
    "last/generator/model.safetensors",
    "last/objective.safetensors",
    "metrics.jsonl",
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    text = "".join(f"the {a} {b} {c} .\n" for a in WORDS[2:5] for b in WORDS[5:8] for c in WORDS[8:10])
    (folder / "text.txt").write_text(f"{text}\n{text}" * 3)
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *WORDS)), max_length=32)
    build_corpus(folder / "text.txt", tokenizer=tokenizer, out=folder / "corpus")
    return folder / "corpus"


def recipe(corpus: Path, **objective: Any) -> PretrainRecipe:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_hidden_layers": 4}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return PretrainRecipe.of(
        {
            "data": {"corpus": str(corpus), "held_out": str(corpus), "held_out_tokens": 100_000},
            "model": {"preset": "tiny", "max_position_embeddings": 32, **sizes, **dropout},
            "objective": {"name": "rtd", "max_length": 32, "generator_first": 0.3, **objective},
            "train": {
                "batch_tokens": 256,
                "learning_rate": 3e-3,
                "save_every": 4,
                "log_every": 5,
                "steps": 10,
            },
        }
    )


def network_and_batch(corpus: Path, step: int = 9) -> tuple[ReplacedNetwork, PretrainBatch]:
    made = make_trainable(recipe(corpus), Corpus.open(corpus))
    assert isinstance(made.module, ReplacedNetwork)
    return made.module, made.batch(step)


def test_a_run_resumes_bit_for_bit_and_saves_two_models(corpus: Path, tmp_path: Path) -> None:
    straight = carry_out(recipe(corpus), tmp_path / "straight", log=lambda line: None)
    for _ in range(2):
        stopped = carry_out(
            recipe(corpus),
            tmp_path / "stopped",
            log=lambda line: None,
            on_status=lambda status: signal.raise_signal(signal.SIGTERM),
        )
    assert not stopped.is_finished
    carry_out(recipe(corpus), tmp_path / "stopped", log=lambda line: None)
    for name in FILES:
        assert (tmp_path / "straight" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name
    # The generator fills masks; the model loads anywhere, with the whole table.
    generator = load(tmp_path / "straight" / "last" / "generator")
    assert len(generator.fill("the [MASK] sat home .")[0]) > 1
    theirs = transformers.BertModel.from_pretrained(tmp_path / "straight" / "last").eval()
    ours = load(tmp_path / "straight" / "last")
    ids = ours.tokenizer.encode("the cat sat home .").ids
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).last_hidden_state[0]
        batch = Batch(torch.tensor(ids), torch.zeros(len(ids), dtype=torch.int64), Layout((len(ids),)))
        torch.testing.assert_close(ours.network.encoder(batch), expected, atol=1e-5, rtol=1e-5)
    measured = evaluate(tmp_path / "straight" / "last", corpus, log=lambda line: None)
    assert measured.metrics == pytest.approx(dict(straight.metrics))


def test_what_is_drawn_follows_the_generator_and_is_never_special(corpus: Path) -> None:
    network, _ = network_and_batch(corpus)
    head = network.generator.mlm
    assert head is not None
    with torch.no_grad():
        head.decoder.bias.copy_(torch.linspace(-2, 2, len(head.decoder.bias)))
        states = torch.zeros(20_000, 16)
        rolls = (np.random.default_rng(0).random(20_000) * 2.0**53).astype(np.int64)
        drawn = network.draw(states, rolls)
        logits = head(states[:1])[0]
    logits[: len(SPECIALS)] = -math.inf
    expected = logits.softmax(dim=0)
    shares = torch.bincount(drawn, minlength=len(logits)) / len(drawn)
    assert not shares[: len(SPECIALS)].any()
    torch.testing.assert_close(shares, expected, atol=0.012, rtol=0)


def test_the_gradients_are_those_of_a_plain_implementation(corpus: Path) -> None:
    network, batch = network_and_batch(corpus)
    sums = network(batch)
    sums["rtd_loss"].backward(retain_graph=True)
    assert all(p.grad is None for p in network.generator.parameters()), (
        "the generator learns from its own loss"
    )
    found = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()

    # Plainly: fill the places, look everything up in one table, judge every token.
    original, hidden = batch.labels["rtd"].values, batch.labels["mlm"]
    layout = Layout(batch.lengths)
    segments = torch.from_numpy(batch.segments)
    states = network.generator.encoder(Batch(torch.from_numpy(batch.ids), segments, layout))
    filled = original.copy()
    filled[hidden.places] = network.draw(states[hidden.places], batch.labels["roll"].values[hidden.places])
    assert (filled != original).any()
    assert set(np.flatnonzero(filled != original)) <= set(hidden.places.tolist())  # type: ignore[union-attr]
    states = network.bert.encoder(Batch(torch.from_numpy(filled), segments, layout))
    logits = network.detector(states).squeeze(1)
    loss = F.binary_cross_entropy_with_logits(
        logits, torch.from_numpy(filled != original).float(), reduction="sum"
    )
    torch.testing.assert_close(loss, sums["rtd_loss"])
    loss.backward()
    for name, parameter in network.named_parameters():
        if name in found:
            torch.testing.assert_close(parameter.grad, found[name], atol=1e-5, rtol=1e-4)
    assert TABLE in found


def test_at_first_only_the_generator_learns(corpus: Path) -> None:
    for step, is_detecting in ((0, False), (2, False), (3, True)):
        network, batch = network_and_batch(corpus, step)
        assert ("rtd" in batch.labels) == is_detecting
        sums = network(batch)
        (sums["rtd_loss"] + sums["mlm_loss"]).backward()
        assert any(p.grad.any() for p in network.bert.encoder.blocks.parameters()) == is_detecting  # type: ignore[union-attr]
        assert network.generator.encoder.embeddings.token.weight.grad is not None
        assert all(p.grad is not None for p in network.detector.parameters()), "processes wait for it"


def test_the_two_networks_are_clipped_apart(corpus: Path) -> None:
    network, batch = network_and_batch(corpus)
    counts = {"rtd_loss": 1, "rtd_accuracy": 1, "mlm_loss": 1, "mlm_accuracy": 1}
    weights = {"rtd_loss": 50.0, "mlm_loss": 1.0}
    nothing = torch.optim.SGD(network.parameters(), lr=0.0)
    train_step(network, [batch], counts, weights, nothing, max_grad_norm=0.5)
    for own in (True, False):
        grads = [p.grad for n, p in network.named_parameters() if n.startswith("generator.") == own]
        norm = torch.stack([grad.norm() for grad in grads if grad is not None]).norm()
        assert norm.item() == pytest.approx(0.5, rel=1e-3)


def test_two_halves_of_a_batch_teach_what_the_whole_does(corpus: Path) -> None:
    """So do two processes: what is drawn depends on the token alone."""
    network, batch = network_and_batch(corpus)
    whole = network(batch)
    halves = [network(half) for half in batch.split(2)]
    for name, value in whole.items():
        torch.testing.assert_close(sum(half[name] for half in halves), value, rtol=1e-5, atol=1e-5)


def test_a_generator_larger_than_the_model_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"generator_layers=5, and the model has 4 blocks"):
        carry_out(recipe(corpus, generator_layers=5), tmp_path / "run", log=lambda line: None)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="generator_first"):
        recipe(corpus, generator_first=1.0)


def test_a_clock_cannot_say_when_the_model_begins_to_learn(corpus: Path, tmp_path: Path) -> None:
    clocked = recipe(corpus)
    clocked = replace(clocked, train=replace(clocked.train, steps=None, minutes=1.0))
    with pytest.raises(UserError, match=r"instead of train\.minutes"):
        carry_out(clocked, tmp_path / "run", log=lambda line: None)
