"""From texts to parts: what each task asks of a model. Runs on the tokeniser's thread, never on the loop."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import ModelError, UserError
from glassbert.inference.decode import DecodeSettings
from glassbert.inference.model import Candidate
from glassbert.inference.predict import as_examples
from glassbert.serve import runner
from glassbert.serve.http.problems import Problem, invalid
from glassbert.serve.rows import Row
from glassbert.serve.served import Served
from glassbert.serve.settings import OnLong, ServeSettings
from glassbert.serve.shorten import shortened
from glassbert.serve.tickets import Part, Unit
from glassbert.tasks.classify.task import Classify, pooled
from glassbert.tasks.tag.task import Tag, merged
from glassbert.tasks.task import Input, Task, with_specials
from glassbert.text.truncate import Keep, kept_spans
from glassbert.text.windows import windows

Ids = Sequence[int]


MAX_VALUES = 2**24
"""Numbers in the vectors of all tokens of a request: 64 MiB, and about three times as much as JSON."""
MAX_CANDIDATES = 25_000
"""Candidates of a request, for all of its masks or questions."""


def check_characters(text: str, limit: int, where: str) -> None:
    """Refuse a text that would take the tokeniser long."""
    if len(text) > limit:
        message = f"{len(text):,} characters; expected at most {limit:,}; send a shorter text"
        raise Problem(413, "Validation", message, where)


def check_candidates(number: int, where: str) -> None:
    """Refuse a request of few bytes whose answer would fill the memory."""
    if number > MAX_CANDIDATES:
        message = f"{number:,} candidates; expected at most {MAX_CANDIDATES:,}; ask for fewer at once"
        raise invalid(message, where)


class Question(Protocol):
    """What is asked about each item of a request."""

    def parts(self, items: Sequence[Any], first: int) -> list[Part]:
        """Return a part for each item; ``first`` is the index of the first one in its request."""


class _Limits(ABC):
    """What a question may read of a text, and what it says of one that cannot be read."""

    def __init__(self, served: Served, settings: ServeSettings, on_long: OnLong | None, field: str) -> None:
        self.served, self.settings = served, settings
        self.on_long = on_long or settings.on_long
        self.field = field
        self._size = 0
        """Of the answer so far: numbers, or candidates."""

    def parts(self, items: Sequence[Any], first: int) -> list[Part]:
        before = self._size
        try:
            return self._parts(items, first)
        except UserError as error:
            self._size = before  # the items that did not fail are counted again
            if len(items) > 1:  # one of them failed: find it, so that the message names it
                return [
                    part for number, item in enumerate(items) for part in self.parts([item], first + number)
                ]
            raise self.refused(error, first) from None

    @abstractmethod
    def _parts(self, items: Sequence[Any], first: int) -> list[Part]:
        """Return a part for each item; an item that cannot be read is a UserError."""

    def where(self, index: int) -> str:
        return f"$.{self.field}[{index}]"

    def too_long(self, index: int, max_length: int) -> Problem:
        message = f"more than the {max_length} tokens that the model takes; shorten it, or allow truncation"
        return invalid(message, self.where(index))

    def refused(self, error: UserError, index: int) -> Problem:
        """Return what is wrong with an item; its text is not in the message."""
        return invalid(str(error).removeprefix("item 0: "), self.where(index))

    def check_windows(self, number: int, index: int) -> None:
        if number > self.settings.max_windows:
            message = f"{number} windows; expected at most {self.settings.max_windows}; send a shorter text"
            raise Problem(413, "Validation", message, self.where(index))

    def check_characters(self, text: str, index: int) -> None:
        check_characters(text, self.settings.max_characters, self.where(index))


class EmbedQuestion(_Limits):
    """The vector of a text, or of a list of ids; or the vectors of all its tokens."""

    def __init__(
        self,
        served: Served,
        settings: ServeSettings,
        on_long: OnLong | None = None,
        *,
        keep: Keep = "head",
        every_token: bool = False,
        prompt_name: str | None = None,
        field: str = "inputs",
    ) -> None:
        super().__init__(served, settings, on_long, field)
        self.prompt = prompt_of(served, prompt_name)
        self.keep: Keep = keep
        self.every_token = every_token
        self.group = served.tokens_group if every_token else served.embed_group
        self.has_windows = self.on_long == "window" and not every_token

    def _parts(self, items: Sequence[str | Ids], first: int) -> list[Part]:
        tokenizer = self.served.model.tokenizer
        texts = [
            self._cut(self.prompt + item, first + number)
            for number, item in enumerate(items)
            if isinstance(item, str)
        ]
        tokenised = iter(tokenizer.ids_of_batch(texts, parse_specials=True))
        return [
            self._part(
                next(tokenised) if isinstance(item, str) else self._checked(item, first + number),
                first + number,
            )
            for number, item in enumerate(items)
        ]

    def _cut(self, text: str, index: int) -> str:
        """Return as much of a text as is read."""
        if self.has_windows or self.keep != "head":
            self.check_characters(text, index)
            return text
        model = self.served.model
        return shortened(text, model.max_length - 2, model.tokenizer, parse_specials=True)

    def _part(self, ids: Ids, index: int) -> Part:
        model = self.served.model
        room = model.max_length - 2
        if self.every_token:
            self._check_size(min(len(ids), room) + 2, index)
        if len(ids) <= room:
            return self._of([ids], is_cut=False)
        if self.on_long == "error":
            raise self.too_long(index, model.max_length)
        if not self.has_windows:
            kept = [id_ for start, stop in kept_spans(len(ids), room, self.keep) for id_ in ids[start:stop]]
            return self._of([kept], is_cut=True)
        found = windows(len(ids), room, room)
        self.check_windows(len(found), index)
        return self._of([ids[start:stop] for start, stop in found], is_cut=False)

    def _check_size(self, num_tokens: int, index: int) -> None:
        self._size += num_tokens * self.served.model.config.encoder.hidden_size
        if self._size > MAX_VALUES:
            message = f"more than {MAX_VALUES:,} numbers in the answer so far; send fewer texts at once"
            raise Problem(413, "Validation", message, self.where(index))

    def _of(self, contents: Sequence[Ids], *, is_cut: bool) -> Part:
        """Return the part of a text that is read in these pieces."""
        inputs = [with_specials(self.served.model.tokenizer, ids) for ids in contents]
        units = [Unit(self.group, len(ids), runner.Tokens(ids, segments)) for ids, segments in inputs]
        sizes = [len(ids) for ids, _ in inputs]
        num_tokens = sum(map(len, contents)) + 2

        def finish(vectors: list[NDArray[np.float32]]) -> Row[NDArray[np.float32]]:
            vector = vectors[0] if len(vectors) == 1 else self._mean(vectors, sizes)
            return Row(runner.check_finite(vector), num_tokens, is_cut, len(units))

        return Part(units, finish)

    def _mean(self, vectors: list[NDArray[np.float32]], sizes: list[int]) -> NDArray[np.float32]:
        """Return the mean of the windows' vectors, longer windows counting more."""
        mean: NDArray[np.float32] = np.average(vectors, axis=0, weights=sizes).astype(np.float32)
        if self.served.model.pooling.should_normalise:
            mean /= max(float(np.linalg.norm(mean)), 1e-12)
        return mean

    def _checked(self, ids: Ids, index: int) -> Ids:
        vocabulary = self.served.model.tokenizer.vocabulary
        wrong = next((id_ for id_ in ids if not 0 <= id_ < len(vocabulary)), None)
        if wrong is not None:
            raise invalid(
                f"id {wrong} is not in the vocabulary of {len(vocabulary)} pieces; send text, or ids of this "
                "model (with langchain: check_embedding_ctx_length=False)",
                self.where(index),
                kind="Tokenizer",
            )
        # Ids that were made with their specials must not get them twice.
        has_specials = len(ids) >= 2 and ids[0] == vocabulary.cls_id and ids[-1] == vocabulary.sep_id
        return ids[1:-1] if has_specials else ids


