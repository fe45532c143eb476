"""The Python door: which names are public, what paths they take and refuse, that examples need no others."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glassbert
import glassbert as gb
from glassbert.errors import UserError
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import sentence_pairs, write_arbitrary_translator, write_tsv

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [*ROOT.glob("README*.md"), *sorted((ROOT / "docs" / "handbook").rglob("*.md"))]

PUBLIC = [
    "AnswerPrediction",
    "Batch",
    "Bert",
    "BertConfig",
    "Candidate",
    "ClassPrediction",
    "Corpus",
    "DataError",
    "DecodeSettings",
    "Diagnosis",
    "Embeddings",
    "Encoding",
    "Evaluation",
    "Explanation",
    "FilesResult",
    "Filled",
    "Layout",
    "LearnSettings",
    "Model",
    "ModelConfig",
    "ModelError",
    "PRESETS",
    "ReadOptions",
    "RunResult",
    "SPECIALS",
    "TagPrediction",
    "Tap",
    "Tokenizer",
    "Trace",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "UserError",
    "Vocabulary",
    "Word",
    "WordVectors",
    "__version__",
    "build_corpus",
    "check_corpus",
    "convert",
    "distil",
    "doctor",
    "embed_files",
    "evaluate",
    "experiments",
    "extend_from_text",
    "extend_vocabulary",
    "inspect_text",
    "inspect_vocabulary",
    "lab",
    "learn_vocabulary",
    "load",
    "nearest_tokens",
    "new_bert",
    "new_transformer",
    "params",
    "predict_files",
    "preset",
    "pretrain",
    "register",
    "register_format",
    "register_objective",
    "saved_claims",
    "saved_result",
    "segmenter",
    "serve",
    "trace",
    "train",
    "trim_vocabulary",
    "word_vectors",
    "write_report",
]


def test_a_public_name_is_neither_added_nor_lost_by_accident() -> None:
    assert glassbert.__all__ == PUBLIC
    assert dir(glassbert) == PUBLIC


def test_type_checkers_see_the_names_that_users_get() -> None:
    tree = ast.parse(Path(glassbert.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname  # a name that is passed on
    }
    expected = {name: f"glassbert.{home}" for name, home in glassbert._HOMES.items()}
    assert seen == expected | dict.fromkeys(glassbert._PACKAGES, "glassbert")


TRAINED_ON = {"steps": 1, "log_every": 1}
# Each public callable that takes a path; ``at`` makes a path of a name in the folder, as a str or as a Path.
CALLS: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    "Corpus.open": lambda at: gb.Corpus.open(at("corpus")),
    "Model": lambda at: gb.Model(
        gb.load(at("bert")).network, gb.Tokenizer.load(at("bert")), folder=at("bert")
    ),
    "Model.evaluate": lambda at: gb.load(at("classifier"), gb.Model).evaluate(at("rows.tsv")),
    "Model.save": lambda at: gb.load(at("bert"), gb.Model).save(at("new")),
    "Model.trace": lambda at: gb.load(at("bert"), gb.Model).trace("a b", out=at("new.safetensors")),
    "Model.words": lambda at: gb.load(at("bert"), gb.Model).words("a b", segmenter=at("words.txt")),
    "Model.why": lambda at: gb.load(at("classifier"), gb.Model).why(
        "a b", method="rows", data=at("rows.tsv")
    ),
    "Explanation.save_html": lambda at: (
        gb.load(at("classifier"), gb.Model).why("a b").save_html(at("new.html"))
    ),
    "Tokenizer.load": lambda at: gb.Tokenizer.load(at("bert")),
    "Tokenizer.save": lambda at: gb.Tokenizer.load(at("bert")).save(at("new")),
    "Trace.load": lambda at: gb.Trace.load(at("trace.safetensors")),
    "Trace.to_html": lambda at: gb.Trace.load(at("trace.safetensors")).to_html(at("new.html")),
    "Trace.save": lambda at: gb.Trace.load(at("trace.safetensors")).save(at("new.safetensors")),
    "Translator": lambda at: gb.Translator(
        gb.load(at("translator")).network, gb.load(at("translator")).tokenizer, folder=at("translator")
    ),
    "Translator.evaluate": lambda at: gb.load(at("translator"), gb.Translator).evaluate(at("pairs.tsv")),
    "Translator.export_ctranslate2": lambda at: gb.load(at("translator")).export_ctranslate2(at("new")),
    "Translator.save": lambda at: gb.load(at("translator")).save(at("new")),
    "Translator.trace": lambda at: gb.load(at("translator")).trace("a b", out=at("new.safetensors")),
    "Vocabulary.load": lambda at: gb.Vocabulary.load(at("bert/vocab.txt")),
    "Vocabulary.save": lambda at: gb.Vocabulary.load(at("bert/vocab.txt")).save(at("new.txt")),
    "build_corpus": lambda at: gb.build_corpus(
        [at("text.txt")], tokenizer=at("bert"), out=at("new"), segmenter=at("words.txt")
    ),
    "check_corpus": lambda at: gb.check_corpus(at("text.txt"), tokenizer=at("bert")),
    "convert": lambda at: gb.convert(at("bert"), at("new")),
    "distil": lambda at: gb.distil(
        at("bert"), text=at("text.txt"), out=at("new"), model=at("bert"), texts=8, held_out=4, **TRAINED_ON
    ),
    "doctor": lambda at: gb.doctor(at("classifier"), at("rows.tsv"), at("classifier")),
    "embed_files": lambda at: gb.embed_files(at("bert"), at("text.txt"), at("new")),
    "evaluate": lambda at: gb.evaluate(at("classifier"), at("rows.tsv")),
    "extend_from_text": lambda at: gb.extend_from_text(
        at("bert"), at("text.txt"), out=at("new"), min_count=1, **TRAINED_ON
    ),
    "trim_vocabulary": lambda at: gb.trim_vocabulary(at("bert"), at("text.txt"), at("new")),
    "extend_vocabulary": lambda at: gb.extend_vocabulary(at("bert"), at("words.txt"), at("new")),
    "inspect_text": lambda at: gb.inspect_text(gb.Tokenizer.load(at("bert")), at("text.txt")),
    "learn_vocabulary": lambda at: gb.learn_vocabulary(at("text.txt"), size=16, out=at("new")),
    "load": lambda at: gb.load(at("bert")),
    "params": lambda at: gb.params(at("bert")),
    "predict_files": lambda at: gb.predict_files(at("classifier"), at("rows.tsv"), at("new")),
    "pretrain": lambda at: gb.pretrain(
        at("corpus"), model=at("bert"), out=at("new"), max_length=40, **TRAINED_ON
    ),
    "segmenter": lambda at: gb.segmenter(at("words.txt")),
    "trace": lambda at: gb.trace(at("bert"), "a b"),
    "train": lambda at: gb.train(
        "classify", model=at("bert"), train=at("rows.tsv"), dev=at("rows.tsv"), out=at("new"), **TRAINED_ON
    ),
    "word_vectors": lambda at: gb.word_vectors(
        at("bert"), at("words.txt"), text=at("text.txt"), segmenter=at("words.txt")
    ),
    "WordVectors.save": lambda at: gb.word_vectors(at("bert"), ["a", "b"]).save(at("new")),
    "write_report": lambda at: gb.write_report(
        at("new.html"), gb.evaluate(at("classifier"), at("rows.tsv")), run=at("bert")
    ),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one of each thing that a public callable reads."""
    tmp_path = tmp_path_factory.mktemp("inputs")
    save_oracle(make_oracle("BertForPreTraining"), tmp_path / "bert")
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), tmp_path / "classifier")
    (tmp_path / "translator").mkdir()
    write_arbitrary_translator(tmp_path / "translator")
    (tmp_path / "text.txt").write_text("a b c.\nb c d.\n\nc d e.\nd e a.\n" * 20)
    (tmp_path / "words.txt").write_text("ab\n好天\n今\n天\nqueue\n", encoding="utf-8")
    (tmp_path / "rows.tsv").write_text("text\tlabel\n" + "a b\tLABEL_0\nc d\tLABEL_1\n" * 4)
    write_tsv(tmp_path / "pairs.tsv", sentence_pairs(3))
    gb.trace(tmp_path / "bert", "a b", out=tmp_path / "trace.safetensors")
    gb.build_corpus(tmp_path / "text.txt", tokenizer=tmp_path / "bert", out=tmp_path / "corpus")
    return tmp_path


