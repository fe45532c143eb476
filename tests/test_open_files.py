import os
import threading
import time
from pathlib import Path

import pytest

from glassbert import open_files
from glassbert.errors import DataError, ModelError, UserError
from glassbert.open_files import check_regular, open_stream, read_regular, real_path


def test_a_pipe_streams_what_a_slow_writer_writes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    def write() -> None:
        time.sleep(0.1)  # nobody has opened it yet
        with (tmp_path / "pipe").open("wb", buffering=0) as writer:
            time.sleep(0.1)  # opened, and still empty
            writer.write(b"first ")
            time.sleep(0.1)
            writer.write(b"second")

    writer = threading.Thread(target=write)
    writer.start()
    with open_stream(tmp_path / "pipe") as stream:
        assert stream.read() == b"first second"
    writer.join()


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(open_files, "_WRITER_WAIT_S", 0.1)
    with pytest.raises(DataError, match="a pipe that nobody writes to; start its writer first"):
        open_stream(tmp_path / "pipe")


def test_an_anonymous_pipe_streams_by_its_name() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    with open_stream(f"/dev/fd/{reading}") as stream:
        assert stream.read() == b"text"
    os.close(reading)


def test_what_is_not_a_file_is_never_read_as_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    kinds = {tmp_path / "pipe": "a pipe", tmp_path: "a folder", Path("/dev/zero"): "a device"}
    for path, kind in kinds.items():
        with pytest.raises(ModelError, match=f"expected a file, got {kind}"):
            read_regular(path)
    with pytest.raises(FileNotFoundError):
        check_regular(tmp_path / "missing")


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    for read in (open_stream, read_regular, check_regular, real_path):
        with pytest.raises(UserError, match="a path cannot hold"):
            read(name)


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_DOCUMENT_MB", "1")
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    assert len(read_regular(tmp_path / "a")) == 1 << 20
    (tmp_path / "a").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(ModelError, match="a: a file of more than 1 MB; .* GLASSBERT_MAX_DOCUMENT_MB$"):
        read_regular(tmp_path / "a")
