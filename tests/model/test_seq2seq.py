from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassbert.config import TransformerConfig
from glassbert.errors import UserError
from glassbert.model import seq2seq
from glassbert.model.init import new_transformer
from glassbert.model.layout import Batch, Layout
from glassbert.model.seq2seq import Transformer
from glassbert.model.tap import Tap
from helpers.small_translators import END, KINDS, START, small_network, small_transformer, sources, texts

NETWORKS = {kind: small_network(kind) for kind in KINDS}
kinds = st.sampled_from(KINDS)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@settings(deadline=None, max_examples=40)
@given(kind=kinds, source_ids=sources, num_steps=st.integers(1, 6), data=st.data())
@torch.no_grad()
def test_steps_with_a_cache_give_the_states_of_one_pass(
    kind: str, source_ids: list[list[int]], num_steps: int, data: st.DataObject
) -> None:
    network = NETWORKS[kind]
    targets = [
        [START, *data.draw(st.lists(st.integers(2, 19), min_size=num_steps, max_size=num_steps))]
        for _ in source_ids
    ]
    whole = network(Batch.from_lists(source_ids), Batch.from_lists(targets))
    state = network.start(Batch.from_lists(source_ids))
    steps = [network.step(state, torch.tensor(targets)[:, i : i + 1]) for i in range(num_steps + 1)]
    close(torch.stack(steps, dim=1).flatten(0, 1), whole)


@settings(deadline=None, max_examples=60)
@given(kind=kinds, source_ids=sources, seed=st.integers(0, 2**30), shelf_size=st.sampled_from([1, 2, 64]))
@torch.no_grad()
def test_hypotheses_that_branch_and_die_do_not_disturb_each_other(
    kind: str, source_ids: list[list[int]], seed: int, shelf_size: int
) -> None:
    """Follow random families of hypotheses while random sequences leave, as a beam search does."""
    network, width = NETWORKS[kind], 3
    generator = torch.Generator().manual_seed(seed)
    with patch.object(seq2seq, "SHELF_SIZE", shelf_size):
        state = network.start(Batch.from_lists(source_ids))
    ids = torch.full((len(source_ids), 1), START)
    histories, alive = ids[:, :, None], list(range(len(source_ids)))
    network.step(state, ids)
    for _ in range(5):
        is_done = [False] * len(alive)
        if len(alive) > 1:
            is_done[int(torch.randint(len(alive), (1,), generator=generator))] = True
        order = state.leave(is_done)
        histories, alive = histories[order], [alive[place] for place in order.tolist()]
        parents = torch.randint(histories.size(1), (len(alive), width), generator=generator)
        ids = torch.randint(2, 20, parents.shape, generator=generator)
        hidden = network.step(state, ids, parents).view(len(alive), width, -1)
        histories = torch.cat(
            [histories.gather(1, parents[:, :, None].expand(-1, -1, histories.size(2))), ids[:, :, None]],
            dim=2,
        )
    for place, sequence in enumerate(alive):
        for hypothesis in range(width):
            target = Batch.from_lists([histories[place, hypothesis].tolist()])
            whole = network(Batch.from_lists([source_ids[sequence]]), target)
            close(hidden[place, hypothesis], whole[-1])


@settings(deadline=None, max_examples=30)
@given(kind=kinds, source_ids=sources, data=st.data())
@torch.no_grad()
def test_a_pair_is_not_changed_by_its_batch(
    kind: str, source_ids: list[list[int]], data: st.DataObject
) -> None:
    network = NETWORKS[kind]
    targets = [[START, *data.draw(texts)] for _ in source_ids]
    together = network(Batch.from_lists(source_ids), Batch.from_lists(targets))
    alone = [
        network(Batch.from_lists([source]), Batch.from_lists([target]))
        for source, target in zip(source_ids, targets, strict=True)
    ]
    close(together, torch.cat(alone))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_token_sees_what_came_before_it_and_all_of_the_source(kind: str) -> None:
    network, source = NETWORKS[kind], Batch.from_lists([[3, 4, 5, END]])
    before = network(source, Batch.from_lists([[START, 6, 7, 8]]))
    after = network(source, Batch.from_lists([[START, 6, 9, 8]]))
    close(after[:2], before[:2])
    assert (after[2:] - before[2:]).abs().amax(dim=1).min() > 1e-3
    for changed in ([9, 4, 5, END], [3, 4, 9, END]):
        other = network(Batch.from_lists([changed]), Batch.from_lists([[START, 6, 7, 8]]))
        assert (other - before).abs().amax(dim=1).min() > 1e-4


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ((5,), [(5,)]),
        ((4, 4, 5, 5, 6, 9), [(4, 4, 5, 5), (6, 9)]),  # 5 is not yet more than 1.25 times 4
        ((4, 9, 9, 9), [(4, 9), (9, 9)]),  # a shelf has two before the next begins
        ((9, 4, 4, 4), [(9, 4, 4, 4)]),
    ],
)
def test_a_shelf_takes_sequences_of_about_one_length(
    lengths: tuple[int, ...], expected: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seq2seq, "SHELF_SIZE", 2)
    assert [layout.lengths for layout in seq2seq.shelf_layouts(Layout(lengths))] == expected


