"""Every function that takes a path takes a `str`."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

import glassbert.data.corpus
import glassbert.text
from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.check import check_corpus
from glassbert.data.corpus.manifest import Manifest
from glassbert.data.corpus.reader import Corpus
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.text.documents import detect_form
from glassbert.text.extend import extend_tokenizer, plan_extension
from glassbert.text.files import input_files, raw_lines, read_lines, unpacked_name
from glassbert.text.inspection import inspect_text
from glassbert.text.segment import DictionarySegmenter, segmenter
from glassbert.text.sources import find_sources
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.learn import learn_vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

TEXT = "the cat sat.\nthe cat ran.\n\nthe dog sat.\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    (folder / "words.txt").write_text("horse\n", encoding="utf-8")
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, "the", "cat", "dog", "sat", "ran", ".")))
    tokenizer.save(folder / "tokenizer")
    learn_subwords([TEXT], SubwordSettings(size=275)).tokenizer.save(folder / "subwords")
    build_corpus(folder / "text.txt", tokenizer=tokenizer, out=folder / "corpus", log=lambda _: None)
    return folder


CALLS: dict[str, Callable[[str], object]] = {
    "Tokenizer.load": lambda here: Tokenizer.load(f"{here}/tokenizer"),
    "Tokenizer.save": lambda here: Tokenizer.load(f"{here}/tokenizer").save(f"{here}/again"),
    "SubwordTokenizer.load": lambda here: SubwordTokenizer.load(f"{here}/subwords"),
    "SubwordTokenizer.save": lambda here: SubwordTokenizer.load(f"{here}/subwords").save(f"{here}/sub"),
    "Vocabulary.load": lambda here: Vocabulary.load(f"{here}/tokenizer/vocab.txt"),
    "Vocabulary.save": lambda here: Vocabulary.load(f"{here}/tokenizer/vocab.txt").save(f"{here}/v.txt"),
    "learn_vocabulary": lambda here: learn_vocabulary([f"{here}/text.txt"], size=36, out=f"{here}/learned"),
    "inspect_text": lambda here: inspect_text(Tokenizer.load(f"{here}/tokenizer"), f"{here}/text.txt"),
    "extend_tokenizer": lambda here: extend_tokenizer(
        f"{here}/tokenizer", f"{here}/words.txt", f"{here}/extended"
    ),
    "plan_extension": lambda here: plan_extension(Tokenizer.load(f"{here}/tokenizer"), f"{here}/words.txt"),
    "build_corpus": lambda here: build_corpus(
        f"{here}/text.txt", tokenizer=f"{here}/tokenizer", out=f"{here}/built", segmenter=f"{here}/words.txt"
    ),
    "check_corpus": lambda here: check_corpus(f"{here}/text.txt", tokenizer=f"{here}/tokenizer"),
    "Corpus.open": lambda here: Corpus.open(f"{here}/corpus"),
    "Manifest.load": lambda here: Manifest.load(f"{here}/corpus"),
    "read_lines": lambda here: list(read_lines(f"{here}/text.txt")),
    "raw_lines": lambda here: list(raw_lines(f"{here}/text.txt")),
    "input_files": lambda here: input_files(here),
    "unpacked_name": unpacked_name,
    "detect_form": lambda here: detect_form(f"{here}/text.txt"),
    "find_sources": lambda here: find_sources([f"{here}/text.txt"]),
    "segmenter": lambda here: segmenter(f"{here}/words.txt"),
    "DictionarySegmenter.load": lambda here: DictionarySegmenter.load(f"{here}/words.txt"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_path_may_be_a_str(name: str, folder: Path) -> None:
    CALLS[name](str(folder))


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield the functions and the methods that load or save, of the modules that users import from."""
    for package in (glassbert.text, glassbert.data.corpus):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = import_module(info.name)
            for name, value in vars(module).items():
                if name.startswith("_") or getattr(value, "__module__", "") != info.name:
                    continue
                if inspect.isfunction(value):
                    yield name, value
                elif inspect.isclass(value):
                    for method in ("load", "save", "open"):
                        if callable(getattr(value, method, None)):
                            yield f"{name}.{method}", getattr(value, method)


# Parts of a build and their helpers, which only get the paths that `build_corpus` made.
INTERNAL = {
    "Progress.load",
    "Progress.save",
    "find_built",
    "publish",
    "resume",
    "work_folder",
    "disk_full_explained",
}
INTERNAL |= {"read_documents"}


def test_no_public_function_asks_for_a_path_only() -> None:
    for name, function in public_functions():
        for parameter in inspect.signature(function).parameters.values():
            annotation = str(parameter.annotation)
            if name not in INTERNAL and "Path" in annotation:
                assert "str" in annotation.replace("'", ""), f"{name}({parameter})"
