"""Where a part of a text stands, if it does not stand where it was said to."""


def nearest(text: str, part: str, start: int) -> int | None:
    """Return the place of ``part`` in ``text`` that is nearest to ``start``; None when it is not in it."""
    start = max(start, 0)
    before = text.rfind(part, 0, start + len(part))
    after = text.find(part, start)
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - start), default=None)
