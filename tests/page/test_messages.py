"""The page speaks both languages in full, and invents no number."""

import json
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "web" / "src"
TEXTS = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.ts*")]


def messages(language: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((SOURCE / "messages" / f"{language}.json").read_text(encoding="utf-8"))
    return found


def test_both_languages_have_the_same_keys_and_slots() -> None:
    english, chinese = messages("en"), messages("zh")
    assert list(english) == list(chinese) == sorted(english)
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[key])), key


def test_every_message_is_used() -> None:
    code = "\n".join(TEXTS)
    quoted = set(re.findall(r'"([a-z_.]+)"', code))
    patterns = [re.escape(begin) + r"[\w.]+" for begin in re.findall(r"`([a-z_]+\.)\$\{", code)]
    unused = [
        key
        for key in messages("en")
        if key not in quoted and not any(re.fullmatch(pattern, key) for pattern in patterns)
    ]
    assert unused == []


def test_chinese_is_chinese() -> None:
    for key, text in messages("zh").items():
        assert text != messages("en")[key] or not re.search("[a-z]{3}", text), key


def test_no_number_on_the_page_is_invented() -> None:
    assert not [text for text in TEXTS if "Math.random" in text]


def test_nothing_is_fetched_from_elsewhere() -> None:
    assert not [text for text in TEXTS if re.search(r"https?://|//cdn|@import url", text)]


def test_the_lock_file_records_no_download_address() -> None:
    lock = (SOURCE.parent / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in lock
