"""Is our fine-tuning as good as a plain transformers loop from equal weights? If not, which part of it?

    python benchmarks/finetune_parts.py [CASE ...] [--seeds 10] [--variants ours theirs] [--results FILE]

Everything that differs between the two sides is a part with two settings: the network, the order of the
rows, the new head, the learning rate of each step. `ours` has all of ours, `theirs` all of theirs, and
`theirs+NAME` is ours with one part of theirs. Same rows, token ids, rate, batch size, decay, clipping and
number of steps; no dropout, nobody keeps a best epoch. Printed: the mean difference to ours over the seeds,
with its 95% interval.

A seed of all four cases takes about 6 CPU minutes for each variant; finished runs are kept in --results.
"""

import argparse
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from finetune import (
    CASES,
    DEMO,
    MAX_GRAD_NORM,
    WARMUP,
    WEIGHT_DECAY,
    Case,
    Plan,
    make_task,
    measured,
    padded,
    their_model,
)

CASES |= {
    "mrpc": replace(CASES["mrpc"], model=DEMO),
    "rte": Case("pair", "pair/RTE.train.tsv.gz", "pair/RTE.dev.tsv.gz", DEMO, 1.0, 1500, 277),
}
NAMES = ("mrpc", "rte", "chnsenticorp", "afqmc")
ROWS, EPOCHS, BATCH_SIZE = 1500, 3.0, 32
PARTS = ("network", "order", "head", "rate")
T_975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 20: 2.09}


@dataclass(frozen=True)
class Variant:
    """Which parts are theirs."""

    theirs: frozenset[str]

    @classmethod
    def of(cls, name: str) -> "Variant":
        if name in ("ours", "theirs"):
            return cls(frozenset(PARTS if name == "theirs" else ()))
        chosen = frozenset(name.removeprefix("theirs+").split("+"))
        assert chosen <= set(PARTS), f"{name}: expected parts among {', '.join(PARTS)}"
        return cls(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variants", nargs="+", default=["ours", "theirs"])
    parser.add_argument("--results", type=Path, default=Path("finetune_parts.jsonl"))
    arguments = parser.parse_args()
    known = [json.loads(line) for line in _lines(arguments.results)]
    found = {(row["case"], row["variant"], row["seed"]): row["score"] for row in known}
    for seed in range(arguments.seeds):
        for case in arguments.cases:
            for variant in arguments.variants:
                if (case, variant, seed) not in found:
                    score = trained(case, Variant.of(variant), seed)
                    found[case, variant, seed] = score
                    row = {"case": case, "variant": variant, "seed": seed, "score": score}
                    with arguments.results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
        show(found, arguments.cases, arguments.variants, seed + 1)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []


def trained(case: str, variant: Variant, seed: int) -> float:
    """Return the score of one run."""
    import torch

    plan = Plan(case, DEMO, seed, EPOCHS, BATCH_SIZE, None, ROWS, CASES[case].dev_rows, 0.0)
    task, recipe = make_task(plan)
    model = their_model(plan, task) if "network" in variant.theirs else task.module
    if "head" in variant.theirs and "network" not in variant.theirs:
        head = task.module.bert.labels.dense
        generator = torch.Generator().manual_seed(seed)
        torch.nn.init.normal_(head.weight, std=task.config.encoder.initializer_range, generator=generator)
    batches = list(_order(variant, task, seed))
    groups = [
        {"params": [p for p in model.parameters() if (p.dim() > 1) == is_matrix], "weight_decay": decay}
        for is_matrix, decay in ((True, WEIGHT_DECAY), (False, 0.0))
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.train.learning_rate)
    model.train()
    for step, rows in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = recipe.train.learning_rate * _rate(variant, step, len(batches))
        if "network" in variant.theirs:
            loss = model(**padded(rows, task.task)).loss
        else:
            loss = model(sorted(rows, key=len))["loss"] / len(rows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        metrics = measured(model, task) if "network" in variant.theirs else task.evaluate()
    return float(metrics[task.task.best_by])


def _order(variant: Variant, task: Any, seed: int) -> Iterator[list[Any]]:
    """Yield the rows of each step."""
    import torch

    if "order" not in variant.theirs:
        yield from (task.batch(step) for step in range(task.steps_in_epochs(EPOCHS)))
        return
    rows = [one for windows in task.train_inputs for one in windows]
    generator = torch.Generator().manual_seed(seed)
    for _ in range(int(EPOCHS)):
        order = torch.randperm(len(rows), generator=generator).tolist()
        for first in range(0, len(order), BATCH_SIZE):
            yield [rows[index] for index in order[first : first + BATCH_SIZE]]


def _rate(variant: Variant, step: int, num_steps: int) -> float:
    """Return the share of the highest rate at a step."""
    from glassbert.training.schedule import rate_factor

    if "rate" not in variant.theirs:
        return rate_factor("linear", WARMUP, (step + 1) / (num_steps + 1))
    warm = round(WARMUP * num_steps)
    return step / warm if step < warm else (num_steps - step) / (num_steps - warm)


def show(found: dict[tuple[str, str, int], float], cases: list[str], variants: list[str], seeds: int) -> None:
    print(f"{seeds} seeds")
    for case in cases:
        for variant in variants:
            scores = [found[case, variant, seed] for seed in range(seeds)]
            line = f"  {case:<14} {variant:<24} {statistics.mean(scores):.4f}"
            if variant != "ours" and "ours" in variants and seeds > 1:
                gaps = [found[case, variant, seed] - found[case, "ours", seed] for seed in range(seeds)]
                deviation = statistics.stdev(gaps) / math.sqrt(seeds)
                line += f"  {statistics.mean(gaps):+.4f} +- {T_975.get(seeds, 2.0) * deviation:.4f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
