import pytest
import torch
from torch import Tensor

from glassbert.config import BertConfig
from glassbert.model import kernels
from glassbert.model.attention import Attention
from glassbert.model.layout import Layout
from glassbert.model.tap import Tap

CONFIG = BertConfig(
    hidden_size=12, num_attention_heads=3, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0
)
ROTARY = BertConfig(hidden_size=12, num_attention_heads=3, positions="rotary", hidden_dropout_prob=0.0)
IGNORE = Tap(lambda _, value: value)


def make(config: BertConfig = CONFIG, *, is_causal: bool = False) -> Attention:
    torch.manual_seed(0)
    return Attention(config, is_causal=is_causal).eval()


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("config", [CONFIG, ROTARY])
def test_fast_and_glass_path_agree(config: BertConfig, is_causal: bool) -> None:
    attention = make(config, is_causal=is_causal)
    x, layout = torch.randn(14, 12), Layout((4, 4, 5, 1))
    torch.testing.assert_close(attention(x, layout), attention(x, layout, tap=IGNORE), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("tap", [None, IGNORE])
def test_a_sequence_is_blind_to_the_rest_of_the_batch(is_causal: bool, tap: Tap | None) -> None:
    attention = make(is_causal=is_causal)
    x = torch.randn(9, 12)
    together = attention(x, Layout((2, 4, 3)), tap=tap)
    alone = attention(x[2:6], Layout((4,)), tap=tap)
    torch.testing.assert_close(together[2:6], alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("tap", [None, IGNORE])
def test_a_causal_token_sees_itself_and_the_past_only(tap: Tap | None) -> None:
    attention = make(is_causal=True)
    x = torch.randn(5, 12)
    before = attention(x, Layout((5,)), tap=tap)
    changed = x.clone()
    changed[3:] = 100.0
    after = attention(changed, Layout((5,)), tap=tap)
    torch.testing.assert_close(after[:3], before[:3])
    assert not torch.allclose(after[3], before[3])


@pytest.mark.parametrize("tap", [None, IGNORE])
def test_cross_attention_reads_only_its_own_memory(tap: Tap | None) -> None:
    attention = make()
    x, memory = torch.randn(5, 12), torch.randn(7, 12)
    layout, memory_layout = Layout((2, 3)), Layout((3, 4))
    both = attention(x, layout, memory=memory, memory_layout=memory_layout, tap=tap)
    first = attention(x[:2], Layout((2,)), memory=memory[:3], memory_layout=Layout((3,)), tap=tap)
    torch.testing.assert_close(both[:2], first, atol=1e-6, rtol=1e-5)


def test_glass_path_shows_probabilities_that_sum_to_one() -> None:
    seen: dict[str, Tensor] = {}
    attention = make(is_causal=True)
    attention(torch.randn(3, 12), Layout((3,)), tap=Tap(lambda name, value: seen.setdefault(name, value)))
    assert list(seen) == ["q", "k", "v", "raw", "scores", "masked", "probs", "context", "proj"]
    assert seen["probs"].shape == (1, 3, 3, 3)
    torch.testing.assert_close(seen["probs"].sum(-1), torch.ones(1, 3, 3))
    assert seen["probs"][0, 0, 0].tolist() == [1.0, 0.0, 0.0]


def test_a_sink_can_change_what_the_model_continues_with() -> None:
    attention = make()
    silence = Tap(lambda name, value: value * 0 if name == "context" else value)
    out = attention(torch.randn(3, 12), Layout((3,)), tap=silence)
    torch.testing.assert_close(out, attention.output.bias.expand(3, -1))


def test_rotary_scores_depend_on_distance_alone() -> None:
    attention = make(ROTARY)
    token = torch.randn(1, 12)
    seen: dict[str, Tensor] = {}
    attention(token.expand(6, -1), Layout((6,)), tap=Tap(lambda name, value: seen.setdefault(name, value)))
    scores = seen["scores"][0, 0]
    torch.testing.assert_close(scores.diagonal(2), scores[0, 2].expand(4), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(scores[0, 1], scores[0, 2])


@pytest.mark.parametrize("tap", [None, IGNORE])
def test_dropout_on_probabilities_works_in_training(tap: Tap | None) -> None:
    attention = Attention(BertConfig(hidden_size=12, num_attention_heads=3, attention_probs_dropout_prob=0.5))
    x, layout = torch.randn(6, 12), Layout((6,))
    torch.manual_seed(1)
    first = attention(x, layout, tap=tap)
    assert not torch.allclose(first, attention(x, layout, tap=tap))
    attention.eval()
    assert torch.equal(attention(x, layout, tap=tap), attention(x, layout, tap=tap))


@pytest.fixture(params=[8, 16])
def fills_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill rows of scores up as on a machine with vectors of this many numbers."""
    monkeypatch.setattr(kernels, "simd_width", lambda: request.param)


@pytest.mark.usefixtures("fills_up")
@pytest.mark.parametrize(
    "lengths", [(1,), (3, 1), (16, 16), (2,) * 9, (40, 40, 33, 7), (5, 255, 257, 20, 20), (7, 30)]
)
@pytest.mark.parametrize("is_causal", [False, True])
@torch.no_grad()
def test_attention_without_gradients_is_the_same(is_causal: bool, lengths: tuple[int, ...]) -> None:
    attention, layout = make(is_causal=is_causal), Layout(lengths)
    x = torch.randn(layout.num_tokens, 12)
    torch.testing.assert_close(attention(x, layout), attention(x, layout, tap=IGNORE), atol=1e-6, rtol=1e-5)


@pytest.mark.usefixtures("fills_up")
@torch.no_grad()
def test_what_fills_a_row_of_scores_up_is_hidden() -> None:
    attention, layout = make(), Layout((5, 5, 40, 30))
    x = torch.randn(80, 12)
    before = attention(x, layout)
    x[10:50] *= 1e6
    torch.testing.assert_close(attention(x, layout)[:10], before[:10], atol=0.0, rtol=0.0)


@pytest.mark.usefixtures("fills_up")
@torch.no_grad()
def test_few_queries_look_at_filled_up_memories() -> None:
    attention = make()
    x, memory = torch.randn(4, 12), torch.randn(50, 12)
    layout, memory_layout = Layout((1, 1, 2)), Layout((20, 20, 10))
    fast, taught = (
        attention(x, layout, memory=memory, memory_layout=memory_layout, tap=tap) for tap in (None, IGNORE)
    )
    torch.testing.assert_close(fast, taught, atol=1e-6, rtol=1e-5)


@pytest.mark.usefixtures("fills_up")
@torch.no_grad()
def test_masks_that_are_kept_do_not_depend_on_the_default_precision_of_the_first_call() -> None:
    attention, layout = make(), Layout((9, 11, 40))
    x = torch.randn(layout.num_tokens, 12)
    kernels._portions.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        first = attention(x, layout)
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(first, attention(x, layout), atol=0.0, rtol=0.0)


@torch.no_grad()
def test_rows_that_no_layout_knows_are_our_mistake() -> None:
    with pytest.raises(AssertionError, match="a row for each token"):
        make()(torch.randn(10, 12), Layout((3, 4)))
