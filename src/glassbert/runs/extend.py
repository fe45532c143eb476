"""New pieces from a text: find what the vocabulary lacks, add rows for it, and train only these."""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.sentences import sampled_sentences
from glassbert.errors import DataError, ModelError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.interop.extend_rows import extended_tokenizer, with_rows
from glassbert.interop.folder import EncoderFolder
from glassbert.messages import Log, say_nothing
from glassbert.model.bert import Bert
from glassbert.model_names import model_folder
from glassbert.ranges import Count, CountOrNone
from glassbert.runs.folder import plain_tables
from glassbert.runs.recipe import Tables
from glassbert.runs.run import Finish, RunResult, Session, SingleRun
from glassbert.runs.start_rows import Start, contexts_of, started
from glassbert.storage import read_json, sha256_of, write_atomically, write_json
from glassbert.tasks.objectives.masked import MaskedLanguage
from glassbert.tasks.objectives.new_rows import NewRows
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.pretraining import Pretrain
from glassbert.text.components import read_components
from glassbert.text.documents import Form
from glassbert.text.extend import ExtensionPlan, plan_extension
from glassbert.text.files import input_files
from glassbert.text.inspection import TextReport, inspect_text
from glassbert.text.wordpiece.settings import MAX_CHARACTERS_PER_WORD
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter
from glassbert.training.loop import TrainResult
from glassbert.training.settings import TrainSettings
from glassbert.typed import check_fields, check_keys, settings_from

REPORT = "extension.json"
_HELD_OUT_EVERY = 10
_MEASURED_TOKENS = 50_000
_COUNTED_TOGETHER = 10_000
_RARE_SHARE = 0.02
_STEPS = 200
_RATE = 3e-3


@dataclass(frozen=True, kw_only=True)
class NewPieces:
    """The `[extend]` table."""

    model: Path
    """Model to extend; it needs an MLM head."""
    text: tuple[Path, ...]
    """Raw text whose words the vocabulary should know."""
    form: Form | None = None
    """Form of the text; detected if not set."""
    most: Count = 1_000
    """Pieces to add at most: words that are [UNK] first, then those that save most pieces."""
    min_count: Count = 5
    """How often a word must occur."""
    min_pieces: Count = 3
    """A word of this many pieces becomes one; unknown words always do."""
    start: Start = "both"
    """How a new row is initialised: from what the model expects in its contexts, the mean of characters with
    the same components, half of each, or the mean of its old pieces."""
    components: Path | None = None
    """File of characters with their components; without one, contexts alone are taken."""
    sentences: Count = 200_000
    """Sentences to look at, drawn evenly from all of the text; every tenth is held out."""
    contexts: CountOrNone = 8
    """Sentences in which the model says what it expects."""

    def __post_init__(self) -> None:
        check_fields(self, "extend")


