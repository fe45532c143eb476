"""What is written never touches what is read, nor files that are not ours."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.errors import UserError
from glassbert.outputs import (
    ARRAY,
    HTML,
    JSON,
    SVG,
    TRACE,
    WRITTEN,
    Kind,
    check_files,
    check_folder,
    check_ours,
)
from glassbert.storage import new_files, new_folder
from helpers.full_disk import disk


def write(folder: Path, **files: str) -> None:
    """Replace a folder by one with these files; the last _ of a name stands for a dot."""
    with new_folder(folder, overwrite=True) as new:
        for name, text in files.items():
            (new / ".".join(name.rsplit("_", 1))).write_text(text)


def tree(folder: Path) -> dict[str, str | None]:
    """Return everything below a folder: the text of files, where links lead, None for a folder."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else None
        if path.is_dir()
        else path.read_text()
        for path in folder.rglob("*")
        if path.name != WRITTEN
    }


def test_a_replaced_folder_keeps_what_we_did_not_write(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, a_json="1", b_json="1")
    (out / "notes.txt").write_text("mine")
    (out / "deep" / "er").mkdir(parents=True)
    (out / "deep" / "file").write_text("mine")
    (out / "link").symlink_to("nowhere")
    write(out, a_json="2")
    assert tree(out) == {
        "a.json": "2",
        "notes.txt": "mine",
        "deep": None,
        "deep/er": None,
        "deep/file": "mine",
        "link": "nowhere",
    }
    write(out, c_json="3")
    assert "notes.txt" in tree(out), "what was kept once does not become ours"
    assert "a.json" not in tree(out)


def test_a_file_that_is_not_ours_is_not_replaced_by_one_of_ours(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, a_json="1")
    (out / "b.json").write_text("mine")
    before = tree(out)
    with pytest.raises(UserError, match=r"b\.json is not a file that glassbert wrote there; move it"):
        write(out, a_json="2", b_json="2")
    assert tree(out) == before
    assert os.listdir(tmp_path) == ["out"]


OF_A_MODEL = (
    "config.json",
    "vocab.txt",
    "model.safetensors.index.json",
    "1_Pooling/config.json",
    "shard-0.ids",
)


@pytest.mark.parametrize("name", OF_A_MODEL)
def test_a_model_or_a_corpus_of_another_program_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("theirs")
    with pytest.raises(UserError, match="is not a file that glassbert wrote there; move it, or name another"):
        check_folder(out)
    assert [path.name for path in out.rglob("*") if path.is_file()] == [Path(name).name]


