"""Every sentence is there in Chinese, with the same values; in a terminal it is English."""

import ast
import copy
import pickle
import re
from pathlib import Path
from string import Formatter

import glassbert
from glassbert.chinese import CHINESE
from glassbert.errors import ModelError, UserError
from glassbert.sentence import Sentence, in_both, joined, said_by

SOURCE = Path(glassbert.__file__).parent
GENERAL = SOURCE / "sentence.py"
"""Makes sentences of others' templates."""


def templates() -> dict[str, str]:
    """Return the templates that the package uses, each with a place that uses it."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Sentence":
                place = f"{path.relative_to(SOURCE)}:{node.lineno}"
                template = node.args[0]
                if path != GENERAL:
                    assert isinstance(template, ast.Constant), f"{place}: expected the template itself"
                if isinstance(template, ast.Constant):
                    found[str(template.value)] = place
    return found


def slots(template: str) -> set[tuple[str | None, str | None, str | None]]:
    """Return the slots of a template, with how each is written."""
    return {part[1:] for part in Formatter().parse(template) if part[1] is not None}


def has_words(template: str) -> bool:
    return any(re.search("[a-zA-Z]", literal) for literal, *_ in Formatter().parse(template))


def test_every_sentence_is_there_in_chinese_and_none_is_unused() -> None:
    used = templates()
    assert {text: place for text, place in used.items() if has_words(text) and text not in CHINESE} == {}
    assert [text for text in CHINESE if text not in used] == []


def test_both_languages_fill_in_the_same_values() -> None:
    assert {text: chinese for text, chinese in CHINESE.items() if slots(text) != slots(chinese)} == {}


def test_every_sentence_in_chinese_is_chinese() -> None:
    foreign = {
        text: chinese for text, chinese in CHINESE.items() if not re.search("[\u4e00-\u9fff]", chinese)
    }
    assert [text for text in foreign if re.sub(r"\{.*?\}|block|\W", "", text)] == []


def test_a_sentence_is_english_and_can_be_said_in_chinese() -> None:
    inner = Sentence("{num_rows:,} rows", num_rows=1200)
    found = Sentence("{metric} {value:.4f} on {rows}", metric="accuracy", value=0.5, rows=inner)
    assert found == "accuracy 0.5000 on 1,200 rows"
    assert found.in_language("zh") == "1,200 行上的 accuracy 为 0.5000"
    assert in_both(found) == {"en": str(found), "zh": found.in_language("zh")}
    assert in_both("a name") == "a name"
    assert joined([inner, "x"]).in_language("zh") == "1,200 行, x"


def test_a_sentence_survives_being_copied_and_stored() -> None:
    found = Sentence("label {label!r}", label="{braces}")
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert other == found == "label '{braces}'"
        assert other.in_language("zh") == "标签 '{braces}'"


def test_an_error_says_its_sentence_in_both_languages() -> None:
    error = UserError(Sentence("no answer"))
    assert (str(error), said_by(error).in_language("zh")) == ("no answer", "没有答案")
    assert said_by(ModelError("x {y}")).in_language("zh") == "x {y}"