def prompt_of(served: Served, name: str | None) -> str:
    """Return what is put before a text: the prompt of this name, or the model's default."""
    try:
        return served.model.prompt(name)
    except ModelError as error:
        raise invalid(str(error), "$.prompt_name") from None


class TaskQuestion(_Limits):
    """The prediction of the model's own task for a text, a pair, or a question and its context."""

    def __init__(
        self, served: Served, settings: ServeSettings, on_long: OnLong | None = None, *, field: str = "inputs"
    ) -> None:
        super().__init__(served, settings, on_long, field)
        assert served.task is not None
        is_windowed = self.on_long == "window" or served.task.settings.long_text == "window"
        self.task: Task[Any, Any] = served.windowed_task if is_windowed else served.task
        self.is_windowed = is_windowed

    def _parts(self, items: Sequence[Any], first: int) -> list[Part]:
        items = [self._cut(item, first + number) for number, item in enumerate(items)]
        examples = as_examples(self.task, items)
        inputs = self.task.inputs(examples, with_targets=False)
        return [
            self._part(example, own, first + number)
            for number, (example, own) in enumerate(zip(examples, inputs, strict=True))
        ]

    def _part(self, example: Any, inputs: list[Input], index: int) -> Part:
        self.check_windows(len(inputs), index)
        if self.on_long == "error" and inputs[0].num_cut:
            raise self.too_long(index, self.task.max_length)
        units = [Unit(self.served.task_group, len(one), one) for one in inputs]

        def finish(raw: list[NDArray[Any]]) -> Row[Any]:
            for logits in raw:
                runner.check_finite(logits)
            found = self.task.predict(example, inputs, raw)
            return Row(found, found.tokens, found.truncated, len(inputs), self._logits(inputs, raw))

        return Part(units, finish)

    def _logits(self, inputs: list[Input], raw: list[NDArray[Any]]) -> NDArray[Any] | None:
        if isinstance(self.task, Classify):
            return pooled(raw)
        return merged(inputs, raw) if isinstance(self.task, Tag) else None

    def _cut(self, item: Any, index: int) -> Any:
        """Check the length of an item's texts; cut off ends that are never read."""
        texts = [item] if isinstance(item, str) else list(item)
        if self.is_windowed or self.task.settings.long_text != "head":
            for text in texts:
                self.check_characters(text, index)
            return item
        room, tokenizer = self.task.max_length - len(texts) - 1, self.task.tokenizer
        # Of two texts, only one beside a short one: which of two long ones is longer decides their shares.
        if len(texts) == 2 and min(map(len, texts)) * _PIECES_PER_CHARACTER > room:
            for text in texts:
                self.check_characters(text, index)
            return item
        cut = [shortened(text, room, tokenizer, parse_specials=False) for text in texts]
        return cut[0] if isinstance(item, str) else tuple(cut)


