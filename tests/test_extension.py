"""A task and a file format are added from outside; then everything knows them."""

import ast
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.data.rows.formats import FORMATS, formats_of
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.registry import TASKS, schema_of
from glassbert.tasks.tag.rows import TAG
from helpers import longer_task, own_objective
from helpers.longer_task import BLOCKS, ENTRY, SIDES, Sides, Verdict
from helpers.small_model import small_folder

ROOT = Path(__file__).parent.parent
SOURCE = Path(gb.__file__).parent
ROW = re.compile(r"^\| (an? [^|]+?) \|([^|]*)\|([^|]*)\|", re.MULTILINE)
MOST_FILES = {
    "a task": 5,
    "a format of labelled files": 2,
    "a head with a new part": 3,
    "an objective of pre-training": 4,
}


@pytest.fixture(scope="module", autouse=True)
def added() -> Iterator[None]:
    """Add the task and the format, and remove them after the tests."""
    gb.register(ENTRY)
    gb.register_format(BLOCKS)
    yield
    del TASKS[ENTRY.name], FORMATS[BLOCKS.name]


def write_blocks(path: Path, number: int, seed: int, *, names: tuple[str, str] = SIDES) -> Path:
    """Write rows of two texts of unlike lengths."""
    generator = random.Random(seed)
    rows = []
    for _ in range(number):
        short, long = (" ".join(generator.choices("abcdef", k=k)) for k in (2, generator.randrange(5, 9)))
        longer = generator.choice(SIDES)
        left, right = (long, short) if longer == "left" else (short, long)
        rows.append(f"{names[0]}: {left}\n{names[1]}: {right}\nlonger: {longer}\n")
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("longer")
    small_folder(folder / "model")
    write_blocks(folder / "train.blocks", 60, seed=0)
    write_blocks(folder / "dev.blocks", 20, seed=1)
    return folder


@pytest.fixture(scope="module")
def trained(given: Path) -> Path:
    """The folder of a run of the command line."""
    files = ["--model", given / "model", "--train", given / "train.blocks", "--dev", given / "dev.blocks"]
    changes = ["--set", "train.steps=25", "--set", "train.learning_rate=3e-3", "--set", "task.smoothing=0.1"]
    assert main(["train", "longer", *map(str, files), *changes, "--out", str(given / "run")]) == 0
    return given / "run"


