from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.errors import UserError
from glassbert.inference.decode import Decoder, DecodeSettings, Hypothesis
from glassbert.model import seq2seq
from helpers.small_translators import (
    END,
    KINDS,
    START,
    VOCAB_SIZE,
    small_network,
    small_transformer,
    sources,
    teacher_forced,
)

NETWORKS = {kind: small_network(kind) for kind in KINDS}
DECODERS = {kind: Decoder.of(network) for kind, network in NETWORKS.items()}
METHODS = {
    "greedy": DecodeSettings(method="greedy", max_length=8),
    "beam": DecodeSettings(method="beam", beam_size=3, num_hypotheses=3, max_length=8, length_penalty=0.7),
    "sample": DecodeSettings(method="sample", num_hypotheses=2, max_length=8, top_k=15, top_p=0.95, seed=7),
}
kinds = st.sampled_from(KINDS)


def plain_beam(network: Any, source: list[int], wanted: DecodeSettings) -> list[Hypothesis]:
    """Search as `Decoder` does, in the plainest way: one pass without a cache for every hypothesis."""
    live, found = [((), 0.0)], []
    for step in range(wanted.max_length):
        ways = []
        for ids, log_prob in live:
            row = teacher_forced(network, source, [START, *ids])[-1].tolist()
            ways += [((*ids, token), log_prob + value) for token, value in enumerate(row) if token != START]
        ways.sort(key=lambda way: -way[1])
        is_last = step + 1 == wanted.max_length
        for ids, log_prob in ways[: wanted.width]:
            if ids[-1] == END or is_last:
                score = log_prob / len(ids) ** wanted.length_penalty
                is_finished = ids[-1] == END
                found.append(Hypothesis(ids[:-1] if is_finished else ids, score, log_prob, is_finished))
        if len(found) >= wanted.width:
            break
        live = [way for way in ways if way[0][-1] != END][: wanted.width]
    return sorted(found, key=lambda h: -h.score)[: wanted.num_hypotheses]


def assert_same(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.ids for h in actual] == [h.ids for h in expected]
    assert [h.is_finished for h in actual] == [h.is_finished for h in expected]
    assert [h.score for h in actual] == pytest.approx([h.score for h in expected], abs=1e-4)
    assert [h.log_prob for h in actual] == pytest.approx([h.log_prob for h in expected], abs=1e-4)


@settings(deadline=None, max_examples=25)
@given(
    kind=kinds,
    method=st.sampled_from(["greedy", "beam"]),
    source_ids=sources,
    shelf_size=st.sampled_from([1, 64]),
)
def test_cached_batches_find_what_a_plain_search_finds(
    kind: str, method: str, source_ids: list[list[int]], shelf_size: int
) -> None:
    with patch.object(seq2seq, "SHELF_SIZE", shelf_size):
        found = DECODERS[kind].decode(source_ids, METHODS[method])
    for source, hypotheses in zip(source_ids, found, strict=True):
        assert_same(hypotheses, plain_beam(NETWORKS[kind], source, METHODS[method]))


@settings(deadline=None, max_examples=25)
@given(kind=kinds, method=st.sampled_from(list(METHODS)), source_ids=sources, budget=st.integers(1, 60))
def test_what_else_is_in_the_batch_does_not_matter(
    kind: str, method: str, source_ids: list[list[int]], budget: int
) -> None:
    wanted = METHODS[method]
    together = Decoder(DECODERS[kind].network, batch_tokens=budget).decode(source_ids, wanted)
    for index, (source, hypotheses) in enumerate(zip(source_ids, together, strict=True)):
        assert_same(hypotheses, DECODERS[kind].decode([source], wanted, first_index=index)[0])


