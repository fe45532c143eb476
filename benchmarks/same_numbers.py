"""Do two source trees compute the same bytes? Run the same commands with both and compare digests.

    python benchmarks/same_numbers.py OLD_CHECKOUT [NEW_CHECKOUT]

Covers a learned vocabulary, a corpus, 50 steps of pre-training with each objective, 50 steps of every task
and of translation, and what `evaluate` prints for the results. Data: ../shared/data (first rows of each
file).
"""

import argparse
import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
DATA = HERE.parent / "shared" / "data"
STEPS = 50

TASKS = {
    "classify": ("classify/SST-2.train.tsv.gz", "classify/SST-2.dev.tsv.gz"),
    "classify-zh": ("classify/ChnSentiCorp.train.tsv.gz", "classify/ChnSentiCorp.dev.tsv.gz"),
    "pair": ("pair/MRPC.train.tsv.gz", "pair/MRPC.dev.tsv.gz"),
    "pair-regression": ("pair/STS-B.train.tsv.gz", "pair/STS-B.dev.tsv.gz"),
    "tag": ("tag/wnut17.train.conll.gz", "tag/wnut17.dev.conll.gz"),
    "tag-crf": ("tag/cluener.train.jsonl.gz", "tag/cluener.dev.jsonl.gz"),
    "answer": ("answer/squad2.dev.json.gz", "answer/squad2.dev.json.gz"),
}
Log = list[dict[str, Any]]
"""The lines of metrics.jsonl."""
OPTIONS = {"tag-crf": ["task.crf=true"], "tag": ["data.skip_bad=5"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path, nargs="?", default=HERE)
    parser.add_argument("--only", help="a word that the names of the wanted digests contain")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        inputs = Path(name) / "inputs"
        make_inputs(inputs)
        trees = [tree.resolve() for tree in (arguments.old, arguments.new)]
        works = [Path(name) / f"work-{index}" for index in range(2)]
        for work in works:
            work.mkdir()
        sides = [
            digests(tree, inputs, work, arguments.only or "") for tree, work in zip(trees, works, strict=True)
        ]
        num_differing = 0
        for (key, content), (_, other) in zip(*sides, strict=True):
            old, new = compared(content, other)
            num_differing += old != new
            print(f"{'same' if old == new else 'DIFFERS':<8} {key:<44} {old[:16]} {new[:16]}", flush=True)
    return 1 if num_differing else 0


def make_inputs(folder: Path) -> None:
    """Write the first rows of each file, so that the whole comparison takes minutes."""
    folder.mkdir()
    rows = {"corpus/enwiki.jsonl.gz": 60, "corpus/zhwiki.jsonl.gz": 60, "translate/en-es.train.tsv.gz": 6000}
    rows |= {"translate/en-es.dev.tsv.gz": 60}
    for train, dev in TASKS.values():
        rows |= {train: 900, dev: 300}
    for name, count in rows.items():
        with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
            text = cut_squad(json.load(lines)) if ".json." in name else "".join(islice(lines, count))
        (folder / Path(name).name.removesuffix(".gz")).write_text(text, encoding="utf-8")


def cut_squad(content: dict) -> str:
    return json.dumps(
        {**content, "data": [{**content["data"][0], "paragraphs": content["data"][0]["paragraphs"][:6]}]}
    )


def digests(tree: Path, inputs: Path, work: Path, only: str) -> Iterator[tuple[str, str | Log]]:
    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", "glassbert", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
        return done.stdout

    text = [inputs / "enwiki.jsonl", inputs / "zhwiki.jsonl"]
    run("vocab", "train", *text, "--size", 4000, "--out", "vocab")
    yield "vocab train", digest(work / "vocab/vocab.txt")
    run("corpus", "build", *text, "--tokenizer", "vocab", "--out", "corpus", "--held-out", "0.1")
    shards = [path for path in (work / "corpus").rglob("*") if path.is_file() and path.suffix != ".json"]
    for path in sorted(shards):
        yield f"corpus build {path.relative_to(work / 'corpus')}", digest(path)
    (work / "pretrain.toml").write_text(
        '[data]\ncorpus = "corpus"\nheld_out_tokens = 5000\n[model]\npreset = "tiny"\n'
        f"[train]\nsteps = {STEPS}\n"
        "batch_tokens = 2048\nsave_every = 25\nevaluate_every = 25\nlearning_rate = 1e-3\n"
    )
    for objective in ("mlm", "mlm+nsp", "sop"):
        if only in f"pretrain {objective}":
            run("pretrain", "pretrain.toml", "--set", f"objective.name={objective}", "--out", objective)
            yield f"pretrain {objective}", digest(work / objective / "last/model.safetensors")
            yield f"pretrain {objective} metrics", log_of(work / objective)
    for name, (train, dev) in TASKS.items():
        if only in name:
            files = [inputs / Path(file).name.removesuffix(".gz") for file in (train, dev)]
            sets = [
                f"train.steps={STEPS}",
                "train.evaluate_every=25",
                "train.save_every=25",
                *OPTIONS.get(name, ()),
            ]
            options = [word for one in sets for word in ("--set", one)]
            run(
                "train", name.split("-")[0], "--model", "demo", "--train", files[0], "--dev", files[1],
                "--out", name, *options,
            )  # fmt: skip
            yield f"train {name}", digest(work / name / f"checkpoint-{STEPS}/model.safetensors")
            yield f"train {name} metrics", log_of(work / name)
            scores = json.loads(run("evaluate", name, files[1], "--json", *options[-2:] * (name == "tag")))
            yield f"evaluate {name}", [written(scores["metrics"])]
    if only in "translate":
        files = [inputs / f"en-es.{part}.tsv" for part in ("train", "dev")]
        sets = [
            f"train.steps={STEPS}",
            "train.save_every=25",
            "train.evaluate_every=25",
            "train.batch_tokens=1024",
        ]
        sets += ["vocabulary.size=1000", "model.hidden_size=64", "task.average_last=2"]
        options = [word for one in sets for word in ("--set", one)]
        run("train", "translate", "--train", files[0], "--dev", files[1], "--out", "translate", *options)
        yield "train translate", digest(work / "translate/best/model.safetensors")
        yield "train translate metrics", log_of(work / "translate")


def digest(path: Path) -> str:
    return of(path.read_bytes())


def written(scores: dict[str, Any]) -> dict[str, Any]:
    """Return scores to six digits.

    The last bits moved twice: held-out text is measured file by file, so float32 sums have other groups; and
    the last text of a batch is attended to as the others are, so that its answer is the same in any batch.
    """
    return {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in scores.items()}


def log_of(run: Path) -> Log:
    """Return the log of a run without what the clock wrote."""
    clock = ("_s", "_at", "peak", "utilisation", "utilization", "memory")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [{k: v for k, v in line.items() if not any(word in k for word in clock)} for line in lines]
    return [row | {"evaluation": written(row["evaluation"])} if "evaluation" in row else row for row in rows]


def compared(old: str | Log, new: str | Log) -> tuple[str, str]:
    """Return the digests of both sides; of logs, without the numbers that only one tree writes."""
    if isinstance(old, str) or isinstance(new, str):
        return str(old), str(new)
    first, second = shared(old, new)
    return of(json.dumps(first, sort_keys=True).encode()), of(json.dumps(second, sort_keys=True).encode())


def shared(old: Any, new: Any) -> tuple[Any, Any]:
    """Return both sides with those names alone that both have, at every depth."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = {name: shared(old[name], new[name]) for name in old.keys() & new.keys()}
        return {name: a for name, (a, _) in pairs.items()}, {name: b for name, (_, b) in pairs.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [shared(a, b) for a, b in zip(old, new, strict=True)]
        return [a for a, _ in pairs], [b for _, b in pairs]
    return old, new


def of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
