import pytest
import torch

from glassbert.config import LstmConfig
from glassbert.errors import ModelError, UserError
from glassbert.model.layout import Batch
from helpers.small_translators import START, small_lstm


@torch.no_grad()
def test_packed_sequences_give_what_torch_gives_one_by_one() -> None:
    network = small_lstm()
    texts = [[3, 4], [5, 6, 7, 8], [9], [10, 11, 12]]
    memory, (hidden, cell) = network.encode(Batch.from_lists(texts))
    start = 0
    for index, text in enumerate(texts):
        embedded = network.token(torch.tensor(text)) * 4.0  # the root of the width
        expected, (last_hidden, last_cell) = network.encoder(embedded)
        torch.testing.assert_close(memory[start : start + len(text)], expected, atol=1e-6, rtol=1e-5)
        for ours, theirs in ((hidden, last_hidden), (cell, last_cell)):
            # Layer by layer, the forward direction's half and then the backward one's.
            torch.testing.assert_close(ours[:, index].flatten(), theirs.flatten(), atol=1e-6, rtol=1e-5)
        start += len(text)


@torch.no_grad()
def test_without_attention_the_last_state_is_all_there_is() -> None:
    """Reading the same last state from another source makes the decoder write the same."""
    network = small_lstm(has_attention=False)
    source, target = Batch.from_lists([[3, 4, 5]]), Batch.from_lists([[START, 6, 7]])
    expected = network(source, target)
    _, last = network.encode(source)
    outputs, _ = network.decoder(network._embed(target.ids), (last[0][:, 0], last[1][:, 0]))
    torch.testing.assert_close(network.norm(outputs), expected, atol=1e-6, rtol=1e-5)


def test_without_attention_there_is_no_alignment() -> None:
    with pytest.raises(ModelError, match="no alignment"):
        small_lstm(has_attention=False).alignments(Batch.from_lists([[3]]), Batch.from_lists([[START]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 15}, "hidden_size=15 is odd"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0"),
        ({"hidden_dropout_prob": 1.0}, "hidden_dropout_prob=1.0"),
        ({"eos_token_id": 8000}, "eos_token_id=8000 lies outside"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LstmConfig(**changes)  # type: ignore[arg-type]
