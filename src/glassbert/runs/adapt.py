"""Adaptation: further pre-training on a task's own text, before the labels are learned."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from glassbert.data.corpus.build import build_corpus
from glassbert.data.examples import Example
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.messages import say_nothing
from glassbert.model.bert import Bert
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.run import RunResult, Session, carry_out
from glassbert.storage import new_folder, write_atomically
from glassbert.text.wordpiece.tokenizer import Tokenizer

if TYPE_CHECKING:
    from glassbert.runs.finetune import FineTuneRecipe


def adapt(recipe: "FineTuneRecipe", rows: Sequence[Example], session: Session) -> RunResult:
    """Train the recipe's model on the text of ``rows``, in the folder `adapt` of the session's run.

    Resumes what was started there and returns at once if it is done.
    """
    assert recipe.model.start is not None
    out = session.out / "adapt"
    model = out / "model"
    if model.is_dir():
        return RunResult(out=out, model=model, step=0, is_finished=True)
    tokenizer = Tokenizer.load(recipe.model.start)
    corpus = out / "corpus"
    if not corpus.is_dir():
        _write_corpus(texts_of(rows), tokenizer, out, corpus)
    session.log(f"first {recipe.adapt.epochs:g} epochs of pre-training on the text of the training rows")
    start = _start_folder(recipe, tokenizer, out / "start")
    pretraining = _pretraining(recipe, corpus, start)
    result = carry_out(pretraining, out / "run", log=session.log, on_status=session.on_status)
    if result.is_finished:
        with new_folder(model) as folder:
            adapted, _ = EncoderFolder.open(result.model).build()
            write_model(_with_encoder(recipe, adapted), tokenizer, folder, run={"adapted": recipe.tables()})
    return replace(result, model=model)


def texts_of(rows: Iterable[Example]) -> Iterator[str]:
    """Yield every distinct text of the rows once, on one line each."""
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
    build_corpus(path, tokenizer=tokenizer, out=corpus, form="documents", log=say_nothing)


def _start_folder(recipe: "FineTuneRecipe", tokenizer: Tokenizer, start: Path) -> Path:
    """Write the model to start from with an MLM head and the recipe's dropout."""
    if not start.is_dir():
        network, _ = recipe.model.folder().build(
            head="mlm", seed=recipe.train.seed, changes=recipe.model.dropout
        )
        with new_folder(start) as folder:
            write_model(network, tokenizer, folder, run={})
    return start


def _pretraining(recipe: "FineTuneRecipe", corpus: Path, start: Path) -> PretrainRecipe:
    shape = EncoderFolder.open(start).config.encoder
    max_length = min(recipe.adapt.max_length, shape.max_position_embeddings)
    rate = recipe.adapt.learning_rate or recipe.train.learning_rate / 2
    return PretrainRecipe.of(
        {
            "data": {"corpus": str(corpus)},
            "model": {"start": str(start)},
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


def _with_encoder(recipe: "FineTuneRecipe", adapted: Bert) -> Bert:
    """Return the recipe's model with the adapted encoder; its pooler, which MLM does not train, stays."""
    network, _ = recipe.model.folder().build(head="none")
    network.encoder.load_state_dict(adapted.encoder.state_dict())
    return network