# A Korean syllable may become three pieces.
_PIECES_PER_CHARACTER = 3


@dataclass(frozen=True, slots=True)
class Filling:
    """Candidates for the masks of a text."""

    candidates: list[list[Candidate]]
    """For each mask, best first."""
    candidate_ids: list[list[int]]
    ids: list[int]
    """Of the text, specials included."""
    places: tuple[int, ...]
    """Of the masks among the ids."""


class FillQuestion(_Limits):
    """The likeliest pieces for each mask of a text."""

    def __init__(
        self,
        served: Served,
        settings: ServeSettings,
        *,
        top: int = 5,
        targets: Sequence[str] = (),
        field: str = "inputs",
    ) -> None:
        super().__init__(served, settings, None, field)
        self.top = top
        ids = served.model.tokenizer.vocabulary.ids
        for number, target in enumerate(targets):
            if target not in ids:
                raise invalid("not a piece of the vocabulary", f"$.parameters.targets[{number}]")
        self.targets = tuple(ids[target] for target in targets)

    def _parts(self, items: Sequence[str], first: int) -> list[Part]:
        return [self._part(item, first + number) for number, item in enumerate(items)]

    def _part(self, text: str, index: int) -> Part:
        self.check_characters(text, index)
        (encoding,) = self.served.model.tokenize([text])
        places = self.served.model.mask_places(text, encoding)
        self._size += self.top * len(places)
        check_candidates(self._size, self.where(index))
        if self.on_long == "error" and encoding.truncated:
            raise self.too_long(index, self.served.model.max_length)
        masked = runner.Masked(encoding.ids, encoding.segments, tuple(places), self.top, self.targets)
        pieces = self.served.model.tokenizer.vocabulary.pieces

        def finish(outputs: list[tuple[list[list[int]], list[list[float]]]]) -> Row[Filling]:
            ((ids, scores),) = outputs
            runner.check_finite(np.array(scores, dtype=np.float32))
            found = [
                [Candidate(pieces[id_], score) for id_, score in zip(*mask, strict=True)]
                for mask in zip(ids, scores, strict=True)
            ]
            filling = Filling(found, ids, encoding.ids, masked.places)
            return Row(filling, len(encoding.ids), encoding.truncated)

        return Part([Unit(self.served.fill_group, len(encoding.ids), masked)], finish)


class TranslateQuestion(_Limits):
    """The translation of a text."""

    def __init__(
        self, served: Served, settings: ServeSettings, decode: DecodeSettings, *, field: str = "inputs"
    ) -> None:
        super().__init__(served, settings, None, field)
        self.group = served.translate_group(decode)

    def _parts(self, items: Sequence[str], first: int) -> list[Part]:
        for number, item in enumerate(items):
            self.check_characters(item, first + number)
        encodings = self.served.translator.tokenize(items)
        for number, encoding in enumerate(encodings):
            if self.on_long == "error" and encoding.truncated:
                raise self.too_long(first + number, self.served.translator.max_length)
        return [
            Part(
                [Unit(self.group, max(1, len(encoding.ids)), (item, first + number))],
                lambda outputs: Row(outputs[0], outputs[0].tokens, outputs[0].truncated),
            )
            for number, (item, encoding) in enumerate(zip(items, encodings, strict=True))
        ]
