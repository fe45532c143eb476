from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.text.merging import Merger


def test_a_tie_goes_to_the_pair_that_is_earlier_in_the_vocabulary() -> None:
    merger = Merger(["a", "b", "c", "##a", "##b", "##c"], Counter({"ca": 3, "ba": 3, "bc": 3, "ab": 2}))
    assert list(merger.learn(3, 1)) == [1, 2, 3]
    assert merger.pieces[6:] == ["ba", "bc", "ca"]


def merge_naively(alphabet: list[str], counts: dict[str, int], num_wanted: int, min_count: int) -> list[str]:
    """Count all pairs again for each merge."""
    pieces = list(alphabet)
    words = {word: [word[0], *(f"##{character}" for character in word[1:])] for word in counts}
    while len(pieces) - len(alphabet) < num_wanted:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, spelled in words.items():
            for pair in zip(spelled, spelled[1:], strict=False):
                pairs[pair] += counts[word]
        ranked = sorted(pairs.items(), key=lambda item: (-item[1], *map(pieces.index, item[0])))
        if not ranked or ranked[0][1] < min_count:
            break
        left, right = ranked[0][0]
        merged = left + right[2:]
        assert merged not in pieces
        pieces.append(merged)
        for spelled in words.values():
            index = 0
            while index < len(spelled) - 1:
                if spelled[index : index + 2] == [left, right]:
                    spelled[index : index + 2] = [merged]
                index += 1
    return pieces


@given(
    counts=st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=9), st.integers(1, 5), max_size=12),
    num_wanted=st.integers(0, 25),
    min_count=st.integers(1, 4),
)
@settings(max_examples=200, deadline=None)
def test_incremental_merging_equals_counting_again_each_time(
    counts: dict[str, int], num_wanted: int, min_count: int
) -> None:
    alphabet = ["a", "b", "c", "##a", "##b", "##c"]
    merger = Merger(alphabet, Counter(counts))
    for _ in merger.learn(num_wanted, min_count):
        pass
    assert merger.pieces == merge_naively(alphabet, counts, num_wanted, min_count)