@pytest.mark.parametrize("method", METHODS)
def test_a_score_is_the_probability_that_one_pass_gives(method: str) -> None:
    source = [3, 4, 5, END]
    for hypothesis in DECODERS["post"].decode([source], METHODS[method])[0]:
        written = [*hypothesis.ids, END] if hypothesis.is_finished else list(hypothesis.ids)
        rows = teacher_forced(NETWORKS["post"], source, [START, *written[:-1]])
        log_prob = rows.gather(1, torch.tensor(written)[:, None]).sum().item()
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
        penalty = len(written) ** METHODS[method].length_penalty
        assert hypothesis.score == pytest.approx(log_prob / penalty, abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_has_nearly_the_same_probability_in_bfloat16(kind: str) -> None:
    decoder = Decoder.of(NETWORKS[kind], device="cpu", precision="bfloat16")
    source = [3, 4, 5, END]
    hypothesis = decoder.decode([source], METHODS["beam"])[0][0]
    written = [*hypothesis.ids, END] if hypothesis.is_finished else list(hypothesis.ids)
    rows = teacher_forced(NETWORKS[kind], source, [START, *written[:-1]])
    exact = rows.gather(1, torch.tensor(written)[:, None]).sum().item()
    assert hypothesis.log_prob != exact
    assert hypothesis.log_prob == pytest.approx(exact, rel=0.02)


def test_a_length_penalty_favours_long_targets() -> None:
    texts = [[3, 4, 5], [6, 7], [8, 9, 10, 11], [12], [13, 14]]
    totals = []
    for penalty in (0.0, 1.0, 2.0):
        wanted = DecodeSettings(beam_size=6, length_penalty=penalty, max_length=30)
        totals.append(sum(len(h[0].ids) for h in DECODERS["pre"].decode(texts, wanted)))
    assert totals[0] < totals[1] <= totals[2]


def test_the_n_best_differ_and_come_best_first() -> None:
    wanted = DecodeSettings(beam_size=5, num_hypotheses=5, max_length=10)
    for hypotheses in DECODERS["post"].decode([[3, 4], [5, 6, 7]], wanted):
        assert len({(h.ids, h.is_finished) for h in hypotheses}) == 5
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def never_ending() -> Decoder:
    network = small_transformer()
    with torch.no_grad():
        network.output.bias[END] = -50.0
    return Decoder.of(network)


@pytest.mark.parametrize("method", METHODS)
def test_a_target_without_an_end_is_marked(method: str) -> None:
    wanted = METHODS[method]
    for hypotheses in never_ending().decode([[3, 4], [5]], wanted):
        assert len(hypotheses) == wanted.num_hypotheses
        assert all(not h.is_finished and len(h.ids) == wanted.max_length for h in hypotheses)


def test_the_position_table_ends_a_target_too() -> None:
    hypothesis = never_ending().decode([[3]], DecodeSettings(method="greedy", max_length=1000))[0][0]
    assert (len(hypothesis.ids), hypothesis.is_finished) == (48, False)


def test_sequences_that_are_done_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    network, rows = small_transformer(), []
    step = network.step

    def counted(state: Any, ids: torch.Tensor, parents: torch.Tensor | None = None) -> torch.Tensor:
        rows.append(len(ids))
        return step(state, ids, parents)

    monkeypatch.setattr(network, "step", counted)
    texts = [[token] for token in range(2, 20)]
    found = Decoder(network).decode(texts, DecodeSettings(method="sample", max_length=12))
    num_steps = [len(h[0].ids) + h[0].is_finished for h in found]
    assert len(set(num_steps)) > 2
    assert sum(rows) == sum(num_steps)  # no row was computed that belongs to nobody


def test_a_seed_decides_what_is_drawn() -> None:
    texts = [[3, 4, 5]] * 3
    wanted = DecodeSettings(method="sample", max_length=12)
    first = DECODERS["post"].decode(texts, wanted)
    assert DECODERS["post"].decode(texts, wanted) == first
    assert len({hypotheses[0].ids for hypotheses in first}) == 3  # equal sources, yet each has its own chance
    other = DecodeSettings(method="sample", max_length=12, seed=1)
    assert DECODERS["post"].decode(texts, other) != first


def test_drawing_among_one_token_is_greedy() -> None:
    texts = [[3, 4, 5], [6, 7]]
    one = DecodeSettings(method="sample", top_k=1, max_length=8)
    for drawn, greedy in zip(
        DECODERS["post"].decode(texts, one), DECODERS["post"].decode(texts, METHODS["greedy"]), strict=True
    ):
        assert_same(drawn, greedy)


@pytest.mark.parametrize("method", METHODS)
def test_a_list_can_be_cut_anywhere(method: str) -> None:
    texts = [[3, 4, 5], [6], [7, 8], [9, 10, 11, 12], [13]]
    whole = DECODERS["post"].decode(texts, METHODS[method])
    first = DECODERS["post"].decode(texts[:2], METHODS[method])
    rest = DECODERS["post"].decode(texts[2:], METHODS[method], first_index=2)
    for actual, expected in zip([*first, *rest], whole, strict=True):
        assert_same(actual, expected)


def test_nothing_gives_nothing() -> None:
    assert DECODERS["post"].decode([], METHODS["beam"]) == []


def test_a_beam_larger_than_the_vocabulary_is_refused() -> None:
    largest = VOCAB_SIZE - 2
    assert len(DECODERS["post"].decode([[3]], DecodeSettings(beam_size=largest, num_hypotheses=largest))[0])
    with pytest.raises(UserError, match="beam_size=19 exceeds the 18 tokens of the vocabulary"):
        DECODERS["post"].decode([[3]], DecodeSettings(beam_size=largest + 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "magic"}, "method='magic'; expected one of greedy, beam, sample"),
        ({"beam_size": 0}, "beam_size=0; expected a whole number of at least 1"),
        ({"max_length": 0}, "max_length=0"),
        ({"top_k": 0}, "top_k=0"),
        ({"temperature": 0.0}, "temperature=0.0; expected a number of at least 0.0001"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"beam_size": 2, "num_hypotheses": 3}, "num_hypotheses=3 exceeds the 2 that beam follows"),
        ({"method": "greedy", "num_hypotheses": 2}, "num_hypotheses=2 exceeds the 1 that greedy follows"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DecodeSettings(**changes)
