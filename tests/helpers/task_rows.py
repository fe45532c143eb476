"""Rows of every task that a small model can learn, and a training that gets a signal on the way."""

import os
from collections.abc import Callable
from typing import Any

from glassbert.tasks.fine_tuning import FineTune
from helpers.small_model import sentiment

TASK_OF = {"pair": "pair", "tag": "tag", "crf": "tag", "answer": "answer"}


def rows_of(kind: str, number: int, seed: int) -> list[dict[str, Any]]:
    """Return JSON rows of a task: labels tell whether a text is good, spans and answers where `o` is."""
    rows = []
    for index, one in enumerate(sentiment(number, seed)):
        text, is_good = f"{one.text} o", one.labels[0] == "good"
        place = text.index("o")
        rows.append(
            {
                "single": {"text": text, "label": one.labels[0]},
                "multi": {"text": text, "labels": ["good", "text"] if is_good else ["text"]},
                "regression": {"text": text, "score": 1.5 if is_good else -0.5},
                "pair": {"text_a": text, "text_b": "a l", "label": one.labels[0]},
                "tag": {"text": text, "spans": [{"start": place, "end": place + 1, "label": "O"}]},
                "crf": {"text": text, "spans": [{"start": place, "end": place + 1, "label": "O"}]},
                "answer": {
                    "id": str(index),
                    "question": "a",
                    "context": text,
                    "answers": [{"text": "o", "answer_start": place}],
                },
            }[kind]
        )
    return rows


def signalled_at(step: int, number: int, kind: Any = FineTune) -> Callable[[Any, int], Any]:
    """Return a `batch` that sends a signal to its own process when a step asks for its examples."""
    batch = kind.batch

    def with_signal(task: Any, wanted: int) -> Any:
        if wanted == step:
            os.kill(os.getpid(), number)
        return batch(task, wanted)

    return with_signal
