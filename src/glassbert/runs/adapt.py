"""Further pre-training on a task's own text: the encoder learns its words before it learns its labels."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from glassbert.data.corpus.build import build_corpus
from glassbert.data.examples import Example
from glassbert.interop.folder import write_model
from glassbert.interop.huggingface import build
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.runs.finetune import Log, OnStatus, with_dropout
from glassbert.runs.finetune_recipe import FineTuneRecipe
from glassbert.runs.pretrain import PretrainRecipe, pretrain
from glassbert.storage import new_folder, write_atomically
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.loop import TrainResult


def adapt(
    recipe: FineTuneRecipe, rows: Sequence[Example], out: Path, log: Log, on_status: OnStatus | None = None
) -> Path | TrainResult:
    """Train the recipe's model on the text of ``rows`` in ``out`` and return the new model's folder.

    What was begun or done there is gone on with. When a signal asked to stop, return how far it is.
    """
    model = out / "model"
    if model.is_dir():
        return model
    tokenizer = Tokenizer.load(recipe.model.folder)
    corpus = out / "corpus"
    if not corpus.is_dir():
        _write_corpus(texts_of(rows), tokenizer, out, corpus)
    log(f"first {recipe.adapt.epochs:g} epochs of pre-training on the text of the training rows")
    start = _start_folder(recipe, tokenizer, out / "start")
    result = pretrain(_pretraining(recipe, corpus, start), out / "run", log, on_status)
    if not result.is_finished:
        return result
    with new_folder(model) as folder:
        adapted, _ = build(read_stored(out / "run" / "last"))
        write_model(_with_encoder(recipe, adapted), tokenizer, folder, run={"adapted": recipe.tables()})
    return model


def texts_of(rows: Iterable[Example]) -> Iterator[str]:
    """Yield every different text of the rows once, on one line each."""
    seen: set[str] = set()
    for row in rows:
        for text in (" ".join(text.split()) for text in row.texts):
            if text and text not in seen:
                seen.add(text)
                yield text


def _write_corpus(texts: Iterable[str], tokenizer: Tokenizer, out: Path, corpus: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    path = out / "text.txt"
    write_atomically(path, "".join(f"{text}\n" for text in texts).encode("utf-8", "replace"))
    build_corpus(path, tokenizer=tokenizer, out=corpus, form="documents")


def _start_folder(recipe: FineTuneRecipe, tokenizer: Tokenizer, start: Path) -> Path:
    """Write the model to start from with an MLM head and the recipe's dropout."""
    if not start.is_dir():
        source = with_dropout(read_stored(recipe.model.folder), recipe)
        network, _ = build(source, head="mlm", seed=recipe.train.seed)
        with new_folder(start) as folder:
            write_model(network, tokenizer, folder, run={})
    return start


def _pretraining(recipe: FineTuneRecipe, corpus: Path, start: Path) -> PretrainRecipe:
    shape = read_stored(start).config
    max_length = min(recipe.adapt.max_length, shape["max_position_embeddings"])
    rate = recipe.adapt.learning_rate or recipe.train.learning_rate / 2
    return PretrainRecipe.of(
        {
            "data": {"corpus": str(corpus)},
            "model": {"init_from": str(start)},
            "objective": {"name": "mlm", "max_length": max_length},
            "train": {
                "epochs": recipe.adapt.epochs,
                "learning_rate": rate,
                "batch_tokens": max(max_length, recipe.adapt.batch_tokens),
                "seed": recipe.train.seed,
                "keep": 1,
            },
        }
    )


def _with_encoder(recipe: FineTuneRecipe, adapted: Bert) -> Bert:
    """Return the recipe's model with the adapted encoder: its pooler, which MLM has no use for, stays."""
    network, _ = build(read_stored(recipe.model.folder), head="none")
    network.encoder.load_state_dict(adapted.encoder.state_dict())
    return network
