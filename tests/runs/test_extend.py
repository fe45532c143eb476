"""New pieces from a text: found, started, trained alone, and measured."""

import json
import random
from pathlib import Path

import pytest
import torch

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import DataError, ModelError
from glassbert.messages import say_nothing
from glassbert.model.layout import Batch
from glassbert.runs.extend import NewPieces, lacking_words
from glassbert.runs.start_rows import contexts_of, started
from glassbert.text.components import read_components, relatives
from glassbert.text.extend import plan_extension
from helpers.oracles import make_oracle, save_oracle, small_tokenizer

RARE = "鲵蚣"
SHORT = {"steps": 6, "min_count": 2, "batch_tokens": 256, "log_every": 1, "learning_rate": 1e-2}


def sentences(number: int, seed: int) -> list[str]:
    """Return sentences of known letters, most of them with a character that the vocabulary lacks."""
    draw = random.Random(seed)
    made = []
    for at in range(number):
        words = [draw.choice("abcde") for _ in range(draw.randrange(4, 9))]
        words.insert(draw.randrange(len(words)), RARE[at % 2] if at % 7 else "e")
        made.append(" ".join(words))
    return made


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    save_oracle(make_oracle("BertForPreTraining"), folder / "bert")
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), folder / "classifier")
    (folder / "text.txt").write_text("\n".join(sentences(300, 0)) + "\n", encoding="utf-8")
    return folder


