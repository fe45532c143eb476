"""Pre-training steps against transformers' BertForPreTraining: same examples, same shape, AdamW, fp32.

Both sides do whole updates (forward, backward, clipping, AdamW) on the same MLM + NSP examples. transformers
gets them padded to the longest of the batch, as its collators do, in three batch sizes, of which the fastest
counts. Every engine runs in a process of its own; rounds are interleaved and medians compared. The limit is
what the matrix products of our step alone would take: three for each linear layer; the vocabulary, and the
last block but for its keys and values, at the places that are read only.

    python benchmarks/pretrain.py [CORPUS] [--vocabulary FILE] [--rounds N] [--dropout P]
"""

import argparse
import importlib.metadata
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker import Run, Worker

SHARED = Path(__file__).parents[2] / "shared/data"
THREADS = os.cpu_count() or 1
LENGTH = 128
PEER = "transformers"
BATCH_SIZES = (16, 32, 64)
SEED = 0


@dataclass(frozen=True)
class Case:
    """A size of encoder, how much it is measured on, and what is wanted."""

    preset: str
    num_batches: int
    batch_tokens: int
    target: float
    """How many times the peer's real tokens per second."""
    share_target: float | None
    """The share of the limit that is wanted."""


CASES = (Case("mini", 4, 8192, 3.5, 0.55), Case("base", 1, 4096, 1.8, None))


def prepare(corpus: Path, vocabulary: Path, scratch: Path) -> Path:
    """Build shards from the text; return their folder."""
    from glassbert.data.corpus.build import build_corpus
    from glassbert.text.files import read_lines
    from glassbert.text.vocabulary import Vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    tokenizer = Tokenizer(Vocabulary(tuple(read_lines(vocabulary))))
    build_corpus(corpus, tokenizer=tokenizer, out=scratch / "corpus")
    return scratch / "corpus"


def task_of(case: Case, corpus: Path, dropout: float) -> Any:
    """Return our task; its batches are what both sides train on."""
    from glassbert.data.corpus.reader import Corpus
    from glassbert.data.pretraining.corpus_batches import CorpusBatches
    from glassbert.runs.pretrain import PretrainRecipe, make_model
    from glassbert.tasks.objectives.registry import make_objective
    from glassbert.tasks.pretraining import Pretrain

    shards = Corpus.open(corpus)
    tokenizer = shards.tokenizer()
    recipe = PretrainRecipe.of(
        {
            "data": {"corpus": str(corpus)},
            "objective": {"max_length": LENGTH},
            "model": {
                "preset": case.preset,
                "hidden_dropout_prob": dropout,
                "attention_probs_dropout_prob": dropout,
            },
        }
    )
    objective = make_objective(recipe.objective, tokenizer.vocabulary)
    batches = CorpusBatches(shards, objective, batch_tokens=case.batch_tokens, seed=SEED)
    return Pretrain(make_model(recipe, len(tokenizer.vocabulary)), tokenizer, objective, batches)


def glassbert_runs(case: Case, corpus: Path, dropout: float) -> dict[str, Run]:
    import torch

    from glassbert.training.processes import Processes
    from glassbert.training.settings import TrainSettings
    from glassbert.training.state import TrainState

    torch.set_num_threads(THREADS)
    settings = TrainSettings(steps=1_000_000, batch_tokens=case.batch_tokens)
    task = task_of(case, corpus, dropout)
    state = TrainState(task, settings, Processes.join(settings))

    def run() -> None:
        state.progress = type(state.progress)()  # the same batches each time
        for _ in range(case.num_batches):
            state.update()

    return {"packed": run}


def padded(batch: Any, size: int) -> Iterator[dict[str, Any]]:
    """Yield the examples of a packed batch, ``size`` at a time, padded to the longest of them."""
    import torch

    starts = [0]
    for length in batch.lengths:
        starts.append(starts[-1] + length)
    labels = torch.full((len(batch.ids),), -100)
    labels[torch.from_numpy(batch.labels["mlm"].places)] = torch.from_numpy(batch.labels["mlm"].values)
    rows = {
        "input_ids": torch.from_numpy(batch.ids),
        "token_type_ids": torch.from_numpy(batch.segments),
        "attention_mask": torch.ones(len(batch.ids), dtype=torch.long),
        "labels": labels,
    }
    for first in range(0, len(batch.lengths), size):
        chosen = range(first, min(first + size, len(batch.lengths)))
        columns = {
            name: torch.nn.utils.rnn.pad_sequence(
                [values[starts[row] : starts[row + 1]] for row in chosen],
                batch_first=True,
                padding_value=-100 if name == "labels" else 0,
            )
            for name, values in rows.items()
        }
        columns["next_sentence_label"] = torch.from_numpy(batch.labels["nsp"].values[first : first + size])
        yield columns


