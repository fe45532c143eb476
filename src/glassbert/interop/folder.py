"""A model folder: read, turned into a network, and written, whatever family it is of."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self, cast

import torch

from glassbert.config import Head, LstmConfig, ModelConfig, ProblemType, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.heads import HEADS, PARTS
from glassbert.interop.build import Assemble, LoadReport, build, tensors_for_file
from glassbert.interop.card import model_card
from glassbert.interop.compress import compressed
from glassbert.interop.families import check_kind, family_for, family_of
from glassbert.interop.family import Config, Family, NamedTensors
from glassbert.interop.on_demand import OnDemand
from glassbert.interop.stored import StoredModel, find_stored
from glassbert.interop.weights import WEIGHTS, write_weights
from glassbert.model.bert import Bert
from glassbert.model.init import Network, materialised
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from glassbert.model_names import model_folder
from glassbert.sentence import Sentence
from glassbert.storage import read_json, write_atomically, write_json
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.typed import typed
from glassbert.version import __version__

TranslatorNetwork = Transformer | Lstm


@dataclass(frozen=True)
class ModelFolder(ABC):
    """A folder that holds a model; `EncoderFolder` or `TranslatorFolder`. Nothing big is read before use."""

    stored: StoredModel
    family: Family[Any]

    @classmethod
    def open(cls, name: str | Path, *, may_unpickle: bool = False) -> Self:
        """Open a model folder, the best model of a run folder, or `demo`.

        `EncoderFolder.open` refuses translators, `TranslatorFolder.open` refuses what does not translate.

        Args:
            may_unpickle: Also read pytorch_model.bin. Only `convert`, which a user runs knowingly, allows it.
        """
        stored = find_stored(model_folder(name), may_unpickle=may_unpickle)
        family = family_of(stored.config)
        kind = TranslatorFolder if family.is_translator else EncoderFolder
        if not issubclass(kind, cls):
            check_kind(family, name, is_translator=cls is TranslatorFolder)
        return cast(Self, kind(stored, family))

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.stored.folder

    @cached_property
    def run(self) -> dict[str, Any]:
        """The content of run.json: how the model was made, and its task; empty if there is none."""
        path = self.path / "run.json"
        run = read_json(path) if path.exists() else {}
        typed(run.get("task", {}), Mapping[str, Any], f"{path}: task", error=ModelError)
        typed(run.get("recipe", {}), Mapping[str, Mapping[str, Any]], f"{path}: recipe", error=ModelError)
        return run

    @property
    @abstractmethod
    def config(self) -> Config:
        """The shape of the network."""

    @abstractmethod
    def tokenizer(self) -> Tokenizer | SubwordTokenizer:
        """Return the folder's tokenizer; it must fit the network."""

    @abstractmethod
    def build(self, *, assemble: Assemble = materialised) -> tuple[Network, LoadReport]:
        """Make the network, ready for inference.

        Args:
            assemble: Reads the tensors and makes the network.
        """

    @property
    def config_notes(self) -> tuple[str, ...]:
        """What the user should know about config.json."""
        return self._read_config[1]

    @cached_property
    def _read_config(self) -> tuple[Any, tuple[str, ...]]:
        return self.family.read_config(self.stored.config, str(self.stored.config_path), self.stored.shapes)

    def _tensors(self, config: Config) -> NamedTensors:
        try:
            named = self.family.from_file(self.stored.tensors, config)
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from None
        return replace(named, notes=(*self.stored.notes, *self.config_notes, *named.notes))


class EncoderFolder(ModelFolder):
    """A BERT with any head."""

    @property
    def config(self) -> ModelConfig:
        """The shape of the encoder, and its head."""
        return cast(ModelConfig, self._read_config[0])

    def tokenizer(self) -> Tokenizer:
        """Return the folder's tokenizer; the network must have a row for every piece."""
        tokenizer = Tokenizer.load(self.path)
        check_rows(self.path, len(tokenizer.vocabulary), self.config.encoder.vocab_size)
        return tokenizer

    def build(
        self,
        *,
        head: Head | None = None,
        labels: Sequence[str] = (),
        problem_type: ProblemType | None = None,
        seed: int = 0,
        changes: Mapping[str, Any] | None = None,
        assemble: Assemble = materialised,
    ) -> tuple[Bert, LoadReport]:
        """Make the network.

        Args:
            head: Put this head on the encoder instead of the folder's; its weights start fresh unless the
                folder has them.
            labels: The classes of a classify or tag head; those of the folder's, if not given.
            seed: Of the fresh weights.
            changes: Fields of the encoder's config that replace the folder's, such as its dropout.
            assemble: Reads the tensors and makes the network.
        """
        config = replace(self.config, encoder=replace(self.config.encoder, **changes or {}))
        wanted = config if head is None else _with_head(config, head, tuple(labels), problem_type)
        stored = self._tensors(config)
        if wanted.labels != config.labels:
            # Weights for other labels are useless, even if there happen to be as many.
            others = dict.fromkeys(name for name in stored.state if not name.startswith("labels."))
            stored = replace(stored, state=OnDemand(others, stored.state.__getitem__))
        fresh = PARTS if wanted != config else ()
        network, report = build(
            self.family, wanted, stored, self.path, fresh=fresh, seed=seed, assemble=assemble
        )
        return cast(Bert, network), report


