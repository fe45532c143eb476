"""Small forms of the experiments: direction and interval of what they find."""

import numpy as np
import pytest
import torch

import glassbert as gb
from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate
from glassbert.glassbox.lab.masks import SCHEMES, measure
from glassbert.glassbox.lab.reader import Reader, ReaderSettings, Variant, learn
from glassbert.glassbox.lab.result import Result
from glassbert.glassbox.lab.small_language import VOCABULARY, LanguageSettings, pretrain, sentences
from glassbert.glassbox.lab.toys import NO_LABEL, TOYS
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
    assert verdicts(result) == ["holds", "holds", "does not hold", "holds", "holds"]


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
                "neighbours": lambda row=row, place=place: 4 * row[place - 1] + row[place + 1],
            }[name]()
            assert answers[place] == expected
    if name == "brackets":
        assert ((ids == 2) == asked).all()


@pytest.mark.parametrize("name", ["projections", "heads", "order", "masks", "rates", "pairs"])
def test_an_experiment_that_trains_gives_estimates_plots_and_claims(name: str) -> None:
    result = gb.lab(name, **FEW)
    assert result.seeds == (0, 1)
    assert any(isinstance(cell, Estimate) for cell in result.tables[0].rows[0])
    assert result.plots
    assert result.claims


@pytest.mark.parametrize("name", ["order", "pairs"])
def test_the_same_seeds_give_the_same_numbers(name: str) -> None:
    few = {**FEW, "num_layers": 1}
    assert gb.lab(name, **few).tables == gb.lab(name, **few).tables


def test_words_that_stay_as_they_are_teach_to_say_the_word_that_is_there() -> None:
    settings = LanguageSettings(num_steps=60)
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


def test_the_bottleneck_measures_every_network_by_length() -> None:
    result = gb.lab("bottleneck", hidden_size=8, num_steps=2, num_pairs=4, lengths=[2, 3])
    assert [len(row) for row in result.tables[0].rows] == [2 + 2] * 3
    assert result.seeds == (0, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "statement"),
    [
        ("projections", "(V), removed: Q and K are x does as well as (Q, K, V)."),
        ("order", "Without positions attention cannot know the order (previous token)."),
        ("masks", "If kept words are never wrong, the model gets lazy and copies what it sees."),
        ("bottleneck", "A source squeezed into one vector loses information as it gets longer."),
    ],
)
def test_the_small_form_decides(name: str, statement: str) -> None:
    expected = "does not hold" if name == "projections" else "holds"
    verdicts = {claim.statement.en: claim.verdict for claim in gb.lab(name).claims}
    assert verdicts[statement] == expected
