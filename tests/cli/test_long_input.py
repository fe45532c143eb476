"""Texts that no input can hold, by the command line: memory is bounded, and what is found is exact."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.run import carry_out
from helpers.small_model import sentiment, small_folder

pytestmark = pytest.mark.slow
NUM_CHARACTERS = 300_000
PROGRAM = """
import resource, sys
from glassbert.cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def rows_of(task: str) -> list[dict[str, Any]]:
    """Return rows whose labels tell whether a text is good, and whose spans and answers where an `o` is."""
    rows = []
    for one in sentiment(24):
        text = f"{one.text} o"
        place = text.index("o")
        answers = [{"text": "o", "answer_start": place}]
        rows.append(
            {
                "classify": {"text": text, "label": one.labels[0]},
                "tag": {"text": text, "spans": [{"start": place, "end": place + 1, "label": "O"}]},
                "answer": {"question": "a", "context": text, "answers": answers},
            }[task]
        )
    return rows


def trained(task: str, folder: Path, **settings: Any) -> Path:
    """Return a model of the task, which has seen a few rows."""
    small_folder(folder / "model")
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of(task)))
    tables = {
        "model": {"folder": str(folder / "model")},
        "data": {"train": str(folder / "train.jsonl")},
        "train": {"steps": 30, "learning_rate": 1e-2},
        "task": settings,
    }
    return carry_out(FineTuneRecipe.of(task, tables), folder / "out", log=lambda line: None).model


def long_text(num_characters: int) -> str:
    """Return words of letters with Chinese and what takes two units of UTF-16 among them."""
    generator = random.Random(0)
    words = ["a", "o", "bc", "lmn", "\u4eca\u5929", "\u597d", "\U0001f600", "o!", "\u3002"]
    return " ".join(generator.choices(words, k=num_characters // 2))[:num_characters]


def predict(model: Path, row: dict[str, str], folder: Path) -> tuple[dict[str, Any], float]:
    """Return the prediction for a row and the peak of the memory that the process took, in MB."""
    (folder / "input.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    command = [sys.executable, "-c", PROGRAM, "predict", str(model), str(folder / "input.jsonl")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return json.loads(done.stdout), int(done.stderr.split()[-1]) / 1024


@pytest.mark.parametrize("long_text_setting", ["head", "tail", "head+tail", "window"])
def test_a_review_of_5_000_tokens_is_classified(long_text_setting: str, tmp_path: Path) -> None:
    model = trained("classify", tmp_path, long_text=long_text_setting)
    review = "a e l " * 1666
    found, peak = predict(model, {"text": review}, tmp_path)
    _, usual = predict(model, {"text": "a e l"}, tmp_path)
    is_whole = long_text_setting == "window"
    assert found["truncated"] != is_whole
    assert found["tokens"] == (5000 if is_whole else 40)
    assert peak < usual + 100


@pytest.mark.parametrize("task", ["tag", "answer"])
def test_an_article_of_300_000_characters_takes_bounded_memory_and_is_read_exactly(
    task: str, tmp_path: Path
) -> None:
    model = trained(task, tmp_path)
    key = {"tag": "text", "answer": "context"}[task]
    question = {} if task == "tag" else {"question": "a"}
    article = long_text(NUM_CHARACTERS)
    _, usual = predict(model, {key: article[:100], **question}, tmp_path)
    found, peak = predict(model, {key: article, **question}, tmp_path)
    assert not found["truncated"]
    assert found["tokens"] > 100_000
    if task == "tag":
        spans = [(span["start"], span["end"], span["text"]) for span in found["spans"]]
        assert len(spans) > 10
        assert [span[0] for span in spans] == sorted(span[0] for span in spans)
    else:
        spans = [(one["start"], one["end"], one["answer"]) for one in [found, *found["n_best"]]]
    assert all(article[start:end] == text != "" for start, end, text in spans)
    assert peak < usual + 300
