import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from glassbert.errors import ModelError, RunFailed
from glassbert.storage import new_folder, sweep
from glassbert.training.checkpoint import (
    MANIFEST,
    Progress,
    Snapshot,
    checkpoints,
    forget_stops,
    newest_good,
    restore_moments,
    save_checkpoint,
    verify,
)
from glassbert.training.log import forget_after
from helpers.full_disk import disk
from helpers.small_run import STEPS, run, small_task, with_event

SAME = ("last/model.safetensors", "metrics.jsonl", f"checkpoint-{STEPS}/training.safetensors")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return folder


# The room that is left decides where the write fails: in a log, in the model or in the optimiser's file.
@pytest.mark.parametrize("room", [0, 40_000, 250_000])
@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_leaves_the_last_checkpoint_and_the_run_resumes_when_there_is_room(
    tmp_path: Path, uninterrupted: Path, kind: str, room: int
) -> None:
    with disk(kind, tmp_path / "disk", 8_000_000) as small:
        folder = small.folder / "run"
        task = with_event(small_task(), 7, lambda: small.fill(room))
        with pytest.raises(
            RunFailed, match=r"no space left on its disk; checkpoint-6 is intact: free some space"
        ):
            run(folder, task)
        assert [path.name for path in checkpoints(folder)] == ["checkpoint-3", "checkpoint-6"]
        verify(folder / "checkpoint-6")
        assert not list(folder.glob(".*")), "nothing half-written is left"
        small.clear()
        reported: list[str] = []
        assert run(folder, reported=reported).is_finished
        assert "resuming from checkpoint-6" in reported
        for name in SAME:
            assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_disk_that_is_full_from_the_start_says_that_nothing_was_saved(tmp_path: Path, kind: str) -> None:
    with disk(kind, tmp_path / "disk", 2_000_000) as small:
        small.fill(0)
        with pytest.raises(RunFailed, match="no space left on its disk; nothing was saved yet"):
            run(small.folder / "run")
        assert newest_good(small.folder / "run", print) is None


def test_lines_that_were_cut_off_are_forgotten_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = [json.dumps({"step": step}) + "\n" for step in range(1, 6)]
    path.write_text("".join([*whole[:3], '{"ste', *whole[3:], '{"step": 4']))
    forget_after(path, 4)
    assert path.read_text() == "".join(whole[:3])


def test_a_folder_whose_replacement_was_killed_halfway_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "model").write_text("good")
    rename, renamed = os.replace, list[Path]()

    def die_between_two(source: Path, target: Path) -> None:
        if renamed:
            raise KeyboardInterrupt
        renamed.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", die_between_two)
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "best", overwrite=True):
        pass
    monkeypatch.undo()
    assert not (tmp_path / "best").exists()
    (tmp_path / ".best.0123abcd.part").mkdir()  # a kill, unlike Ctrl-C, leaves this too
    sweep(tmp_path)
    assert os.listdir(tmp_path) == ["best"]
    assert (tmp_path / "best" / "model").read_text() == "good"


def test_left_overs_are_swept_be_they_files_or_folders_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("best", ".best.0123abcd.old", ".last.0123abcd.part"):
        (tmp_path / name).mkdir()
    for name in (".recipe.toml.0123abcd.part", ".notes.old"):
        (tmp_path / name).touch()
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".notes.old", "best"]


def test_of_the_checkpoints_of_stops_the_one_to_resume_from_stays(tmp_path: Path) -> None:
    for step in (3, 4, 6, 7, 8):
        snapshot = Snapshot(Progress(step=step), {"weight": torch.zeros(1)})
        save_checkpoint(tmp_path, snapshot, lambda folder: None, keep=9)
    (tmp_path / "checkpoint-8" / MANIFEST).write_text("{}")
    forget_stops(tmp_path, 3)
    assert [path.name for path in checkpoints(tmp_path)] == [f"checkpoint-{step}" for step in (3, 6, 7, 8)]


def save_empty(run: Path, step: int, keep: int) -> Path:
    snapshot = Snapshot(Progress(step=step), {"weight": torch.zeros(1)})
    return save_checkpoint(run, snapshot, lambda folder: None, keep=keep)


def test_an_old_checkpoint_with_a_file_of_others_is_not_deleted(tmp_path: Path) -> None:
    save_empty(tmp_path, 1, keep=2)
    notes = save_empty(tmp_path, 2, keep=2) / "notes.txt"
    notes.write_text("mine")
    for step in (3, 4, 5):
        save_empty(tmp_path, step, keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == [f"checkpoint-{step}" for step in (2, 4, 5)]
    forget_stops(tmp_path, 10)
    assert notes.read_text() == "mine"
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-2", "checkpoint-5"]


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_a_file_in_the_place_of_a_checkpoint_is_refused_before_anything_is_trained(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    save_empty(tmp_path, 1, keep=2)
    make(tmp_path / "checkpoint-7")
    with pytest.raises(ModelError, match="checkpoint-7: a file where a checkpoint belongs; remove it"):
        newest_good(tmp_path, lambda line: None)


def test_the_memory_of_the_optimiser_comes_back_to_where_its_parameters_are() -> None:
    parameter = torch.nn.Parameter(torch.empty(2, device="meta"))
    optimizer = torch.optim.AdamW([parameter])
    tensors = {f"optimizer.{moment}.w": torch.zeros(2) for moment in ("exp_avg", "exp_avg_sq")}
    restore_moments(optimizer, {parameter: "w"}, tensors, step=3)
    devices = {name: tensor.device.type for name, tensor in optimizer.state[parameter].items()}
    assert devices == {"step": "meta", "exp_avg": "meta", "exp_avg_sq": "meta"}
