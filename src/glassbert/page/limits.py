"""How much the page takes at once."""

from glassbert.errors import UserError

MAX_CHARACTERS = 10_000


def check_length(*texts: str | None) -> None:
    """Refuse a text that is longer than the page takes."""
    for text in texts:
        if text is not None and len(text) > MAX_CHARACTERS:
            raise UserError(
                f"a text of {len(text):,} characters; the page takes {MAX_CHARACTERS:,}: shorten it"
            )