def test_a_row_of_any_format_becomes_an_example_of_the_new_task(given: Path, tmp_path: Path) -> None:
    schema, rows = schema_of("longer"), read_examples(schema_of("longer"), given / "dev.blocks").examples
    lines = [json.dumps({"port": row.left, "starboard": row.right, "longer": row.longer}) for row in rows]
    (tmp_path / "dev.jsonl").write_text("\n".join(lines))
    (tmp_path / "dev.csv").write_text(
        "\n".join(["left,right,longer", *(",".join((*r.texts, r.longer)) for r in rows)])
    )
    for name in ("dev.jsonl", "dev.csv"):
        assert [row.gold for row in read_examples(schema, tmp_path / name).examples] == [r.gold for r in rows]
    (tmp_path / "bad.jsonl").write_text('{"left": "a", "right": "b", "longer": "both"}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl:1: the longer side is 'both'; expected left or right"):
        read_examples(schema, tmp_path / "bad.jsonl")


@pytest.mark.parametrize("extension", [longer_task, own_objective])
def test_an_extension_needs_nothing_from_inside_the_package(extension: ModuleType) -> None:
    tree = ast.parse(Path(str(extension.__file__)).read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name for name in modules if name and name.startswith("glassbert")} == {
        "glassbert",
        "glassbert.extension",
    }


def test_every_task_reads_the_new_format(tmp_path: Path) -> None:
    assert all("blocks" in formats_of(schema_of(task)) for task in TASKS)
    (tmp_path / "a.txt").write_text("text: Ann left\nlabel: home\n")
    assert read_examples(TAG, tmp_path / "a.txt").format == "text"  # it is not seen without its first words
    (tmp_path / "a.blocks").write_text("text: Ann left\nlabel: home\n\ntext: Bob came\nlabel: away\n")
    table = read_examples(schema_of("classify"), tmp_path / "a.blocks")
    assert [(row.text, row.labels) for row in table.examples] == [
        ("Ann left", ("home",)),
        ("Bob came", ("away",)),
    ]


def test_a_new_format_is_detected_without_its_suffix(given: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_bytes((given / "dev.blocks").read_bytes())
    assert read_examples(schema_of("longer"), tmp_path / "rows.txt").format == "blocks"


def test_the_command_line_trains_evaluates_and_predicts(
    given: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["evaluate", str(trained), str(given / "dev.blocks"), "--json", "--min", "accuracy=0"]) == 0
    evaluation = json.loads(capsys.readouterr().out)
    assert (evaluation["task"], evaluation["examples"]) == ("longer", 20)
    reported = json.loads((trained / "best" / "run.json").read_text())
    assert reported["metrics"]["accuracy"] == evaluation["metrics"]["accuracy"]
    assert main(["evaluate", str(trained), str(given / "dev.blocks")]) == 0
    assert "accuracy" in capsys.readouterr().out
    assert main(["predict", str(trained), str(given / "dev.blocks")]) == 0
    predictions = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    rows = read_examples(schema_of("longer"), given / "dev.blocks").examples
    is_right = [one["longer"] == row.longer for one, row in zip(predictions, rows, strict=True)]
    assert sum(is_right) / len(is_right) == evaluation["metrics"]["accuracy"]
    assert (trained / "report.html").is_file()


def test_a_loaded_model_takes_items_of_the_new_task(trained: Path) -> None:
    model = gb.load(trained)
    assert model.task.name == "longer"
    items = [
        ("a", "b c d e f a"),
        {"left": "a", "right": "b c d e f a"},
        {"port": "a", "starboard": "b c d e f a"},
    ]
    first, *others = model.predict(items)
    assert isinstance(first, Verdict)
    assert others == [first, first]
    with pytest.raises(UserError, match="item 0: expected 2 texts for longer, got 1"):
        model.predict(["a"])


def test_python_trains_the_new_task(given: Path, tmp_path: Path) -> None:
    files = {"model": given / "model", "train": given / "train.blocks", "dev": given / "dev.blocks"}
    result = gb.train("longer", **files, out=tmp_path / "run", steps=1)
    assert result.best_by == "accuracy"


def test_help_lists_the_new_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--help"]) == 0
    assert ENTRY.help in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_a_name_is_given_once() -> None:
    with pytest.raises(UserError, match="there is a task 'longer' already"):
        gb.register(ENTRY)
    with pytest.raises(UserError, match="there is a format 'blocks' already"):
        gb.register_format(BLOCKS)


def test_an_example_is_what_the_rest_of_the_package_needs() -> None:
    row = Sides("a", "b c", "right", "f:1")
    assert (row.texts, row.labels, row.is_labelled, row.gold) == (("a", "b c"), ("right",), True, "right")


def test_the_page_for_contributors_names_files_that_exist() -> None:
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(rows) >= 10
    for what, written, touched in rows:
        new, old = re.findall(r"`([^`]+)`", written), re.findall(r"`([^`]+)`", touched)
        assert old, what
        for name in old:
            assert (SOURCE / name).is_file(), f"{what}: no file {name}"
        for name in new:
            room, _, file = name.partition("NAME")
            assert (SOURCE / room).is_dir(), f"{what}: no folder {room}"
            if file.startswith("/"):  # one of several files of a folder, such as those of the other tasks
                assert (SOURCE / room / "classify" / file[1:]).is_file(), f"{what}: the others have no {file}"
        assert len(new) + len(old) <= MOST_FILES.get(what, len(new) + len(old)), f"{what}: too many files"
    assert {what for what, _, _ in rows} >= set(MOST_FILES)


@pytest.mark.parametrize("task", ["classify", "tag", "answer"])
def test_every_task_has_the_same_files(task: str) -> None:
    names = {path.name for path in (SOURCE / "tasks" / task).glob("*.py")}
    assert {"task.py", "rows.py", "labels.py", "settings.py", "predictions.py", "mistakes.py"} <= names
