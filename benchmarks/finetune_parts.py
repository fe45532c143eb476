"""Is our fine-tuning as good as a plain transformers loop from equal weights? If not, which part of it?

    python benchmarks/finetune_parts.py [CASE ...] [--seeds 10] [--variants ours theirs engine]

`theirs` is a plain loop over transformers' model, `ours` the same loop with our side of everything that
differs, and `engine` is what `glassbert train` runs. `ours+PART` has one part of theirs: the network, the
order of the rows (theirs reaches every row in each epoch), the new head (a plain normal; ours is cut at two
deviations) or the rate (theirs is 0 in the first update). `engine+order` and `engine+head` do the same to
the engine, and with `engine+whole` it computes a batch at once, not in parts. `+best` keeps the best epoch,
as `glassbert train` does; otherwise the last counts. Parts add up: `ours+head+rate`.

Same rows, token ids, rate, batch size, decay, clipping and number of steps; no dropout; whole dev sets.
Printed: the mean difference to the first variant over the seeds with its 95% interval, for each case and
pooled: of each seed, the mean over the cases. A seed of all four cases takes about 6 CPU minutes for each
variant; finished runs are kept in --results.
"""

import argparse
import json
import math
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from finetune import (
    ANY_NUMBER,
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
MAY_ADD = {"ours": {*PARTS, "best"}, "theirs": {"best"}, "engine": {"order", "head", "whole", "best"}}
T_975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 20: 2.09}


@dataclass(frozen=True)
class Variant:
    """Who trains, and which parts are theirs."""

    is_engine: bool
    theirs: frozenset[str]
    keeps_best: bool

    @classmethod
    def of(cls, name: str) -> "Variant":
        side, *added = name.split("+")
        if not {*added} <= MAY_ADD.get(side, set()):
            known = "; ".join(f"{side}+{'|'.join(sorted(parts))}" for side, parts in MAY_ADD.items())
            raise SystemExit(f"no variant {name!r}; there are {known}")
        parts = PARTS if side == "theirs" else {*added} - {"best"}
        return cls(side == "engine", frozenset(parts), "best" in added)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=NAMES)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variants", nargs="+", default=["ours", "theirs", "engine"])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--dev-rows", type=int, default=ANY_NUMBER)
    kept = Path(tempfile.gettempdir()) / "glassbert-finetune-parts.jsonl"
    parser.add_argument("--results", type=Path, default=kept)
    arguments = parser.parse_args()
    variants = {name: Variant.of(name) for name in arguments.variants}
    known = [json.loads(line) for line in _lines(arguments.results)]
    found = {tuple(row["key"]): row["score"] for row in known}
    for seed in range(arguments.seeds):
        for case in arguments.cases:
            for name, variant in variants.items():
                key = (case, name, seed, arguments.rows, arguments.dev_rows)
                if key not in found:
                    plan = Plan(
                        case, DEMO, seed, EPOCHS, BATCH_SIZE, None, arguments.rows, arguments.dev_rows, 0.0
                    )
                    found[key] = trained(plan, variant)
                    with arguments.results.open("a") as file:
                        file.write(json.dumps({"key": key, "score": found[key]}) + "\n")
        rows = (arguments.rows, arguments.dev_rows)
        scores = {key[:3]: score for key, score in found.items() if key[3:] == rows}
        show(scores, arguments.cases, arguments.variants, seed + 1)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.is_file() else []


def trained(plan: Plan, variant: Variant) -> float:
    """Return the score of one run: after its last epoch, or of the best one."""
    import torch

    task, recipe = make_task(plan)
    has_their_network = "network" in variant.theirs
    model = their_model(plan, task) if has_their_network else task.module
    if "head" in variant.theirs and not has_their_network:
        head = task.module.bert.labels.dense
        generator = torch.Generator().manual_seed(plan.seed)
        torch.nn.init.normal_(head.weight, std=task.config.encoder.initializer_range, generator=generator)
    batches = list(_order(variant, task, plan.seed))
    in_epoch = math.ceil(len(batches) / EPOCHS)
    steps = (
        _engine_steps(task, recipe, variant, batches)
        if variant.is_engine
        else _loop_steps(model, task, recipe, variant, batches)
    )
    scores = []
    for step, _ in enumerate(steps, start=1):
        is_last = step == len(batches)
        if is_last or (variant.keeps_best and step % in_epoch == 0):
            model.eval()
            with torch.no_grad():
                metrics = measured(model, task) if has_their_network else task.evaluate()
            scores.append(float(metrics[task.task.best_by]))
            model.train()
    return max(scores)


def _loop_steps(
    model: Any, task: Any, recipe: Any, variant: Variant, batches: list[list[Any]]
) -> Iterator[None]:
    """Train in a plain loop, step by step."""
    import torch

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
        yield


def _engine_steps(task: Any, recipe: Any, variant: Variant, batches: list[list[Any]]) -> Iterator[None]:
    """Train as `glassbert train` does, step by step: its optimiser, clipping, rate and parts of a batch."""
    from glassbert.runs.finetune import with_evaluations
    from glassbert.training.processes import Processes
    from glassbert.training.state import TrainState

    settings = with_evaluations(recipe.train, task)
    if "whole" in variant.theirs:
        settings = replace(settings, micro_tokens=ANY_NUMBER)
    if "order" in variant.theirs:
        task.batch = lambda step: sorted(batches[step], key=len)
    state = TrainState(task, settings, Processes.join(settings))
    assert state.num_steps == len(batches), (state.num_steps, len(batches))
    while state.share_done < 1.0:
        yield state.update()


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


def show(found: dict[Any, float], cases: list[str], variants: list[str], seeds: int) -> None:
    """Print the scores, and the differences to the first variant."""
    print(f"{seeds} seeds; differences are to {variants[0]}")
    gaps: dict[str, list[list[float]]] = {variant: [] for variant in variants[1:]}
    for case in cases:
        for variant in variants:
            scores = [found[case, variant, seed] for seed in range(seeds)]
            line = f"  {case:<14} {variant:<24} {statistics.mean(scores):.4f}"
            if variant in gaps:
                firsts = [found[case, variants[0], seed] for seed in range(seeds)]
                gaps[variant].append([one - first for one, first in zip(scores, firsts, strict=True)])
                line += f"  {interval(gaps[variant][-1])}"
            print(line, flush=True)
    for variant, of_cases in gaps.items():
        of_seeds = [statistics.mean(of_seed) for of_seed in zip(*of_cases, strict=True)]
        print(f"  {'pooled':<14} {variant:<24}         {interval(of_seeds)}", flush=True)


def interval(values: list[float]) -> str:
    """Return the mean of some differences with its 95% interval."""
    mean = f"{statistics.mean(values):+.4f}"
    if len(values) < 2:
        return mean
    deviation = statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} +- {T_975.get(len(values), 2.0) * deviation:.4f}"


if __name__ == "__main__":
    main()
