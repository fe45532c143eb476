"""How every verb ends: exit codes, one line on stderr, nothing half-written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glassbert.cli import embed
from glassbert.cli.main import main
from helpers.oracles import make_oracle, save_oracle


@pytest.fixture
def mlm_folder(tmp_path: Path) -> Path:
    return save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "mlm")


def fails(capsys: pytest.CaptureFixture[str], exit_code: int, *arguments: object) -> str:
    """Run a verb that must fail with ``exit_code``; return its one line."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("glassbert: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["fill"],
        ["fill", "a", "b", "--top", "many"],
        ["vocab", "train"],
        ["params", "no-such-preset"],
    ],
)
def test_a_wrong_command_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    fails(capsys, 2, *arguments)


def test_a_missing_model_is_exit_4(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for verb in (["fill", "nowhere", "a [MASK]"], ["embed", "nowhere"], ["tokenize", "nowhere", "a"]):
        assert "nowhere" in fails(capsys, 4, *verb)
    assert "nowhere" in fails(capsys, 4, "convert", "nowhere", tmp_path / "out")


def test_fill_prints_candidates(capsys: pytest.CaptureFixture[str], mlm_folder: Path) -> None:
    assert main(["fill", str(mlm_folder), "a [MASK] b [MASK]", "--top", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(candidates) for candidates in lines] == [2, 2]
    assert set(lines[0][0]) == {"token", "score"}
    assert lines[0][0]["score"] >= lines[0][1]["score"]
    assert main(["fill", str(mlm_folder), "a [MASK]", "--top", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_fill_without_a_mask_is_exit_2(capsys: pytest.CaptureFixture[str], mlm_folder: Path) -> None:
    assert "no [MASK]" in fails(capsys, 2, "fill", mlm_folder, "a b")
    assert "at least 1" in fails(capsys, 2, "fill", mlm_folder, "a [MASK]", "--top", "0")


def test_embed_reads_lines_and_json(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "texts.txt"
    source.write_text('a b\n{"text": "a b"}\n\n{a\n' + "a " * 100 + "\n", encoding="utf-8")
    assert main(["embed", str(mlm_folder), str(source), "--json"]) == 0
    captured = capsys.readouterr()
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert [row["tokens"] for row in rows] == [4, 4, 2, 4, 40]
    assert [row["truncated"] for row in rows] == [False, False, False, False, True]
    assert rows[0]["embedding"] == rows[1]["embedding"]
    assert "mean over its tokens" in captured.err
    assert "1 of 5 texts were longer than 40 tokens" in captured.err


def test_embed_writes_an_array(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    source.write_text("a\nb\n", encoding="utf-8")
    assert main(["embed", str(mlm_folder), str(source), "--out", str(out)]) == 0
    vectors = np.load(out)
    assert vectors.shape == (2, 32)
    monkeypatch.setattr(embed, "CHUNK", 1)
    assert main(["embed", str(mlm_folder), str(source), "--out", str(out), "--force"]) == 0
    np.testing.assert_allclose(np.load(out), vectors, atol=1e-6)
    source.write_text("")
    assert main(["embed", str(mlm_folder), str(source), "--out", str(out), "--force"]) == 0
    assert len(np.load(out)) == 0
    assert capsys.readouterr().out == ""
    assert "ends in .npy" in fails(capsys, 2, "embed", mlm_folder, source, "--out", tmp_path / "vectors.txt")
    deeper = tmp_path / "new" / "folder" / "vectors.npy"
    assert main(["embed", str(mlm_folder), str(source), "--out", str(deeper)]) == 0
    assert deeper.is_file()


def test_input_that_is_not_utf8_is_exit_3_and_named(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "latin.txt"
    source.write_bytes(b"fine\nna\xefve\n")
    capsys.readouterr()
    assert main(["embed", str(mlm_folder), str(source)]) == 3
    assert f"{source}:2: byte 3 (0xef) is not UTF-8" in capsys.readouterr().err


def test_a_json_line_without_text_is_exit_3(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path
) -> None:
    source = tmp_path / "rows.jsonl"
    source.write_text('{"text": "a"}\n{"content": "b"}\n', encoding="utf-8")
    assert main(["embed", str(mlm_folder), str(source)]) == 3
    assert f'{source}:2: no string under "text" in this JSON object' in capsys.readouterr().err


def test_convert_writes_a_folder_and_says_what_it_kept(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert main(["convert", str(mlm_folder), str(out), "--dtype", "float16", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["dtype"] == "float16"
    assert report["unexpected"] == []
    assert {
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "tokenizer.json",
        "tokenizer_config.json",
        "run.json",
    } <= {path.name for path in out.iterdir()}
    assert "not empty" in fails(capsys, 2, "convert", mlm_folder, out)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"{}}"),
        ("config.json", b'{"hidden_size": 30, "num_attention_heads": 4}'),
        ("model.safetensors", b"\x10\x00"),
        ("vocab.txt", b""),
        ("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\na\n"),
    ],
)
def test_a_damaged_model_is_exit_4_and_leaves_nothing(
    capsys: pytest.CaptureFixture[str], mlm_folder: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    (mlm_folder / "tokenizer.json").unlink()
    (mlm_folder / name).write_bytes(content)
    assert name.partition(".")[0] in fails(capsys, 4, "fill", mlm_folder, "a [MASK]")
    fails(capsys, 4, "convert", mlm_folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mlm"]


def test_a_reader_that_leaves_is_no_error(mlm_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("a\n" * 3000, encoding="utf-8")
    verb = f"{sys.executable} -m glassbert embed {mlm_folder} {source}"
    command = f"{verb} | head -n 1 > /dev/null; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert run.returncode == 0
    assert "Traceback" not in run.stderr


def test_a_reader_that_never_listened_is_no_error(mlm_folder: Path) -> None:
    # So short an output waits in the buffer, if there is one, until the end, when the reader is long gone.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = f"{sys.executable} -m glassbert tokenize {mlm_folder} a --json | true; exit ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment)
    assert run.returncode == 0
    assert run.stderr == ""
