"""A trace as one HTML file: no scripts, nothing loaded from elsewhere, small enough to send."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassbert.glassbox.trace.graph import Step
from glassbert.glassbox.trace.picture import picture, side_by_side
from glassbert.glassbox.trace.record import GRAD
from glassbert.glassbox.trace.subject import Reading
from glassbert.glassbox.trace.words import WORDS
from glassbert.reports.html import definitions, document, figure, section, table
from glassbert.reports.markup import Markup, tag
from glassbert.reports.plots import Series, lines
from glassbert.sentence import Language

if TYPE_CHECKING:
    from glassbert.glassbox.trace.trace import Trace

MAX_BYTES = 5_000_000
"""Of the page. Pictures show less of each tensor until it fits."""
SIDES = (64, 48, 32, 24, 16, 8, 4)
"""Rows and columns of a picture."""
NUM_DIGITS_SHOWN = 6
"""Rows and columns of numbers that are written out."""
NUM_CHARACTERS_SHOWN = 2000
"""Of each text; the tokens that were read are in a table of their own."""
PIXELS = 320
"""Least width of a picture on the screen, where its cells do not get larger than `MAX_CELL`."""
MAX_CELL = 14


@dataclass(frozen=True)
class Portrait:
    """What the page shows of one tensor: a part of it, and numbers about all of it."""

    part: NDArray[Any]
    """The first rows and columns, (rows, columns) or (heads, rows, columns)."""
    shape: tuple[int, ...]
    mean: float
    deviation: float
    smallest: float
    largest: float
    norm: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Portrait":
        """Look at a tensor once."""
        flat = values.reshape(1, -1) if values.ndim < 2 else values[0] if values.ndim == 4 else values
        part = flat[..., : SIDES[0], : SIDES[0]].copy()
        finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
        found = finite if finite.size else np.zeros(1, np.float32)
        return cls(
            part,
            values.shape,
            float(found.mean(dtype=np.float64)),
            float(found.std(dtype=np.float64)),
            float(found.min()),
            float(found.max()),
            float(np.linalg.norm(found)),
        )

    def image(self, side: int, label: str) -> Markup:
        """Return the first ``side`` rows and columns as a picture."""
        part = self.part[..., :side, :side].astype(np.float32)
        columns = part.shape[-1]
        matrix = side_by_side(part) if part.ndim == 3 else part
        scale = max(2, min(MAX_CELL, PIXELS // columns))
        size = {"width": matrix.shape[1] * scale, "height": matrix.shape[0] * scale}
        return tag("img", src=picture(matrix), alt=label, title=label, **size)


def page(trace: "Trace", language: Language = "en") -> str:
    """Return the page, at most `MAX_BYTES` long."""
    portraits = {step.name: Portrait.of(trace[step.name]) for step in trace.graph if step.name in trace}
    gradients = {name: Portrait.of(trace[name]) for name in trace.names(f"{GRAD}*")}
    for side in SIDES:
        written = _Page(trace, portraits, gradients, side, WORDS[language], language).written()
        if len(written.encode("utf-8")) <= MAX_BYTES:
            return written
    raise AssertionError("a page without pictures is small")


@dataclass(frozen=True)
class _Page:
    trace: "Trace"
    portraits: dict[str, Portrait]
    gradients: dict[str, Portrait]
    side: int
    words: dict[str, str]
    language: Language

    def written(self) -> str:
        style = files("glassbert.glassbox.trace").joinpath("page.css").read_text(encoding="utf-8")
        title = f"{self.words['title']}: {self.trace.info.text[:60]}"
        return document(
            title,
            self._header(),
            self._sections(),
            language=self.language,
            own_style=style,
            has_pictures=True,
        )

    def _header(self) -> Markup:
        info, words = self.trace.info, self.words
        about = [
            (words["text"], _beginning(info.text)),
            (words["pair"], None if info.pair is None else _beginning(info.pair)),
            (words["target"], None if info.target is None else _beginning(str(info.target))),
            (words["model"], f"{info.model['kind']} {Path(info.model['folder'] or '').name}"),
            (words["weights"], self.trace.model_sha256[:16]),
            (words["tensors"], f"{len(self.trace):,}, {self.trace.nbytes / 1e6:,.1f} MB"),
            (words["differentiated"], info.differentiated),
        ]
        about += [
            (name, f"{self.portraits[name].mean:.7g}")
            for name in ("mlm_loss", "nsp_loss", "loss")
            if name in self.portraits
        ]
        rows = [(name, value) for name, value in about if value is not None]
        return tag("header", tag("h1", words["title"]), definitions(rows))

    def _sections(self) -> Iterator[Markup]:
        yield self._tokens(self.words["tokens"], self.trace.info)
        if self.trace.info.decoder is not None:
            yield self._tokens(self.words["decoder"], self.trace.info.decoder)
        if "head.labels.logits" in self.trace:
            yield self._labels()
        yield from self._depth()
        yield from self._attention()
        yield self._steps()
        yield from self._weights()

    def _tokens(self, title: str, reading: Reading) -> Markup:
        words = self.words
        rows = [
            (str(index), token, str(id_), str(segment), f"{start}:{end}")
            for index, (token, id_, segment, (start, end)) in enumerate(
                zip(reading.tokens, reading.ids, reading.segments, reading.offsets, strict=True)
            )
        ]
        names = ("#", words["token"], words["id"], words["segment"], words["characters"])
        content = table(title, names, rows, texts=[words["token"]])
        return section(title, content, intro=words["cut"] if reading.truncated else "")

    def _labels(self) -> Markup:
        """Show the first row of logits: that of the text, or of its first token."""
        logits = self.trace["head.labels.logits"][0].astype(np.float64)
        probs = np.exp(logits - logits.max())
        probs /= probs.sum()
        rows = [
            (label, f"{logit:.6f}", f"{prob:.4f}")
            for label, logit, prob in zip(self.trace.config["labels"], logits, probs, strict=True)
        ]
        words = self.words
        names = (words["label"], words["logit"], words["probability"])
        return section(words["scores"], table(words["scores"], names, rows))

    def _depth(self) -> Iterator[Markup]:
        series = []
        for kind, found in ((self.words["vector"], self.portraits), (self.words["gradient"], self.gradients)):
            for scope in ("enc", "dec"):
                names = [name for name in found if _is_block_result(name.removeprefix(GRAD), scope)]
                # Norm over all rows; the mean of a row's square is that of a token.
                lengths = [found[name].norm / found[name].shape[0] ** 0.5 for name in names]
                if len(lengths) > 1:
                    series.append(Series(f"{scope} {kind}", range(len(lengths)), lengths))
        if series:
            words = self.words
            plots = [
                figure(
                    lines(f"depth-{index}", one.name, [one], x_name=words["block"], y_name=words["length"]),
                    one.name,
                )
                for index, one in enumerate(series)
            ]
            yield section(words["depth"], tag("div", *plots, class_="columns"), intro=words["depth_intro"])

    def _attention(self) -> Iterator[Markup]:
        names = [name for name in self.portraits if name.endswith(".probs")]
        if names:
            figures = [
                figure(self.portraits[name].image(self.side, name), self._caption(name), is_wide=True)
                for name in names
            ]
            yield section(self.words["attention"], *figures, intro=self.words["attention_intro"])

    def _caption(self, name: str) -> str:
        shape = self.portraits[name].shape
        if max(shape[-2:]) <= self.side:
            return name
        return f"{name} ({self.words['shown_part'].format(self.side, max(shape[-2:]))})"

    def _steps(self) -> Markup:
        groups = groupby(self.trace.graph, key=lambda step: _group(step.name))
        content = [
            tag("details", tag("summary", tag("code", group)), *(self._step(step) for step in steps))
            for group, steps in groups
        ]
        return section(self.words["steps"], *content, intro=self.words["steps_intro"])

    def _step(self, step: Step) -> Markup:
        words, found = self.words, self.portraits.get(step.name)
        size = " x ".join(map(str, step.shape)) or "1"
        summary = tag(
            "summary",
            tag("code", step.name),
            Markup(" "),
            tag("span", f"{size}  {step.formula or words['given']}", class_="formula"),
        )
        facts = [(words["shape"], f"{size} ({', '.join(step.dims)})")]
        for key, pairs in (("inputs", step.inputs), ("parameters", step.weights)):
            if pairs:
                facts.append((words[key], ", ".join(f"{symbol} = {name}" for symbol, name in pairs.items())))
        content: list[Markup] = []
        if found is not None:
            numbers = (found.mean, found.deviation, found.smallest, found.largest)
            facts.append((words["range"], ", ".join(f"{value:.5g}" for value in numbers)))
            gradient = self.gradients.get(GRAD + step.name)
            if gradient is not None:
                facts.append((words["size_of_gradient"], f"{gradient.norm:.5g}"))
            content = [*self._numbers(step.name, found)]
            if gradient is not None and gradient.part.size > 1:
                content.append(
                    figure(gradient.image(self.side, GRAD + step.name), words["gradient"], is_wide=True)
                )
        return tag("details", summary, definitions(facts), *content)

    def _numbers(self, name: str, found: Portrait) -> Iterator[Markup]:
        # Attention has its picture above.
        if found.part.size > 1 and not name.endswith(".probs"):
            yield figure(found.image(self.side, name), self._caption_of_slice(found), is_wide=True)
        first = found.part[0] if found.part.ndim == 3 else found.part
        first = first[:NUM_DIGITS_SHOWN, :NUM_DIGITS_SHOWN]
        rows = [tag("tr", *(tag("td", _digits(value)) for value in row)) for row in first]
        label = f"{name}: {self.words['first_numbers']}"
        yield tag("table", tag("tbody", *rows), class_="numbers", aria_label=label)

    def _caption_of_slice(self, found: Portrait) -> str:
        rows, columns = found.part.shape[-2:]
        shown = f"{min(rows, self.side)} x {min(columns, self.side)}"
        whole = " x ".join(map(str, found.shape))
        return self.words["shown_part"].format(shown, whole) if max(found.shape) > self.side else whole

    def _weights(self) -> Iterator[Markup]:
        steps = {GRAD + step.name for step in self.trace.graph}
        rows = [
            (
                name.removeprefix(GRAD),
                " x ".join(map(str, one.shape)),
                f"{one.norm:.5g}",
                f"{max(one.largest, -one.smallest):.5g}",
            )
            for name, one in self.gradients.items()
            if name not in steps
        ]
        if rows:
            words = self.words
            names = (words["weight"], words["shape"], words["norm"], words["largest"])
            yield section(words["all_weights"], table(words["all_weights"], names, rows))


def fragment(trace: "Trace") -> str:
    """Return what a notebook shows: the tokens and the steps, without reading any tensor."""
    tokens = tag("ul", *(tag("li", token) for token in trace.tokens))
    rows = [(step.name, " x ".join(map(str, step.shape)), step.formula) for step in trace.graph]
    steps = table("Steps", ("name", "shape", "formula"), rows, texts=["formula"])
    folded = tag("details", tag("summary", f"{len(rows)} steps"), steps)
    return tag("div", tag("p", tag("code", repr(trace))), tokens, folded)


def _beginning(text: str) -> str:
    return text if len(text) <= NUM_CHARACTERS_SHOWN else f"{text[:NUM_CHARACTERS_SHOWN]} ..."


def _is_block_result(name: str, scope: str) -> bool:
    words = name.split(".")
    return len(words) == 3 and words[0] == scope and words[1].isdecimal() and words[2] == "out"


def _group(name: str) -> str:
    """Return what a step is listed under: the embeddings, a block, or the heads and losses."""
    words = name.split(".")
    if words[0] in ("enc", "dec") and len(words) > 2:
        return ".".join(words[:2])
    return words[0] if words[0] in ("emb", "enc", "dec") else "head"


def _digits(value: Any) -> str:
    return str(int(value)) if isinstance(value, np.integer) else f"{value:.6g}"
