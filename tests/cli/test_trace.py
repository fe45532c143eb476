"""`glassbert trace`: files, pages, JSON, comparisons, and one line for every mistake."""

from pathlib import Path
from typing import Any

import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.parsing import parse_json
from helpers.oracles import make_oracle, save_oracle, small_tokenizer
from helpers.traced_models import translator


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_oracle(make_oracle("BertForMaskedLM"), folder / "mlm")
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), folder / "classify")
    tags = {0: "O", 1: "B-PER", 2: "I-PER"}
    save_oracle(make_oracle("BertForTokenClassification", num_labels=3, id2label=tags), folder / "tag")
    save_oracle(make_oracle("BertModel"), folder / "plain")
    translator().save(folder / "translator")
    spoiled = make_oracle("BertModel")
    spoiled.encoder.layer[1].output.dense.weight.data[0, 0] = float("nan")
    save_oracle(spoiled, folder / "spoiled")
    save_oracle(make_oracle("BertModel"), folder / "longer")
    small_tokenizer(75).save(folder / "longer", overwrite=True)
    return folder


def run(models: Path, *words: object) -> int:
    """Run the verb; the first word names one of the models."""
    first, *others = map(str, words)
    return main(["trace", str(models / first), *others])


def test_a_trace_is_written_with_its_json_and_its_page(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, html = tmp_path / "t.safetensors", tmp_path / "t.html"
    assert run(models, "mlm", "a [MASK] c", "--target", "a b c", "--grad", "--out", out, "--html", html) == 0
    assert capsys.readouterr().out.split() == [str(out), str(html)]
    trace = gb.Trace.load(out)
    assert trace.info.target == {"mlm": "a b c"}
    assert "grad.mlm.dense.weight" in trace
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.html", "t.json", "t.safetensors"]


def test_without_a_file_the_steps_are_printed(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(models, "plain", "a b", "--names", "enc.*.attn.probs") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [f"enc.{index}.attn.probs" for index in range(3)]
    assert all(line.endswith("softmax(scores)") for line in lines)


def test_json_tells_all_but_the_numbers(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(models, "translator", "one.", "--target", "\u00a1uno!", "--grad", "--json") == 0
    found: dict[str, Any] = parse_json(capsys.readouterr().out)
    assert found["decoder"]["tokens"][0] == "<pad>"
    assert found["differentiated"] == "loss"
    step = next(step for step in found["graph"] if step["name"] == "dec.0.cross.q")
    assert (step["formula"], step["weights"]["W"]) == (
        "x @ W.T + b",
        "decoder.blocks.0.cross_attention.query.weight",
    )
    assert len(found["model"]["sha256"]) == 64


def test_spans_and_numbers_are_targets_too(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spans = '[{"start": 0, "end": 1, "label": "PER"}]'
    assert run(models, "tag", "a b", "--target", spans, "--names", "loss*") == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["loss.places", "loss.labels", "loss"]
    place = "head.labels.logits[0, LABEL_1]"
    assert run(models, "classify", "a b", "--target", place, "--grad", "--json") == 0
    assert parse_json(capsys.readouterr().out)["differentiated"] == "head.labels.logits[0, 1]"


def test_two_traces_are_compared(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"{name}.safetensors" for name in "ab"]
    for path, text in zip(paths, ("a b c", "a x c"), strict=True):
        assert run(models, "plain", text, "--out", path) == 0
    capsys.readouterr()
    assert main(["trace", "diff", *map(str, paths), "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("they diverge at emb.token; ")
    assert len(lines) == 5
    assert main(["trace", "diff", *map(str, paths), "--json"]) == 0
    found = parse_json(capsys.readouterr().out)
    assert found["first"] == "emb.token"
    assert found["ranked"][0]["relative"] >= found["ranked"][-1]["relative"]


MISTAKES: dict[str, tuple[list[str], int, str]] = {
    "empty text": (["mlm", ""], 2, "the text is blank"),
    "no such model": (["nothing", "a"], 4, "nothing"),
    "unknown name": (["plain", "a", "--names", "enc.0.att.q"], 2, "did you mean enc.0.attn.q?"),
    "unknown block": (["plain", "a", "--layers", "7"], 2, "this model has 3 blocks"),
    "NaN weights": (["spoiled", "a"], 4, "encoder.layer.1.output.dense.weight holds NaN"),
    "a vocabulary that does not fit": (["longer", "a"], 4, "75 pieces"),
    "no loss": (["plain", "a", "--grad"], 4, "has no loss; name a number"),
    "not a label": (["classify", "a", "--target", "good"], 3, "is not one of the model's"),
    "not JSON": (["tag", "a", "--target", '[{"start'], 2, "looks like JSON but is not"),
    "a target longer than the table": (["translator", "one.", "--target", "uno " * 60], 2, "reads 48"),
    "an ending that is not ours": (["plain", "a", "--out", "{}/t.bin"], 2, "ends in .safetensors"),
    "an existing file": (["plain", "a", "--out", "{}/old.safetensors"], 2, "that glassbert wrote"),
    "an existing page": (["plain", "a", "--html", "{}/old.html"], 2, "that glassbert wrote"),
    "no such folder": (["plain", "a", "--out", "{}/no/t.safetensors"], 2, "is not a folder"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_nothing(
    name: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, code, message = MISTAKES[name]
    for old in ("old.safetensors", "old.html"):
        (tmp_path / old).write_text("mine")
    words = [word.format(tmp_path) if word.startswith("{}") else word for word in words]
    if "--out" not in words and "--html" not in words:
        words += ["--out", str(tmp_path / "t.safetensors"), "--html", str(tmp_path / "t.html")]
    assert run(models, *words) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "old.safetensors": "mine",
        "old.html": "mine",
    }


def test_long_text_and_emoji_are_traced(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(models, "classify", "a \U0001f600 " * 2500, "--out", tmp_path / "t.safetensors") == 0
    assert "the text was longer than the model reads; its first 40 tokens" in capsys.readouterr().err
    assert "[UNK]" in gb.Trace.load(tmp_path / "t.safetensors").tokens
