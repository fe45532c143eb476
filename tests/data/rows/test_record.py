from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.rows.record import nearest_place

TEXT = st.text("ab", max_size=12)


def test_the_nearest_place_is_found_on_either_side() -> None:
    assert nearest_place("x..x.....x", "x", 2) == 3
    assert nearest_place("x..x.....x", "x", 5) == 3
    assert nearest_place("x..x.....x", "x", 7) == 9
    assert nearest_place("x..x.....x", "x", -1) == 0
    assert nearest_place("x..x.....x", "x", 99) == 9
    assert nearest_place("x..x", "y", 1) is None


@settings(deadline=None)
@given(TEXT, st.text("ab", min_size=1, max_size=3), st.integers(-2, 14))
def test_no_place_is_nearer(text: str, part: str, start: int) -> None:
    places = [place for place in range(len(text)) if text.startswith(part, place)]
    found = nearest_place(text, part, start)
    if found is None:
        assert not places
    else:
        assert found in places
        assert abs(found - max(start, 0)) == min(abs(place - max(start, 0)) for place in places)
