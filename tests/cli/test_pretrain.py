import io
import json
import shutil
import signal
import tomllib
from pathlib import Path

import pytest
import torch
from rich.console import Console

from glassbert.cli import live, output
from glassbert.cli.main import main
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import UserError
from glassbert.runs.pretrain import PretrainRecipe, make_model
from glassbert.storage import locked
from glassbert.tasks.pretraining import Pretrain
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.full_disk import disk
from helpers.small_model import small_folder

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


def test_pretrain_prints_the_folder_of_the_model_and_logs_the_rest_on_stderr(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    code, printed, errors = run(capsys, recipe, "--out", out)
    assert (code, printed) == (0, f"{out / 'last'}\n")
    assert [line.split()[1] for line in errors.splitlines() if line.startswith("step ")] == ["2", "4", "6"]
    assert " GB " in errors
    code, printed, errors = run(capsys, recipe, "--out", out, "--json")
    assert (code, json.loads(printed)["step"], errors) == (0, 6, "resuming from checkpoint-6\n")


def test_on_a_terminal_a_display_replaces_the_lines(
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


def test_the_corpus_is_measured_on_its_own_held_out_text_unless_other_text_is_named(
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
    assert (code, "resuming from checkpoint-6" in errors) == (0, True)
    named = ("--set", f"data.held_out={built / 'corpus'}", "--out", tmp_path / "named")
    assert "measuring on" not in run(capsys, recipe, "--set", f"data.corpus={corpus}", *named)[2]


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_is_one_line_and_exit_1_and_the_same_command_resumes(
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
        assert "no space left on its disk; checkpoint-2 is intact" in line
        monkeypatch.undo()
        small.clear()
        code, printed, errors = run(capsys, recipe, "--out", out)
        assert (code, "resuming from checkpoint-2" in errors) == (0, True)
        for name in ("last/model.safetensors", "metrics.jsonl"):
            assert (out / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def test_bfloat16_trains_nearly_as_single_precision_does(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = {}
    for precision in ("float32", "bfloat16"):
        out = tmp_path / precision
        assert run(capsys, recipe, "--set", f"train.precision={precision}", "--out", out)[0] == 0
        losses[precision] = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["mlm_loss"]
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.01)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("train.stepz=7", 2, "unknown key train.stepz; did you mean train.steps?"),
        ("trian.steps=7", 2, "unknown key recipe.trian; did you mean recipe.train?"),
        ("train.steps=many", 2, "train.steps='many'; expected a whole number"),
        ("train.batch_tokens=31", 2, "batch_tokens=31 is less than a sequence of max_length=32"),
        ("objective.max_length=64", 2, "objective.max_length=64 exceeds model.max_position_embeddings=32"),
        ("model.vocab_size=8", 2, "model.vocab_size=8 is less than the 16 pieces of the corpus"),
        ("model.num_attention_heads=3", 2, "is not divisible by num_attention_heads=3"),
        ("model.neighbour_heads=1", 2, "model.neighbour_heads=1; expected true or false"),
        ("model.start=nowhere", 4, "no folder nowhere"),
        ("train.device=cuda", 2, "torch sees no GPU"),
        ("data.corpus=nowhere", 3, "no manifest.json in nowhere"),
        ("data.held_out=nowhere", 3, "no manifest.json in nowhere"),
    ],
)
def test_an_impossible_setting_is_one_line_and_leaves_no_folder(
    recipe: Path, tmp_path: Path, change: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "cuda" in change and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    fails(capsys, code, message, recipe, "--set", change, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def fails(capsys: pytest.CaptureFixture[str], code: int, message: str, *arguments: object) -> None:
    """Run the verb, which must end with ``code`` and one line that holds ``message``."""
    found, printed, errors = run(capsys, *arguments)
    assert (found, printed) == (code, "")
    assert errors.startswith("glassbert: ")
    assert errors.count("\n") == 1
    assert message in errors


def test_a_recipe_that_is_none_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fails(capsys, 2, "nowhere.toml: No such file", "nowhere.toml")
    (tmp_path / "recipe.toml").write_text("[train")
    fails(capsys, 2, "not TOML", tmp_path / "recipe.toml")


def test_one_document_has_no_next_sentence_and_is_exit_3(
    recipe: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("the cat sat .\na dog ran .\nthe bird flew home .\n")
    shutil.copytree(built / "tokenizer", tmp_path / "tokenizer")
    assert build(tmp_path, tmp_path / "single", "--form", "sentences") == 0
    single = ("--set", f"data.corpus={tmp_path / 'single'}")
    fails(capsys, 3, "the corpus is one document", recipe, *single, "--out", tmp_path / "run")
    held_out = ("--set", f"data.held_out={tmp_path / 'single'}")
    place = f"data.held_out={tmp_path / 'single'}: the corpus is one document"
    fails(capsys, 3, place, recipe, *held_out, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert run(capsys, recipe, *single, "--set", "objective.name=mlm", "--out", tmp_path / "run")[0] == 0


def test_another_vocabulary_than_that_of_the_shards_is_exit_4(
    recipe: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Tokenizer(Vocabulary((*SPECIALS, *WORDS, "new")))
    other.save(tmp_path / "tokenizer")
    shutil.copy(built / "text.txt", tmp_path / "text.txt")
    assert build(tmp_path, tmp_path / "other") == 0
    held_out = ("--set", f"data.held_out={tmp_path / 'other'}", "--out", tmp_path / "run")
    fails(capsys, 4, "built with another vocabulary (17 pieces)", recipe, *held_out)
    shutil.copytree(built / "corpus", tmp_path / "mixed")
    other.save(tmp_path / "mixed", overwrite=True)
    mixed = ("--set", f"data.corpus={tmp_path / 'mixed'}", "--out", tmp_path / "run")
    fails(capsys, 4, "built with another vocabulary (16 pieces)", recipe, *mixed)
    assert not (tmp_path / "run").exists()
    assert run(capsys, recipe, "--set", f"data.corpus={tmp_path / 'other'}", "--out", tmp_path / "17")[0] == 0
    path = tmp_path / "further.toml"
    path.write_text(recipe.read_text().split("[model]")[0] + "[objective]\nmax_length = 32\n")
    further = (path, "--set", "train.steps=2", "--out", tmp_path / "further")
    from_17 = ("--set", f"model.start={tmp_path / '17' / 'last'}")
    fails(capsys, 4, "than the one given (17 pieces", *further, *from_17)
    assert not (tmp_path / "further").exists()
    own = ("--set", f"data.corpus={tmp_path / 'other'}")
    bigger = ("--set", "model.preset=base")
    fails(
        capsys, 2, "model.num_hidden_layers is 12 in the recipe and 2 in", *further, *from_17, *own, *bigger
    )
    assert run(capsys, *further, *from_17, *own)[0] == 0


@pytest.mark.parametrize(("name", "size"), [("shard-00000.ids", -1), ("shard-00000.words", None)])
def test_a_damaged_corpus_is_exit_3(
    recipe: Path, built: Path, tmp_path: Path, name: str, size: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(built / "corpus", tmp_path / "damaged")
    path = tmp_path / "damaged" / name
    if size is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:size])
    damaged = ("--set", f"data.corpus={tmp_path / 'damaged'}", "--out", tmp_path / "run")
    fails(capsys, 3, f"{path}: ", recipe, *damaged)


def test_a_line_of_a_megabyte_is_trained_on(
    recipe: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("the cat sat " * 90_000 + "\n\n" + documents(2))
    shutil.copytree(built / "tokenizer", tmp_path / "tokenizer")
    assert build(tmp_path, tmp_path / "long", "--form", "sentences") == 0
    long = ("--set", f"data.corpus={tmp_path / 'long'}", "--out", tmp_path / "run")
    assert run(capsys, recipe, *long)[0] == 0


def test_a_folder_of_another_run_is_exit_2_and_keeps_what_it_holds(
    recipe: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(capsys, recipe, "--out", out)[0] == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    other = ("--set", "train.learning_rate=0.5", "--out", out)
    fails(capsys, 2, f"{out} holds a run with another train.learning_rate (0.0001, now 0.5)", recipe, *other)
    # The same settings on text that has changed under the same name.
    (tmp_path / "text.txt").write_text(documents(17))
    shutil.copytree(built / "tokenizer", tmp_path / "tokenizer")
    shutil.copytree(built / "corpus", tmp_path / "kept")
    try:
        assert build(tmp_path, built / "corpus", "--force") == 0
        fails(capsys, 3, "data.corpus is not the text that", recipe, "--out", out)
    finally:
        shutil.rmtree(built / "corpus")
        shutil.copytree(tmp_path / "kept", built / "corpus")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").touch()
    fails(capsys, 2, "is not empty and holds no run", recipe, "--out", tmp_path / "thesis")


def test_a_run_that_is_asked_to_stop_is_exit_130_and_resumes(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Pretrain.batch

    def batch_and_signal(task: Pretrain, step: int) -> PretrainBatch:
        if step == 2:
            signal.raise_signal(signal.SIGINT)
        return batch(task, step)

    monkeypatch.setattr(Pretrain, "batch", batch_and_signal)
    code, printed, errors = run(capsys, recipe, "--out", tmp_path / "run")
    assert (code, printed) == (130, "")
    assert errors.splitlines()[-1].startswith("glassbert: stopped at step 3, saved in ")
    monkeypatch.undo()
    assert "resuming from checkpoint-3" in run(capsys, recipe, "--out", tmp_path / "run")[2]


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_works(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run", "the first"):
        fails(capsys, 2, "is in use by another run; wait", recipe, "--out", tmp_path / "run")
    assert run(capsys, recipe, "--out", tmp_path / "run")[0] == 0


def test_a_model_with_fewer_rows_than_the_corpus_has_pieces_is_refused(tmp_path: Path) -> None:
    small_folder(tmp_path)
    recipe = PretrainRecipe.of(
        {
            "data": {"corpus": "c"},
            "model": {"start": str(tmp_path)},
            "objective": {"max_length": 32},
            "train": {"steps": 1},
        }
    )
    assert make_model(recipe, 80).config.encoder.vocab_size == 80
    with pytest.raises(UserError, match="the model has 80 rows, fewer than the 81 pieces of the corpus"):
        make_model(recipe, 81)
