import random
from pathlib import Path

import numpy as np
import pytest

from glassbert.data.corpus.near_duplicates import SIGNATURE_SIZE, NearDuplicateFinder, signatures


def words(seed: int, count: int = 300) -> list[str]:
    draw = random.Random(seed)
    return [f"w{draw.randrange(5000)}" for _ in range(count)]


def find(folder: Path, documents: list[list[str]]) -> tuple[int, int, list[tuple[int, int]]]:
    finder = NearDuplicateFinder(folder)
    for start in range(0, len(documents), 3):
        kept, found = signatures(documents[start : start + 3])
        finder.add((kept + start).astype(np.uint64), found)
    result = finder.finish(10)
    pairs = [(place, earlier) for place, earlier, _ in result.examples]
    assert not (folder / "signatures").exists()
    return result.num_compared, result.num_found, pairs


@pytest.mark.parametrize(("num_common", "similarity"), [(300, 1.0), (200, 0.5), (0, 0.0)])
def test_signatures_agree_as_documents_do(num_common: int, similarity: float) -> None:
    one = words(1)
    two = one[:num_common] + words(2)[num_common:]
    _, found = signatures([one, two])
    agreement = np.mean(found[0] == found[1])
    assert agreement == pytest.approx(similarity, abs=3 * (0.25 / SIGNATURE_SIZE) ** 0.5)


def test_a_document_with_a_changed_sentence_is_found_and_others_are_not(tmp_path: Path) -> None:
    documents = [words(seed) for seed in range(20)]
    documents.append([*documents[3][:290], *words(99, 10)])
    documents.append([*documents[5][:150], *words(98, 150)])  # a third in common: not nearly the same
    documents.append(["short"] * 10)
    assert find(tmp_path, documents) == (22, 1, [(20, 3)])


def test_the_same_document_again_counts_each_time(tmp_path: Path) -> None:
    one = words(1)
    assert find(tmp_path, [one, words(2), one, one])[1] == 2


def test_no_document_is_no_trouble(tmp_path: Path) -> None:
    assert find(tmp_path, []) == (0, 0, [])
