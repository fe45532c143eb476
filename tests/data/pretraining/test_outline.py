import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.pretraining.outline import Outline

LENGTHS = st.lists(st.lists(st.integers(0, 40), max_size=6), min_size=1, max_size=6)


def outline_of(documents: list[list[int]], room: int) -> Outline:
    sentence_ends = np.cumsum([length for document in documents for length in document], dtype=np.int64)
    document_ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
    return Outline.from_ends(sentence_ends, document_ends, room=room)


def test_a_long_sentence_counts_as_equal_parts_of_at_most_half_the_room() -> None:
    outline = outline_of([[10, 25, 3], [20]], room=20)
    assert outline.borders.tolist() == [0, 10, 18, 26, 35, 38, 58]
    assert outline.document_borders.tolist() == [0, 5, 6]


def test_empty_sentences_and_documents_do_not_count() -> None:
    outline = outline_of([[0], [5, 0, 2], [], [0, 0], [1]], room=20)
    assert outline.borders.tolist() == [0, 5, 7, 8]
    assert outline.document_borders.tolist() == [0, 2, 3]


@settings(max_examples=50, deadline=None)
@given(LENGTHS, st.integers(2, 30))
def test_every_token_keeps_its_place_and_its_document(documents: list[list[int]], room: int) -> None:
    outline = outline_of(documents, room)
    sizes = [sum(document) for document in documents if sum(document)]
    borders = outline.borders[outline.document_borders]
    assert borders.tolist() == np.cumsum([0, *sizes]).tolist()
    lengths = np.diff(outline.borders)
    assert ((lengths > 0) & (lengths <= room)).all()


def test_a_long_document_is_walked_in_sections_of_its_own() -> None:
    outline = outline_of([[1] * 3, [1] * 1300, [1] * 512], room=20)
    borders, documents = outline.sections()
    assert borders.tolist() == [0, 3, 436, 869, 1303, 1815]
    assert documents.tolist() == [0, 1, 1, 1, 2]


def test_sentences_that_reach_a_length_and_sentences_that_fit_it() -> None:
    outline = outline_of([[4, 4, 4, 4]], room=20)
    first = np.array([1, 1, 1])
    tokens = np.array([7, 8, 9])
    assert outline.reaching(first, tokens).tolist() == [3, 3, 4]
    assert outline.fitting(first, tokens).tolist() == [2, 3, 3]
    assert outline.reaching_back(np.array([4, 4, 4]), tokens).tolist() == [2, 2, 1]
