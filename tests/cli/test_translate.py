import html
import io
import json
import re
from pathlib import Path
from typing import Any

import cyclopts
import pytest

from glassbert.cli.main import main
from glassbert.cli.train import TranslateOptions, train_translate, translate_tables
from glassbert.cli.translate import translate
from glassbert.errors import DataError, UserError
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator
from glassbert.metrics.translation import translation
from helpers.sentence_pairs import (
    SHAPE,
    VOCAB_SIZE,
    sentence_pairs,
    write_arbitrary_translator,
    write_tsv,
)

TEXTS = [source for source, _ in sentence_pairs(6, seed=2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_arbitrary_translator(tmp_path_factory.mktemp("translator"))


def call(*words: str) -> None:
    """Run a command line as `glassbert` does."""
    app = cyclopts.App(default_parameter=cyclopts.Parameter(negative=()), result_action="return_value")
    app.command(translate)
    app.command(train_translate)
    app(list(words), exit_on_error=False, print_error=False)


def lines_of(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_a_line_comes_out_for_each_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = lines_of(tmp_path / "in.txt", [*TEXTS, ""])
    call("translate", str(folder), source, "--max-length", "8")
    plain = capsys.readouterr().out.split("\n")
    assert len(plain) == len(TEXTS) + 2  # the last line is ended, too
    assert plain[-2:] == ["", ""]
    call("translate", str(folder), source, "--max-length", "8", "--json", "--chunk", "2")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == len(TEXTS) + 1
    assert set(rows[0]) == {"text", "score", "finished", "truncated", "tokens"}
    assert [" ".join(row["text"].splitlines()) for row in rows] == [
        " ".join(t.splitlines()) for t in plain[:-1]
    ]


def test_stdin_and_json_lines_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call("translate", str(folder), lines_of(tmp_path / "a.txt", TEXTS), "--json", "--max-length", "6")
    expected = capsys.readouterr().out
    rows = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    call("translate", str(folder), "--json", "--max-length", "6")
    assert capsys.readouterr().out == expected


def test_n_best_come_numbered_with_their_scores(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(
        "translate",
        str(folder),
        lines_of(tmp_path / "a.txt", TEXTS[:2]),
        "--n-best",
        "2",
        "--max-length",
        "6",
    )
    rows = [line.split("\t", 2) for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["1", "2", "1", "2"]
    assert float(rows[0][1]) >= float(rows[1][1])


def test_the_same_seed_draws_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = lines_of(tmp_path / "a.txt", TEXTS)
    drawn = []
    for seed in ("1", "1", "2"):
        call("translate", str(folder), source, "--sample", "--seed", seed, "--max-length", "8", "--json")
        drawn.append(capsys.readouterr().out)
    assert drawn[0] == drawn[1] != drawn[2]


def test_alignments_come_with_json(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = lines_of(tmp_path / "a.txt", TEXTS[:1])
    call("translate", str(folder), source, "--alignment", "--json", "--max-length", "6", "--beam", "1")
    alignment = json.loads(capsys.readouterr().out)["alignment"]
    assert len(alignment["weights"]) == len(alignment["target"])
    with pytest.raises(UserError, match="--alignment is printed only with --json"):
        call("translate", str(folder), source, "--alignment")


def test_texts_that_were_cut_and_translations_without_an_end_are_reported(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("translate", str(folder), lines_of(tmp_path / "a.txt", ["one " * 100]), "--max-length", "1")
    reported = capsys.readouterr().err
    assert "1 of 1 texts were longer than 64 tokens and were cut" in reported
    assert "1 of 1 translations reached 1 tokens without an end" in reported


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--beam", "500"], "beam_size=500 exceeds the 318 tokens of the vocabulary"),
        (["--n-best", "9"], "num_hypotheses=9 exceeds the 4"),
    ],
)
def test_options_without_sense_are_refused(
    folder: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        call("translate", str(folder), lines_of(tmp_path / "a.txt", TEXTS), *options)


def test_a_json_line_without_text_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt:2: no string under .text. in this JSON object"):
        call("translate", str(folder), lines_of(tmp_path / "a.txt", ["one", '{"source": "two"}']))


def test_training_from_the_command_line_gives_a_translator(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = write_tsv(tmp_path / "train.tsv", sentence_pairs(100))
    dev = write_tsv(tmp_path / "dev.tsv", sentence_pairs(8, seed=1))
    out = tmp_path / "run"
    settings: dict[str, Any] = {
        "model": SHAPE,
        "vocabulary": {"size": VOCAB_SIZE},
        "data": {"max_length": 64},
    }
    settings["train"] = {"steps": 2, "batch_tokens": 512}
    words = [f"--set={t}.{key}={value}" for t, table in settings.items() for key, value in table.items()]
    files = ["--train", str(train), "--dev", str(dev), "--out", str(out)]
    call("train-translate", "--model", "transformer-tiny", *files, *words, "--json")
    result = json.loads(capsys.readouterr().out)
    assert (result["is_finished"], result["step"], result["best_by"]) == (True, 2, "bleu")
    assert set(result["metrics"]) == {"bleu", "chrf"}
    assert result["report"] == str(out / "report.html")
    assert (out / "report.html").is_file()
    call("translate", result["model"], lines_of(tmp_path / "a.txt", TEXTS[:2]), "--max-length", "4", "--json")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_options_go_before_the_recipe_and_changes_before_both(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = "a.tsv"\ndev = "b.tsv"\n[train]\nsteps = 5\n')
    options = TranslateOptions(
        recipe=recipe, train="c.en,c.es", model="transformer-tiny", skip_bad=3, set_=["train.steps=7"]
    )
    assert translate_tables(options) == {
        "data": {"train": "c.en,c.es", "dev": "b.tsv", "skip_bad": 3},
        "train": {"steps": 7},
        "model": {"preset": "transformer-tiny"},
    }
    with pytest.raises(UserError, match="--train is missing"):
        translate_tables(TranslateOptions())


def test_evaluate_scores_a_translator_on_pairs(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = sentence_pairs(5, seed=3)
    path = write_tsv(tmp_path / "pairs.tsv", pairs)
    assert main(["evaluate", str(folder), str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    guess = [one.text for one in load(folder, Translator).translate([source for source, _ in pairs])]
    expected = translation([target for _, target in pairs], guess)
    assert found["metrics"] == expected.metrics()
    assert (found["examples"], found["bleu_signature"]) == (5, expected.bleu_signature)
    assert main(["evaluate", str(folder), str(path), "--min", "bleu=99.9"]) == 5
    captured = capsys.readouterr()
    assert f"bleu {expected.bleu:.4f}" in re.sub(" +", " ", captured.out)
    assert f"BLEU  {expected.bleu_signature}" in captured.out
    assert "bleu is" in captured.err
    assert main(["evaluate", str(folder), str(path), "--task", "tag"]) == 2
    assert "task, format, columns and kind are for labelled rows" in capsys.readouterr().err


def test_evaluate_writes_a_report_on_a_translator(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = sentence_pairs(5, seed=3)
    path, page = write_tsv(tmp_path / "pairs.tsv", pairs), tmp_path / "page.html"
    assert main(["evaluate", str(folder), str(path), "--report", str(page), "--json"]) == 0
    captured = capsys.readouterr()
    assert f"the report is in {page}" in captured.err
    text = page.read_text()
    assert f'<td dir="auto">{json.loads(captured.out)["bleu"]:.4f}</td>' in text
    assert any(html.escape(target) in text for _, target in pairs)


def test_evaluate_reports_texts_that_were_cut(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = sentence_pairs(2, seed=3)
    path = write_tsv(tmp_path / "pairs.tsv", [*pairs, (" ".join([pairs[0][0]] * 30), pairs[0][1])])
    assert main(["evaluate", str(folder), str(path), "--json"]) == 0
    captured = capsys.readouterr()
    assert "1 of 3 texts were longer than 64 tokens and were cut" in captured.err
    assert json.loads(captured.out)["num_truncated"] == 1
