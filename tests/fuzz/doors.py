"""The doors: what each reads, and which bytes are thrown at it.

To add one, add a `Door` to `DOORS`. Its ``open`` may raise `UserError` and nothing else.
"""

import io
import json
import shutil
import struct
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from hypothesis import strategies as st

import glassbert as gb
from fuzz import apps
from fuzz.cases import HOSTILE, byte_cases, json_cases, json_lines, packed
from glassbert.cli.main import main
from glassbert.data.corpus.check import check_corpus
from glassbert.data.corpus.reader import Corpus
from glassbert.data.rows.read import read_examples, stream_examples
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import UserError
from glassbert.glassbox.lab.experiment import SAVED
from glassbert.glassbox.lab.result import read_result
from glassbert.metrics.answers import CMRC, SQUAD_2
from glassbert.parsing import FormatError, parse_json, parse_toml
from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.recipe import read_recipe
from glassbert.runs.translate import TranslateRecipe
from glassbert.tasks.answer.spans import best_spans, log_probabilities
from glassbert.tasks.registry import schema_of
from glassbert.tasks.tag.decode import Decoder, weakest_scores
from glassbert.tasks.tag.scheme import TagSet
from glassbert.text.files import read_lines
from glassbert.text.sentences import sentence_spans
from glassbert.text.word_counts import count_words
from glassbert.text.wordpiece.settings import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.oracles import make_oracle, save_oracle, small_tokenizer
from helpers.small_corpus import in_one_run, write_corpus


