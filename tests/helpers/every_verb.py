"""Each verb of the command line with arguments that work, to attack them all alike."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import cyclopts

import glassbert as gb
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import SHAPE, VOCAB_SIZE, sentence_pairs, write_arbitrary_translator, write_tsv

OUTPUTS = {"out", "report", "destination", "html", "plot"}
"""The names of all parameters that say where to write."""
INPUTS = {"files", "model", "data", "source", "words", "text", "tokenizer", "recipe", "train", "dev"}
INPUTS |= {"segmenter", "folder", "first", "second", "api_key_file", "teacher", "unlabelled", "pairs", "file"}
INPUTS |= {"components", "from_", "models", "compare"}
"""The names of parameters that can say what to read."""
ALIKE = {"train pair", "train tag", "train answer"}
"""They read their files as `train classify` does."""
_TRAINED = ["--set", "train.steps=1", "--set", "train.log_every=1"]
_FEW = ["--set", "data.texts=6", "--set", "data.held_out=2", *_TRAINED]

# The arguments of each verb, without the outputs; a name of the fixture folder is written @name.
ARGUMENTS: dict[str, list[str]] = {
    "demo": [],
    "vocab train": ["@text.txt", "--size", "16"],
    "vocab inspect": ["@bert", "--text", "@text.txt"],
    "vocab extend": ["@bert", "--words", "@words.txt"],
    "vocab trim": ["@bert", "--text", "@text.txt"],
    "tokenize": ["@bert", "a b"],
    "params": ["tiny"],
    "corpus build": ["@text.txt", "--tokenizer", "@bert", "--segmenter", "@words.txt", "--processes", "1"],
    "corpus check": ["@text.txt", "--tokenizer", "@bert", "--processes", "1"],
    "pretrain": ["@recipe.toml"],
    "train classify": ["--model", "@bert", "--train", "@rows.tsv", "--dev", "@dev.tsv", *_TRAINED],
    "train pair": ["--model", "@bert", "--train", "@pairs.csv", "--dev", "@pairs.csv", *_TRAINED],
    "train tag": ["--model", "@bert", "--train", "@tags.jsonl", "--dev", "@tags.jsonl", *_TRAINED],
    "train answer": ["--model", "@bert", "--train", "@answers.jsonl", "--dev", "@answers.jsonl", *_TRAINED],
    "train translate": [
        *("--model", "transformer-tiny", "--train", "@pairs.tsv", "--dev", "@devpairs.tsv", *_TRAINED),
        *(f"--set=model.{name}={value}" for name, value in SHAPE.items()),
        *("--set", f"vocabulary.size={VOCAB_SIZE}", "--set", "data.max_length=64"),
    ],
    "distil": ["@bert", "--text", "@text.txt", *_FEW],
    "evaluate": ["@classifier", "@rows.tsv"],
    "predict": ["@classifier", "@texts.txt"],
    "fill": ["@bert", "a [MASK]"],
    "embed": ["@bert", "@texts.txt"],
    "words": ["@bert", "@words.txt", "--text", "@text.txt", "--segmenter", "@dictionary.txt"],
    "translate": ["@translator", "@texts.txt", "--max-length", "4"],
    "convert": ["@bert"],
    "trace": ["@bert", "a [MASK]"],
    "trace diff": ["@bert/model.safetensors", "@bert/model.safetensors"],
    "why": ["@classifier", "a b", "--data", "@rows.tsv", "--segmenter", "@words.txt"],
    "doctor": ["@classifier", "--data", "@rows.tsv"],
    "lab": ["unit", "--set", "model=@bert"],
    "serve": ["@bert", "--check", "--api-key-file", "@words.txt"],
    "open": ["@classifier", "--data", "@rows.tsv", "--compare", "@bert", "--no-browser"],
}
# What else a verb can be asked to read.
_TAUGHT = ["--train", "@rows.tsv", "--teacher", "@classifier", "--unlabelled", "@texts.jsonl", *_TRAINED]
ALSO = {
    "evaluate": (["@translator", "@pairs.tsv"], ["@bert", "@corpus"]),
    "vocab extend": (
        ["@vocabulary", "--words", "@words.txt"],
        ["@bert", "--from", "@text.txt", "--components", "@components.txt"],
    ),
    "convert": (["@translator", "--to", "ctranslate2"],),
    "pretrain": (
        ["@recipe.toml", "--set", "data.corpus=@corpus", "--set", "model.start=@bert"],
        ["@recipe.toml", "--model", "@bert"],
    ),
    "train translate": (
        ["--recipe", "@translate.toml"],
        ["--model", "@translator", "--train", "@pairs.tsv", "--dev", "@devpairs.tsv", *_TRAINED],
    ),
    "distil": (
        ["@bert", "--recipe", "@distil.toml"],
        ["@bert", "--model", "@classifier", "--text", "@text.txt", "--pairs", "@similar.tsv", *_FEW],
    ),
    "train classify": (_TAUGHT, ["--recipe", "@classify.toml"]),
    "words": (["@bert", "@words.txt", "--pairs", "@scores.tsv"],),
    "embed": (["@bert", "@folder"],),
    "predict": (["@classifier", "@folder"],),
}
# What is read without being named on the command line.
NAMED_IN = {
    "recipe.toml": ("corpus", "bert"),
    "classify.toml": ("bert", "rows.tsv", "dev.tsv"),
    "translate.toml": ("translator", "pairs.tsv", "devpairs.tsv"),
    "distil.toml": ("text.txt",),
}


def write_inputs(folder: Path) -> Path:
    """Write one of each thing that a verb reads."""
    save_oracle(make_oracle("BertForPreTraining"), folder / "bert")
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), folder / "classifier")
    (folder / "translator").mkdir()
    write_arbitrary_translator(folder / "translator")
    gb.Tokenizer.load(folder / "bert").save(folder / "vocabulary")
    files = {
        "text.txt": "a b c.\nb c d.\n\nc d e.\nd e a.\n" * 20,
        "texts.txt": "a b\nc d\n",
        "dictionary.txt": "queue\n好天\n今\n天\n",
        "words.txt": "ab\n好天\n今\n天\nqueue\n",
        "rows.tsv": "text\tlabel\n" + "a b\tLABEL_0\nc d\tLABEL_1\n" * 4,
        "dev.tsv": "text\tlabel\n" + "a c\tLABEL_0\nc b\tLABEL_1\n" * 4,
        "pairs.csv": "text_a,text_b,label\n" + "a,b,x\nc,d,y\n" * 4,
        "tags.jsonl": '{"text": "a b", "spans": [{"start": 0, "end": 1, "label": "X"}]}\n' * 6,
        "answers.jsonl": '{"question": "a", "context": "b c", "answer": "b", "answer_start": 0}\n' * 6,
        "texts.jsonl": '{"text": "a b"}\n{"text": "c d"}\n',
        "components.txt": "好\t女子\n今\t人\n",
        "scores.tsv": "ab\tqueue\t3\n今\t天\t7\nab\t天\t1\n",
        "folder/one.txt": "a b\nc d\n",
        "classify.toml": f'[data]\ntrain = "{folder / "rows.tsv"}"\ndev = "{folder / "dev.tsv"}"\n'
        f'[model]\nstart = "{folder / "bert"}"\n[train]\nsteps = 1\nlog_every = 1\n',
        "translate.toml": f'[data]\ntrain = "{folder / "pairs.tsv"}"\ndev = "{folder / "devpairs.tsv"}"\n'
        f'[model]\nstart = "{folder / "translator"}"\n[train]\nsteps = 1\nlog_every = 1\n',
        "distil.toml": f'[data]\ntext = ["{folder / "text.txt"}"]\ntexts = 6\nheld_out = 2\n'
        "[train]\nsteps = 1\nlog_every = 1\n",
        "similar.tsv": "a b\ta c\t3\nc d\te\t1\na\tb\t2\n",
        "recipe.toml": f'[data]\ncorpus = "{folder / "corpus"}"\n[model]\nstart = "{folder / "bert"}"\n'
        "[objective]\nmax_length = 40\n[train]\nsteps = 1\nlog_every = 1\n",
    }
    (folder / "folder").mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("pairs.tsv", "devpairs.tsv"):
        write_tsv(folder / name, sentence_pairs(30))
    gb.build_corpus(folder / "text.txt", tokenizer=folder / "bert", out=folder / "corpus")
    return folder


@dataclass(frozen=True)
class Verb:
    """A verb, and what its signature says."""

    name: str
    paths: frozenset[str]
    """The parameters that are paths, or may be."""
    has_force: bool
    positional: tuple[str, ...]

    @property
    def outputs(self) -> list[str]:
        """The parameters that say where to write."""
        return sorted(self.paths & OUTPUTS)

    @staticmethod
    def named(arguments: list[str]) -> list[str]:
        """Return the names in the fixture folder that the arguments hold."""
        return sorted({word.partition("@")[2] for word in arguments if "@" in word})

    def named_by(self, arguments: list[str]) -> dict[str, set[str]]:
        """Return the names in the fixture folder that each parameter is given."""
        found: dict[str, set[str]] = {}
        positional, option = list(self.positional), ""
        for word in arguments:
            if word.startswith("--"):
                option = word[2:].partition("=")[0].replace("-", "_")
            parameter = option or (positional.pop(0) if len(positional) > 1 else positional[0])
            if "@" in word:
                parameter = "from_" if parameter == "from" else parameter
                found.setdefault(parameter, set()).add(word.partition("@")[2])
        return found

    def reads(self, arguments: list[str]) -> list[str]:
        """Return the names in the fixture folder that the verb reads, those in recipes included."""
        named = self.named(arguments)
        return sorted({*named, *(inner for name in named for inner in NAMED_IN.get(name, ()))})

    def words(self, arguments: list[str], output: str, path: Path) -> list[str]:
        """Return the command that writes ``output`` to ``path``."""
        given = [str(path)] if output in self.positional else [f"--{output}", str(path)]
        is_resumed = any(word.endswith("/folder") for word in arguments)  # and never replaced
        force = ["--force"] if self.has_force and not is_resumed else []
        return [*self.name.split(), *arguments, *given, *force]


def verbs(app: cyclopts.App, before: tuple[str, ...] = ()) -> Iterator[Verb]:
    """Yield each verb of the command line, from its own signatures."""
    names = [name for name in app if not name.startswith("-")]
    for name in names:
        yield from verbs(app[name], (*before, name))
    if before and app.default_command is not None:
        command = app.default_command
        parameters = dict(_parameters(command))
        paths = {name for name, hint in parameters.items() if _is_path(name, hint)}
        plain = inspect.signature(command).parameters.values()
        positional = tuple(one.name for one in plain if one.kind is one.POSITIONAL_ONLY)
        yield Verb(" ".join(before), frozenset(paths), "force" in parameters, positional)


def _parameters(command: Any) -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(command).items():
        inner = next((one for one in (hint, *get_args(hint)) if is_dataclass(one)), None)
        if inner is None:
            yield name, hint
        else:
            hints = get_type_hints(inner)
            yield from ((field.name, hints[field.name]) for field in fields(inner))


def _is_path(name: str, hint: Any) -> bool:
    return "Path" in str(hint) or name in INPUTS