class TranslatorFolder(ModelFolder):
    """An encoder-decoder with its vocabulary."""

    @property
    def config(self) -> TransformerConfig | LstmConfig:
        """The shape of both sides."""
        return cast(TransformerConfig | LstmConfig, self._read_config[0])

    def tokenizer(self) -> SubwordTokenizer:
        """Return the vocabulary of both sides; it must fit the network."""
        if not (self.path / "tokenizer.json").is_file():
            raise ModelError(
                f"no tokenizer.json in {self.path}; a translator needs the one it was trained with (Marian's "
                "SentencePiece files are not read)"
            )
        tokenizer, config = SubwordTokenizer.load(self.path), self.config
        check_rows(self.path, len(tokenizer), config.vocab_size, may_have_spare=False)
        if (config.decoder_start_token_id, config.eos_token_id) != (tokenizer.pad_id, tokenizer.end_id):
            raise ModelError(
                f"{self.path}: the model starts with id {config.decoder_start_token_id} and ends with "
                f"{config.eos_token_id}, its vocabulary with {tokenizer.pad_id} and {tokenizer.end_id}"
            )
        return tokenizer

    def build(self, *, assemble: Assemble = materialised) -> tuple[TranslatorNetwork, LoadReport]:
        """Make the network.

        Args:
            assemble: Reads the tensors and makes the network.
        """
        stored = self._tensors(self.config)
        network, report = build(self.family, self.config, stored, self.path, assemble=assemble)
        return cast(TranslatorNetwork, network), report


def check_rows(folder: str | Path, num_pieces: int, num_rows: int, *, may_have_spare: bool = True) -> None:
    """Refuse a vocabulary with more pieces than the network has rows or, on request, with fewer."""
    if num_pieces > num_rows or (num_pieces < num_rows and not may_have_spare):
        raise ModelError(
            Sentence(
                "{folder}: the vocabulary has {num_pieces} pieces, but the model has {num_rows} rows; use "
                "the vocabulary that the model was trained with",
                folder=folder,
                num_pieces=num_pieces,
                num_rows=num_rows,
            )
        )


def write_model(
    network: Network,
    tokenizer: Tokenizer | SubwordTokenizer,
    folder: str | Path,
    *,
    dtype: str = "float32",
    run: Mapping[str, Any],
) -> None:
    """Write a model into ``folder``, which exists; `transformers` loads it if it computes the same.

    Args:
        dtype: How to store the numbers.
        run: The content of run.json: how the model was made.
    """
    folder = Path(folder)
    write_network(network, folder, dtype=dtype)
    # The versions are those of the last writer.
    versions = {"glassbert": __version__, "torch": torch.__version__}
    run = versions | {name: value for name, value in run.items() if name not in versions}
    write_json(folder / "run.json", run)
    if isinstance(tokenizer, SubwordTokenizer):
        limit = cast(TranslatorNetwork, network).config.max_length
        tokenizer = SubwordTokenizer(tokenizer.pieces, tokenizer.merges, max_length=limit)
    tokenizer.save(folder, overwrite=True)
    card = model_card(network, run, is_compressed=dtype == "int8")
    write_atomically(folder / "README.md", card.encode("utf-8"))


def write_network(network: Network, folder: str | Path, *, dtype: str = "float32") -> None:
    """Write config.json and the weights alone into ``folder``, which exists."""
    folder, family = Path(folder), family_for(network.config)
    if dtype == "int8":
        tensors, config = compressed(family, network)
    else:
        tensors, config = tensors_for_file(family, network, dtype), family.write_config(network.config, dtype)
    write_weights(tensors, folder / WEIGHTS)
    write_json(folder / "config.json", config)


def _with_head(
    config: ModelConfig, head: Head, labels: tuple[str, ...], problem_type: ProblemType | None
) -> ModelConfig:
    if head not in HEADS:
        raise UserError(f"head={head!r}; expected one of {', '.join(HEADS)}")
    has_pooler = HEADS[head].needs_pooler or (head == "none" and config.has_pooler)
    if HEADS[head].has_labels and not labels and head == config.head:
        labels = config.labels
    return replace(config, head=head, has_pooler=has_pooler, labels=labels, problem_type=problem_type)