@dataclass(frozen=True)
class Door:
    """A way in."""

    name: str
    cases: Callable[[], st.SearchStrategy[bytes]]
    """Made when they are needed: some look at the files of a small model."""
    open: Callable[[bytes, Path], object]
    """Reads the bytes; gets an empty folder to put them into."""

    @property
    def slug(self) -> str:
        """The name, as files of the corpus have it."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.name)


@cache
def small_model(class_name: str) -> Path:
    """Return the folder of a small model."""
    folder = Path(mkdtemp(prefix=f"fuzz-{class_name}-"))
    return save_oracle(make_oracle(class_name, num_hidden_layers=1, max_position_embeddings=40), folder)


@cache
def small_corpus() -> Path:
    """Return the folder of a small corpus."""
    return write_corpus(Path(mkdtemp(prefix="fuzz-corpus-")), in_one_run(), 6).folder


def content(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


def with_file(folder: Path, name: str, data: bytes, out: Path) -> Path:
    """Copy a folder, with ``data`` in the place of one file."""
    shutil.copytree(folder, out / "model")
    (out / "model" / name).write_bytes(data)
    return out / "model"


def model_door(class_name: str, name: str, *, texts: list[str], is_json: bool = True) -> Door:
    """A file of a model folder, which is then loaded and used."""

    def cases() -> st.SearchStrategy[bytes]:
        data = content(small_model(class_name), name)
        return json_cases(json.loads(data)) if is_json else byte_cases(data)

    def use(data: bytes, out: Path) -> None:
        model = gb.load(with_file(small_model(class_name), name, data, out))
        model.embed(["a b"])
        if class_name != "BertModel":
            model.predict(texts)

    return Door(f"{name} of {class_name}", cases, use)


RUNS = {
    "BertForSequenceClassification": {"name": "classify", "kind": "single", "thresholds": {"0.9": {}}},
    "BertForTokenClassification": {"name": "tag", "crf": False, "whole_words": True},
    "BertForQuestionAnswering": {"name": "answer", "n_best": 5, "measure": "squad", "max_answer": 5},
}


def run_door(class_name: str, item: Any) -> Door:
    """run.json of a fine-tuned model, which then predicts."""
    common = {"max_length": 30, "long_text": "head", "stride": None, "metric": "f1", "temperature": 1.0}
    run = {"task": {**common, **RUNS[class_name]}, "versions": {"glassbert": "0.1.0"}, "seed": 1}

    def use(data: bytes, out: Path) -> None:
        gb.load(with_file(small_model(class_name), "run.json", data, out)).predict([item])

    return Door(f"run.json of {class_name}", lambda: json_cases(run), use)


TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "added_tokens.json")


def tokenizer_door(name: str) -> Door:
    def cases() -> st.SearchStrategy[bytes]:
        if name == "added_tokens.json":
            return json_cases({"[MASK]": 4, "new": 5})
        data = content(small_model("BertModel"), name)
        return byte_cases(data) if name == "vocab.txt" else json_cases(json.loads(data))

    def use(data: bytes, out: Path) -> None:
        small_tokenizer().save(out / "model", overwrite=True)
        (out / "model" / name).write_bytes(data)
        Tokenizer.load(out / "model").encode("a b, \u4eca\u5929", "c" * 200)

    return Door(f"{name} of a tokenizer", cases, use)


@cache
def small_trace() -> bytes:
    """Return the bytes of a saved trace."""
    path = Path(mkdtemp(prefix="fuzz-trace-")) / "a.safetensors"
    gb.load(small_model("BertModel")).trace("a b", out=path, names=["emb.*", "enc.0.attn.*"])
    return path.read_bytes()


def trace_cases() -> st.SearchStrategy[bytes]:
    """Draw traces with a wrong value in the JSON that their header holds, or in the header itself."""
    data = small_trace()
    header, body = split_weights(data)
    key = next(name for name in header["__metadata__"] if name != "format")

    def with_info(info: bytes) -> bytes:
        metadata = {**header["__metadata__"], key: info.decode("utf-8", "replace")}
        return joined_weights(json.dumps({**header, "__metadata__": metadata}).encode(), body)

    return json_cases(json.loads(header["__metadata__"][key])).map(with_info) | weights_cases(data)


def use_trace(data: bytes, out: Path) -> None:
    """Open a trace, and use it as a user does."""
    (out / "a.safetensors").write_bytes(data)
    trace = gb.Trace.load(out / "a.safetensors")
    for name in trace.names():
        trace[name]
    trace.diff(trace).to_json()
    trace.to_html(out / "a.html")


def lab_cases() -> st.SearchStrategy[bytes]:
    return json_cases(json.loads((SAVED / "saturation.json").read_bytes()))


def use_result(data: bytes, out: Path) -> None:
    """Read a result of the lab, and show it."""
    (out / "result.json").write_bytes(data)
    result = read_result(out / "result.json")
    result.text("en")
    result.html("zh")


def split_weights(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header of a safetensors file, and its numbers."""
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def joined_weights(header: bytes, body: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + body


def weights_cases(data: bytes) -> st.SearchStrategy[bytes]:
    (size,) = struct.unpack("<Q", data[:8])
    header, body = split_weights(data)
    lengths = st.sampled_from([0, 1, size - 1, size + 1, 2**31, 2**63, 2**64 - 1])
    cut = st.integers(0, len(data)).map(lambda end: data[:end])
    changed = json_cases(header).map(lambda header: joined_weights(header, body))
    return changed | cut | lengths.map(lambda n: struct.pack("<Q", n) + data[8:])


ROWS: dict[str, list[Any]] = {
    "classify": [
        {"text": "a b", "label": "x"},
        {"text": "a b", "label": ["x", "y"]},
        {"sentence": "a", "score": 1.5},
        {"data": {"text": "a"}, "annotations": [{"result": [{"value": {"choices": ["x"]}}]}]},
    ],
    "pair": [{"text_a": "a", "text_b": "b", "label": 1}, {"premise": "a", "hypothesis": "b", "score": 0.5}],
    "tag": [
        {"text": "a b", "spans": [{"start": 0, "end": 1, "label": "x", "text": "a"}]},
        {"text": "a b", "entities": [[0, 1, "x"]]},
        {"text": "a b", "label": {"x": {"a": [[0, 0]]}}},
        {"data": {"text": "a"}, "completions": [{"result": [{"value": {"start": 0, "end": 1, "tag": "x"}}]}]},
        {"tokens": ["a", "b"], "tags": ["B-x", "O"]},
    ],
    "answer": [
        {"id": "1", "question": "a", "context": "b c", "answers": [{"text": "c", "answer_start": 2}]},
        {"question": "a", "context": "b c", "answers": {"text": ["c"], "answer_start": [2]}},
        {"data": [{"paragraphs": [{"context": "b c", "qas": [{"id": 1, "question": "a", "answers": []}]}]}]},
    ],
}  # fmt: skip
TABLES = [
    b"text,label\na b,x\nc,y\n",
    b'text,label\n"a ""b""",x\n',
    b"a\tx\nb\ty\n",
    b"a b\n\n\xe4\xbb\x8a\n",
]
TABLES += [
    b"sentence1\tsentence2\tscore\na\tb\t1.5\n",
    b"a B-x\nb O\n\nc O\n",
    b"question,context,answer\na,b,b\n",
]


def rows_door(task: str, suffix: str) -> Door:
    """A labelled file, read as a whole and as a stream."""

    def cases() -> st.SearchStrategy[bytes]:
        if suffix == ".json":
            return json_cases(ROWS[task], *ROWS[task])
        return json_lines(*ROWS[task]) if suffix == ".jsonl" else byte_cases(*TABLES)

    def use(data: bytes, out: Path) -> None:
        path = out / f"rows{suffix}"
        path.write_bytes(data)
        with suppress(UserError):
            read_examples(schema_of(task), path)
        list(stream_examples(schema_of(task), read_lines(path, str), path.name))

    return Door(f"rows of {task} in {suffix or 'a file without a suffix'}", cases, use)


TEXTS = [
    b"One sentence. Another one.\n\nA second document.\n",
    b" = Title = \n \n Text . \n \n = = Part = = \n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u7684\u4e00\u662f\u4e0d\u4e86\n".encode("gb18030"),
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\n".encode(),
    "caf\u00e9 \ud55c\u0301\n".encode("utf-16"),
    b'{"text": "a b"}\n{"text": "c"}\n',
]


WORDS = [
    b"don't't 's " * 3,
    b"n't" * 1500,
    b'"A." (b). Mr. U.S. 1,000.5...',
    b"= " * 50,
    b"." * 999,
    b"'" * 999,
]


def text_door(suffix: str) -> Door:
    """Raw text: counted, checked and read as pairs of sentences."""

    def cases() -> st.SearchStrategy[bytes]:
        return packed(byte_cases(*TEXTS)) if suffix.endswith(".gz") else byte_cases(*TEXTS)

    def use(data: bytes, out: Path) -> None:
        path = out / f"text{suffix}"
        path.write_bytes(data)
        with suppress(UserError):
            count_words(path, TokenizerSettings(), max_words=100, log=str)
        with suppress(UserError):
            list(ParallelFiles.of(path, skip_bad=3).pairs())
        check_corpus(path, log=str)

    return Door(f"text in {suffix}", cases, use)


def corpus_door(name: str) -> Door:
    def cases() -> st.SearchStrategy[bytes]:
        data = content(small_corpus(), name)
        return json_cases(json.loads(data)) if name.endswith(".json") else byte_cases(data)

    def use(data: bytes, out: Path) -> None:
        corpus = Corpus.open(with_file(small_corpus(), name, data, out))
        starts = [0, *corpus.sentence_ends.tolist()]
        for start, stop in zip(starts, starts[1:], strict=False):
            corpus.tokens(start, stop)
            corpus.word_starts(start, stop)
        assert len(corpus.document_ends) == corpus.num_documents

    return Door(f"{name} of a corpus", cases, use)


def parse(data: bytes, _: Path) -> None:
    with suppress(FormatError):
        parse_json(data)
    with suppress(FormatError):
        parse_toml(data.decode("utf-8", "replace"))


TOML = b'[data]\ncorpus = "c"\n[model]\npreset = "tiny"\n[train]\nsteps = 5\nlearning_rate = 1e-3\n'


def recipe(data: bytes, out: Path) -> None:
    """Read a recipe for every kind of run."""
    (out / "recipe.toml").write_bytes(data)
    tables = read_recipe(out / "recipe.toml")
    for make in (PretrainRecipe.of, TranslateRecipe.of, lambda tables: FineTuneRecipe.of("tag", tables)):
        with suppress(UserError):
            make(dict(tables))


NUMBERS = st.sampled_from([str(one) for one in HOSTILE if isinstance(one, str | int | float)])
SETTINGS = (
    "train.steps",
    "train.learning_rate",
    "train.seed",
    "train.epochs",
    "task.max_length",
    "train.warmup_share",
)
OPTIONS = (
    "--size",
    "--min-count",
    "--max-alphabet",
    "--alphabet-coverage",
    "--unused",
    "--processes",
    "--max-words",
)


def setting_cases() -> st.SearchStrategy[bytes]:
    values = NUMBERS.filter(is_utf8)
    lines = st.builds(lambda key, value: f"{key}={value}".encode(), st.sampled_from(SETTINGS), values)
    return lines | byte_cases(b"train.steps=5", b"data.columns.text=1")


def is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def setting(data: bytes, out: Path) -> None:
    (out / "recipe.toml").write_bytes(TOML)
    tables = read_recipe(out / "recipe.toml", [data.decode("utf-8", "surrogateescape")])
    FineTuneRecipe.of("classify", tables)


def option_cases() -> st.SearchStrategy[bytes]:
    values = NUMBERS.filter(lambda text: is_utf8(text) and "\0" not in text and len(text) < 100)
    return st.builds(lambda key, value: f"{key}={value}".encode(), st.sampled_from(OPTIONS), values)


def option(data: bytes, out: Path) -> None:
    """Run a verb with an odd number."""
    (out / "text.txt").write_text("one two three\n\nfour five six\n")
    words = ["vocab", "train", str(out / "text.txt"), "--size=60", "--processes=1", "--out", str(out / "v")]
    with redirect_stderr(io.StringIO()) as errors:
        exit_code = main([*words, data.decode()])
    assert exit_code in (0, 2, 3)
    assert exit_code == 0 or len(errors.getvalue().splitlines()) == 1


def floats(num: int) -> st.SearchStrategy[bytes]:
    special = st.sampled_from([0.0, -0.0, 1.0, -1e30, 1e30, 3e38, -200.0])
    return st.lists(special | st.floats(-100, 100, width=32), min_size=num, max_size=num).map(
        lambda values: np.array(values, np.float32).tobytes()
    )


def decode(data: bytes, _: Path) -> None:
    """Decode logits of a tagger, by itself and with a CRF, and of a model that answers."""
    numbers = np.frombuffer(data[: len(data) // 4 * 4], np.float32).astype(np.float64)
    tags = TagSet.of(["x", "y"], "bioes")
    rows = len(numbers) // len(tags)
    if not rows or not np.isfinite(numbers).all():
        return
    logits = numbers[: rows * len(tags)].reshape(rows, len(tags))
    shifted = logits - logits.max(axis=1, keepdims=True)
    scores = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    is_inside = np.zeros(rows, np.bool_)
    is_inside[1::2] = numbers[0] > 0
    transitions = np.resize(numbers, (len(tags) + 1, len(tags) + 1))
    for decoder in (Decoder.of(tags), Decoder.of(tags, transitions)):
        path = decoder.best_path(scores, is_inside)
        spans = tags.decode(path)
        assert all(0 <= span.start < span.stop <= rows for span in spans)
        assert np.isfinite(weakest_scores(tags, np.exp(scores), path, spans)).all()
    both = log_probabilities(numbers[: len(numbers) // 2 * 2].reshape(-1, 2).astype(np.float32))
    inside = np.zeros(len(both), np.bool_)
    best_spans(both[1:, 0], both[1:, 1], inside, max_pieces=4, num_best=5)


def score(data: bytes, _: Path) -> None:
    """Compare answers as the scripts of SQuAD and CMRC do, and cut a text into sentences."""
    text = data.decode("utf-8", "replace")
    for measure in (SQUAD_2, CMRC):
        assert 0 <= measure.f1(text, text[::2]) <= 1
        assert measure.exact(text, text) == 1
    assert all(0 <= start < end <= len(text) for start, end in sentence_spans(text))


CLASSES = ("BertForSequenceClassification", "BertForTokenClassification")
DOORS = (
    Door("json and toml", lambda: json_cases(*islice(ROWS["tag"], 3)) | byte_cases(TOML), parse),
    Door("recipe.toml", lambda: byte_cases(TOML), recipe),
    Door("--set", setting_cases, setting),
    Door("numbers of options", option_cases, option),
    model_door("BertModel", "config.json", texts=[]),
    *(model_door(name, "config.json", texts=["a b"]) for name in CLASSES),
    run_door("BertForSequenceClassification", "a b"),
    run_door("BertForTokenClassification", "a b"),
    run_door("BertForQuestionAnswering", ("a", "b c")),
    *map(tokenizer_door, TOKENIZER_FILES),
    Door(
        "model.safetensors",
        lambda: weights_cases(content(small_model("BertModel"), "model.safetensors")),
        lambda data, out: gb.load(with_file(small_model("BertModel"), "model.safetensors", data, out)).embed(
            ["a"]
        ),
    ),
    *(rows_door(task, suffix) for task in ROWS for suffix in (".json", ".jsonl", ".csv", ".tsv", "")),
    rows_door("tag", ".conll"),
    *map(text_door, (".txt", ".jsonl", ".txt.gz", ".tsv")),
    *map(corpus_door, ("manifest.json", "shard-00000.ids", "shard-00000.sentences", "shard-00001.documents")),
    Door("a trace", trace_cases, use_trace),
    Door("a result of the lab", lab_cases, use_result),
    Door("bodies for the server", lambda: apps.bodies(apps.BODIES), apps.ask_server),
    Door("bodies for the page", lambda: apps.bodies(apps.QUESTIONS), apps.ask_page),
    Door("queries for the page", apps.queries, apps.query_page),
    Door("decoders", lambda: floats(81), decode),
    Door("scores of answers", lambda: byte_cases(*TEXTS, *WORDS), score),
)
