"""A pre-training run of a second, for tests of the engine; also started as a program, to be killed."""

import random
import sys
from pathlib import Path
from typing import Any

from corpora import VOCABULARY, memory_corpus
from glassbert.config import ModelConfig, preset
from glassbert.data.objective import PretrainObjective
from glassbert.data.settings import ObjectiveSettings
from glassbert.model.init import new_bert
from glassbert.tasks.pretrain import Pretrain
from glassbert.text.tokenizer import Tokenizer
from glassbert.training.loop import TrainResult, train
from glassbert.training.settings import TrainSettings

STEPS = 12


def small_task() -> Pretrain:
    """Return a tiny model with dropout on a corpus of random words."""
    generator = random.Random(0)
    documents = [[generator.randrange(3, 20) for _ in range(generator.randrange(3, 12))] for _ in range(40)]
    objective = PretrainObjective(
        memory_corpus(documents), VOCABULARY, ObjectiveSettings(max_length=32, batch_tokens=256, seed=1)
    )
    shape = preset(
        "tiny",
        vocab_size=len(VOCABULARY),
        max_position_embeddings=32,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
    )
    bert = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0)
    held_out = tuple(objective.evaluation_batches(500))
    return Pretrain(bert, Tokenizer(VOCABULARY), objective, held_out=held_out, entropy=5.0)


def run(
    folder: Path, task: Pretrain | None = None, told: list[str] | None = None, **changes: Any
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
    tell = (told if told is not None else []).append
    return train(task or small_task(), TrainSettings(**(settings | changes)), folder, about={}, tell=tell)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
