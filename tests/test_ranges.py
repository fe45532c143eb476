"""Attacks every number that a user can set, in every table and on the command line."""

import ast
import importlib
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import cyclopts
import pytest

import glassbert
from glassbert.cli.app import build_app
from glassbert.cli.main import main
from glassbert.config import BertConfig, LstmConfig
from glassbert.errors import UserError
from glassbert.glassbox.lab.catalogue import CATALOGUE
from glassbert.glassbox.lab.experiment import find
from glassbert.ranges import Range
from glassbert.runs.api import distil_homes, finetune_homes, pretrain_homes, translate_homes
from glassbert.runs.distil import DistilRecipe
from glassbert.runs.extend import ExtendRecipe, NewPieces
from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.recipe import Tables, changed
from glassbert.runs.translate import TranslateRecipe
from glassbert.typed import hints_of, settings_from

SOURCE = Path(glassbert.__file__).parent
ABSURD = ["nan", "inf", "-inf", "-1", "0", "1e30", "1" + "0" * 30, "many", "[1]", "{}"]
NUMBERS = [math.nan, math.inf, -math.inf, -1, 0, 1e30, 10**30, "many", None, [1]]


def settings_classes() -> Iterator[type[Any]]:
    """Yield every dataclass that is checked by the types of its fields, wherever it is."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "lab" in path.parts:
            continue  # an experiment checks what it is asked for itself
        text = path.read_text(encoding="utf-8")
        if "check_fields(self" not in text and "Settings:" not in text and "Settings(" not in text:
            continue  # it is not worth parsing
        names = {
            node.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.ClassDef)
            and ("check_fields(self" in ast.unparse(node) or node.name.endswith("Settings"))
            and "@dataclass" in ast.unparse(node)
        }
        module = ".".join(("glassbert", *path.relative_to(SOURCE).with_suffix("").parts))
        yield from (getattr(importlib.import_module(module), name) for name in sorted(names))


CLASSES = list(settings_classes())


def plain(hint: Any) -> set[Any]:
    """Return the types of a hint that have no range."""
    if get_origin(hint) in (Union, UnionType):
        return set().union(*map(plain, get_args(hint)))
    if get_origin(hint) is Annotated and any(isinstance(one, Range) for one in hint.__metadata__):
        return set()
    return {hint}


def refusal(call: Callable[[], object]) -> str | None:
    """Return the message for the user; None if the value was accepted."""
    try:
        call()
    except UserError as error:
        return str(error)
    return None


def test_the_classes_are_found() -> None:
    assert {BertConfig, LstmConfig} < set(CLASSES)
    assert len(CLASSES) > 15


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_number_of_a_settings_class_has_a_range(kind: type[Any]) -> None:
    unbounded = [name for name, hint in hints_of(kind).items() if plain(hint) & {int, float}]
    if kind.__name__ not in ("TokenizerSettings", "SentenceSettings"):  # read from files, checked there
        assert unbounded == []


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_no_number_from_python_ends_in_anything_but_a_line(kind: type[Any]) -> None:
    required = {"size": 100, "corpus": Path("c"), "train": Path("t"), "until": 1.0, "encoder": BertConfig()}
    required |= {"text": (Path("t"),), "model": Path("m"), "teacher": Path("m")}
    needed = {f.name: required[f.name] for f in fields(kind) if f.name in required}
    for name, hint in hints_of(kind).items():
        if plain(hint) - {NoneType}:
            continue
        for value in NUMBERS:
            refused = refusal(lambda name=name, value=value: kind(**{**needed, name: value}))
            assert refused is None or (name in refused and len(refused.splitlines()) == 1)


# What looks absurd and is not: 0 switches something off or is a number like any other; texts are names that
# only the data or the disk can tell from wrong ones.
ACCEPTED = {
    "0": {
        *("adapt.epochs", "data.dev_share", "data.skip_bad", "distil.gold_weight", "extend.contexts"),
        *("objective.short_prob", "runs.search_minutes", "task.focal_gamma", "task.label_smoothing"),
        *("model.attention_dropout", "model.attention_probs_dropout_prob", "model.classifier_dropout"),
        *("model.hidden_dropout", "model.hidden_dropout_prob", "model.initializer_range"),
        *("model.pad_token_id", "train.beta1", "train.beta2", "train.ema_decay", "train.evaluate_every"),
        *("train.max_grad_norm", "train.patience", "train.seed", "train.warmup", "train.weight_decay"),
    },
    "many": {
        *("data.corpus", "data.format", "data.held_out", "data.pairs", "data.source_key", "data.target_key"),
        *("data.text", "distil.keep", "distil.teacher", "extend.components", "extend.model"),
        *("task.bleu_tokenizer", "task.class_weights", "task.metric"),
    },
    "{}": {"data.columns", "objective.mask"},
}
# The recipe of each kind of run without what is attacked.
BASES: dict[str, Tables] = {
    "pretrain": {"data": {"corpus": "none"}},
    "translate": {"data": {"train": "none"}},
    "distil": {"data": {"text": ["none"]}, "distil": {"teacher": "demo"}},
    "extend": {"extend": {"model": "demo", "text": ["none"]}},
    **{
        task: {"data": {"train": "none"}, "model": {"start": "none"}}
        for task in ("classify", "tag", "answer")
    },
}


def recipes() -> list[tuple[str, str]]:
    """Return every kind of recipe with each of its settings; those that tasks share are tried once."""
    tables = {"pretrain": pretrain_homes(), "classify": finetune_homes("classify")}
    tables |= {task: finetune_homes(task) for task in ("tag", "answer")}
    tables |= {"translate": translate_homes(), "distil": distil_homes()}
    keys = {(kind, ".".join(home)) for kind, homes in tables.items() for home in homes.values()}
    keys |= {("extend", f"extend.{name}") for name in hints_of(NewPieces)}
    return sorted(
        (kind, key) for kind, key in keys if kind not in ("tag", "answer") or key.startswith("task.")
    )


def make(kind: str, change: str) -> None:
    tables = changed(deepcopy(BASES[kind]), [change])
    recipe = {
        "pretrain": PretrainRecipe,
        "translate": TranslateRecipe,
        "distil": DistilRecipe,
        "extend": ExtendRecipe,
    }.get(kind)
    if recipe is None:
        FineTuneRecipe.of(kind, tables)
    else:
        recipe.of(tables)


@pytest.mark.parametrize(("kind", "key"), recipes())
def test_an_absurd_setting_of_a_recipe_is_refused_in_a_line(kind: str, key: str) -> None:
    for value in ABSURD:
        refused = refusal(lambda value=value: make(kind, f"{key}={value}"))
        if refused is None:
            assert key in ACCEPTED.get(value, ()), f"{key}={value} is accepted"
        else:
            assert len(refused.splitlines()) == 1


def numeric_options() -> list[tuple[str, str, cyclopts.Argument]]:
    found = []

    def visit(app: cyclopts.App, words: list[str]) -> None:
        for name in app:
            if not name.startswith("-"):
                visit(app[name], [*words, name])
        if app.default_command is not None:
            for argument in app.assemble_argument_collection():
                if {int, float} & {argument.hint, *get_args(argument.hint)} and argument.names:
                    found.append((" ".join(words), argument.names[0], argument))

    visit(build_app(), [])
    return found


OPTIONS = numeric_options()


def test_the_numeric_options_are_found() -> None:
    assert {("fill", "--top"), ("vocab train", "--size"), ("train classify", "--seeds")} < {
        (verb, name) for verb, name, _ in OPTIONS
    }


@pytest.mark.parametrize(("verb", "name", "argument"), OPTIONS, ids=lambda one: str(one)[:20])
def test_every_numeric_option_has_a_range(verb: str, name: str, argument: cyclopts.Argument) -> None:
    limits = [one for one in argument.parameter.validator if isinstance(one, Range)]
    # The settings of a server are checked by their own type, whatever they come from.
    values = [value for value in ABSURD[:7] if not any(float(value) in limit for limit in limits)]
    values = values if limits else ["nan", "inf", "1e30", "-1"]
    assert set(values) > {"nan", "inf", "1e30"}
    for value in ("many", *values):
        assert main([*verb.split(), "a", "b", f"{name}={value}"]) == 2


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_number_of_an_experiment_is_absurd(name: str) -> None:
    kind = find(name).settings
    for key, hint in hints_of(kind).items():
        for value in NUMBERS:
            refused = refusal(lambda key=key, value=value: settings_from(kind, {key: value}, name))
            assert refused is None or len(refused.splitlines()) == 1
            is_absurd = value in (10**30, 1e30, math.inf, -math.inf) or value != value
            assert refused or not is_absurd or hint is str, f"{name}.{key}={value} is accepted"
