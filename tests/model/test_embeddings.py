import math
from dataclasses import replace

import pytest
import torch

from glassbert.config import BertConfig
from glassbert.errors import UserError
from glassbert.model.embeddings import Embeddings
from glassbert.model.layout import Batch
from glassbert.model.positions import sinusoids
from glassbert.model.tap import Tap

SHAPE = BertConfig(
    vocab_size=20, hidden_size=8, num_attention_heads=2, max_position_embeddings=6, type_vocab_size=2
)
BATCH = Batch.from_lists([[3, 4, 5], [6, 7]], [[0, 0, 1], [0, 1]])


def positions_of(embeddings: Embeddings, kind: str) -> torch.Tensor:
    where = torch.tensor([0, 1, 2, 0, 1])
    if kind == "rotary":
        return torch.zeros(5, 8)
    return embeddings.position(where) if kind == "learned" else sinusoids(6, 8)[where]


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rotary"])
def test_berts_are_a_normalised_sum_of_token_segment_and_position(kind: str) -> None:
    embeddings = Embeddings(replace(SHAPE, positions=kind)).eval()
    total = embeddings.token(BATCH.ids) + embeddings.segment(BATCH.segments) + positions_of(embeddings, kind)
    torch.testing.assert_close(embeddings(BATCH), embeddings.norm(total))


@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rotary"])
def test_the_transformers_are_scaled_tokens_plus_positions(kind: str) -> None:
    embeddings = Embeddings(replace(SHAPE, positions=kind), is_scaled=True).eval()
    expected = embeddings.token(BATCH.ids) * math.sqrt(8) + positions_of(embeddings, kind)
    torch.testing.assert_close(embeddings(BATCH), expected)
    assert {name.split(".")[0] for name, _ in embeddings.named_parameters()} <= {"token", "position"}


@pytest.mark.parametrize("is_scaled", [False, True])
def test_adding_up_leaves_the_rows_of_the_tables_as_they_were(is_scaled: bool) -> None:
    embeddings, seen = Embeddings(SHAPE, is_scaled=is_scaled).eval(), []
    embeddings.token.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        embeddings(BATCH)
    assert torch.equal(seen[0], embeddings.token.weight[BATCH.ids])


def test_all_vectors_have_the_precision_of_the_weights() -> None:
    for kind in ("learned", "sinusoidal", "rotary"):
        assert Embeddings(replace(SHAPE, positions=kind)).bfloat16()(BATCH).dtype == torch.bfloat16


def test_a_sequence_as_long_as_the_table_fits_and_a_longer_one_is_refused() -> None:
    embeddings = Embeddings(SHAPE).eval()
    assert embeddings(Batch.from_lists([[3] * 6])).shape == (6, 8)
    with pytest.raises(UserError, match="a sequence of 7 tokens exceeds the position table of 6"):
        embeddings(Batch.from_lists([[3] * 7]))


def test_dropout_is_the_last_step_and_for_training_only() -> None:
    embeddings = Embeddings(replace(SHAPE, hidden_dropout_prob=0.5))
    exact = embeddings.eval()(BATCH)
    torch.manual_seed(0)
    dropped = embeddings.train()(BATCH)
    is_kept = dropped != 0
    assert 0 < is_kept.sum() < is_kept.numel()
    torch.testing.assert_close(dropped[is_kept], 2 * exact[is_kept])


def test_a_tap_may_replace_the_scaled_tokens() -> None:
    embeddings = Embeddings(replace(SHAPE, positions="rotary"), is_scaled=True).eval()
    tap = Tap(lambda name, value: torch.ones_like(value) if name == "scaled" else value)
    assert torch.equal(embeddings(BATCH, tap), torch.ones(5, 8))
