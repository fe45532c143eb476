"""A pre-training run of a second, for tests of the engine; also started as a program, to be killed."""

import hashlib
import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glassbert.config import preset
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.model.init import new_bert
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import PretrainNetwork
from glassbert.tasks.pretraining import Pretrain
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.loop import TrainResult, train
from glassbert.training.settings import TrainSettings
from helpers.corpora import VOCABULARY, batches_of, memory_corpus

STEPS = 12


def small_task(dropout: float = 0.1, name: str = "mlm+nsp", **options: Any) -> Pretrain:
    """Return a tiny model on a corpus of random words, with the objective ``name``."""
    generator = random.Random(0)
    documents = [[generator.randrange(3, 20) for _ in range(generator.randrange(3, 12))] for _ in range(40)]
    batches = batches_of(memory_corpus(documents), name, **options)
    objective = batches.rules
    assert isinstance(objective, Objective)
    shape = preset(
        "tiny",
        vocab_size=len(VOCABULARY),
        max_position_embeddings=32,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    bert = new_bert(objective.model_config(shape), seed=0)
    held_out = tuple(objective.held_out_batches(batches.corpus, 500, batch_tokens=256))
    return Pretrain(
        bert,
        Tokenizer(VOCABULARY),
        objective,
        batches,
        held_out=held_out,
        guess=lambda: 5.0,
        num_steps=lambda steps_in_epochs: STEPS,
    )


def with_event(task: Pretrain, step: int, event: Callable[[], None]) -> Pretrain:
    """Let ``event`` happen when the batch of ``step`` is asked for."""
    batch = task.batch

    def batch_with_event(wanted: int) -> PretrainBatch:
        if wanted == step:
            event()
        return batch(wanted)

    task.batch = batch_with_event  # type: ignore[method-assign]
    return task


def recorded(task: Pretrain, path: Path) -> Pretrain:
    """Write down which examples this process learns from in each step, by a hash of their ids."""
    seen: dict[int, list[str]] = {}
    batch = task.batch

    def batch_and_new_line(step: int) -> PretrainBatch:
        seen[step] = []
        return batch(step)

    def note(module: PretrainNetwork, arguments: tuple[PretrainBatch]) -> None:
        if module.training:
            examples = np.split(arguments[0].ids, np.cumsum(arguments[0].lengths)[:-1])
            seen[max(seen)] += [hashlib.sha256(ids.tobytes()).hexdigest()[:16] for ids in examples]
            path.write_text(json.dumps(seen))

    task.batch = batch_and_new_line  # type: ignore[method-assign]
    task.module.register_forward_pre_hook(note)
    return task


def run(
    folder: Path, task: Pretrain | None = None, reported: list[str] | None = None, **changes: Any
) -> TrainResult:
    """Train for a dozen steps in ``folder``."""
    settings = {
        "steps": STEPS,
        "save_every": 3,
        "evaluate_every": 4,
        "log_every": 1,
        "micro_tokens": 100,
        "ema_decay": 0.9,
        "learning_rate": 1e-3,
    }
    task = task or small_task(changes.pop("dropout", 0.1))
    log, on_status = (reported if reported is not None else []).append, changes.pop("on_status", None)
    return train(task, TrainSettings(**(settings | changes)), folder, about={}, log=log, on_status=on_status)


def main(folder: Path, changes: dict[str, Any]) -> None:
    """Train as a program; `stop_after` and `kill_rank_at` make something happen to it on the way.

    With `record`, each process writes down which examples it learns from.
    """
    task = small_task(changes.pop("dropout", 0.1), changes.pop("name", "mlm+nsp"))
    stop_after, kill_rank_at = changes.pop("stop_after", None), changes.pop("kill_rank_at", None)
    if changes.pop("record", False):
        task = recorded(task, folder.with_name(f"{folder.name}-{os.environ['RANK']}.json"))
    if stop_after is not None:
        task = with_event(task, stop_after - 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    if kill_rank_at is not None and os.environ["RANK"] == "1" and not (folder / "killed").exists():

        def die() -> None:
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

        task = with_event(task, kill_rank_at, die)
    run(folder, task, **changes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