def transformers_runs(case: Case, corpus: Path, dropout: float, size: int) -> dict[str, Run]:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    task = task_of(case, corpus, dropout)
    shape = task.config.encoder
    config = transformers.BertConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        intermediate_size=shape.intermediate_size,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = transformers.BertForPreTraining(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batches = [task.batch(step) for step in range(case.num_batches)]

    def run() -> None:
        for batch in batches:
            for columns in padded(batch, size):
                optimizer.zero_grad()
                model(**columns).loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()

    return {str(size): run}


def limit_runs(case: Case, corpus: Path, dropout: float) -> dict[str, Run]:
    """Only the matrix products of our step: y = x W, then dx = dy W and dW = dy x, for each linear layer."""
    import torch

    torch.set_num_threads(THREADS)
    task = task_of(case, corpus, dropout)
    shape = task.config.encoder
    batches = [task.batch(step) for step in range(case.num_batches)]
    num_tokens = sum(batch.num_tokens for batch in batches) // len(batches)
    num_masked = sum(batch.num_labels("mlm") for batch in batches) // len(batches)
    num_read = num_masked + sum(len(batch.lengths) for batch in batches) // len(batches)
    width, wide, depth = shape.hidden_size, shape.intermediate_size, shape.num_hidden_layers
    products = [
        (4 * (depth - 1) + 2, num_tokens, width, width),
        (depth - 1, num_tokens, width, wide),
        (depth - 1, num_tokens, wide, width),
        (2, num_read, width, width),
        (1, num_read, width, wide),
        (1, num_read, wide, width),
        (1, num_masked, width, width),
        (1, num_masked, width, shape.vocab_size),
    ]
    layers = [
        (count, torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs))
        for count, rows, inputs, outputs in products
    ]

    def run() -> None:
        for _ in range(case.num_batches):
            for count, x, weight, gradient in layers:
                for _ in range(count):
                    torch.mm(x, weight.T)
                    torch.mm(gradient, weight)
                    torch.mm(gradient.T, x)

    return {"gemm": run}


def measure(case: Case, corpus: Path, dropout: float, num_rounds: int) -> bool:
    """Print the table of one case; return whether its targets were met."""
    workers = {
        "glassbert": Worker(glassbert_runs, case, corpus, dropout),
        "limit": Worker(limit_runs, case, corpus, dropout),
    }
    # A process for each batch size: the memory of one must not count for another.
    peers = {f"{PEER} {size}": size for size in BATCH_SIZES}
    workers |= {name: Worker(transformers_runs, case, corpus, dropout, size) for name, size in peers.items()}
    times: dict[str, list[float]] = {name: [] for name in workers}
    for number in range(num_rounds + 1):
        for name, worker in workers.items():
            seconds = worker.measure(worker.variants[0])
            if number:  # the first round warms up
                times[name].append(seconds)
    peaks_mb = {name: worker.close() for name, worker in workers.items()}
    batches = [task_of(case, corpus, dropout).batch(step) for step in range(case.num_batches)]
    num_tokens = sum(batch.num_tokens for batch in batches)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    print(f"\n{case.preset}: {num_tokens:,} real tokens of length up to {LENGTH}, dropout {dropout}\n")
    print(f"{'engine':<14}{'version':<10}{'batch':>7}{'seconds':>9}{'tokens/s':>10}{'of limit':>9}{'MB':>8}")
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        engine = name.split()[0]
        version = "" if engine == "limit" else importlib.metadata.version(engine)
        print(
            f"{engine:<14}{version:<10}{workers[name].variants[0]:>7}{value:>9.2f}"
            f"{num_tokens / value:>10,.0f}{seconds['limit'] / value:>9.2f}{peaks_mb[name]:>8,.0f}"
        )
    ours, best = times["glassbert"], min(peers, key=lambda name: seconds[name])
    ratio = statistics.median(b / a for a, b in zip(ours, times[best], strict=True))
    share = statistics.median(b / a for a, b in zip(ours, times["limit"], strict=True))
    print(f"\nglassbert / transformers: {ratio:.2f}x (wanted {case.target:.2f}x)", end="")
    if case.share_target:
        print(f"; share of the limit {share:.2f} (wanted {case.share_target:.2f})", end="")
    print(f"; memory {peaks_mb['glassbert'] / peaks_mb[best]:.2f} of the peer's")
    return ratio >= case.target and share >= (case.share_target or 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=SHARED / "corpus/wikitext2.train.raw.gz")
    parser.add_argument("--vocabulary", type=Path, default=SHARED / "vocab/bert-base-uncased.txt.gz")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--only", choices=[case.preset for case in CASES])
    arguments = parser.parse_args()
    import torch

    print(f"{THREADS} threads, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}")
    with tempfile.TemporaryDirectory() as scratch:
        corpus = prepare(arguments.corpus, arguments.vocabulary, Path(scratch))
        met = [
            measure(case, corpus, arguments.dropout, arguments.rounds)
            for case in CASES
            if arguments.only in (None, case.preset)
        ]
    print("\nall targets met" if all(met) else "\na target was missed")


if __name__ == "__main__":
    main()
