"""Sentences in English and Chinese that name two things of one topic, made for the demo.

No frame prefers a topic: only the two things show it. Train, dev and test have frames of their own, and some
things occur in test only: a model can know them only from its pre-training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from glassbert.data.random import Draw, below

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")
TOPICS = ("food", "music", "sport", "travel")
NUM_KNOWN = 10
"""Of each list of things, those that train and dev have."""


@dataclass(frozen=True)
class Language:
    """The words and frames of a language."""

    things: Mapping[str, tuple[str, ...]]
    frames: Mapping[Split, tuple[str, ...]]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ENGLISH = Language(
    things={
        "food": _words("bread soup rice cheese fish butter sugar meat salt wine milk fruit"),
        "music": _words("piano guitar song concert orchestra singer opera drum violin melody album band"),
        "sport": _words("football match goal champion tennis coach swimmer team race league player stadium"),
        "travel": _words("train station airport ship road bridge bus railway harbour truck passenger ticket"),
    },
    frames={
        "train": (
            "Today we talk about the {a} and the {b}.",
            "My sister wrote a long letter about the {a} and also about the {b}.",
            "First came the {a}, then the {b}.",
            "There is nothing new about the {a}; the {b} is another story.",
            "Last night I dreamt of the {a} and the {b}.",
            "Do you remember the {a}, or only the {b}?",
            "The {a}, the {b} and so on.",
            "The old photograph shows the {a} beside the {b}.",
        ),
        "dev": (
            "Everyone asked me about the {a} and the {b}.",
            "One page on the {a}, one page on the {b}.",
            "What became of the {a}? And of the {b}?",
        ),
        "test": (
            "She forgot the {a} but not the {b}.",
            "In this picture we see the {a}, and behind it the {b}.",
            "Tell me: the {a} or the {b}?",
        ),
    },
)
CHINESE = Language(
    things={
        "food": _words("面包 汤 米饭 奶酪 鱼肉 黄油 白糖 牛肉 盐 葡萄酒 牛奶 水果"),
        "music": _words("钢琴 吉他 歌曲 音乐会 乐团 歌手 歌剧 鼓 小提琴 旋律 专辑 乐队"),
        "sport": _words("足球 比赛 进球 冠军 网球 教练 游泳 球队 赛跑 联赛 球员 体育场"),
        "travel": _words("火车 车站 机场 轮船 公路 大桥 汽车 铁路 港口 卡车 乘客 车票"),
    },
    frames={
        "train": (
            "今天我们谈谈{a}和{b}。",
            "姐姐写了一封长信，说到{a}，也说到{b}。",
            "先是{a}，然后是{b}。",
            "{a}没有什么新闻，{b}是另一回事。",
            "昨晚我梦见了{a}和{b}。",
            "你还记得{a}，还是只记得{b}？",
            "{a}、{b}等等。",
            "旧照片上有{a}，旁边是{b}。",
        ),
        "dev": ("大家都问我{a}和{b}的事。", "一页讲{a}，一页讲{b}。", "{a}后来怎么样？{b}呢？"),
        "test": ("她忘了{a}，没忘{b}。", "在这幅画里我们看到{a}，后面是{b}。", "告诉我：{a}还是{b}？"),
    },
)


@dataclass(frozen=True)
class Note:
    """A sentence and what it is about."""

    text: str
    label: str

    def to_json(self) -> dict[str, str]:
        """Return a row of a JSONL file."""
        return {"text": self.text, "label": self.label}


def notes(split: Split, count: int, *, seed: int) -> list[Note]:
    """Return ``count`` different sentences, balanced by topic and language, the same ones for a seed."""
    found: dict[str, Note] = {}
    number = 0
    while len(found) < count:
        note = _note(split, len(found), number, seed)
        found.setdefault(note.text, note)
        number += 1
    return list(found.values())


def _note(split: Split, place: int, number: int, seed: int) -> Note:
    """Draw a sentence for a place in the file; the place decides topic and language."""

    def draw(limit: int, what: int) -> int:
        return int(below(limit, seed, Draw.CHOICE, SPLITS.index(split), number, what))

    language = (ENGLISH, CHINESE)[place % 2]
    topic = TOPICS[place // 2 % len(TOPICS)]
    things = language.things[topic]
    num_things = len(things) if split == "test" else NUM_KNOWN
    first = draw(num_things, 0)
    second = (first + 1 + draw(num_things - 1, 1)) % num_things  # never the same thing twice
    frames = language.frames[split]
    text = frames[draw(len(frames), 2)].format(a=things[first], b=things[second])
    return Note(text, topic)