@torch.no_grad()
def test_a_cache_grows_with_its_steps() -> None:
    network = NETWORKS["post"]
    target = [START, *(2 + i % 18 for i in range(44))]
    state = network.start(Batch.from_lists([[3, 4], [5, END]]))
    steps = [network.step(state, torch.tensor([[token], [token]])) for token in target]
    whole = network(Batch.from_lists([[3, 4]]), Batch.from_lists([target]))
    close(torch.stack(steps, dim=1)[0], whole)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "lstm without attention"])
def test_an_alignment_shares_each_target_token_among_its_source(kind: str) -> None:
    network = NETWORKS[kind]
    source, target = Batch.from_lists([[3, 4, 5], [6, 7]]), Batch.from_lists([[START, 8], [START, 9, 10]])
    with torch.no_grad():
        first, second = network.alignments(source, target)
        assert (first.shape, second.shape) == ((2, 3), (3, 2))
        close(first.sum(dim=1), torch.ones(2))
        alone = network.alignments(Batch.from_lists([[6, 7]]), Batch.from_lists([[START, 9, 10]]))[0]
    close(second, alone)
    assert first.std() > 0


@pytest.mark.parametrize("kind", ["post", "pre"])
@torch.no_grad()
def test_the_glass_path_agrees_and_names_both_sides(kind: str) -> None:
    network, names = NETWORKS[kind], []

    def sink(name: str, value: Tensor) -> Tensor:
        names.append(name)
        return value

    source, target = Batch.from_lists([[3, 4, 5]]), Batch.from_lists([[START, 6]])
    close(network(source, target, tap=Tap(sink)), network(source, target))
    assert {"emb.token", "enc.1.attn.probs", "enc.out", "dec.emb.out", "dec.0.attn.masked"} <= set(names)
    assert {"dec.1.cross.probs", "dec.1.cross.sum", "dec.1.mlp.act", "dec.out"} <= set(names)
    assert len(set(names)) == len(names)


def test_the_length_of_a_pair_makes_only_the_recurrent_network_wait() -> None:
    assert [small_transformer(num_decoder_layers=3).dependent_steps(*pair) for pair in ((1, 1), (9, 7))] == [
        5,
        5,
    ]
    # Two layers read the source both ways, one after the other; the second of the decoder is a token behind.
    assert [small_network("lstm").dependent_steps(*pair) for pair in ((1, 1), (9, 7))] == [4, 26]


def test_the_published_transformer_has_its_published_size() -> None:
    with torch.device("meta"):
        network = Transformer(TransformerConfig())
    width, inner, vocab_size = 512, 2048, 8000
    attention, norm = 4 * (width * width + width), 2 * width
    mlp = width * inner + inner + inner * width + width
    expected = 6 * (attention + mlp + 2 * norm) + 6 * (2 * attention + mlp + 3 * norm)
    expected += (
        vocab_size * width + vocab_size
    )  # one matrix for both sides and the output, whose bias is its own
    assert sum(parameter.numel() for parameter in network.parameters()) == expected
    assert network.decoder.final_norm is None


def test_a_seed_gives_the_same_weights_and_tokens_as_large_as_positions() -> None:
    shallow = replace(TransformerConfig().encoder, vocab_size=2000, num_hidden_layers=1)
    config = TransformerConfig(encoder=shallow, num_decoder_layers=1)
    first, second = new_transformer(config, seed=3), new_transformer(config, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.output.weight, new_transformer(config, seed=4).output.weight)
    assert first.output.weight is first.embeddings.token.weight
    assert first.embeddings.token.weight.std().item() == pytest.approx(512**-0.5, rel=0.01)
    # Glorot's bound for a square matrix of 512.
    assert first.encoder.blocks[0].attention.query.weight.abs().max().item() == pytest.approx(
        (6 / 1024) ** 0.5, rel=0.01
    )


def test_text_longer_than_the_table_is_refused() -> None:
    network = small_transformer()
    long, short = Batch.from_lists([[3] * 49]), Batch.from_lists([[3]])
    for source, target in ((long, short), (short, long)):
        with pytest.raises(UserError, match="49 tokens exceeds the position table of 48"):
            network(source, target)
    state = network.start(short)
    with torch.no_grad():
        for _ in range(48):
            network.step(state, torch.tensor([[3]]))
        with pytest.raises(UserError, match="step 49 exceeds the position table of 48"):
            network.step(state, torch.tensor([[3]]))


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(UserError, match="id 20 lies outside the table of 20 rows"):
        small_transformer()(Batch.from_lists([[20]]), Batch.from_lists([[START]]))
