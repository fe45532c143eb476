"""Build a corpus, look at its masks, pre-train a small BERT, stop it and resume with the same bits.

Purpose:   chapter 5 of the handbook as one script.
Data:      none; sentences about six animals, in English, in a temporary folder.
Prints:    what the corpus holds, the share of hidden tokens, what stopping changed, the verdict.
Run time:  a few seconds.
"""

import signal
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import glassbert as gb
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective

ANIMALS = ("cat", "dog", "horse", "bird", "rabbit", "monkey")
PLACES = ("garden", "forest", "river", "house", "market", "school")
VERBS = ("sleep", "walk", "sing", "jump", "rest", "drink")
WORDS = ("the", "is", "in", ".", "##ing", *ANIMALS, *PLACES, *VERBS)


def build(scratch: Path) -> None:
    """Write one document per animal and place, and build a corpus of them; every seventh is held out."""
    tokenizer = gb.Tokenizer(gb.Vocabulary((*gb.SPECIALS, *WORDS)), max_length=40)
    documents = [
        "".join(f"The {animal} is {verb}ing in the {place}.\n" for verb in VERBS)
        for animal, place in product(ANIMALS, PLACES)
    ]
    held_out = documents[::7]
    trained_on = [document for document in documents if document not in held_out]
    for name, texts in (("corpus", trained_on), ("held_out", held_out)):
        path = scratch / f"{name}.txt"
        path.write_text("\n".join(texts), encoding="utf-8")
        built = gb.build_corpus(path, tokenizer=tokenizer, out=scratch / name)
        print(f"{name}: {built.manifest.num_documents} documents, {built.manifest.num_tokens} tokens")


def look_at_masks(corpus: gb.Corpus) -> None:
    """Count what is hidden in the first steps, and ask for a batch twice."""
    objective = make_objective(ObjectiveSettings(max_length=40), corpus.tokenizer().vocabulary)
    of_the_run = CorpusBatches(corpus, objective, batch_tokens=1024, seed=0)
    batches = [of_the_run.batch(step) for step in range(60)]
    num_hidden = sum(batch.num_labels("mlm") for batch in batches)
    num_tokens = sum(batch.num_tokens - 3 * batch.num_examples for batch in batches)
    print(f"{num_hidden / num_tokens:.0%} of the tokens are to be predicted")
    again = CorpusBatches(corpus, objective, batch_tokens=1024, seed=0).batch(7)
    print(f"batch 7 asked for again is the same: {again.ids.tobytes() == batches[7].ids.tobytes()}")


def main() -> None:
    """Run the chapter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build(folder)
        look_at_masks(gb.Corpus.open(folder / "corpus"))

        recipe: dict[str, dict[str, Any]] = {
            "data": {"corpus": str(folder / "corpus"), "held_out": str(folder / "held_out")},
            "model": {"preset": "tiny", "max_position_embeddings": 64},
            "objective": {"name": "mlm+nsp", "max_length": 40},
            "train": {"steps": 40, "batch_tokens": 512, "learning_rate": 3e-3, "log_every": 20},
        }
        lines: list[str] = []
        gb.pretrain(recipe, out=folder / "run", log=lines.append)
        stopped = gb.pretrain(
            recipe, out=folder / "stopped", log=lambda line: signal.raise_signal(signal.SIGTERM)
        )
        print(f"asked to stop at step 20, stopped after step {stopped.step}")
        gb.pretrain(recipe, out=folder / "stopped", log=lines.append)
        models = [(folder / run / "last" / "model.safetensors").read_bytes() for run in ("run", "stopped")]
        print(f"both runs end with the same bits: {models[0] == models[1]}")
        print(lines[-1])


if __name__ == "__main__":
    main()
