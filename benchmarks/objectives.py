"""Which objective learns most in the same CPU time? Fully decayed runs, then fine-tuning on both languages.

    python benchmarks/objectives.py CORPUS HELD_OUT --minutes 30 --seeds 2 --out results

For each objective, short runs at three learning rates choose its rate by the held-out loss of hidden tokens
(of rtd, the generator's), which all of them have. Two runs of different length give the CPU seconds of a
step without start, first vectors and evaluation. So every long run has as many steps as fit into its CPU
minutes, and its rate ends at zero. Then the held-out loss, where the objective has one, and `glassbert train`
on text and token tasks (token tasks separate first).
CORPUS and HELD_OUT are folders of `glassbert corpus build`; the labelled files are in ../shared/data.
About six hours in all. The same command resumes: what is finished is not repeated, and a run that was
stopped continues from its last checkpoint.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from labelled_sets import SETS

HERE = Path(__file__).resolve().parent.parent
OBJECTIVES = {
    "mlm": ["objective.name=mlm"],
    "mlm 30 to 15%": ["objective.name=mlm", "objective.mask={ select_prob = 0.3, final_select_prob = 0.15 }"],
    "mlm+nsp": ["objective.name=mlm+nsp", "objective.partner=file"],
    "rtd": ["objective.name=rtd"],
    "mae": ["objective.name=mae"],
    "mlm+causal": ["objective.name=mlm+causal"],
}
RATES = (5e-4, 1e-3, 2e-3)
RATE_STEPS = 150
START_STEPS = 10
"""Of a run that is nearly all start and evaluation."""
CHOSEN_BY = "mlm_loss"
TASKS = {"SST-2": 8000, "CoLA": 8551, "ChnSentiCorp": 9600, "AFQMC": 8000, "WikiANN": 4000, "CLUENER": 4000}
"""Training rows of each set."""
RECIPE = """
[model]
preset = "mini"
initializer_range = 0.05
hidden_dropout_prob = 0.0
attention_probs_dropout_prob = 0.0
neighbour_heads = true
token_vectors = true
[objective]
max_length = 128
[train]
batch_tokens = 4096
optimizer = "muon"
beta2 = 0.98
warmup = 0.05
log_every = 25
evaluate_every = 100000
save_every = 200
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("held_out", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0, help="CPU minutes of each run")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=list(OBJECTIVES), default=list(OBJECTIVES))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "recipe.toml").write_text(RECIPE)
    rows = {}
    for name in arguments.only:
        rows[name] = [measured(name, seed, arguments) for seed in range(arguments.seeds)]
        (arguments.out / "results.json").write_text(json.dumps(rows, indent=2))
        show(name, rows[name])


def measured(name: str, seed: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Return the scores of one pre-training run and of the tasks that start from it."""
    base = [*OBJECTIVES[name], f"data.corpus={arguments.corpus}", f"data.held_out={arguments.held_out}"]
    rate, seconds_a_step = chosen_rate(name, base, arguments.out)
    steps = max(100, round(60 * arguments.minutes / seconds_a_step))
    out = arguments.out / f"{name.replace(' ', '-')}-{seed}"
    sets = [*base, f"train.steps={steps}", f"train.learning_rate={rate}", f"train.seed={seed}"]
    pretrain(arguments.out, out, sets)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    scores = {"steps": float(steps), "rate": rate, **lines[-1]["evaluation"]}
    teaching = [line["teaching_tokens"] for line in lines if "teaching_tokens" in line]
    scores["teaching tokens a step"] = statistics.mean(teaching)
    for task in TASKS:
        scores[task] = fine_tuned(task, out / "last", out / task, seed)
    return scores


def chosen_rate(name: str, base: list[str], folder: Path) -> tuple[float, float]:
    """Return the best of three rates after a short run each, and the CPU seconds of a step."""
    known = folder / f"rate-{name.replace(' ', '-')}.json"
    if known.exists():  # a finished run would not show its time
        rate, seconds = json.loads(known.read_text())
        return rate, seconds
    found = []
    for rate in RATES:
        out = folder / f"rate-{name.replace(' ', '-')}-{rate:g}"
        losses, used_s = short_run(folder, out, base, rate, RATE_STEPS)
        found.append((losses[CHOSEN_BY], rate, used_s))
    # What is not training takes as long in a run of a few steps.
    _, start_s = short_run(folder, folder / f"start-{name.replace(' ', '-')}", base, RATES[0], START_STEPS)
    seconds = (statistics.median(used_s for *_, used_s in found) - start_s) / (RATE_STEPS - START_STEPS)
    _, rate, _ = min(found)
    known.write_text(json.dumps((rate, seconds)))
    return rate, seconds


def short_run(
    folder: Path, out: Path, base: list[str], rate: float, steps: int
) -> tuple[dict[str, float], float]:
    """Return the held-out metrics of a run, made from the start, and the CPU seconds that it took."""
    shutil.rmtree(out, ignore_errors=True)  # half of a run would show half of its time
    used_s = pretrain(folder, out, [*base, f"train.steps={steps}", f"train.learning_rate={rate}"])
    return json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["evaluation"], used_s


def pretrain(folder: Path, out: Path, sets: list[str]) -> float:
    """Run the recipe and return the CPU seconds that it took; a run that is finished takes next to none."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    changes = [word for one in sets for word in ("--set", one)]
    glassbert("pretrain", folder / "recipe.toml", *changes, "--out", out)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fine_tuned(task: str, model: Path, out: Path, seed: int) -> float:
    """Return the score of a task that starts from a model; a finished run is read, not repeated."""
    one = SETS[task]
    rows = one.sample(TASKS[task], out.parent)
    reading = one.reading()
    columns = [f"data.columns.{name}={place}" for name, place in reading["columns"].items()]
    sets = [f"train.seed={seed}", "train.epochs=2", f"data.skip_bad={reading['skip_bad']}", *columns]
    changes = [word for change in sets for word in ("--set", change)]
    files = ("--train", rows, "--dev", one.file("dev"), "--out", out)
    printed = glassbert("train", one.task, "--model", model, *files, *changes, "--no-baseline", "--json")
    return float(json.loads(printed)["metrics"][one.metric])


def glassbert(*words: object) -> str:
    command = [sys.executable, "-m", "glassbert", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


def show(name: str, rows: list[dict[str, float]]) -> None:
    print(name)
    for key in rows[0]:
        values = [row[key] for row in rows if key in row]
        spread = f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        print(f"  {key:<28} {statistics.mean(values):.4f}{spread}", flush=True)


if __name__ == "__main__":
    main()
