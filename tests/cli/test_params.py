import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glassbert.cli.main import main
from glassbert.config import ModelConfig, TransformerConfig, preset
from glassbert.interop.folder import write_network
from glassbert.interop.marian_config import write_marian_config
from glassbert.model.init import new_bert

COMMAND = [
    sys.executable,
    "-c",
    "import sys; from glassbert.cli.main import main; sys.exit(main(sys.argv[1:]))",
]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in ("params", *arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    code, out, errors = run(capsys, *arguments, "--json")
    assert (code, errors) == (0, "")
    return json.loads(out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    config = ModelConfig(
        encoder=preset("tiny", vocab_size=90, max_position_embeddings=64), head="mlm", has_pooler=False
    )
    network = new_bert(config, seed=0)
    write_network(network, tmp_path)
    return tmp_path


def test_json_adds_up_to_the_published_total(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "bert-large-zh")
    assert answer["total"] == 324_472_832
    assert answer["includes"] == ["embeddings", "encoder"]
    assert sum(group["count"] for group in answer["groups"]) == answer["total"]
    assert [group["name"] for group in answer["groups"]] == ["embeddings", *(f"block {i}" for i in range(24))]
    assert answer["totals"]["with pooler"] == 325_522_432
    for group in answer["groups"]:
        assert (
            sum(row["count"] for row in group["rows"]) == group["count"] == sum(group["subtotals"].values())
        )
    row = answer["groups"][1]["rows"][5]
    assert (row["name"], row["formula"], row["count"]) == ("mlp.inner", "1024 x 4096 + 4096", 4_198_400)
    assert row["bytes"] == 4 * 4_198_400
    assert row["tensors"][0] == {"name": "encoder.blocks.0.mlp.inner.weight", "shape": [4096, 1024]}
    assert answer["weight_bytes"]["optimiser"] == 8 * 324_472_832


def test_costs_are_given_at_the_usual_lengths_or_at_those_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert [cost["length"] for cost in run_json(capsys, "base")["costs"]] == [128, 512]
    costs = run_json(capsys, "base", "--length", 7, "--length", 300)["costs"]
    assert [cost["length"] for cost in costs] == [7, 300]
    assert costs[1]["parts"]["scores_and_context"] == {
        "formula": "4 x B x L x D",
        "value": 12 * 4 * 300 * 768,
    }
    assert costs[1]["training_flops_per_token"] == 3 * costs[1]["forward_flops_per_token"]


def test_a_model_folder_and_its_config_have_the_same_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_folder, of_config = run_json(capsys, folder), run_json(capsys, folder / "config.json")
    assert of_folder["includes"] == ["embeddings", "encoder", "mlm"]
    assert of_folder["groups"] == of_config["groups"]
    assert any("Verified against the file" in note for note in of_folder["notes"])
    assert [cost["length"] for cost in of_folder["costs"]] == [64]


def test_one_block_is_shown_for_all_unless_all_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, short, _ = run(capsys, "base")
    _, full, _ = run(capsys, "base", "--all")
    assert short.count("attention.query") == 1
    assert "each of 12 blocks" in short
    assert full.count("attention.query") == 12
    assert "block 11" in full
    for text in (short, full):
        assert "= all 12 blocks" in text
        assert "85,054,464" in text


def test_a_translator_has_sub_totals_for_each_side_and_no_costs(capsys: pytest.CaptureFixture[str]) -> None:
    answer = run_json(capsys, "transformer-base")
    assert answer["total"] == sum(group["count"] for group in answer["groups"]) == 48_242_496
    assert answer["includes"] == ["embeddings", "encoder", "decoder", "output"]
    names = [f"{side} block {index}" for side in ("encoder", "decoder") for index in range(6)]
    assert [group["name"] for group in answer["groups"]] == ["embeddings", *names, "output"]
    assert (answer["costs"], answer["totals"], answer["uncounted"]) == ([], {}, [])
    row = answer["groups"][7]["rows"][5]
    assert row["tensors"][0] == {"name": "decoder.blocks.0.cross_attention.query.weight", "shape": [512, 512]}
    assert (row["count"], row["bytes"], row["share"]) == (262_656, 4 * 262_656, 262_656 / 48_242_496)
    _, short, _ = run(capsys, "transformer-base")
    _, full, _ = run(capsys, "transformer-base", "--all")
    assert short.count(" attention.query") == 2
    assert full.count(" attention.query") == 12
    assert "each of 6 encoder blocks" in short
    assert "decoder block 5" in full
    for text in (short, full):
        rows = {line.split("  ")[0]: " ".join(line.split("  ")[1:]).split() for line in text.splitlines()}
        assert rows["= one decoder block"][0] == "4,204,032"
        assert rows["= all 6 encoder blocks"][0] == "18,914,304"
        assert rows["= all 6 decoder blocks"][0] == "25,224,192"
        assert rows["= total"] == ["48,242,496", "100.00%", "184.0", "MiB"]
        assert "ways to count" not in text
        assert "activations  " not in text
        assert "not given for translators" in text


def test_a_recurrent_translator_has_layers(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "lstm-small")
    rows = {line.split("  ")[0].strip(): line.split() for line in out.splitlines()}
    assert "each of 2 encoder layers" in rows
    assert rows["= one encoder layer"][4] == "395,264"
    assert rows["= all 2 decoder layers"][5] == "1,052,672"
    assert "E = 128 state of a direction" in out
    assert "= recurrence" not in rows


def test_a_pipe_gets_whole_lines_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, errors = run(capsys, "large-zh")
    assert (code, errors) == (0, "")
    assert "\x1b" not in out
    assert "…" not in out
    rows = {line.split("  ")[0].strip(): line for line in out.splitlines()}
    inner = "mlp.inner 4096 x 1024, 4096 D x I + I = 1024 x 4096 + 4096 4,198,400 1.29% 16.0 MiB"
    assert " ".join(rows["mlp.inner"].split()) == inner
    assert " ".join(rows["= total"].split()) == "= total 324,472,832 100.00% 1.2 GiB"
    assert not any(line != line.rstrip() for line in out.splitlines())


def test_notes_can_be_had_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "large-zh", "--lang", "zh")
    assert "第 j 个特征乘以 gamma[j]" in out
    assert "gamma[j], and beta[j] is added" not in out


def on_terminal(columns: int, *arguments: str) -> str:
    """Return what the command prints on a terminal of this many columns."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=theirs, stdin=theirs, env=environment)
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:
        pass  # the other side has closed: Linux says so by an error
    os.close(ours)
    assert process.wait() == 0
    return output.decode()


@pytest.mark.parametrize(("columns", "formula"), [(80, "D x I + I"), (120, "D x I + I = 1024 x 4096 + 4096")])
def test_no_row_is_broken_on_a_terminal(columns: int, formula: str) -> None:
    out = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(columns, "params", "large-zh"))
    lines = out.replace("\r", "").split("\n")
    assert max(map(len, lines)) <= columns
    inner = next(line for line in lines if "mlp.inner" in line)
    assert " ".join(inner.split()) == f"mlp.inner 4096 x 1024, 4096 {formula} 4,198,400 1.29% 16.0 MiB"


def test_no_row_of_a_translator_is_broken_on_a_narrow_terminal() -> None:
    out = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(80, "params", "transformer-big"))
    lines = out.replace("\r", "").split("\n")
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if "cross.output" in line)
    assert " ".join(row.split()) == "cross.output 1024 x 1024, 1024 D x D + D 1,049,600 0.57% 4.0 MiB"
    titles = [line.strip() for line in lines if "6 " in line and "blocks" in line]
    assert [title.split("  ")[0] for title in titles] == [
        "6 encoder blocks",
        "= all 6 blocks",
        "6 decoder blocks",
        "= all 6 blocks",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["huge"], 2, "no preset and no path 'huge'; expected a path or one of bert-tiny, bert-mini,"),
        (["no/such/folder"], 4, "no file or folder no/such/folder"),
        (["base", "--length", "513"], 2, "length=513; expected 1 to 512"),
        (["base", "--lang", "fr"], 2, "fr"),
        (["transformer-base", "--length", "9"], 2, "length=9, but costs of translators are not computed"),
        (["transformer-huge"], 2, "transformer-tiny, transformer-small"),
    ],
)
def test_a_mistake_is_one_line_with_its_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    got, out, errors = run(capsys, *arguments)
    assert (got, out) == (code, "")
    assert message in errors
    assert errors.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    with subprocess.Popen([*COMMAND, "params", "large", "--all"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0


def test_neither_preset_nor_config_waits_for_torch(folder: Path) -> None:
    code = (
        "import sys; from glassbert.cli.main import main; "
        "assert all(main(['params', source]) == 0 for source in sys.argv[1:]); "
        "assert 'torch' not in sys.modules"
    )
    translator = folder / "translator.json"
    translator.write_text(json.dumps(write_marian_config(TransformerConfig(), "float32")), encoding="utf-8")
    sources = ["base", "lstm-small", str(folder / "config.json"), str(translator)]
    command = [sys.executable, "-c", code, *sources]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
