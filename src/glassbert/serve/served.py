"""A model that is served: what it can be asked, the groups of its batches, and how fast it is."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from glassbert.inference.decode import DecodeSettings
from glassbert.inference.devices import Place
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.interop.weights import weight_files
from glassbert.serve import runner
from glassbert.serve.tickets import Group
from glassbert.storage import sha256_of
from glassbert.tasks.registry import task_of_head
from glassbert.tasks.task import Task, with_specials

TaskName = str
"""embed, fill, translate, or the name of a fine-tuned task: classify, pair, tag, answer."""

SIZES = (64, 128, 256, 512, 1024, 2048)
"""Tokens of the batches that are tried out."""
GOOD_SHARE = 0.95
"""The smallest batch that reaches this share of the best speed is taken."""
TRANSLATOR_TOKENS = 256
"""Of a batch of a translator, which works on it for as many steps as its longest translation has pieces."""


@dataclass(eq=False)
class Served:
    """A loaded model under the name that clients use."""

    name: str
    loaded: Model | Translator
    is_exact: bool = False
    sha256: str | None = None
    """Of its weights; known a little after the start."""
    speed: float = 0.0
    """Tokens per second of one thread, measured when it was loaded."""
    budget: int = 0
    """Tokens of a batch."""

    @classmethod
    def load(cls, name: str, folder: str | Path, place: Place, *, is_exact: bool = False) -> "Served":
        """Load a model folder and build its engine."""
        loaded = load(folder, **place)
        served = cls(name, loaded, is_exact)
        if isinstance(loaded, Translator):
            loaded.decoder  # noqa: B018 (built here, not by the first request)
        else:
            loaded.engine  # noqa: B018
            served.task  # noqa: B018
        return served

    @property
    def model(self) -> Model:
        """The encoder; only for encoders."""
        assert isinstance(self.loaded, Model)
        return self.loaded

    @property
    def translator(self) -> Translator:
        """The translator; only for translators."""
        assert isinstance(self.loaded, Translator)
        return self.loaded

    @cached_property
    def task(self) -> Task[Any, Any] | None:
        """The task that the model was fine-tuned for."""
        if isinstance(self.loaded, Translator):
            return None
        has_task = "task" in self.loaded.run or task_of_head(self.loaded.config.head)
        return self.loaded.task if has_task else None

    @cached_property
    def tasks(self) -> tuple[TaskName, ...]:
        """What the model can be asked, its main purpose first."""
        if isinstance(self.loaded, Translator):
            return ("translate",)
        own: tuple[str, ...] = () if self.task is None else (self.task.name,)
        if getattr(self.task, "takes_any", False):
            own = ("classify", "pair")  # a foreign folder does not say which
        fills = ("fill",) if self.loaded.fills_masks else ()
        return (*own, *(("embed", *fills) if self.loaded.sentences else (*fills, "embed")))

    @property
    def labels(self) -> tuple[str, ...]:
        """Of a classifier or tagger, in the order of the logits."""
        return () if isinstance(self.loaded, Translator) else tuple(self.loaded.config.labels)

    @property
    def kind(self) -> Literal["embedding", "classifier", "reranker", "tagger", "answerer", "translator"]:
        """The model type in the terms of text-embeddings-inference, if it has one."""
        if isinstance(self.loaded, Translator):
            return "translator"
        head = self.loaded.config.head
        if head == "classify":
            return "reranker" if len(self.labels) == 1 else "classifier"
        return {"tag": "tagger", "answer": "answerer"}.get(head, "embedding")  # type: ignore[return-value]

    @property
    def max_length(self) -> int:
        """Tokens of the longest input of the main task."""
        return self.loaded.max_length if self.task is None else self.task.max_length

    @cached_property
    def embed_group(self) -> runner.Encode:
        return runner.embed(self.model, is_exact=self.is_exact)

    @cached_property
    def tokens_group(self) -> runner.Encode:
        return runner.embed_tokens(self.model, is_exact=self.is_exact)

    @cached_property
    def task_group(self) -> runner.Encode:
        assert self.task is not None
        return runner.predict(self.model, self.task, is_exact=self.is_exact)

    @cached_property
    def fill_group(self) -> runner.Fill:
        return runner.Fill(self.model, self.is_exact)

    def translate_group(self, settings: DecodeSettings) -> runner.Translate:
        return runner.Translate(self.translator, settings, self.is_exact)

    @cached_property
    def windowed_task(self) -> Task[Any, Any]:
        """The task, reading all of a long text in windows."""
        assert self.task is not None
        return replace(self.task, settings=replace(self.task.settings, long_text="window"))

    def read_sha256(self) -> None:
        """Hash the weights in the background: that takes a while."""
        folder = self.loaded.folder
        files = weight_files(folder) if folder else []
        self.sha256 = sha256_of(files[0]) if files else None

    def measure(self, batch_s: float, clock: Callable[[], float] = time.perf_counter) -> tuple[float, int]:
        """Return the speed of the calling thread and the tokens of a good batch; this warms up too."""
        if isinstance(self.loaded, Translator):
            return self._measure_translator(clock), TRANSLATOR_TOKENS
        group, length = self._usual_group(), min(64, self.max_length)
        self._timed(group, [length // 4], clock)  # the first pass builds what later ones reuse
        found: list[tuple[int, float]] = []
        for size in SIZES:
            number = max(1, size // length)
            seconds = self._timed(group, [length] * number, clock)
            found.append((size, number * length / max(seconds, 1e-9)))
            if seconds > batch_s:
                break
        fits = [one for one in found if one[0] / one[1] <= batch_s] or found[:1]
        best = max(speed for _, speed in fits)
        size, speed = next(one for one in fits if one[1] >= GOOD_SHARE * best)
        return speed, size

    def _usual_group(self) -> Group:
        return self.task_group if self.task and self.task.name in ("classify", "pair") else self.embed_group

    def _timed(self, group: Group, lengths: Sequence[int], clock: Callable[[], float]) -> float:
        tokenizer = self.model.tokenizer
        some_id = tokenizer.vocabulary.unk_id
        payloads = [
            runner.Tokens(*with_specials(tokenizer, [some_id] * max(1, length - 2))) for length in lengths
        ]
        start = clock()
        group.run(payloads)
        return clock() - start

    def _measure_translator(self, clock: Callable[[], float]) -> float:
        translator = self.translator
        settings = translator.usual_settings(max_length=min(16, translator.max_length))
        texts = ["a b c d"] * 4
        tokens = sum(len(one.ids) for one in translator.tokenize(texts))
        translator.translate(texts[:1], settings)
        start = clock()
        translator.translate(texts, settings)
        return tokens / max(clock() - start, 1e-9)
