"""Checks of a model folder that may be too damaged to load: its config, its weights, its tokenizer."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.doctor.tensors import Facts, check_names, check_numbers, check_trained, facts_of
from glassbert.glassbox.doctor.verdict import NO_ADVICE, Verdict
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.interop.families import OWN, family_of
from glassbert.interop.family import Config, Family
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.interop.stored import StoredModel, find_stored
from glassbert.interop.weights import weight_files
from glassbert.model_names import model_folder
from glassbert.sentence import Sentence, joined, said_by
from glassbert.text.vocabulary import SPECIALS
from glassbert.text.wordpiece.tokenizer import Tokenizer

AGAIN = Sentence("fetch or write the folder again")


@dataclass
class FolderVisit:
    """What is known about a folder."""

    verdicts: list[Verdict] = field(default_factory=list)
    loaded: Model | Translator | None = None

    def fault(self, check: str, error: Exception) -> None:
        """Note that something cannot be read; the message says what and mostly what to do."""
        message = said_by(error)
        self.verdicts.append(Verdict(check, "fault", message, NO_ADVICE if ";" in message else AGAIN))


def visit_folder(name: str | Path, place: Mapping[str, Any]) -> FolderVisit:
    """Check a folder as far as it can be read, and load its model if that works.

    Args:
        place: Device and precision, as `load` takes them.
    """
    visit, folder = FolderVisit(), model_folder(name)
    if not folder.is_dir():
        find_stored(folder)  # says what was expected
    stored, family = _stored(folder, visit)
    facts = _facts(folder, stored, family, visit)
    config = _config(stored, family, facts, visit) if stored and family else None
    if family and config and facts:
        visit.verdicts += check_names(facts, family, config)
    if facts:
        visit.verdicts += check_numbers(facts)
    if config and facts:
        visit.verdicts.append(check_trained(facts, config))
    if stored and isinstance(config, ModelConfig):
        visit.verdicts += _tokenizer(folder, stored, config, visit)
        visit.verdicts += check_label_names(config)
    try:
        visit.loaded = load(folder, **place)
        visit.verdicts.append(
            Verdict("loads", "ok", Sentence("as a {kind}", kind=type(visit.loaded).__name__))
        )
    except (UserError, OSError) as error:
        visit.fault("loads", error)
    return visit


def visit_loaded(model: Model | Translator) -> FolderVisit:
    """Check the numbers of a model that is in memory."""
    config = model.network.config
    facts = list(facts_of(model.network.state_dict().items(), OWN))  # under our own names
    visit = FolderVisit([*check_numbers(facts), check_trained(facts, config)], model)
    if isinstance(config, ModelConfig):
        visit.verdicts += check_label_names(config)
    return visit


def _stored(folder: Path, visit: FolderVisit) -> tuple[StoredModel | None, Family[Any] | None]:
    try:
        stored = find_stored(folder)
        return stored, family_of(stored.config)
    except ModelError as error:
        visit.fault("config", error)
        return None, None


def _facts(
    folder: Path, stored: StoredModel | None, family: Family[Any] | None, visit: FolderVisit
) -> list[Facts]:
    facts: list[Facts] = []
    try:
        for one in facts_of(_tensors(folder, stored), family):
            facts.append(one)
    except (UserError, OSError) as error:
        visit.fault("weights", error)
    return facts


def _tensors(folder: Path, stored: StoredModel | None) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a folder one by one."""
    if stored is not None and (stored.kind != "safetensors" or stored.is_compressed):
        yield from stored.tensors.items()
        return
    for path in weight_files(folder):
        yield from SafetensorsFile(path).items()