@dataclass(frozen=True, kw_only=True)
class ExtendRecipe:
    """All tables of an extension."""

    extend: NewPieces
    train: TrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "ExtendRecipe":
        """Check the tables of a recipe."""
        check_keys(tables, ("task", "extend", "train"), "recipe")
        train = {"learning_rate": _RATE, "weight_decay": 0.0, "keep": 1, **tables.get("train", {})}
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["steps"] = _STEPS
        train.setdefault("evaluate_every", train.get("steps", _STEPS))
        found = dict(tables.get("extend", {}))
        if "model" in found:
            found["model"] = str(model_folder(found["model"]))
        return cls(
            extend=settings_from(NewPieces, found, "extend"),
            train=settings_from(TrainSettings, train, "train"),
        )

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        return plain_tables(
            {"task": {"name": "extend"}, "extend": asdict(self.extend), "train": asdict(self.train)}
        )

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe with the settings that it lacks."""
        return ExtendRecipe.of(before).tables()

    def reads(self) -> list[Path]:
        """Return the files and folders that the run reads."""
        components = [self.extend.components] if self.extend.components else []
        return [self.extend.model, *self.extend.text, *components]

    def prepare(self, out: Path, log: Log) -> "Extension":
        """Read the text and plan the new rows."""
        folder = EncoderFolder.open(self.extend.model)
        if not folder.config.parts or "mlm" not in folder.config.parts:
            raise ModelError(
                f"{folder.path}: no MLM head to train new rows with; extend the pre-trained model, or name "
                "the words with --words"
            )
        tokenizer = folder.tokenizer()
        settings, files = self.extend, list(self.extend.text)
        sentences = sampled_sentences(files, settings.sentences, settings.form, seed=self.train.seed, log=log)
        held_out = sentences[::_HELD_OUT_EVERY]
        train = [one for at, one in enumerate(sentences) if at % _HELD_OUT_EVERY]
        words = lacking_words(settings, tokenizer, train)
        if not words:
            raise DataError(
                f"{files[0]}: no word of {settings.min_count} or more occurrences is [UNK] or has "
                f"{settings.min_pieces} pieces; nothing to add"
            )
        plan = plan_extension(tokenizer, words)
        paths = input_files(files)
        hashes = [sha256_of(path) for path in paths]
        about = {"text": {"files": [path.name for path in paths], "sha256": hashes}}
        return Extension(self, plan, train, held_out, about, log)


def lacking_words(settings: NewPieces, tokenizer: Tokenizer, sentences: Sequence[str]) -> list[str]:
    """Return the words of the text that become [UNK] or many pieces, the most useful first."""
    splitter = WordSplitter(tokenizer.settings)
    counts: Counter[str] = Counter()
    for start in range(0, len(sentences), _COUNTED_TOGETHER):
        counts.update(splitter.count("\n".join(sentences[start : start + _COUNTED_TOGETHER])))
    frequent = [word for word, count in counts.items() if count >= settings.min_count]
    unk_id = tokenizer.vocabulary.unk_id
    saved: dict[str, tuple[bool, int]] = {}
    for word, ids in zip(frequent, tokenizer.ids_of_batch(frequent), strict=True):
        is_unknown = unk_id in ids
        is_short = len(word) <= MAX_CHARACTERS_PER_WORD  # a longer word is always [UNK]
        if is_short and (is_unknown or len(ids) >= settings.min_pieces):
            saved[word] = (is_unknown, counts[word] * max(1, len(ids) - 1))
    order = sorted(saved, key=lambda word: (not saved[word][0], -saved[word][1], word))
    return order[: settings.most]


@dataclass(frozen=True)
class Extension:
    """An extension that is planned; see `Prepared`."""

    recipe: ExtendRecipe
    plan: ExtensionPlan
    train: Sequence[str]
    held_out: Sequence[str]
    data: Mapping[str, Any]
    log: Log

    @property
    def settings(self) -> TrainSettings:
        """How the rows are trained."""
        return self.recipe.train

    def carry_out(self, session: Session) -> RunResult:
        """Write the texts, start the rows, train them, and measure before and after."""
        out, plan = session.out, self.plan
        model = load(self.recipe.extend.model, Model)
        tokenizer = extended_tokenizer(model.tokenizer, plan)
        ids = {row.id for row in plan.rows}
        texts = {"train": self.train, "held": self.held_out}
        split = {name: _by_use(tokenizer, sentences, ids) for name, sentences in texts.items()}
        self.log(
            f"{len(plan.rows):,} new pieces; {len(split['train'][0]):,} sentences have some, "
            f"{len(split['held'][0]):,} more are held out"
        )
        corpora = {
            "train": _corpus(split["train"][0], tokenizer, out / "train"),
            "held": _corpus(split["held"][0], tokenizer, out / "held"),
            "elsewhere": _corpus(split["held"][1], model.tokenizer, out / "elsewhere"),
        }
        network = self._started(model, tokenizer, split["train"][0])
        as_started = deepcopy(network)  # a run that is resumed reads its rows into the network
        trainable = self._trainable(network, tokenizer, corpora)
        run = SingleRun(
            trainable=trainable,
            settings=self.recipe.train,
            data=self.data,
            finish=Measured(self, model, tokenizer, as_started, corpora).finish,
            has_best=False,
        )
        return run.carry_out(session)

    def _started(self, model: Model, tokenizer: Tokenizer, sentences: Sequence[str]) -> Bert:
        """Return the model with its new rows before training."""
        settings = self.recipe.extend
        components = {} if settings.components is None else read_components(settings.components)
        contexts = contexts_of(self.plan, tokenizer, sentences, settings.contexts)
        found = started(model, self.plan, settings.start, contexts, components)
        network = with_rows(model.network, self.plan)
        assert network.mlm is not None
        with torch.no_grad():
            biases = network.mlm.decoder.bias
            # As unlikely as rare pieces are: otherwise new ones would be guessed everywhere.
            biases[[row.id for row in self.plan.rows]] = biases.quantile(_RARE_SHARE)
            for id_, row in found.items():
                network.encoder.embeddings.token.weight[id_] = row
        self.log(
            f"{len(found):,} rows begin by {settings.start}, {len(self.plan.rows) - len(found):,} by pieces"
        )
        return network

    def _trainable(
        self, network: Bert, tokenizer: Tokenizer, corpora: Mapping[str, Corpus | None]
    ) -> Pretrain:
        settings = ObjectiveSettings(name="mlm", max_length=_max_length(network))
        objective = NewRows(settings, tokenizer.vocabulary)
        objective.ids = torch.tensor([row.id for row in self.plan.rows])
        corpus, train = corpora["train"], self.recipe.train
        if corpus is None:
            raise DataError("no sentence to learn from holds a new piece; give more text")
        batches = CorpusBatches(corpus, objective, batch_tokens=train.batch_tokens, seed=train.seed)
        return Pretrain(network, tokenizer, objective, batches, num_steps=train.num_steps)


@dataclass(frozen=True)
class Measured:
    """Measures an extension before and after."""

    extension: Extension
    before: Model
    tokenizer: Tokenizer
    started: Bert
    corpora: Mapping[str, Corpus | None]

    def finish(self, session: Session, trained: TrainResult) -> Finish:
        """Write extension.json and log its content."""
        out = session.out
        if (out / REPORT).is_file():
            return Finish(read_json(out / REPORT)["metrics"])
        after = load(out / "last", Model)
        held = out / "held.txt"
        write_atomically(
            held, "".join(f"{one}\n" for one in self.extension.held_out).encode("utf-8", "replace")
        )
        texts = [_inspected(one, held) for one in (self.before.tokenizer, after.tokenizer)]
        losses = {
            "loss_started": self._loss(self.started, "held"),
            "loss_trained": self._loss(after.network, "held"),
            "elsewhere_before": self._loss(self.before.network, "elsewhere"),
            "elsewhere_after": self._loss(after.network, "elsewhere"),
        }
        metrics = {
            "unknown_rate_before": texts[0].unknown_rate,
            "unknown_rate_after": texts[1].unknown_rate,
            "pieces_per_word_before": texts[0].pieces_per_word,
            "pieces_per_word_after": texts[1].pieces_per_word,
            **{name: value for name, value in losses.items() if value is not None},
        }
        write_json(
            out / REPORT, {"metrics": metrics, "added": [row.piece for row in self.extension.plan.rows]}
        )
        for line in lines_of(metrics):
            session.log(line)
        return Finish(metrics)

    def _loss(self, network: Bert, name: str) -> float | None:
        """Return the loss on a corpus; the same tokens are hidden for every model. None without text."""
        corpus = self.corpora[name]
        if corpus is None:
            return None
        # Where no new piece occurs, none may be drawn at random either: the old model lacks its row.
        tokenizer = self.before.tokenizer if name == "elsewhere" else self.tokenizer
        settings = ObjectiveSettings(name="mlm", max_length=_max_length(network))
        objective = MaskedLanguage(settings, tokenizer.vocabulary)
        batches = list(objective.held_out_batches(corpus, _MEASURED_TOKENS, batch_tokens=8192))
        with torch.inference_mode():
            return objective.measure(objective.network(network.eval(), seed=0), batches)["mlm_loss"]


def _max_length(network: Bert) -> int:
    return min(128, network.config.encoder.max_position_embeddings)


def lines_of(metrics: Mapping[str, float]) -> list[str]:
    """Return the report for people, before and after."""
    found = [
        f"[UNK] in held-out text: {metrics['unknown_rate_before']:.4%} of pieces, now "
        f"{metrics['unknown_rate_after']:.4%}",
        f"pieces per word: {metrics['pieces_per_word_before']:.4f}, now "
        f"{metrics['pieces_per_word_after']:.4f}",
    ]
    if "loss_started" in metrics:
        found.append(
            f"held-out loss with new pieces: {metrics['loss_started']:.4f} as started, "
            f"{metrics['loss_trained']:.4f} trained"
        )
    if "elsewhere_before" in metrics:
        found.append(
            f"held-out loss elsewhere: {metrics['elsewhere_before']:.4f}, now "
            f"{metrics['elsewhere_after']:.4f}"
        )
    return found


def _inspected(tokenizer: Tokenizer, path: Path) -> TextReport:
    return inspect_text(tokenizer, path, form="sentences", log=say_nothing)


def _by_use(tokenizer: Tokenizer, sentences: Sequence[str], ids: set[int]) -> tuple[list[str], list[str]]:
    """Return the sentences that have one of the pieces, and those that have none."""
    having: list[str] = []
    others: list[str] = []
    for sentence, found in zip(sentences, tokenizer.ids_of_batch(list(sentences)), strict=True):
        (others if ids.isdisjoint(found) else having).append(sentence)
    return having, others


def _corpus(sentences: Sequence[str], tokenizer: Tokenizer, folder: Path) -> Corpus | None:
    """Return a corpus of sentences, each a document; None if there are none."""
    if not sentences:
        return None
    if not folder.is_dir():
        path = folder.with_suffix(".txt")
        write_atomically(path, "".join(f"{one}\n" for one in sentences).encode("utf-8", "replace"))
        build_corpus(path, tokenizer=tokenizer, out=folder, form="documents", log=say_nothing)
    return Corpus.open(folder)
