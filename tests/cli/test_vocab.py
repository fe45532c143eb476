import json
import subprocess
import sys
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

TEXT = "the low tower, the lower tower; 今天去北京\n" * 3


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder with a vocabulary and no model."""
    folder = tmp_path / "bare"
    Tokenizer(Vocabulary((*SPECIALS, "[unused1]", "the", "low", "##er", "北"))).save(folder)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in ("vocab", *arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_train_writes_a_folder_that_loads_and_prints_its_report(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "vocabulary"
    code, printed, errors = run(capsys, "train", corpus, "--size", 34, "--out", out, "--json")
    assert (code, errors) == (0, "")
    report = json.loads(printed)
    tokenizer = Tokenizer.load(out)
    assert (report["size"], report["out"]) == (len(tokenizer.vocabulary), str(out)) == (34, str(out))
    assert report["sha256"] == tokenizer.vocabulary.sha256
    assert (report["num_words"], report["coverage"]) == (39, 1.0)
    assert tokenizer.settings.lowercase
    assert not [path for path in out.parent.iterdir() if path != out]


def test_train_knows_cased_and_unused(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    code, printed, _ = run(capsys, "train", corpus, "--size", 34, "--out", out, "--cased", "--unused", 2)
    assert code == 0
    assert "34 pieces" in printed
    tokenizer = Tokenizer.load(out)
    assert not tokenizer.settings.lowercase
    assert tokenizer.vocabulary.pieces[5:7] == ("[unused1]", "[unused2]")


def test_train_replaces_a_vocabulary_only_with_force(
    corpus: Path, bare: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (bare / "vocab.txt").read_bytes()
    code, _, errors = run(capsys, "train", corpus, "--size", 34, "--out", bare)
    assert (code, errors.count("\n")) == (2, 1)
    assert "--force" in errors
    assert (bare / "vocab.txt").read_bytes() == before
    assert run(capsys, "train", corpus, "--size", 34, "--out", bare, "--force")[0] == 0
    assert len(Tokenizer.load(bare).vocabulary) == 34


def test_train_never_spoils_a_model(corpus: Path, bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / "config.json").write_text("{}")
    code, _, errors = run(capsys, "train", corpus, "--size", 34, "--out", bare, "--force")
    assert (code, "holds a model" in errors) == (2, True)


@pytest.mark.parametrize(
    ("content", "arguments", "code", "message"),
    [
        (b"", [], 3, "no word found"),
        (b"ok\nb\xff", [], 3, "corpus.txt:2: byte 2"),
        (b"some words", ["--size", "5"], 3, "size 5 is too small"),
        (b"some words", ["--size", "5000"], 3, "size 5000 is too large"),
        (
            b"some words",
            ["--alphabet-coverage", "2"],
            2,
            '"2.0" for --alphabet-coverage. Expected more than 0',
        ),
        (b"some words", ["--processes", "0"], 2, '"0" for --processes. Expected at least 1'),
        (None, [], 2, "No such file"),
    ],
)
def test_bad_input_is_one_line_with_the_right_code_and_writes_nothing(
    content: bytes | None,
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "corpus.txt"
    if content is not None:
        path.write_bytes(content)
    before = set(tmp_path.iterdir())
    size = [] if "--size" in arguments else ["--size", "40"]
    found, printed, errors = run(capsys, "train", path, "--out", tmp_path / "out", *size, *arguments)
    assert (found, printed, errors.count("\n")) == (code, "", 1)
    assert message in errors
    assert set(tmp_path.iterdir()) == before


def test_inspect_prints_rows_and_text_figures(
    bare: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "inspect", bare, "--text", corpus, "--json")
    report = json.loads(printed)
    assert (code, report["size"], report["num_unused"], report["num_dead"]) == (0, 10, 1, 0)
    assert report["kinds"]["latin"] == {"starting": 2, "continuing": 1}
    assert report["text"]["unknown_examples"][0] == ["tower", 6]
    code, printed, _ = run(capsys, "inspect", bare, "--text", corpus)
    assert code == 0
    assert "tower (6)" in printed


def test_inspect_of_a_folder_without_a_vocabulary_is_a_model_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, errors = run(capsys, "inspect", tmp_path / "nope")
    assert (code, printed, errors.count("\n")) == (4, "", 1)


def test_extend_of_a_bare_vocabulary_keeps_its_settings(
    bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("lower\nC++\nthe\n京\n", encoding="utf-8")
    out = tmp_path / "out"
    code, printed, _ = run(capsys, "extend", bare, "--words", words, "--out", out, "--json")
    report = json.loads(printed)
    assert code == 0
    assert report["added"] == [
        {"id": 5, "piece": "lower", "old_ids": [7, 8]},
        {"id": 10, "piece": "京", "old_ids": [1]},
    ]
    assert (report["already"], report["unknown_starts"]) == (["the"], ["京"])
    assert report["refused"] == [{"word": "C++", "reason": "the tokenizer cuts it into 3 words: c + +"}]
    extended = Tokenizer.load(out)
    assert extended.settings == Tokenizer.load(bare).settings
    assert extended.pieces_of("lower 京").ids == [5, 10]


def test_extend_of_a_model_starts_new_rows_as_the_mean_of_their_old_pieces(
    bare: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from safetensors.torch import load_file

    from glassbert.config import BertConfig, ModelConfig
    from glassbert.interop.folder import write_model
    from glassbert.model.init import new_bert

    shape = BertConfig(
        vocab_size=10,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    source, out, words = tmp_path / "model", tmp_path / "out", tmp_path / "words.txt"
    source.mkdir()
    write_model(
        new_bert(ModelConfig(encoder=shape, head="mlm"), seed=1), Tokenizer.load(bare), source, run={}
    )
    words.write_text("lower\n京\n", encoding="utf-8")
    assert run(capsys, "extend", source, "--words", words, "--out", out)[0] == 0
    name = "bert.embeddings.word_embeddings.weight"
    old, new = (load_file(folder / "model.safetensors")[name] for folder in (source, out))
    torch.testing.assert_close(new[5], old[[7, 8]].mean(dim=0))
    torch.testing.assert_close(new[10], old[1])
    torch.testing.assert_close(new[[*range(5), *range(6, 10)]], old[[*range(5), *range(6, 10)]])
    assert Tokenizer.load(out).pieces_of("lower 京").ids == [5, 10]


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (b"the\nC++\n", 3, "no word to add (1 are pieces already, 1 cannot be pieces)"),
        (b"ok\nb\xff", 3, "words.txt:2: byte 2"),
        (None, 2, "No such file"),
    ],
)
def test_extend_without_a_usable_word_writes_nothing(
    content: bytes | None,
    code: int,
    message: str,
    bare: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = tmp_path / "words.txt"
    if content is not None:
        words.write_bytes(content)
    found, printed, errors = run(capsys, "extend", bare, "--words", words, "--out", tmp_path / "out")
    assert (found, printed, errors.count("\n")) == (code, "", 1)
    assert message in errors
    assert not (tmp_path / "out").exists()


def test_extend_does_not_write_over_what_it_reads(
    bare: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = run(capsys, "extend", bare, "--words", corpus, "--out", bare, "--force")
    assert (code, "would replace" in errors) == (2, True)


def test_train_and_inspect_do_not_wait_for_torch(corpus: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    code = f"""
import sys
from glassbert.cli.main import main
assert main(["vocab", "train", {str(corpus)!r}, "--size", "34", "--out", {out!r}]) == 0
assert main(["vocab", "inspect", {out!r}]) == 0
assert "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_train_and_inspect_read_the_forms_that_corpus_build_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = tmp_path / "rows.txt", tmp_path / "out"
    rows.write_text(
        "".join(json.dumps({"text": line}, ensure_ascii=False) + "\n" for line in TEXT.splitlines()),
        encoding="utf-8",
    )
    code, _, errors = run(capsys, "train", rows, "--size", 34, "--out", out)
    assert (code, errors) == (0, "form: jsonl (detected; change it with --form), 1 file such as rows.txt\n")
    assert not {"{", "}", '"'} & set(Tokenizer.load(out).vocabulary.pieces)
    code, printed, _ = run(capsys, "inspect", out, "--text", rows, "--json")
    assert (code, json.loads(printed)["text"]["num_unknown"]) == (0, 0)
    plain = run(capsys, "inspect", out, "--text", rows, "--form", "documents", "--json")
    assert (plain[0], plain[2]) == (0, "")
    assert json.loads(plain[1])["text"]["num_unknown"] > 0
    assert run(capsys, "train", rows, "--size", 40, "--out", tmp_path / "raw", "--form", "documents")[0] == 0
    assert {"{", "}", '"'} <= set(Tokenizer.load(tmp_path / "raw").vocabulary.pieces)