def test_unknown_characters_are_found_added_trained_and_measured(given: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    result = gb.extend_from_text(
        given / "bert",
        given / "text.txt",
        out=tmp_path / "out",
        log=reported.append,
        min_pieces=99,
        **{**SHORT, "steps": 40, "learning_rate": 5e-2},
    )
    before, after = gb.load(given / "bert"), gb.load(result.model)
    added = json.loads((tmp_path / "out" / "extension.json").read_text())["added"]
    assert sorted(added) == sorted(RARE)
    text = "a 鲵 b"
    assert before.tokenizer.vocabulary.unk_id in before.tokenize([text])[0].ids
    assert after.tokenizer.vocabulary.unk_id not in after.tokenize([text])[0].ids
    assert result.metrics["unknown_rate_before"] > 0.05
    assert result.metrics["unknown_rate_after"] == 0.0
    assert result.metrics["loss_trained"] < result.metrics["loss_started"]
    assert result.metrics["elsewhere_after"] == pytest.approx(result.metrics["elsewhere_before"], abs=0.2)
    assert any(line.startswith("[UNK] in held-out text") for line in reported)


def test_only_the_new_rows_are_trained(given: Path, tmp_path: Path) -> None:
    result = gb.extend_from_text(
        given / "bert", given / "text.txt", out=tmp_path / "out", log=say_nothing, min_pieces=99, **SHORT
    )
    before, after = gb.load(given / "bert"), gb.load(result.model)
    new = {after.tokenizer.vocabulary.id(piece) for piece in RARE}
    old = [at for at in range(len(before.tokenizer.vocabulary)) if at not in new]
    ours, theirs = after.network.state_dict(), before.network.state_dict()
    for name, tensor in theirs.items():
        if name.endswith(("token.weight", "decoder.weight", "decoder.bias")):
            assert torch.equal(ours[name][old], tensor[old]), name
        elif not name.startswith(("nsp", "pooler")):
            assert torch.equal(ours[name], tensor), name
    batch = Batch.from_lists([before.tokenize(["a b c"])[0].ids], [[0] * 5])
    states = [model.network.encoder(batch) for model in (before, after)]
    assert torch.equal(*states), "other text is read as before"


def test_words_are_found_by_what_they_cost(given: Path) -> None:
    tokenizer = small_tokenizer()
    text = ["鲵 unaffable unaffable", "unaffable 蚣 鲵", "鲵 abcdeabcde abcdeabcde " + "龘" * 1]
    settings = NewPieces(model=given / "bert", text=(given,), min_count=2, min_pieces=4, most=10)
    found = lacking_words(settings, tokenizer, text)
    assert found[0] == "鲵", "unknown ones first"
    assert "蚣" not in found, "it occurs once"
    lengths = {word: len(tokenizer.pieces_of(word).ids) for word in found[1:]}
    assert all(
        length >= 4 or tokenizer.vocabulary.unk_id in tokenizer.pieces_of(word).ids
        for word, length in lengths.items()
    )
    assert lacking_words(
        NewPieces(model=given / "bert", text=(given,), min_count=2, most=1), tokenizer, text
    ) == ["鲵"]


def test_a_row_begins_as_what_the_model_expects_and_as_characters_that_look_alike(given: Path) -> None:
    model = gb.load(given / "bert", gb.Model)
    plan = plan_extension(model.tokenizer, ["鲵"])
    (row,) = plan.rows
    grown = gb.Tokenizer(plan.vocabulary)
    contexts = contexts_of(plan, grown, ["a 鲵 b", "c d", "鲵 e", "a 鲵 a"], 2)
    assert contexts == {row.id: ["a  [MASK]  b", " [MASK]  e"]}
    expected = started(model, plan, "contexts", contexts, {})[row.id]
    table = model.network.encoder.embeddings.token.weight.detach()
    probabilities = []
    for text in contexts[row.id]:
        scores = torch.zeros(len(table))
        for one in model.fill(text, top=len(model.tokenizer.vocabulary))[0]:
            scores[model.tokenizer.vocabulary.id(one.token)] = one.score
        probabilities.append(scores)
    likely = torch.stack(probabilities).mean(dim=0).topk(30)
    torch.testing.assert_close(
        expected, likely.values / likely.values.sum() @ table[likely.indices], atol=1e-4, rtol=0
    )
    known = [piece for piece in model.tokenizer.vocabulary.pieces if len(piece) == 1][:3]
    components = {"鲵": frozenset("鱼儿"), known[0]: frozenset("鱼"), known[1]: frozenset("木")}
    alike = started(model, plan, "components", contexts, components)[row.id]
    torch.testing.assert_close(alike, table[model.tokenizer.vocabulary.id(known[0])])
    both = started(model, plan, "both", contexts, components)[row.id]
    torch.testing.assert_close(both, (expected + alike) / 2)
    assert started(model, plan, "pieces", contexts, components) == {}


def test_relatives_share_most_components(tmp_path: Path) -> None:
    path = tmp_path / "components.txt"
    path.write_text("鲵 鱼 儿\n鲤 鱼 里\n理 王 里\n倪 亻 儿\n木 木\n", encoding="utf-8")
    components = read_components(path)
    assert relatives("鲵", components, ["鲤", "理", "倪", "木"]) == ["倪", "鲤"]
    path.write_text("鲵鱼 x\n", encoding="utf-8")
    with pytest.raises(DataError, match=":1: expected a character"):
        read_components(path)


def test_what_cannot_be_extended_is_refused_before_anything_is_written(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ModelError, match="no MLM head"):
        gb.extend_from_text(given / "classifier", given / "text.txt", out=out, log=say_nothing)
    (tmp_path / "known.txt").write_text("a b c.\nb c d.\n" * 20)
    with pytest.raises(DataError, match="nothing to add"):
        gb.extend_from_text(given / "bert", tmp_path / "known.txt", out=out, log=say_nothing)
    assert not out.exists()


def test_the_verb_takes_words_or_text(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["vocab", "extend", str(given / "bert"), "--out", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "either --words FILE or --from TEXT" in capsys.readouterr().err
    changes = ["--set", "train.steps=1", "--set", "extend.min_count=2", "--set", "extend.min_pieces=99"]
    assert main([*arguments, "--from", str(given / "text.txt"), *changes]) == 0
    assert gb.load(capsys.readouterr().out.strip()).tokenizer.vocabulary.id("鲵")