@pytest.mark.parametrize("name", OF_A_MODEL)
def test_files_of_others_that_would_be_read_together_with_ours_are_not_kept(
    tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    write(out, config_json="1", vocab_txt="1", manifest_json="1")
    if not (out / name).exists():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("theirs")
        with pytest.raises(UserError, match="is not a file that glassbert wrote there"):
            write(out, config_json="2", vocab_txt="2", manifest_json="2")
    assert tree(out)["config.json"] == "1"


@pytest.mark.parametrize("damage", ["", "{}", '{"files": 5}', '{"files": [1]}', "[" * 1000])
def test_a_damaged_list_is_no_list(tmp_path: Path, damage: str) -> None:
    out = tmp_path / "out"
    write(out, vocab_txt="1", notes_txt="1")
    (out / WRITTEN).write_text(damage)
    with pytest.raises(UserError, match=r"vocab\.txt is not a file that glassbert wrote there"):
        write(out, vocab_txt="2")
    assert tree(out) == {"vocab.txt": "1", "notes.txt": "1"}


@pytest.mark.parametrize("room", [0, 1, 700, 1500])
@pytest.mark.parametrize("kind", [new_folder, new_files])
def test_a_full_disk_leaves_the_old_folder_whole(
    tmp_path: Path, room: int, kind: Callable[..., object]
) -> None:
    with disk("limit", tmp_path / "disk", 0) as full:
        out = full.folder / "out"
        write(out, a_json="1" * 1000, b_json="1" * 1000)
        (out / "notes.txt").write_text("mine")
        before = tree(out)
        full.fill(room)

        def replace() -> None:
            with (
                new_folder(out, overwrite=True)
                if kind is new_folder
                else new_files(out, overwrite=True) as new
            ):
                for name in ("a.json", "b.json"):
                    with (new / name).open("w") as file:
                        file.write("2" * (1000 if name == "a.json" else 2000))

        with pytest.raises(OSError, match="too large"):
            replace()
        full.clear()
        assert tree(full.folder) == {"out": None} | {f"out/{name}": text for name, text in before.items()}


def test_files_move_in_together(tmp_path: Path) -> None:
    write(tmp_path / "out", a_json="1", b_json="1", c_json="1")
    with new_files(tmp_path / "out", overwrite=True) as new:
        (new / "a.json").write_text("2")
        (new / "b.json").write_text("2")
        assert tree(tmp_path / "out")["a.json"] == "1"
    assert tree(tmp_path / "out") == {"a.json": "2", "b.json": "2", "c.json": "1"}


@pytest.mark.parametrize("how", ["itself", "symbolic link", "hard link", "other spelling"])
def test_a_file_that_is_read_is_not_written(tmp_path: Path, how: str) -> None:
    data, out = tmp_path / "folder" / "data.tsv", tmp_path / "out.html"
    data.parent.mkdir()
    data.write_text("x")
    if how == "symbolic link":
        out.symlink_to(data)
    elif how == "hard link":
        out.hardlink_to(data)
    else:
        out = data if how == "itself" else tmp_path / "folder" / ".." / "folder" / "data.tsv"
    for reads in ([data], [data.parent], [tmp_path / "other", str(data)]):
        with pytest.raises(UserError, match=r"would replace .*data\.tsv, which is read"):
            check_files([out], reads)
    check_files([tmp_path / "new.html"], [data.parent])


@pytest.mark.parametrize("how", ["itself", "symbolic link", "parent", "link to it"])
def test_a_folder_that_holds_what_is_read_is_not_replaced(tmp_path: Path, how: str) -> None:
    data = tmp_path / "out" / "texts" / "a.txt"
    data.parent.mkdir(parents=True)
    data.write_text("x")
    out, reads = tmp_path / "out", [data]
    if how == "itself":
        out, reads = data.parent, [data.parent]
    elif how == "symbolic link":
        out = tmp_path / "link"
        out.symlink_to("out")
    elif how == "link to it":
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "a.txt").symlink_to(data)
        reads = [tmp_path / "elsewhere"]
    with pytest.raises(UserError, match="which is read; name another folder"):
        check_folder(out, reads)
    check_folder(tmp_path / "out" / "new", [data])


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for check in (check_folder, lambda path: check_files([path])):
        with pytest.raises(UserError, match="file is not a folder; name another place"):
            check(tmp_path / "file" / "deeper" / "out")
    with pytest.raises(UserError, match="is a folder; name a file"):
        check_files([tmp_path])
    with pytest.raises(UserError, match="is a file; name a folder"):
        check_folder(tmp_path / "file")


def test_files_that_are_moved_in_replace_only_ours_and_only_when_asked(tmp_path: Path) -> None:
    def move_in(name: str, *, overwrite: bool) -> None:
        with new_files(tmp_path / "out", overwrite=overwrite) as new:
            (new / name).write_text("new")

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "theirs.txt").write_text("old")
    move_in("ours.txt", overwrite=False)
    move_in("more.txt", overwrite=False)
    with pytest.raises(UserError, match=r"holds ours\.txt; name another folder, or replace it"):
        move_in("ours.txt", overwrite=False)
    for name in ("ours.txt", "more.txt"):
        move_in(name, overwrite=True)
    with pytest.raises(UserError, match=r"theirs\.txt is not a file that glassbert wrote there"):
        move_in("theirs.txt", overwrite=True)
    assert tree(tmp_path / "out") == {"theirs.txt": "old", "ours.txt": "new", "more.txt": "new"}


FOREIGN = {
    HTML: b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>glassbert</title>',
    SVG: b'<svg xmlns="http://www.w3.org/2000/svg"><metadata>inkscape</metadata></svg>',
    JSON: b'{"name": "package", "generator": "glassbert"}',
    TRACE: b"\x20\0\0\0\0\0\0\0" + b'{"__metadata__": {"format": "pt"}}',
    ARRAY: b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }",
}


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda kind: kind.name)
def test_a_file_of_the_same_kind_without_our_mark_is_not_replaced(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / "file"
    check_ours(path, kind, overwrite=False)
    path.touch()
    check_ours(path, kind, overwrite=True)
    with pytest.raises(UserError, match="exists; name another file, or replace it"):
        check_ours(path, kind, overwrite=False)
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(UserError, match=f"is not {kind.name} that glassbert wrote; name another file"):
        check_ours(path, kind, overwrite=True)


@pytest.mark.parametrize("deep", ["a/b/c", "out"])
def test_folders_made_for_an_output_that_fails_are_removed(deep: str, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(UserError, match="bad"), new_folder(tmp_path / "here" / deep):
        raise UserError("bad")
    assert [path.name for path in tmp_path.rglob("*")] == ["here"]
