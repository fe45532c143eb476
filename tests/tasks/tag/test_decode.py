import time
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from glassbert.tasks.tag.decode import Decoder, weakest_scores
from glassbert.tasks.tag.scheme import PieceSpan, Scheme, TagSet

SCHEMES: list[Scheme] = ["bio", "bioes"]


def sum_along(
    decoder: Decoder, tags: tuple[int, ...], scores: NDArray[np.float64], inside: list[bool]
) -> float:
    """Return what a path scores, -inf when it is not legal: the definition, one piece after the other."""
    border = len(decoder.tag_set)
    total = decoder.steps[0, tags[-1], border]
    for piece, tag in enumerate(tags):
        before = tags[piece - 1] if piece else border
        total += decoder.steps[int(inside[piece]), before, tag] + scores[piece, tag]
    return float(total)


def all_paths(
    decoder: Decoder, scores: NDArray[np.float64], inside: list[bool]
) -> dict[tuple[int, ...], float]:
    """Return every path with what it scores."""
    num_pieces, num_tags = scores.shape
    return {
        tags: sum_along(decoder, tags, scores, inside) for tags in product(range(num_tags), repeat=num_pieces)
    }


def cases(scheme: Scheme) -> list[tuple[Decoder, NDArray[np.float64], list[bool]]]:
    """Return random decoders with and without a CRF, and random scores, some with pieces inside words."""
    generator = np.random.default_rng(0)
    tag_set = TagSet.of(("X", "Y"), scheme)
    found = []
    for number in range(30):
        size = len(tag_set) + 1
        transitions = generator.normal(size=(size, size)) if number % 2 else None
        num_pieces = 1 + number % 4
        inside = [False, *(generator.random(num_pieces - 1) < 0.4)]
        scores = 2 * generator.normal(size=(num_pieces, len(tag_set)))
        found.append((Decoder.of(tag_set, transitions), scores, inside))
    return found


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_best_path_is_the_best_of_all_legal_paths(scheme: Scheme) -> None:
    for decoder, scores, inside in cases(scheme):
        paths = all_paths(decoder, scores, inside)
        best = max(paths, key=paths.__getitem__)
        assert tuple(decoder.best_path(scores, np.array(inside))) == best
        assert np.isfinite(paths[best])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_of_a_crf_are_the_shares_of_the_paths_that_hold_the_span(scheme: Scheme) -> None:
    num_spans = 0
    for decoder, scores, inside in cases(scheme):
        paths = all_paths(decoder, scores, inside)
        weights = {tags: np.exp(value) for tags, value in paths.items()}
        path = decoder.best_path(scores, np.array(inside))
        spans = decoder.tag_set.decode(path)
        num_spans += len(spans)
        expected = [
            sum(w for tags, w in weights.items() if w and span in decoder.tag_set.decode(np.array(tags)))
            / sum(weights.values())
            for span in spans
        ]
        np.testing.assert_allclose(decoder.span_scores(scores, np.array(inside), path, spans), expected)
    assert num_spans > 20


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_span_of_independent_tags_is_as_sure_as_its_weakest_part(scheme: Scheme) -> None:
    tag_set = TagSet.of(("X",), scheme)
    generator = np.random.default_rng(0)
    num_spans = 0
    for _ in range(50):
        probs = generator.dirichlet([0.5] * len(tag_set), size=4)
        path = Decoder.of(tag_set).best_path(np.log(probs), np.zeros(4, dtype=bool))
        spans = tag_set.decode(path)
        num_spans += len(spans)
        expected = []
        for span in spans:
            tags = tag_set.encode([span], 4)
            parts = [probs[i, tags[i]] for i in range(span.start, span.stop)]
            if span.stop < 4 and scheme == "bio":
                parts.append(1 - probs[span.stop, tag_set.names.index("I-X")])
            expected.append(min(parts))
        np.testing.assert_allclose(weakest_scores(tag_set, probs, path, spans), expected)
    assert num_spans > 50


def test_a_tag_that_is_likely_but_illegal_gives_way() -> None:
    tag_set = TagSet.of(("LOC", "PER"))
    probs = np.full((3, 5), 0.02)
    for piece, tag in enumerate(("O", "I-PER", "I-PER")):
        probs[piece, tag_set.names.index(tag)] = 0.9
    probs[1, tag_set.names.index("B-PER")] = 0.3
    path = Decoder.of(tag_set).best_path(np.log(probs), np.zeros(3, dtype=bool))
    assert tag_set.decode(path) == [PieceSpan(1, 3, "PER")]


def test_transitions_can_outweigh_the_best_tags_of_the_pieces() -> None:
    tag_set = TagSet.of(("X",))
    transitions = np.zeros((4, 4))
    transitions[1, 2] = 5.0  # I after B
    scores = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    inside = np.zeros(2, dtype=bool)
    assert tag_set.decode(Decoder.of(tag_set).best_path(scores, inside)) == [PieceSpan(0, 1, "X")]
    assert tag_set.decode(Decoder.of(tag_set, transitions).best_path(scores, inside)) == [
        PieceSpan(0, 2, "X")
    ]


def test_no_span_ends_inside_a_word() -> None:
    tag_set = TagSet.of(("X",))
    scores = np.log(np.array([[0.1, 0.8, 0.1], [0.6, 0.1, 0.3]]))
    path = Decoder.of(tag_set).best_path(scores, np.array([False, False]))
    assert tag_set.decode(path) == [PieceSpan(0, 1, "X")]
    path = Decoder.of(tag_set).best_path(scores, np.array([False, True]))
    assert tag_set.decode(path) == [PieceSpan(0, 2, "X")]


def test_nothing_is_decoded_from_nothing() -> None:
    decoder = Decoder.of(TagSet.of(("X",)))
    assert decoder.best_path(np.zeros((0, 3)), np.zeros(0, dtype=bool)).tolist() == []


def test_scores_without_bounds_stay_numbers() -> None:
    tag_set = TagSet.of(("X",))
    decoder = Decoder.of(tag_set, np.full((4, 4), 30.0))
    scores = np.array([[-1e4, 1e4, 0.0], [0.0, -1e4, 1e4]] * 3)
    inside = np.zeros(6, dtype=bool)
    path = decoder.best_path(scores, inside)
    spans = tag_set.decode(path)
    assert spans == [PieceSpan(0, 2, "X"), PieceSpan(2, 4, "X"), PieceSpan(4, 6, "X")]
    np.testing.assert_allclose(decoder.span_scores(scores, inside, path, spans), 1.0)


def test_the_time_of_a_long_text_grows_with_its_length_only() -> None:
    tag_set = TagSet.of(("X", "Y"))
    scores = np.random.default_rng(0).normal(size=(40_000, 5))
    inside = np.zeros(40_000, dtype=bool)
    decoder = Decoder.of(tag_set)

    def seconds(num_pieces: int) -> float:
        started = time.process_time()
        path = decoder.best_path(scores[:num_pieces], inside[:num_pieces])
        spans = tag_set.decode(path)
        assert len(spans) > num_pieces / 10
        decoder.span_scores(scores[:num_pieces], inside[:num_pieces], path, spans)
        return time.process_time() - started

    assert seconds(40_000) < 20 * seconds(4_000)
