import errno
import os
from pathlib import Path

import pytest

from glassbert.errors import ModelError, UserError
from glassbert.open_files import DOCUMENT
from glassbert.outputs import WRITTEN
from glassbert.storage import is_disk_full, new_folder, read_json, write_atomically


def test_writing_replaces_the_whole_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"a long old content")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.txt"]


def test_a_crash_while_writing_keeps_the_old_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_text("kept")

    def crash() -> None:
        with new_folder(out, overwrite=True) as folder:
            (folder / "new").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (out / "old").read_text() == "kept"


@pytest.mark.parametrize(("content", "message"), [("[1]", "expected a JSON object"), ("{", "not JSON")])
def test_json_that_is_not_an_object_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=message):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"x": "' + "a" * (8 << 20) + '"}', "a file of more than 8 MB.*GLASSBERT_MAX_CONFIG_MB"),
        (
            '{"x": [' + ",".join(["{}"] * 100_000) + "]}",
            "100,002 lists and objects; at most 100,000 are read",
        ),
    ],
)
def test_a_file_that_describes_a_model_is_small(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ModelError, match=reason):
        read_json(path)
    assert list(read_json(path, limit=DOCUMENT)) == ["x"], "a vocabulary may be large"


def test_a_full_disk_is_not_confused_with_other_errors() -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "No space left on device"))
    assert is_disk_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert is_disk_full(RuntimeError("I/O error: File too large (os error 27)"))
    assert not is_disk_full(OSError(errno.EACCES, "Permission denied"))
    assert not is_disk_full(RuntimeError("I/O error: Permission denied (os error 13)"))
    assert not is_disk_full(ValueError("no space left"))


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").touch()
    (tmp_path / "link").symlink_to("real")
    with new_folder(tmp_path / "link", overwrite=True) as folder:
        (folder / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]
    assert sorted(os.listdir(tmp_path / "real")) == [WRITTEN, "new", "old"]


def test_the_folder_one_is_in_is_not_replaced_nor_what_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for out in (".", "..", str(tmp_path / "a")):
        with (
            pytest.raises(UserError, match="is or contains the current folder"),
            new_folder(Path(out), overwrite=True),
        ):
            pass
    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_in_a_folder_that_is_not_there_is_named_as_given(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere/file\.txt: .*nowhere is not a folder; create it first"):
        write_atomically(tmp_path / "nowhere" / "file.txt", b"")


def test_a_file_never_takes_the_place_of_a_pipe_and_a_link_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to("pipe")
    for name in ("pipe", "to-pipe"):
        with pytest.raises(UserError, match="expected a file, got a pipe"):
            write_atomically(tmp_path / name, b"new")
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "to-file").symlink_to("file")
    write_atomically(tmp_path / "to-file", b"new")
    assert (tmp_path / "to-file").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
