"""Folders of files: nothing twice, nothing lost, in order, whatever is killed; bad rows keep their place."""

import gc
import gzip
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import glassbert as gb
from glassbert.bulk.api import FilesProgress
from glassbert.bulk.plan import RECORDS
from glassbert.bulk.processes import run_in_processes
from glassbert.cli.main import main
from helpers.dying_job import GIVEN_UP, errors_of
from helpers.many_files import outputs, texts, write_many, write_text
from helpers.oracles import make_oracle, save_oracle

NUM_FILES, NUM_ROWS = 12, 100


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_oracle(make_oracle("BertForPreTraining"), tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    oracle = make_oracle("BertForSequenceClassification", num_labels=2)
    return save_oracle(oracle, tmp_path_factory.mktemp("classifier"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_many(tmp_path_factory.mktemp("many"), NUM_FILES, NUM_ROWS)


@pytest.fixture(scope="module")
def expected(bert: Path, many: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The outputs of an undisturbed run in one process."""
    out = tmp_path_factory.mktemp("expected")
    gb.embed_files(bert, many, out)
    return outputs(out)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_format_is_embedded_in_the_order_of_its_rows(bert: Path, tmp_path: Path) -> None:
    rows = texts(5)
    write_text(tmp_path / "in/plain.txt", rows)
    with gzip.open(tmp_path / "in/packed.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"id": 1, "text": row}) + "\n" for row in rows)
    (tmp_path / "in/deep").mkdir()
    pq.write_table(pa.table({"number": range(5), "text": rows}), tmp_path / "in/deep/table.parquet")
    write_text(tmp_path / "in/sheet.csv", ["id,review", *(f"1,{row}" for row in rows)])
    options = gb.ReadOptions()
    result = gb.embed_files(bert, tmp_path / "in", tmp_path / "out", options=options)
    expected = gb.load(bert).embed(rows)
    names = ["deep/table.jsonl", "packed.jsonl", "plain.jsonl", "sheet.jsonl"]
    assert sorted(outputs(tmp_path / "out")) == names
    for name in names:
        found = lines_of(tmp_path / "out" / name)
        np.testing.assert_allclose([row["embedding"] for row in found], expected, atol=1e-6)
        assert tuple(row["tokens"] for row in found) == expected.tokens
    assert (result.rows, result.bad_rows, result.failed) == (20, 0, ())


def test_vectors_in_parquet_are_plain_lists_that_any_reader_knows(bert: Path, tmp_path: Path) -> None:
    write_text(tmp_path / "in/a.txt", ["a b", "", "c " * 100])
    gb.embed_files(bert, tmp_path / "in", tmp_path / "out", to="parquet")
    table = pq.read_table(tmp_path / "out/a.parquet")
    expected = gb.load(bert).embed(["a b", "", "c " * 100])
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), expected.shape[1])
    rows = table.to_pylist()
    np.testing.assert_allclose([row["embedding"] for row in rows], expected, atol=1e-6)
    assert [row["truncated"] for row in rows] == [False, False, True]
    assert [row["error"] for row in rows] == [None] * 3


def test_a_file_that_cannot_be_read_leaves_no_parquet_and_no_complaint(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "in/good.txt", texts(3))
    write_text(tmp_path / "in/open.csv", ["text", "a", '"never closed'])
    ignored: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    result = gb.embed_files(bert, tmp_path / "in", tmp_path / "out", to="parquet", processes=1)
    gc.collect()
    assert not ignored, "a writer was closed after its file"
    assert len(result.failed) == 1
    assert [path.name for path in (tmp_path / "out").glob("*.parquet")] == ["good.parquet"]


def test_predictions_of_files_are_those_of_python(classifier: Path, tmp_path: Path) -> None:
    write_text(tmp_path / "in/a.txt", texts(4))
    gb.predict_files(classifier, tmp_path / "in", tmp_path / "out", task="classify")
    expected = [one.to_json() for one in gb.load(classifier).predict(texts(4))]
    found = lines_of(tmp_path / "out/a.jsonl")
    assert [row["label"] for row in found] == [row["label"] for row in expected]
    assert [row["score"] for row in found] == pytest.approx([row["score"] for row in expected], abs=1e-6)


def test_a_bad_row_keeps_its_place_and_is_counted(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(tmp_path / "in/a.jsonl", ['{"text": "a"}', '{"texxt": "b"}', "{", '{"text": "c"}'])
    arguments = ["embed", str(bert), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--processes", "1"]
    assert main(arguments) == 3
    assert "2 of 4 rows could not be used; the first: a.jsonl:2: no text" in capsys.readouterr().err
    rows = lines_of(tmp_path / "out/a.jsonl")
    assert ["error" in row for row in rows] == [False, True, True, False]
    assert [row["where"] for row in rows[1:3]] == ["a.jsonl:2", "a.jsonl:3"]
    assert main([*arguments, "--skip-bad", "2"]) == 0
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (manifest["rows"], manifest["bad_rows"], manifest["is_complete"]) == (4, 2, True)


def test_a_file_that_cannot_be_read_does_not_stop_the_others_and_is_tried_again(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text(tmp_path / "in/a.txt", ["a"])
    (tmp_path / "in/picture.png").write_bytes(b"\x89PNG\xff\xfe\n\xff")
    write_text(tmp_path / "in/z.txt", ["b"])
    arguments = ["embed", str(bert), str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--processes", "1"]
    assert main(arguments) == 3
    assert "1 of 3 files could not be read; the first: picture.png:1: byte 1" in capsys.readouterr().err
    assert sorted(outputs(tmp_path / "out")) == ["a.jsonl", "z.jsonl"]
    assert not json.loads((tmp_path / "out/manifest.json").read_text())["is_complete"]
    write_text(tmp_path / "in/picture.png", ["c"])
    assert main(arguments) == 0
    assert "2 of 3 files were done before" in capsys.readouterr().err
    assert sorted(outputs(tmp_path / "out")) == ["a.jsonl", "picture.jsonl", "z.jsonl"]


def test_only_files_that_changed_are_done_again(bert: Path, tmp_path: Path) -> None:
    folder, out = write_many(tmp_path / "in", 3, 4), tmp_path / "out"
    gb.embed_files(bert, folder, out)
    before = {name: (out / name).stat().st_ino for name in outputs(out)}
    write_text(folder / "part-01.txt", ["a b c"])
    (out / "part-02.jsonl").unlink()
    result = gb.embed_files(bert, folder, out)
    assert result.num_before == 1
    assert (out / "part-00.jsonl").stat().st_ino == before["part-00.jsonl"]
    assert len(lines_of(out / "part-01.jsonl")) == 1
    assert len(lines_of(out / "part-02.jsonl")) == 4


def test_outputs_of_files_that_are_gone_are_named(bert: Path, tmp_path: Path) -> None:
    folder = write_many(tmp_path / "in", 2, 1)
    gb.embed_files(bert, folder, tmp_path / "out")
    (folder / "part-01.txt").unlink()
    lines: list[str] = []
    gb.embed_files(bert, folder, tmp_path / "out", log=lines.append)
    assert lines[1] == "part-01.jsonl: its input no longer exists; remove it if you do not need it"


KILLED = """
import os, signal, sys
import glassbert as gb

def kill_all(progress):
    if progress.files_done >= 2:
        os.kill(os.getpid(), signal.SIGKILL)

gb.embed_files(*sys.argv[1:], processes=2, on_progress=kill_all)
"""


def until(happened: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def num_recorded(out: Path) -> int:
    """Return how many files are done: an output without its record is done again."""
    return len(list((out / RECORDS).glob("*.json")))


def test_a_run_that_is_killed_resumes_and_nothing_is_lost_or_there_twice(
    bert: Path, many: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, bert, many, out])
    assert killed.returncode == -signal.SIGKILL
    until(lambda: not _is_locked(out))
    # Each of its processes may still have ended the file that it was given.
    done = num_recorded(out)
    assert 2 <= done <= 2 + 2
    result = gb.embed_files(bert, many, out)
    assert result.num_before >= done
    assert outputs(out) == expected
    assert len(expected) == NUM_FILES


def _is_locked(out: Path) -> bool:
    """Return whether a run is still in the folder: the processes of a killed one end a little later."""
    import fcntl

    descriptor = os.open(out, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_a_process_that_is_killed_is_replaced(
    bert: Path, many: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    seen: list[FilesProgress] = []
    victims: list[int] = []

    def kill_one(progress: FilesProgress) -> None:
        seen.append(progress)
        # Not at once: a process that dies while it loads the model ends the run.
        if not victims and progress.files_done > NUM_FILES // 3:
            (victim, *_) = multiprocessing.active_children()
            assert victim.pid is not None
            victims.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)

    result = gb.embed_files(bert, many, out, processes=2, on_progress=kill_one)
    assert result.failed == ()
    assert result.rows == NUM_FILES * NUM_ROWS
    assert seen[-1] == FilesProgress(files_done=NUM_FILES, num_files=NUM_FILES, num_rows=NUM_FILES * NUM_ROWS)
    assert outputs(out) == expected
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_file_that_ends_every_process_is_given_up_and_the_others_are_done(
    bert: Path, tmp_path: Path
) -> None:
    assert errors_of(run_in_processes, bert, tmp_path) == GIVEN_UP


def test_a_broken_model_is_one_message_of_the_parent(bert: Path, tmp_path: Path) -> None:
    folder = write_many(tmp_path / "in", 2, 1)
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in bert.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    (broken / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(gb.ModelError, match="model.safetensors"):
        gb.embed_files(broken, folder, tmp_path / "out", processes=2)
    assert outputs(tmp_path / "out") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["embed", "@bert", "@in"], "name the folder of the results with --out FOLDER"),
        (["predict", "@bert", "@in"], "@in is a folder; name the folder of the results with --out FOLDER"),
        (["embed", "@bert", "@in", "--out", "@in/out"], "@in/out lies within @in, whose files are all read"),
        (["embed", "@bert", "@in/a.txt", "--to", "parquet"], "are for a folder of files; leave them out"),
        (["embed", "@bert", "@in/a.txt", "--processes", "2"], "--processes is for a folder of files"),
        (["predict", "@bert", "@in/a.txt", "--engine", "ray"], "--engine is for a folder of files"),
        (["embed", "@bert", "@in", "--out", "@full"], "@full is not empty, and holds no such run"),
        (["embed", "@bert", "@twins", "--out", "@new"], "a.txt would have the same output as @twins/a.jsonl"),
        (["embed", "@bert", "@empty", "--out", "@new"], "@empty: no file in this folder"),
        (["embed", "@nowhere", "@in", "--out", "@new"], "no model in @nowhere"),
        (["embed", "@bert", "@in", "--out", "@new", "--prompt-name", "qery"], "has no prompt 'qery'"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    arguments: list[str], message: str, bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("in/a.txt", "full/mine.txt", "twins/a.txt", "twins/a.jsonl"):
        write_text(tmp_path / name, ["a b"])
    (tmp_path / "empty").mkdir()
    (tmp_path / "bert").symlink_to(bert)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert main([word.replace("@", f"{tmp_path}/") for word in arguments]) in (2, 3, 4)
    assert message.replace("@", f"{tmp_path}/") in capsys.readouterr().err
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_results_of_another_job_are_never_mixed(bert: Path, classifier: Path, tmp_path: Path) -> None:
    folder, out = write_many(tmp_path / "in", 1, 1), tmp_path / "out"
    gb.embed_files(bert, folder, out)
    with pytest.raises(gb.UserError, match="results of another job .it differs in: keep.; name another"):
        gb.embed_files(bert, folder, out, keep="tail")
    with pytest.raises(gb.UserError, match="differs in: model_sha256"):
        gb.embed_files(classifier, folder, out)
    with pytest.raises(gb.UserError, match="differs in: verb"):
        gb.predict_files(classifier, folder, out)


def test_a_job_that_was_refused_at_its_start_leaves_its_folder_to_the_next(
    classifier: Path, tmp_path: Path
) -> None:
    folder, out = write_many(tmp_path / "in", 1, 1), tmp_path / "out"
    with pytest.raises(gb.UserError, match="no threshold for an accuracy of 0.9"):
        gb.predict_files(classifier, folder, out, accuracy=0.9)
    assert gb.predict_files(classifier, folder, out).rows == 1
