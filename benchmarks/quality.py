"""What a fixed time buys: held-out MLM loss of the textbook recipe by transformers, and of ours.

Both train on WikiText-2 with the same vocabulary, 4 blocks of 256 features, for the same minutes on the same
cores, and are measured on the same masked places of the validation text.
(a) transformers' BertForMaskedLM as published: post-norm, dropout 0.1, chunks of 128 tokens, 32 a batch,
    AdamW at 5e-4, warm-up and linear decay over the budget.
(b) recipes/wikitext2-mini.toml, by `glassbert pretrain`.
Also reported: when (b) passes the final loss of (a). Runs of both sides take turns; finished ones are kept in
--results, so that the benchmark can be stopped and resumed.

    python benchmarks/quality.py [--minutes 10] [--seeds 3] [--results FILE]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHARED = Path(__file__).parents[2] / "shared/data"
RECIPE = Path(__file__).parents[1] / "recipes/wikitext2-mini.toml"
THREADS = os.cpu_count() or 1
HELD_OUT_TOKENS = 50_000
LENGTH, PEER_BATCH, PEER_RATE, PEER_WARMUP = 128, 32, 5e-4, 0.1
TIME_TARGET = 0.2
"""The share of the peer's time in which its final loss is to be passed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, default=SHARED / "corpus/wikitext2.train.raw.gz")
    parser.add_argument("--valid", type=Path, default=SHARED / "corpus/wikitext2.valid.raw.gz")
    parser.add_argument("--vocabulary", type=Path, default=SHARED / "vocab/bert-base-uncased.txt.gz")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, help="JSON lines of finished runs; they are not run again")
    parser.add_argument("--run", choices=sorted(RUNS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(RUNS[arguments.run](arguments.folder, arguments.minutes, arguments.seed)))
        return
    import torch
    import transformers

    import glassbert

    print(
        f"glassbert {glassbert.__version__}, transformers {transformers.__version__}, torch "
        f"{torch.__version__}, {THREADS} threads, {torch.backends.cpu.get_cpu_capability()}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        prepare(arguments.train, arguments.valid, arguments.vocabulary, Path(scratch))
        compare(Path(scratch), arguments.minutes, arguments.seeds, arguments.results)


def prepare(train: Path, valid: Path, vocabulary: Path, scratch: Path) -> None:
    """Build shards of both texts."""
    from glassbert.data.corpus.build import build_corpus
    from glassbert.text.files import read_lines
    from glassbert.text.vocabulary import Vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    tokenizer = Tokenizer(Vocabulary(tuple(read_lines(vocabulary))))
    for name, path in (("train", train), ("valid", valid)):
        build_corpus(path, tokenizer=tokenizer, out=scratch / name)


def compare(scratch: Path, minutes: float, num_seeds: int, results: Path | None) -> None:
    """Run what is not yet in ``results``; print every run and a summary."""
    done: dict[tuple[str, int], list[list[float]]] = {}
    if results and results.is_file():
        for row in map(json.loads, results.read_text(encoding="utf-8").splitlines()):
            if row["minutes"] == minutes:
                done[row["run"], row["seed"]] = row["curve"]
    print(
        f"\n{minutes:g} minutes each\n\n{'seed':<6}{'run':<14}{'loss':>8}{'passes (a) after':>19}{'share':>8}"
    )
    shares = []
    for seed in range(num_seeds):
        for name in ("transformers", "glassbert"):
            if (name, seed) not in done:
                done[name, seed] = run_alone(name, scratch, minutes, seed)
                if results:
                    with results.open("a", encoding="utf-8") as file:
                        row = {"run": name, "seed": seed, "minutes": minutes, "curve": done[name, seed]}
                        file.write(json.dumps(row) + "\n")
        theirs, ours = done["transformers", seed], done["glassbert", seed]
        print(f"{seed:<6}{'transformers':<14}{theirs[-1][1]:>8.3f}")
        passed_s = next((seconds for seconds, loss in ours if loss < theirs[-1][1]), None)
        note = f"{passed_s:>17.0f} s{passed_s / (60 * minutes):>8.2f}" if passed_s else f"{'never':>19}"
        print(f"{seed:<6}{'glassbert':<14}{ours[-1][1]:>8.3f}{note}", flush=True)
        shares.append(passed_s / (60 * minutes) if passed_s else float("inf"))
    for name in ("transformers", "glassbert"):
        losses = [done[name, seed][-1][1] for seed in range(num_seeds)]
        deviation = statistics.stdev(losses) if len(losses) > 1 else 0.0
        print(f"{name}: {statistics.mean(losses):.3f} +- {deviation:.3f}")
    share = statistics.median(shares)
    verdict = "met" if share <= TIME_TARGET else "missed"
    print(f"ours passes their final loss in {share:.2f} of their time (aim {TIME_TARGET}: {verdict})")


def run_alone(name: str, scratch: Path, minutes: float, seed: int) -> list[list[float]]:
    """Run one side in a process of its own; return its (seconds, held-out loss) points."""
    command = [sys.executable, __file__, "--run", name, "--seed", str(seed), "--minutes", str(minutes)]
    answer = subprocess.run(
        [*command, "--folder", str(scratch)], stdout=subprocess.PIPE, check=True, text=True
    )
    points: list[list[float]] = json.loads(answer.stdout.splitlines()[-1])
    return points


def run_ours(scratch: Path, minutes: float, seed: int) -> list[list[float]]:
    from glassbert.runs.api import pretrain

    started_at = time.monotonic()
    points: list[list[float]] = []

    def log(line: str) -> None:
        print(line, file=sys.stderr)
        if line.startswith("held out:"):
            points.append([time.monotonic() - started_at, float(line.split("mlm_loss ")[1].split()[0])])

    pretrain(
        RECIPE,
        out=scratch / f"run-{seed}",
        log=log,
        corpus=scratch / "train",
        held_out=scratch / "valid",
        held_out_tokens=HELD_OUT_TOKENS,
        minutes=minutes,
        seed=seed,
    )
    return points


def run_theirs(scratch: Path, minutes: float, seed: int) -> list[list[float]]:
    """Train as a textbook does; evaluation does not count against the budget."""
    import torch
    import transformers

    torch.manual_seed(seed)
    model = transformers.BertForMaskedLM(
        transformers.BertConfig(
            hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEER_RATE, weight_decay=0.01)
    batches = chunks(scratch / "train", seed)
    started_at, step = time.monotonic(), 0
    while (progress := (time.monotonic() - started_at) / (60 * minutes)) < 1.0:
        factor = progress / PEER_WARMUP if progress < PEER_WARMUP else (1 - progress) / (1 - PEER_WARMUP)
        for group in optimizer.param_groups:
            group["lr"] = PEER_RATE * max(factor, 1e-3)
        model.train()
        optimizer.zero_grad()
        loss = model(**next(batches)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step}  loss {loss.item():.3f}  {progress:.0%}", file=sys.stderr)
    return [[60 * minutes, held_out_loss(model, scratch)]]


def chunks(corpus: Path, seed: int) -> Iterator[dict[str, Any]]:
    """Yield batches of 128-token chunks, masked again each time, as the usual script makes them."""
    import torch

    from glassbert.data.corpus.reader import Corpus

    shards = Corpus.open(corpus)
    vocabulary = shards.tokenizer().vocabulary
    room = LENGTH - 2
    tokens = torch.from_numpy(shards.tokens(0, shards.num_tokens).astype("int64"))
    rows = tokens[: len(tokens) // room * room].view(-1, room)
    generator = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(rows), generator=generator)
        for start in range(0, len(order) - PEER_BATCH + 1, PEER_BATCH):
            text = rows[order[start : start + PEER_BATCH]]
            ids = torch.nn.functional.pad(text, (1, 0), value=vocabulary.cls_id)
            ids = torch.nn.functional.pad(ids, (0, 1), value=vocabulary.sep_id)
            roll, fate = (torch.rand(ids.shape, generator=generator) for _ in range(2))
            chosen = roll < 0.15
            chosen[:, [0, -1]] = False
            labels = torch.where(chosen, ids, -100)
            random_ids = torch.randint(1000, len(vocabulary), ids.shape, generator=generator)
            ids = torch.where(chosen & (fate < 0.8), vocabulary.mask_id, ids)
            ids = torch.where(chosen & (fate >= 0.9), random_ids, ids)
            yield {"input_ids": ids, "labels": labels}


def held_out_loss(model: Any, scratch: Path) -> float:
    """Measure transformers' model on the same batches as ours."""
    import torch

    from glassbert.data.corpus.reader import Corpus
    from glassbert.runs.pretrain import PretrainRecipe
    from glassbert.runs.recipe import read_recipe
    from glassbert.tasks.objectives.registry import make_objective

    changes = [f"data.corpus={scratch / 'valid'}", "objective.name=mlm"]
    recipe = PretrainRecipe.of(read_recipe(RECIPE, changes))
    valid = Corpus.open(scratch / "valid")
    objective = make_objective(recipe.objective, valid.tokenizer().vocabulary)
    batch_tokens = recipe.train.batch_tokens
    model.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in objective.held_out_batches(valid, HELD_OUT_TOKENS, batch_tokens=batch_tokens):
            start = 0
            labels = torch.full((len(batch.ids),), -100)
            labels[torch.from_numpy(batch.labels["mlm"].places)] = torch.from_numpy(
                batch.labels["mlm"].values
            )
            for length in batch.lengths:  # one by one: no padding to get wrong
                ids = torch.from_numpy(batch.ids[start : start + length])[None]
                wanted = labels[start : start + length]
                logits = model(input_ids=ids).logits[0]
                total += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
                count += int((wanted != -100).sum())
                start += length
    return total / count


RUNS = {"glassbert": run_ours, "transformers": run_theirs}


if __name__ == "__main__":
    main()
