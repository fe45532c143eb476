"""The work on each file: embed or predict, the same way in any process."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from glassbert.data.examples import BadRow, ReadOptions, TextExample
from glassbert.data.rows.read import file_examples
from glassbert.data.rows.record import Notes, Record, text_of
from glassbert.data.rows.schema import Schema
from glassbert.errors import ModelError, UserError
from glassbert.inference.devices import Place
from glassbert.model_names import HUB_FILES
from glassbert.ranges import Share
from glassbert.storage import sha256_of
from glassbert.text.truncate import Keep
from glassbert.typed import check_fields

if TYPE_CHECKING:
    from glassbert.inference.embeddings import EmbeddedText
    from glassbert.inference.model import Model
    from glassbert.tasks.task import Prediction

    Answer = EmbeddedText | Prediction

OutputFormat = Literal["jsonl", "parquet"]
"""The format of the output files."""


@dataclass(frozen=True, kw_only=True)
class Job(ABC):
    """The work on each file. It is small: other processes and machines get a copy."""

    verb: ClassVar[str]
    model: str
    """The model's folder."""
    place: Place
    options: ReadOptions
    to: OutputFormat = "jsonl"

    def __post_init__(self) -> None:
        check_fields(self)

    def load(self) -> "Model":
        """Return the model, ready to work."""
        from glassbert.inference.loading import load
        from glassbert.inference.model import Model

        return load(self.model, Model, **self.place)

    def check(self) -> None:  # noqa: B027 (not every job has something to check)
        """Refuse what the model's folder does not have, before anything is written."""

    @abstractmethod
    def answers(self, model: "Model", path: Path, notes: Notes) -> "Iterator[Answer | BadRow]":
        """Yield the answer to each row of a file, in order."""

    def identity(self) -> dict[str, Any]:
        """Return all that the answers depend on, so that two jobs never share a folder of results."""
        settings = asdict(self)
        del settings["model"]
        settings["options"].pop("skip_bad")  # the tolerance for bad rows changes no answer
        return {"verb": self.verb, "model_sha256": _sha256_of_folder(Path(self.model)), **settings}


@dataclass(frozen=True, kw_only=True)
class EmbedJob(Job):
    """A vector for each text."""

    verb = "embed"
    keep: Keep
    prompt_name: str | None = None

    def check(self) -> None:
        if self.prompt_name is None:
            return
        from glassbert.interop.sentence_transformers import SentenceSettings, read_sentence_settings
        from glassbert.model.pooling import Pooling
        from glassbert.text.wordpiece.tokenizer import Tokenizer

        is_lowercase = Tokenizer.load(self.model).settings.lowercase
        sentences = read_sentence_settings(self.model, is_lowercase) or SentenceSettings(Pooling())
        sentences.prompt(self.prompt_name)

    def answers(self, model: "Model", path: Path, notes: Notes) -> "Iterator[EmbeddedText | BadRow]":
        from glassbert.inference.predict import embed_stream

        rows = file_examples(TEXTS, path, self.options, notes)
        return embed_stream(model, rows, keep=self.keep, prompt_name=self.prompt_name)


@dataclass(frozen=True, kw_only=True)
class PredictJob(Job):
    """The answer of a fine-tuned model to each row."""

    verb = "predict"
    task: str | None
    abstain_below: Share
    accuracy: Share | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to != "jsonl":
            raise UserError(f"to={self.to}: predictions are written as jsonl; leave it out")

    def answers(self, model: "Model", path: Path, notes: Notes) -> "Iterator[Prediction | BadRow]":
        from glassbert.inference.predict import predict_stream, schema_for, threshold_for_accuracy

        below = self.abstain_below
        if self.accuracy is not None:
            below = max(below, threshold_for_accuracy(model, self.accuracy))
        rows = file_examples(schema_for(model.task, self.task), path, self.options, notes)
        return predict_stream(model, rows, abstain_below=below)


class _TextSchema(Schema[TextExample]):
    def example(self, row: Record, notes: Notes) -> TextExample:
        return TextExample(text_of(row.values, "text"), None, (), None, row.where)


TEXTS = _TextSchema(task="embed", required=("text",), formats=("csv", "tsv", "text"))
"""The rows that are embedded: texts without labels."""


def _sha256_of_folder(folder: Path) -> str:
    """Return a digest of the weights of a model and of what describes them."""
    files = sorted({file for pattern in HUB_FILES for file in folder.rglob(pattern) if file.is_file()})
    if not files:
        raise ModelError(f"no model in {folder}; expected a folder with config.json and model.safetensors")
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(folder).as_posix()} {sha256_of(file)}\n".encode())
    return digest.hexdigest()
