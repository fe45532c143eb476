import json
from pathlib import Path

import pytest

from full_disk import disk
from glassbert.errors import RunFailed
from glassbert.training.checkpoint import checkpoints, newest_good, verify
from glassbert.training.report import forget_after
from training.small_run import STEPS, run, small_task, with_event

SAME = ("last/model.safetensors", "metrics.jsonl", f"checkpoint-{STEPS}/training.safetensors")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return folder


# The room that is left decides where the write fails: in a log, in the model or in the optimiser's file.
@pytest.mark.parametrize("room", [0, 40_000, 250_000])
@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_leaves_the_last_checkpoint_and_the_same_run_goes_on_when_there_is_room(
    tmp_path: Path, uninterrupted: Path, kind: str, room: int
) -> None:
    with disk(kind, tmp_path / "disk", 8_000_000) as small:
        folder = small.folder / "run"
        task = with_event(small_task(), 7, lambda: small.fill(room))
        with pytest.raises(RunFailed, match=r"no space left on its disk; checkpoint-6 is whole: make room"):
            run(folder, task)
        assert [path.name for path in checkpoints(folder)] == ["checkpoint-3", "checkpoint-6"]
        verify(folder / "checkpoint-6")
        assert not list(folder.glob(".*")), "nothing half-written is left"
        small.clear()
        told: list[str] = []
        assert run(folder, told=told).is_finished
        assert "going on from checkpoint-6" in told
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
