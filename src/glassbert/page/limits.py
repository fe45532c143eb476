"""How much the page takes at once."""

from typing import Annotated

from msgspec import Meta

from glassbert.page.refusals import Refusal

Whole = Annotated[int, Meta(ge=0, lt=1 << 53)]
"""A whole number of a request: one that a browser holds exactly."""

MAX_CHARACTERS = 10_000


def check_texts(*texts: str | None) -> None:
    """Refuse a text that is blank, or longer than the page takes."""
    for text in texts:
        if text is None:
            continue
        if not text.strip():
            raise Refusal("blank", "the text is blank; give at least one word")
        if len(text) > MAX_CHARACTERS:
            raise Refusal(
                "too_long",
                f"a text of {len(text):,} characters; the page takes {MAX_CHARACTERS:,}: shorten it",
            )
