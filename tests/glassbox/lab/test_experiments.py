"""Small forms of the experiments: direction and interval of what they find."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassbert as gb
from glassbert.errors import UserError
from glassbert.glassbox.lab.bottleneck import middle_pairs
from glassbert.glassbox.lab.estimate import Estimate
from glassbert.glassbox.lab.heads import distance
from glassbert.glassbox.lab.masks import SCHEMES, measure
from glassbert.glassbox.lab.reader import Reader, ReaderSettings, Variant, learn
from glassbert.glassbox.lab.result import Result
from glassbert.glassbox.lab.seq2seqs import LengthsSettings, learn_by_length
from glassbert.glassbox.lab.small_language import VOCABULARY, pretrain, sentences
from glassbert.glassbox.lab.toys import NO_LABEL, TOYS
from glassbert.glassbox.lab.training import TrainingSettings
from helpers.oracles import small_tokenizer
from helpers.small_model import small_folder


def verdicts(result: Result) -> list[str]:
    return [claim.verdict for claim in result.claims]


def test_softmax_saturates_and_its_jacobian_goes_to_zero() -> None:
    result = gb.lab("saturation")
    assert result.tables[0].column(1) == (
        "0.5761168847658291",
        "0.9867032910422680",
        "0.9999092083843410",
        "1.0000000000000000",
    )
    slopes = result.tables[0].column(2)
    assert slopes[:3] == pytest.approx((0.24420621992, 0.01311990638, 9.0783373e-05))
    assert slopes[3] == 0.0
    jacobian = [row[1:] for row in result.tables[1].rows]
    assert torch.tensor(jacobian).sum(dim=1).abs().max() < 1e-12
    assert verdicts(result) == ["holds"] * 3


def test_the_variance_of_a_dot_product_is_d_k_and_one_with_the_scale(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model = str(small_folder(tmp_path_factory.mktemp("model") / "bert"))
    result = gb.lab("variance", sizes=[4, 64], num_queries=64, num_seeds=3, model=model, text="a b c")
    raw, scaled = result.tables[0].rows[1][1:3]
    assert isinstance(raw, Estimate)
    assert isinstance(scaled, Estimate)
    assert raw.low < 64 < raw.high or abs(raw.mean - 64) < 6
    assert scaled.mean == pytest.approx(raw.mean / 64, rel=1e-4)
    assert verdicts(result)[2] == "holds"
    assert result.seeds == (0, 1, 2)
    assert verdicts(result)[3] == "does not hold", "fresh weights of deviation 0.02 give tiny scores"
    assert verdicts(result)[4] == "does not hold", "queries and keys come from different matrices"


def test_one_matrix_moves_every_position() -> None:
    result = gb.lab("waves", num_features=6, distance=7, num_positions=100)
    matrix = torch.tensor([row[1:] for row in result.tables[0].rows])
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(6), atol=1e-6, rtol=0)
    assert verdicts(result) == ["holds"]
    with pytest.raises(UserError, match="expected an even number"):
        gb.lab("waves", num_features=5)


def test_one_pass_and_steps_give_the_same_logits_and_steps_take_longer() -> None:
    result = gb.lab("forcing", lengths=[2, 24], hidden_size=16, num_layers=1, num_seeds=2, num_repeats=2)
    assert all(row[1] < 1e-4 for row in result.tables[0].rows)
    once, cached, again = (cell.mean for cell in result.tables[0].rows[1][2:])
    assert once < cached
    assert once < again


def test_only_attention_lets_tokens_depend_on_each_other_and_only_decoding_loops() -> None:
    result = gb.lab("parallel", length=6, hidden_size=8, num_layers=1, source_length=4)
    assert [row[1] for row in result.tables[1].rows] == [1, 1, 1, 6, 3, 6]
    calls = {row[0].en: row[1:] for row in result.tables[0].rows}
    assert calls["encoder: feed-forward"] == (1, 4, 1, 4)
    assert calls["decoder: self-attention"] == (1, 6, 6, 1)
    hidden, no_longer = "does not hold", "does not hold"
    assert verdicts(result) == ["holds", "holds", hidden, "holds", "holds", "holds", no_longer]


def test_without_residuals_gradients_fade_and_without_norm_variance_grows() -> None:
    result = gb.lab("depth", num_layers=10, hidden_size=16, length=6, num_seeds=3)
    assert verdicts(result) == ["holds", "holds", "holds"]
    growth = {row[0].en: row[1].mean for row in result.tables[0].rows}
    assert abs(growth["as published: residual, norm after"]) < 0.2
    assert growth["no LayerNorm"] > 2
    with pytest.raises(UserError, match="multiple of 4"):
        gb.lab("depth", hidden_size=6)


FEW = {"num_seeds": 2, "num_steps": 2, "num_sequences": 4}


def test_attention_without_matrices_for_its_scores_copies_worse_than_with_all_three() -> None:
    settings = ReaderSettings(num_steps=100)
    full, bare = (
        learn(TOYS["copy"], Variant(projections=name), settings, 0) for name in ("qkv", "v_removed")
    )
    assert full.accuracy > bare.accuracy + 0.2
    assert full.num_parameters - bare.num_parameters == 2 * (32 * 32 + 32)


def test_many_heads_read_four_places_that_one_head_mixes_up() -> None:
    settings = ReaderSettings(num_steps=150)
    one, many = (learn(TOYS["neighbours"], Variant(num_heads=count), settings, 0) for count in (1, 8))
    assert many.accuracy > one.accuracy + 0.2
    assert many.num_parameters == one.num_parameters


def test_the_distance_of_heads_is_the_share_of_attention_that_they_do_not_have_in_common() -> None:
    left, right, both = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    assert distance(torch.stack([left, left])) == 0.0
    assert distance(torch.stack([left, right])) == 1.0
    assert distance(torch.stack([left, right, both])) == pytest.approx((1 + 0.5 + 0.5) / 3)


def test_heads_say_what_their_parameters_and_their_output_matrix_are(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    model = str(small_folder(tmp_path_factory.mktemp("model") / "bert"))
    result = gb.lab("heads", **FEW, num_heads=[1, 4], model=model, text="a b c")
    assert verdicts(result)[2:] == ["holds", "does not hold"]
    attention = gb.load(model, gb.Model).network.encoder.blocks[0].attention
    output = sum(one.numel() for one in attention.output.parameters())
    assert f"{output:,} of {4 * output:,} parameters" in result.claims[-1].found.en


def test_a_single_head_cannot_be_compared(tmp_path: Path) -> None:
    shape = gb.BertConfig(vocab_size=60, hidden_size=8, num_attention_heads=1, intermediate_size=8)
    gb.Model(gb.new_bert(gb.ModelConfig(encoder=shape), seed=0), small_tokenizer(60)).save(tmp_path / "one")
    with pytest.raises(UserError, match="its blocks have one head; expected several"):
        gb.lab("heads", model=str(tmp_path / "one"), text="a b")


def test_shared_projections_give_symmetric_scores_and_removed_ones_take_the_input() -> None:
    seen = {}
    for name in ("qv_shared", "qv_removed"):
        reader = Reader(TOYS["copy"], Variant(projections=name, num_heads=1), ReaderSettings())
        attention = reader.blocks[0].attention
        x, values = torch.randn(8, 32), {}
        attention(x, gb.Layout((8,)), tap=gb.Tap(lambda key, value, kept=values: kept.setdefault(key, value)))
        seen[name] = (x, values)
    raw = seen["qv_shared"][1]["raw"][0, 0]
    torch.testing.assert_close(raw, raw.T)
    x, values = seen["qv_removed"]
    assert torch.equal(values["k"], x)
    assert not torch.equal(values["raw"][0, 0], values["raw"][0, 0].T)


def test_attention_without_the_scale_has_the_dot_products_themselves() -> None:
    x, scores = torch.randn(8, 32), {}
    reader = Reader(TOYS["copy"], Variant(num_heads=2, is_scaled=False), ReaderSettings())
    attention = reader.blocks[0].attention
    attention(x, gb.Layout((8,)), tap=gb.Tap(lambda key, value: scores.setdefault(key, value)))
    q, k = (side(x).unflatten(1, (2, 16)) for side in (attention.query.projection, attention.key))
    expected = torch.einsum("qnh,knh->nqk", q, k)
    torch.testing.assert_close(scores["scores"][0], expected, rtol=1e-4, atol=1e-4)


def test_the_scale_is_tried_with_heads_that_fill_the_hidden_size() -> None:
    with pytest.raises(UserError, match="sizes: got 12; expected a divisor of hidden_size=64"):
        gb.lab("scale", sizes=[8, 12])


def test_without_positions_the_order_of_other_tokens_changes_nothing() -> None:
    reader = Reader(TOYS["previous"], Variant(positions="none"), ReaderSettings())
    ids = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 0]])
    other = ids[:, [0, 2, 1, 3, 4, 5, 6, 7]]
    answer = torch.full_like(ids, NO_LABEL)
    answer[0, 0] = 1
    assert reader((ids, answer))["loss"].item() == pytest.approx(
        reader((other, answer))["loss"].item(), abs=1e-5
    )


def opener(row: list[int], place: int) -> int:
    """Return the kind of the bracket that the sign at ``place`` closes."""
    depth = 0
    for before in reversed(row[:place]):
        depth += 1 if before == 2 else -1
        if depth < 0:
            return before
    raise AssertionError("nothing is open here")


@pytest.mark.parametrize("name", TOYS)
def test_the_answers_of_a_toy_can_be_found_in_its_sequence(name: str) -> None:
    ids, labels = TOYS[name].draw(torch.Generator().manual_seed(0), 50, 8)
    asked = labels != NO_LABEL
    assert asked.any()
    assert labels[asked].max() < TOYS[name].num_labels
    assert ids.max() < TOYS[name].num_ids
    for row, answers in zip(ids.tolist(), labels.tolist(), strict=True):
        for place in (place for place, answer in enumerate(answers) if answer != NO_LABEL):
            expected = {
                "copy": lambda row=row, place=place: row[place - 4],
                "previous": lambda row=row, place=place: row[place - 1],
                "induction": lambda row=row, place=place: row[row.index(row[place]) + 1],
                "brackets": lambda row=row, place=place: opener(row, place),
                "neighbours": lambda row=row, place=place: (
                    27 * row[place - 2] + 9 * row[place - 1] + 3 * row[place + 1] + row[place + 2]
                ),
            }[name]()
            assert answers[place] == expected
    if name == "brackets":
        assert ((ids == 2) == asked).all()


@pytest.mark.parametrize("name", ["projections", "scale", "heads", "order", "masks", "rates", "pairs"])
def test_an_experiment_that_trains_gives_estimates_plots_and_claims(name: str) -> None:
    result = gb.lab(name, **FEW)
    assert result.seeds == (0, 1)
    assert any(isinstance(cell, Estimate) for cell in result.tables[0].rows[0])
    assert result.plots
    assert result.claims
    english = [toy.name.en for toy in TOYS.values()]
    assert not [claim.found.zh for claim in result.claims if any(name in claim.found.zh for name in english)]


@pytest.mark.parametrize("name", ["order", "pairs"])
def test_the_same_seeds_give_the_same_numbers(name: str) -> None:
    few = {**FEW, "num_layers": 1}
    assert gb.lab(name, **few).tables == gb.lab(name, **few).tables


def test_words_that_stay_as_they_are_teach_to_say_the_word_that_is_there() -> None:
    settings = TrainingSettings(num_steps=60)
    kept, hidden = (
        measure(pretrain(settings, 0, masking=SCHEMES[name]))["identity"] for name in ("80/0/20", "100/0/0")
    )
    assert kept > hidden + 0.2


def test_sentences_of_the_small_language_agree() -> None:
    found = sentences(np.random.default_rng(0), 100)
    pieces = [[VOCABULARY.pieces[word] for word in row] for row in found.ids.tolist()]
    for article, _, noun, verb, _, place, adverb in pieces:
        assert article[-1] == noun[-1] == verb[-1]
        assert noun[4] == verb[4] == place[5]
        assert adverb[-1] == noun[6]


def test_an_lstm_waits_and_forgets_where_a_transformer_does_not() -> None:
    result = gb.lab("recurrence", lengths=[4, 32], hidden_size=16, num_seeds=2)
    steps = {(row[0].en, row[2]): row[3] for row in result.tables[0].rows}
    assert steps["Transformer", 4] == steps["Transformer", 32] == 2
    assert steps["LSTM without attention", 32] == 64
    reach = {(row[0].en, row[2]): row[5].mean for row in result.tables[0].rows}
    assert reach["LSTM without attention", 32] < reach["Transformer", 32] - 0.5
    sizes = [row[1] for row in result.tables[0].rows]
    assert max(sizes) < 1.15 * min(sizes)


@pytest.mark.parametrize("name", ["bottleneck", "recall"])
def test_every_network_is_measured_by_length(name: str) -> None:
    result = gb.lab(name, **FEW, hidden_size=8, lengths=[2, 3])
    assert [len(row) for row in result.tables[0].rows] == [2 + 2] * 3
    assert result.seeds == (0, 1)


def test_the_word_to_recall_is_in_the_middle_and_like_no_other() -> None:
    source, target, expected = middle_pairs(torch.Generator().manual_seed(0), 50, 9)
    assert torch.equal(source[:, 4:5], expected)
    assert target.tolist() == [[0]] * 50
    others = torch.cat([source[:, :4], source[:, 5:]], dim=1)
    assert others.max() < expected.min()
    assert expected.unique().numel() == 4


def test_an_lstm_learns_to_carry_one_word_over_sixteen() -> None:
    settings = LengthsSettings(lengths=(4, 32), num_steps=60)
    assert learn_by_length(settings, "lstm", middle_pairs, 0)[32] > 0.9


def verdict_on(result: Result, statement: str) -> str:
    (found,) = (claim.verdict for claim in result.claims if claim.statement.en == statement)
    return found


@pytest.mark.parametrize(
    ("name", "settings", "statement", "verdict"),
    [
        (
            "projections",
            {"num_steps": 40},
            "(V), removed: Q and K are x does as well as (Q, K, V).",
            "does not hold",
        ),
        (
            "scale",
            {"sizes": [64], "num_steps": 40},
            "Without the scale, training converges badly when d_k is large (previous token).",
            "holds",
        ),
        (
            "order",
            {"num_steps": 60},
            "Without positions attention cannot know the order (previous token).",
            "holds",
        ),
        (
            "bottleneck",
            {"num_steps": 60},
            "A source squeezed into one vector loses information as it gets longer.",
            "holds",
        ),
    ],
)
def test_three_seeds_and_less_training_give_the_direction_and_an_interval(
    name: str, settings: dict[str, Any], statement: str, verdict: str
) -> None:
    result = gb.lab(name, **settings)
    assert result.seeds == (0, 1, 2)
    assert verdict_on(result, statement) == verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("scale", "Without the scale, training converges badly when d_k is large (previous token)."),
        ("projections", "(V), removed: Q and K are x does as well as (Q, K, V)."),
        ("heads", "Many heads do better than one at equal parameters (four neighbours)."),
        ("order", "Without positions attention cannot know the order (previous token)."),
        ("masks", "With 100% [MASK] the model cannot use the word itself."),
        ("pairs", "A model can learn whether B belongs to A."),
        ("pairs", "NSP is needed to understand how two sentences relate."),
        ("recall", "Attention gets at far words without that loss."),
        ("bottleneck", "A source squeezed into one vector loses information as it gets longer."),
    ],
)
def test_the_small_form_decides(name: str, statement: str) -> None:
    expected = "does not hold" if name == "projections" else "holds"
    assert verdict_on(gb.lab(name), statement) == expected
