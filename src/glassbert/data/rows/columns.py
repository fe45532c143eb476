"""Which column holds what: by the user's choice, by its usual name, or by its content."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean

from glassbert.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What the columns of a task's rows are for."""

    task: str
    required: tuple[str, ...]
    """The columns that hold the texts, in the order in which the model reads them."""
    optional: tuple[str, ...] = ()
    """The other columns, such as the label."""
    usual_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names that columns often have, by role, beside those that are known here."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every role, the required ones first."""
        return self.required + self.optional

    @property
    def can_guess_label(self) -> bool:
        """Whether one column more than the texts can only be the label."""
        return "label" in self.optional


# The names that users may give to a role besides its own.
_SAME_ROLE = {
    "text_a": "text",
    "text_b": "pair",
    "labels": "label",
    "answer": "answers",
    "answer_start": "start",
    "token": "tokens",
    "tag": "tags",
}

# Names are compared without case, spaces, underscores and hyphens; the first one that a file has is used.
_NAMES: dict[str, tuple[str, ...]] = {
    "text": (
        *("text", "sentence", "content", "review", "texta", "comment", "document", "tweet", "utterance"),
        *("message", "body", "query", "question", "title", "headline", "reviewtext", "sentence1", "text1"),
        *(
            "文本",
            "内容",
            "句子",
            "评论",
            "正文",
            "文本内容",
            "评论内容",
            "文章",
            "原文",
            "语料",
            "问题",
            "标题",
        ),
    ),
    "label": (
        *("label", "labels", "class", "category", "target", "quality", "goldlabel", "gold", "sentiment"),
        *("intent", "isduplicate", "polarity", "emotion", "stars", "rating", "tag", "tags", "topic"),
        *("标签", "类别", "分类", "类型", "情感", "情感倾向", "类目", "意图"),
    ),
    "score": (
        *("score", "similarity", "similarityscore", "relatednessscore", "relatedness", "value"),
        *("分数", "得分", "相似度", "评分"),
    ),
    "spans": ("spans", "entities", "label", "labels", "annotations", "ner", "实体", "标注"),
    "tokens": ("tokens", "words", "characters", "词"),
    "tags": ("tags", "nertags", "labels", "label", "bio", "标签"),
    "id": ("id", "qid", "questionid", "queryid", "guid", "编号"),
    "question": ("question", "query", "questiontext", "querytext", "问题", "提问"),
    "context": (
        *("context", "passage", "paragraph", "contexttext", "document", "article", "text", "content"),
        *("上下文", "原文", "文章", "段落", "材料", "篇章", "内容"),
    ),
    "answers": ("answers", "answer", "answertext", "答案", "回答"),
    "start": ("answerstart", "start", "答案起始", "起始位置"),
    "impossible": ("isimpossible", "impossible"),
}
_PAIRS: tuple[tuple[str, str], ...] = (
    ("text", "pair"),
    ("text", "textpair"),
    ("#1string", "#2string"),
    *(
        (base + first, base + second)
        for base in (
            "text",
            "sentence",
            "sent",
            "question",
            "query",
            "s",
            "q",
            "document",
            "文本",
            "句子",
            "问题",
        )
        for first, second in (("1", "2"), ("a", "b"))
    ),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("query", "title"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "passage"),
    ("question", "answer"),
    ("前提", "假设"),
)
# Columns that number the rows, or that an exported table has for its index.
_ROW_NUMBERS = frozenset({"", "id", "index", "idx", "guid", "no", "unnamed:0", "序号", "编号"})


_MAX_DIGITS = 9
_LONGEST_NAME = 200
"""Characters of a column's name that are compared."""


def check_roles(roles: Roles, given: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that the user named, by role; raise UserError for a role that the task lacks."""
    columns = {}
    for key, column in given.items():
        role = key if key in roles.all else _SAME_ROLE.get(key, key)
        if role not in roles.all:
            known = ", ".join(sorted(roles.all))
            raise UserError(f"data.columns.{key}: {roles.task} has no such column; use {known}")
        columns[role] = str(column)
    return columns


def find_columns(roles: Roles, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the names of the columns that hold what a task needs, by role, as far as they can be found.

    Args:
        given: The columns that the user named, by role.
    """
    found = {role: column for role, name in given.items() if (column := named(name, names)) is not None}
    by_key = {_key(name): name for name in reversed(names) if name not in found.values()}
    is_pair = "pair" in roles.required
    if is_pair and not {"text", "pair"} & set(given):
        found |= next(
            ({"text": by_key[a], "pair": by_key[b]} for a, b in _PAIRS if a in by_key and b in by_key), {}
        )
    for role in roles.all:
        if role in given or role in found or (is_pair and role in roles.required):
            continue
        known = (*map(_key, roles.usual_names.get(role, ())), *_NAMES.get(role, (_key(role),)))
        candidates = [by_key[key] for key in known if key in by_key]
        free = [name for name in candidates if name not in found.values()]
        if free:
            found[role] = free[0]
    return found


def named(name: str, names: Sequence[str]) -> str | None:
    """Return which of ``names`` a user means by a name or by a number from 0."""
    if name in names:
        return name
    like = [other for other in names if _key(other) == _key(name)]
    if like:
        return like[0]
    number = column_number(name)
    return names[number] if number is not None and number < len(names) else None


def column_number(name: str) -> int | None:
    """Return the number of a column that a user names by it; None for a name."""
    return int(name) if name.isdecimal() and len(name) <= _MAX_DIGITS else None


def assign_by_elimination(roles: Roles, found: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the roles that are still free, if as many columns of unknown names are left for them."""
    if not roles.can_guess_label:
        return {}
    left = [name for name in names if name not in found.values() and _key(name) not in _ROW_NUMBERS]
    missing = [role for role in roles.required if role not in found]
    if not missing and not {"label", "score"} & set(found):
        missing = ["label"]
    return dict(zip(missing, left, strict=True)) if missing and len(left) == len(missing) else {}


def guess_columns(roles: Roles, rows: Sequence[Sequence[str]]) -> dict[str, int] | None:
    """Return which column of a table without a header holds what, by role; None if that is unclear.

    The texts come in order, and at most one column more: the label.
    """
    num_texts, num_columns = len(roles.required), len(rows[0])
    if num_columns == num_texts:
        return {role: column for column, role in enumerate(roles.required)}
    if num_columns != num_texts + 1 or not roles.can_guess_label:
        return None
    label = _label_column([row for row in rows if len(row) == num_columns])
    texts = [column for column in range(num_columns) if column != label]
    return {**dict(zip(roles.required, texts, strict=True)), "label": label}


def _label_column(rows: Sequence[Sequence[str]]) -> int:
    """Return the column that looks most like labels: of numbers only, else of the fewest, shortest values."""
    columns = list(zip(*rows, strict=True))
    numeric = [number for number, cells in enumerate(columns) if all(map(is_number, cells))]
    if len(numeric) == 1:
        return numeric[0]
    return min(
        reversed(range(len(columns))),
        key=lambda column: (len(set(columns[column])), fmean(map(len, columns[column]))),
    )


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number; `1_000` is one to Python only."""
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False


def _key(name: str) -> str:
    return _known_key(name[:_LONGEST_NAME])


@lru_cache(maxsize=1 << 10)
def _known_key(name: str) -> str:
    return re.sub(r"[\s_\-]+", "", unicodedata.normalize("NFKC", name).casefold())
