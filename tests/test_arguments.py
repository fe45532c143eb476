"""Every public function and method, each of its parameters, with what nobody should pass: one line, soon."""

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.arguments import accepts, hint_of
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import write_arbitrary_translator

HOSTILE = [None, 5, 1.5, "", object(), [1], {"a": 1}, math.nan, "\ud800", "a\0b", b"bytes", [None], -1]
HOSTILE += [10**400, np.int64(3), np.array([1, 2]), int]
FUNCTIONS = [name for name in gb.__all__ if inspect.isfunction(getattr(gb, name))]
# Networks and batches take tensors, which torch checks; other classes are results, or checked in test_ranges.
OBJECTS = ("Corpus", "Explanation", "Model", "Tokenizer", "Trace", "Translator", "Vocabulary", "WordVectors")
METHODS = [
    f"{name}.{key}"
    for name in OBJECTS
    for key, _ in inspect.getmembers(getattr(gb, name), callable)
    if not key.startswith("_")
]
# What is only called by other parts, with what they made; and what takes no arguments of users.
INNER = {"Model.predict_examples", "Model.predict_inputs", "Model.refuse_int8", "Translator.refuse_int8"}
INNER |= {"Model.mask_places", "Corpus.check_fits", "Corpus.tokens", "Corpus.word_starts"}


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), folder / "bert")
    (folder / "translator").mkdir()
    write_arbitrary_translator(folder / "translator")
    (folder / "text.txt").write_text("a b c.\nb c d.\n\nc d e.\nd e a.\n" * 5)
    gb.build_corpus(folder / "text.txt", tokenizer=folder / "bert", out=folder / "corpus")
    model = gb.load(folder / "bert", gb.Model)
    translator = gb.load(folder / "translator", gb.Translator)
    return {
        "Model": model,
        "ModelConfig": model.config,
        "Translator": translator,
        "TransformerConfig": translator.config,
        "Evaluation": gb.evaluate(model, [{"text": "a", "label": "LABEL_0"}]),
        "Tokenizer": model.tokenizer,
        "Vocabulary": model.tokenizer.vocabulary,
        "Trace": model.trace("a b"),
        "Explanation": model.why("a b"),
        "WordVectors": gb.word_vectors(model, ["a", "b"]),
        "Corpus": gb.Corpus.open(folder / "corpus"),
    }


def good(hint: Any, objects: dict[str, Any]) -> Any:
    """Return an argument of the right type, with which a function that reads or trains soon ends."""
    values = [*objects.values(), "nowhere", "a", 1, 0.5, True, ["a"], [1], {}, None]
    return next((value for value in values if accepts(hint, value)), None)


def parameters(function: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    for one in inspect.signature(function).parameters.values():
        if one.name != "self" and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            yield one


def refused(call: Callable[[], object]) -> str | None:
    """Return the message for the user; None if the arguments were accepted."""
    try:
        result = call()
        if inspect.isgenerator(result):
            next(result, None)
    except (gb.UserError, OSError) as error:  # a path that leads nowhere is Python's own FileNotFoundError
        return str(error)
    return None


def arguments(
    function: Callable[..., Any], hostile: str, value: object, objects: dict[str, Any]
) -> inspect.BoundArguments:
    """Return arguments that are good but for one; those that may be left out are."""
    signature = inspect.signature(function)
    given = {
        one.name: value if one.name == hostile else good(hint_of(one, function), objects)
        for one in parameters(function)
        if one.name == hostile or one.default is one.empty
    }
    bound = signature.bind_partial()
    bound.arguments.update(given)
    return bound


@pytest.mark.parametrize("name", [*FUNCTIONS, *(name for name in METHODS if name not in INNER)])
def test_a_wrong_argument_is_one_line(
    name: str, objects: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    owner, _, key = name.partition(".")
    function = getattr(objects[owner], key) if key else getattr(gb, name)
    for parameter in parameters(function):
        for value in HOSTILE:
            given = arguments(function, parameter.name, value, objects)
            reported = refused(lambda given=given: function(*given.args, **given.kwargs))
            case = f"{name}({parameter.name}={value!r}): {reported}"
            assert reported is None or len(reported.splitlines()) == 1, case
            as_list = value.tolist() if isinstance(value, np.ndarray) else value
            if not accepts(hint_of(parameter, function), as_list):
                assert reported is not None, f"{case} is accepted"
                assert reported.startswith(f"{parameter.name}="), f"{case} does not name it"


def test_numbers_of_numpy_and_ints_for_floats_are_numbers() -> None:
    assert accepts(int, np.int64(5))
    assert accepts(float, np.float32(0.5))
    assert accepts(float, 1)
    assert not accepts(int, True)
    assert not accepts(int, 1.0)


class Column:
    """As in a table of pandas: no sequence to Python, but a list on request."""

    def __init__(self, values: list[Any]) -> None:
        self.tolist = lambda: values


def test_arrays_and_columns_stand_for_lists(objects: dict[str, Any]) -> None:
    model = objects["Model"]
    expected = model.embed(["a b", "c"])
    assert np.array_equal(model.embed(np.array(["a b", "c"])), expected)
    assert np.array_equal(model.embed(texts=Column(["a b", "c"])), expected)
    with pytest.raises(gb.UserError, match="^texts=.*; expected str or a list of str"):
        model.embed(Column(["a b", 5]))
