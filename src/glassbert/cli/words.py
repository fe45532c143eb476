"""`words`: vectors of words, their neighbours, and how well they agree with people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.input import input_texts
from glassbert.cli.output import print_json, print_lines, print_remarks, remark
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.outputs import check_folder
from glassbert.ranges import COUNT
from glassbert.text.portions import grouped

if TYPE_CHECKING:
    from glassbert.evaluation.word_pairs import WordSet
    from glassbert.inference.word_vectors import Near, WordVectors

_TEXTS = 1024
_CHARACTERS = 1 << 20
"""Texts and characters that are read together."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """The options of `words`."""

    spans: str | None = None
    """Print the words of each text of this file (one per line, or JSON objects with "text"; - is stdin) with
    their places instead, a JSON object for each text."""
    vectors: bool = False
    """With --spans: also print the vector that each word has in that text."""
    text: list[Path] | None = None
    """Raw text with contexts of the words; without it, each is read alone. May be given several times."""
    most: Annotated[int | None, Parameter(validator=COUNT)] = None
    """Without a list of words: how many frequent words of the text to take; 5,000 if not given."""
    contexts: Annotated[int, Parameter(validator=COUNT)] = 20
    """Sentences of the text for each word."""
    segmenter: str | None = None
    """Finds Chinese words: rjieba, jieba, or a file with one word per line; rjieba if not given."""
    near: list[str] | None = None
    """Print the words that are nearest to this one; may be given several times."""
    analogy: list[str] | None = None
    """Print what is to the third word as the second is to the first: "a b c"."""
    pairs: list[Path] | None = None
    """File of word pairs scored by people, or of analogies, to measure on."""
    top: Annotated[int, Parameter(validator=COUNT)] = 10
    """How many neighbours to print."""
    out: Path | None = None
    """Folder to write: word2vec's text and binary form, and safetensors."""
    force: bool = False
    """Replace what the folder holds."""
    json: bool = False
    """Print everything as one JSON object."""


def words(
    model: str,
    file: Path | None = None,
    /,
    *,
    options: WordOptions | None = None,
    where: DeviceOptions | None = None,
) -> None:
    """Make vectors of words: the mean over their pieces, layers and contexts, centred.

    Args:
        model: Model folder.
        file: Words, one per line; those of --pairs, --near and --analogy belong to them anyway. Without it
            and --pairs, the frequent words of --text.
    """
    from glassbert.evaluation.word_pairs import WordSet
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model
    from glassbert.inference.word_vectors import word_vectors

    options = options or WordOptions()
    if options.spans is not None:
        _check_alone(file, options)
        _print_spans(model, options.spans, options, where)
        return
    if options.vectors:
        raise UserError("--vectors is for --spans; name a folder with --out for the vectors of a list")
    if options.out is not None:
        named = (file, options.segmenter, *(options.text or ()), *(options.pairs or ()))
        check_folder(options.out, [model_folder(model), *(path for path in named if path is not None)])
    sets = [WordSet.read(path) for path in options.pairs or ()]
    analogies = [_three(text) for text in options.analogy or ()]
    asked = [*(options.near or ()), *(word for three in analogies for word in three)]
    wanted = [*_vocabulary(file, sets, options), *asked]
    if not wanted:
        raise UserError("no words; name a file with one word per line, --pairs, or --text to take them from")
    loaded = load(model, Model, **place_of(where))
    print_remarks(loaded)
    vectors = word_vectors(
        loaded,
        wanted,
        text=options.text,
        contexts=options.contexts,
        segmenter=options.segmenter,
        log=remark,
    )
    if options.out is not None:
        vectors.save(options.out, overwrite=options.force)
    answers: list[dict[str, Any]] = [
        *({"near": word, "words": vectors.nearest(word, top=options.top)} for word in options.near or ()),
        *({"analogy": list(three), "words": vectors.analogy(*three, top=options.top)} for three in analogies),
    ]
    scores = [one.score(vectors) for one in sets]
    if options.json:
        found = {"answers": [_plain(one) for one in answers], "scores": [one.to_json() for one in scores]}
        print_json({"out": None if options.out is None else str(options.out), **_about(vectors), **found})
        return
    if options.out is not None:
        print_lines([options.out])
    print_lines([*_lines(answers), *(score.sentence() for score in scores)])


def _vocabulary(file: Path | None, sets: Sequence["WordSet"], options: WordOptions) -> list[str]:
    """Return the words of the list and of the pairs; without either, the frequent words of the text."""
    from glassbert.inference.word_vectors import MOST, frequent_words, listed_words

    listed = [*(listed_words(file) if file else ()), *(word for one in sets for word in one.words())]
    if listed and options.most is not None:
        raise UserError("--most is for the words of a text; leave it out, or the list and --pairs")
    if listed or not options.text:
        return listed
    most = MOST if options.most is None else options.most
    return frequent_words(options.text, most, segmenter=options.segmenter, log=remark)


def _check_alone(file: Path | None, options: WordOptions) -> None:
    """Refuse what has no meaning beside --spans."""
    names = ("text", "most", "near", "analogy", "pairs", "out")
    given = {"a list of words": file} | {f"--{name}": getattr(options, name) for name in names}
    for name, value in given.items():
        if value is not None:
            raise UserError(f"--spans prints the words of texts; leave {name} out")


def _print_spans(model: str, source: str, options: WordOptions, where: DeviceOptions | None) -> None:
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model
    from glassbert.inference.words import words_of_texts

    texts = input_texts(source)  # before the model, which takes seconds
    loaded = load(model, Model, **place_of(where))
    print_remarks(loaded)
    for batch in grouped(texts, max_items=_TEXTS, max_characters=_CHARACTERS):
        found = words_of_texts(loaded, batch, segmenter=options.segmenter)
        for text, words in zip(batch, found, strict=True):
            print_json({"text": text, "words": [one.to_json(with_vector=options.vectors) for one in words]})


def _three(text: str) -> tuple[str, str, str]:
    fields = text.split()
    if len(fields) != 3:
        raise UserError(f'--analogy {text[:40]!r}: expected three words, such as "Paris France Rome"')
    return fields[0], fields[1], fields[2]


def _about(vectors: "WordVectors") -> dict[str, Any]:
    return {
        "words": len(vectors),
        "features": int(vectors.vectors.shape[1]),
        "in_contexts": sum(count > 0 for count in vectors.contexts),
    }


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    found: list[Near] = answer["words"]
    return {**answer, "words": [{"word": one.word, "score": one.score} for one in found]}


def _lines(answers: list[dict[str, Any]]) -> Iterator[str]:
    for answer in answers:
        asked = answer.get("near") or " ".join(answer["analogy"])
        for one in answer["words"]:
            yield f"{asked}\t{one.word}\t{one.score:.4f}"