def _config(
    stored: StoredModel, family: Family[Any], facts: list[Facts], visit: FolderVisit
) -> Config | None:
    try:
        names = [one.name for one in facts]
        config, notes = family.read_config(stored.config, str(stored.config_path), names)
    except UserError as error:
        visit.fault("config", error)
        return None
    if notes:
        visit.verdicts.append(Verdict("config", "warn", joined(notes, "; ")))
    else:
        finding = Sentence(
            "{family}, as {file} says",
            family=Sentence("a {kind}", kind=family.name.removeprefix("a ")),
            file=stored.config_path.name,
        )
        visit.verdicts.append(Verdict("config", "ok", finding))
    found: Config = config
    return found


def _tokenizer(
    folder: Path, stored: StoredModel, config: ModelConfig, visit: FolderVisit
) -> Iterator[Verdict]:
    """Yield whether the vocabulary fits the embedding, and the special ids the config."""
    try:
        tokenizer = Tokenizer.load(folder)
    except UserError as error:
        visit.fault("tokenizer", error)
        return
    vocabulary, shape = tokenizer.vocabulary, config.encoder
    num_pieces, num_rows = len(vocabulary), shape.vocab_size
    if num_pieces > num_rows:
        yield Verdict(
            "tokenizer",
            "fault",
            Sentence(
                "{num_pieces:,} pieces, but the embedding has {num_rows:,} rows",
                num_pieces=num_pieces,
                num_rows=num_rows,
            ),
            Sentence("use the vocabulary that the model was trained with"),
        )
    pad = stored.config.get("pad_token_id", vocabulary.pad_id)
    if pad is not None and pad != vocabulary.pad_id:
        there = vocabulary.pieces[pad] if 0 <= pad < num_pieces else Sentence("outside the vocabulary")
        yield Verdict(
            "special ids",
            "fault",
            Sentence(
                "config.json pads with id {pad} ({there}), the vocabulary's [PAD] is {pad_id}",
                pad=pad,
                there=there,
                pad_id=vocabulary.pad_id,
            ),
            Sentence("one of the two files is another model's"),
        )
    else:
        ids = dict(zip(SPECIALS, vocabulary.special_ids, strict=True))
        names = ", ".join(f"{piece} {id_}" for piece, id_ in ids.items())
        yield Verdict("special ids", "ok", Sentence("{names}", names=names))
    for assumption in tokenizer.assumptions:
        finding = Sentence("assumed: {assumption}", assumption=assumption)
        advice = Sentence("add tokenizer_config.json if it is wrong")
        yield Verdict("tokenizer", "warn", finding, advice)
    if tokenizer.max_length > shape.max_position_embeddings:
        finding = Sentence(
            "takes {max_length} tokens, the position table has {num_positions}",
            max_length=tokenizer.max_length,
            num_positions=shape.max_position_embeddings,
        )
        yield Verdict("tokenizer", "warn", finding, Sentence("texts are cut at the table's length"))
    if num_pieces <= num_rows and not tokenizer.assumptions:
        finding = Sentence(
            "{num_pieces:,} pieces for {num_rows:,} rows", num_pieces=num_pieces, num_rows=num_rows
        )
        if num_rows > num_pieces:
            finding = Sentence(
                "{figure}, {num_spare:,} rows to spare", figure=finding, num_spare=num_rows - num_pieces
            )
        yield Verdict("tokenizer", "ok", finding)


def check_label_names(config: ModelConfig) -> Iterator[Verdict]:
    """Yield whether the labels of a head have names that mean something."""
    labels = config.labels
    if not labels:
        return
    if len(set(labels)) < len(labels):
        finding = Sentence("the same name twice among {count}", count=len(labels))
        yield Verdict("labels", "fault", finding, Sentence("correct id2label"))
    elif len(labels) > 1 and all(label.startswith("LABEL_") for label in labels):
        finding = Sentence("{count} without names (LABEL_0 ...)", count=len(labels))
        yield Verdict("labels", "warn", finding, Sentence("name them in id2label"))
    else:
        names = ", ".join(labels[:6]) + " ..." * (len(labels) > 6)
        yield Verdict("labels", "ok", Sentence("{count}: {names}", count=len(labels), names=names))