@pytest.mark.parametrize("kind", [str, Path])
@pytest.mark.parametrize("name", CALLS)
def test_a_path_may_be_a_str_or_a_path(
    name: str, kind: Callable[[Path], Any], inputs: Path, tmp_path: Path
) -> None:
    CALLS[name](lambda name: kind((tmp_path if name.startswith("new") else inputs) / name))


WRITING = [
    name for name, call in CALLS.items() if any(str(c).startswith("new") for c in call.__code__.co_consts)
]
"""Calls that write: in their code, outputs have names that begin with new."""
IMPOSSIBLE = ["is a file", "lies below a file", "is a link to nowhere"]


@pytest.mark.parametrize("what", IMPOSSIBLE)
@pytest.mark.parametrize("name", WRITING)
def test_an_output_where_none_can_be_is_refused_in_one_line_and_nothing_is_touched(
    name: str, what: str, inputs: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")

    def at(name: str) -> Path:
        if not name.startswith("new"):
            return inputs / name
        path = tmp_path / name
        if what == "is a file":
            path.write_text("mine")
        elif what == "is a link to nowhere" and not path.is_symlink():
            path.symlink_to(tmp_path / "nowhere")
        return tmp_path / "file" / name if what == "lies below a file" else path

    refused = None
    try:
        CALLS[name](at)
    except UserError as error:
        refused = str(error)
    if refused is None:  # a file may be created through a link
        assert what == "is a link to nowhere"
        assert (tmp_path / "nowhere").exists()
    else:
        assert len(refused.splitlines()) == 1
    files = [path for path in tmp_path.iterdir() if path.exists() and path.resolve().name != "nowhere"]
    assert {path.read_text() for path in files if path.suffix != ".json"} == {"mine"}


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions, classes and methods by name."""
    for name in glassbert.__all__:
        thing = getattr(glassbert, name)
        if callable(thing):
            yield name, thing
        if inspect.isclass(thing):
            methods = inspect.getmembers(thing, callable)
            yield from ((f"{name}.{key}", method) for key, method in methods if not key.startswith("_"))


def test_every_public_callable_that_takes_a_path_is_called_above() -> None:
    takes_path = set()
    for name, thing in callables():
        try:
            parameters = inspect.signature(thing).parameters.values()
        except ValueError:
            continue  # written in C
        if any("Path" in str(parameter.annotation) for parameter in parameters):
            takes_path.add(name)
    assert takes_path - MADE_BY_US == set(CALLS)


MADE_BY_US = {"Corpus", "FilesResult", "RunResult"}
"""Classes whose objects users get and do not make."""


def names_from_inside(source: str) -> set[str]:
    """Return what a program imports from the parts of glassbert, as module.name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassbert."):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("glassbert.")}
    return found


def programs(path: Path) -> list[str]:
    """Return the Python of an example, or the Python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [text] if path.suffix == ".py" else re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def test_what_examples_and_documents_import_from_inside_is_listed_in_the_glossary() -> None:
    paths = [*EXAMPLES, *PAGES]
    used = set().union(*(names_from_inside(program) for path in paths for program in programs(path)))
    listed = re.findall(r"^\| `(glassbert\.[\w.]+)` \|", GLOSSARY.read_text(encoding="utf-8"), re.M)
    assert set(listed) == used
    assert listed == sorted(listed)


def test_the_guard_sees_every_way_to_import_from_inside() -> None:
    assert names_from_inside("import glassbert as gb\nfrom glassbert import load") == set()
    assert names_from_inside("from glassbert.model.block import Block") == {"glassbert.model.block.Block"}
    assert names_from_inside("def f():\n    import glassbert.storage") == {"glassbert.storage"}
