"""Our bag of words against scikit-learn's TF-IDF with logistic regression: scores, and time for 10,000 rows.

    python benchmarks/baseline.py [--rows 1500]

Both have words, pairs of words and 2 to 4 characters as features, and the same strength of regularisation;
scikit-learn keeps a vocabulary where ours has hashes. Rows are from all over each training file; the scores
are those of the whole dev file. The CPU time is that of ours on 10,000 rows (all of a smaller file), features
and dev rows included, on one thread. Two minutes.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from labelled_sets import SETS, LabelledSet
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, matthews_corrcoef
from sklearn.pipeline import make_pipeline, make_union

from glassbert.data.examples import ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.tasks.classify.bag_of_words import bag_of_words
from glassbert.tasks.registry import schema_of

NAMES = ("SST-2", "ChnSentiCorp", "MRPC", "AFQMC", "RTE", "CoLA")
TIMED_ROWS = 10_000
SCORES = {"accuracy": accuracy_score, "mcc": matthews_corrcoef}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| set | metric | glassbert | scikit-learn | difference, points | CPU seconds (rows) |")
    print("|---|---|---|---|---|---|")
    for name in NAMES:
        print(f"| {name} | {measured(SETS[name], options.rows)} |", flush=True)


def measured(one: LabelledSet, num_rows: int) -> str:
    """Return a row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        some, many = (read(one, one.sample(number, Path(folder))) for number in (num_rows, TIMED_ROWS))
    dev = read(one, one.file("dev"))
    score = SCORES[one.metric]
    ours, theirs = (score(dev[1], guess(some, dev[0])) for guess in (our_labels, their_labels))
    start = time.process_time()
    our_labels(many, dev[0])
    used_s = time.process_time() - start
    points = 100 * (ours - theirs)
    return f"{one.metric} | {ours:.3f} | {theirs:.3f} | {points:+.1f} | {used_s:.1f} ({len(many[0]):,})"


Rows = tuple[list[str], list[str]]
"""Texts and their labels."""


def read(one: LabelledSet, path: Path) -> Rows:
    """Return the texts of a file, pairs as one text, and their labels."""
    examples = read_examples(schema_of(one.task), path, ReadOptions(**one.reading())).examples
    return [" ".join(row.texts) for row in examples], [row.labels[0] for row in examples]


def our_labels(train: Rows, test: Sequence[str]) -> list[str]:
    """Learn from rows and return the labels of other texts."""
    labels = sorted(set(train[1]))
    gold = np.array([[labels.index(label)] for label in train[1]], dtype=np.float32)
    logits = bag_of_words(train[0], gold, test, "single", len(labels))
    return [labels[index] for index in logits.argmax(axis=1)]


def their_labels(train: Rows, test: Sequence[str]) -> list[str]:
    """Do the same with scikit-learn."""
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)[\u4e00-\u9fff]|\b\w+\b")
    union = make_union(words, TfidfVectorizer(analyzer="char", ngram_range=(2, 4)))
    model: Any = make_pipeline(union, LogisticRegression(max_iter=1000))
    return list(model.fit(*train).predict(list(test)))


if __name__ == "__main__":
    main()
