import io
import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from full_disk import disk
from glassbert.cli import live, output
from glassbert.cli.main import main
from glassbert.data.batching import PretrainBatch
from glassbert.tasks.pretrain import Pretrain
from glassbert.text.tokenizer import Tokenizer
from glassbert.text.vocabulary import SPECIALS, Vocabulary

WORDS = ("the", "a", "cat", "dog", "bird", "sat", "ran", "flew", "home", "far", ".")
RECIPE = """
[data]
corpus = "{corpus}"
[model]
preset = "tiny"
hidden_size = 32
intermediate_size = 64
max_position_embeddings = 32
[objective]
max_length = 32
[train]
steps = 6
batch_tokens = 128
save_every = 2
log_every = 2
"""


def documents(num_documents: int) -> str:
    """Return documents of three sentences, no two of them alike."""
    texts = []
    for number in range(num_documents):
        subject, verb, place = WORDS[2 + number % 3], WORDS[5 + number // 3 % 3], WORDS[8 + number // 9 % 2]
        texts.append(f"the {subject} {verb} {place} .\na {subject} sat .\nthe {subject} ran far .\n")
    return "\n".join(texts)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, a text and its corpus."""
    folder = tmp_path_factory.mktemp("built")
    Tokenizer(Vocabulary((*SPECIALS, *WORDS))).save(folder / "tokenizer")
    (folder / "text.txt").write_text(documents(18), encoding="utf-8")
    assert build(folder, folder / "corpus") == 0
    return folder


def build(folder: Path, out: Path, *options: str) -> int:
    arguments = ["corpus", "build", folder / "text.txt", "--tokenizer", folder / "tokenizer", "--out", out]
    return main([*map(str, arguments), "--processes", "1", *options])


@pytest.fixture
def recipe(built: Path, tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.format(corpus=built / "corpus"), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["pretrain", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_pretrain_prints_the_folder_of_the_model_and_tells_the_rest_on_stderr(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code, printed, errors = run(capsys, recipe, "--out", out)
    assert (code, printed) == (0, f"{out / 'last'}\n")
    assert [line.split()[1] for line in errors.splitlines() if line.startswith("step ")] == ["2", "4", "6"]
    assert " GB " in errors
    code, printed, errors = run(capsys, recipe, "--out", out, "--json")
    assert (code, json.loads(printed)["step"], errors) == (0, 6, "going on from checkpoint-6\n")


def test_on_a_terminal_a_display_takes_the_place_of_the_lines(
    recipe: Path, tmp_path: Path, built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = Console(file=io.StringIO(), force_terminal=True, width=100, highlight=False)
    for module in (live, output):
        monkeypatch.setattr(module, "messages", drawn)
    held_out = f"data.held_out={built / 'corpus'}"
    assert main(["pretrain", str(recipe), "--set", held_out, "--out", str(tmp_path / "run")]) == 0
    assert isinstance(drawn.file, io.StringIO)
    text = drawn.file.getvalue()
    assert "step 6/6" in text
    assert "100%" in text
    assert "held out: mlm_loss" in text, "the verdict stays"
    assert not [line for line in text.splitlines() if line.startswith("step ")]


def test_what_the_corpus_holds_out_is_measured_unless_other_text_is_named(
    recipe: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus"
    assert build(built, corpus, "--held-out", "0.3") == 0
    arguments = (recipe, "--set", f"data.corpus={corpus}", "--out", tmp_path / "run")
    code, _, errors = run(capsys, *arguments)
    assert code == 0
    assert f"measuring on {corpus / 'held-out'}, which was held out of the corpus" in errors
    assert "held out: mlm_loss" in errors
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()
    tables = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert tables["data"]["held_out"] == str(corpus / "held-out"), "the run's recipe tells all"
    code, _, errors = run(capsys, *arguments)
    assert (code, "going on from checkpoint-6" in errors) == (0, True)
    named = ("--set", f"data.held_out={built / 'corpus'}", "--out", tmp_path / "named")
    assert "measuring on" not in run(capsys, recipe, "--set", f"data.corpus={corpus}", *named)[2]


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_is_one_line_and_exit_1_and_the_same_command_goes_on(
    recipe: Path,
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(capsys, recipe, "--out", tmp_path / "straight")[0] == 0
    batch = Pretrain.batch
    with disk(kind, tmp_path / "disk", 8_000_000) as small:

        def batch_on_a_full_disk(task: Pretrain, step: int) -> PretrainBatch:
            if step == 3:
                small.fill(30_000)
            return batch(task, step)

        monkeypatch.setattr(Pretrain, "batch", batch_on_a_full_disk)
        out = small.folder / "run"
        code, printed, errors = run(capsys, recipe, "--out", out)
        assert (code, printed) == (1, "")
        [line] = [line for line in errors.splitlines() if line.startswith("glassbert: ")]
        assert errors.endswith(line + "\n")
        assert "no space left on its disk; checkpoint-2 is whole" in line
        monkeypatch.undo()
        small.clear()
        code, printed, errors = run(capsys, recipe, "--out", out)
        assert (code, "going on from checkpoint-2" in errors) == (0, True)
        for name in ("last/model.safetensors", "metrics.jsonl"):
            assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
