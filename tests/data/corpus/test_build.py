import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glassbert.data.corpus import build as building
from glassbert.data.corpus import resume, shards
from glassbert.data.corpus.build import BuildSettings, Built, build_corpus
from glassbert.data.corpus.manifest import Manifest
from glassbert.data.corpus.reader import Corpus
from glassbert.errors import DataError, UserError
from glassbert.text import sources
from glassbert.text.sources import ReadProgress
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = Vocabulary(
    (*SPECIALS, *LETTERS, *(f"##{letter}" for letter in LETTERS), "。", *"我爱北京天安门")
)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(VOCABULARY)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Documents of one to nine sentences, English and Chinese."""
    draw = random.Random(1)
    documents = []
    for _ in range(120):
        words = ["".join(draw.choices(LETTERS, k=3)) for _ in range(8)]
        sentence = draw.choice([" ".join(words), "我爱北京天安门。" + words[0]])
        documents.append("\n".join([sentence] * draw.randint(1, 9)))
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_BLOCK_CHARACTERS", 2_000)


def build(text: Path, tokenizer: Tokenizer, out: Path, overwrite: bool = False, **settings: object) -> Built:
    changed = {"shard_tokens": 1_600, **settings}
    return build_corpus(text, tokenizer=tokenizer, out=out, overwrite=overwrite, **changed)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def sentences_of(folder: Path) -> list[list[list[int]]]:
    """Return the documents of a corpus as the ids of their sentences."""
    corpus = Corpus.open(folder, verify=True)
    borders = [0, *corpus.sentence_ends]
    sentences = [corpus.tokens(*span).tolist() for span in zip(borders, borders[1:], strict=False)]
    ends = [0, *corpus.document_ends]
    return [sentences[start:stop] for start, stop in zip(ends, ends[1:], strict=False)]


def work_folder(out: Path) -> Path:
    return out.with_name(f".{out.name}.building")


def test_a_corpus_says_what_the_tokenizer_says_sentence_by_sentence(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    built = build(text, tokenizer, tmp_path / "out")
    corpus = Corpus.open(tmp_path / "out", verify=True)
    assert corpus.manifest == built.manifest
    assert len(built.manifest.shards) > 3
    documents = [document.split("\n") for document in text.read_text().strip().split("\n\n")]
    sentences = [sentence for document in documents for sentence in document]
    borders = [0, *corpus.sentence_ends]
    found = [corpus.tokens(*span).tolist() for span in zip(borders, borders[1:], strict=False)]
    assert found == tokenizer.ids_of_batch(sentences)
    assert corpus.document_ends.tolist() == np.cumsum([len(document) for document in documents]).tolist()
    assert corpus.manifest.num_bytes == sum(len(sentence.encode()) for sentence in sentences)
    corpus.check_fits(tokenizer)


def test_the_bytes_are_the_same_on_any_number_of_processes(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(text, tokenizer, tmp_path / "one", drop_duplicates=True)
    build(text, tokenizer, tmp_path / "two", drop_duplicates=True, processes=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "text.txt", "two"]


@pytest.mark.parametrize("drop_duplicates", [False, True])
def test_an_interrupted_build_resumes_and_ends_in_the_same_bytes(
    drop_duplicates: bool, text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    build(text, tokenizer, whole, drop_duplicates=drop_duplicates)
    save, num_saved = resume.Progress.save, []

    def stop(progress: resume.Progress, folder: Path) -> None:
        save(progress, folder)
        num_saved.append(len(progress.shards))
        if num_saved[-1] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(resume.Progress, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        build(text, tokenizer, out, drop_duplicates=drop_duplicates)
    assert not out.exists()
    monkeypatch.setattr(resume.Progress, "save", save)
    for left_over in ("shard-00002.ids", "shard-00099.ids", ".vocab.txt.0123.part"):
        (work_folder(out) / left_over).write_bytes(b"half a file")
    built = build(text, tokenizer, out, drop_duplicates=drop_duplicates)
    assert built.num_shards_before == 2
    assert contents(out) == contents(whole)
    assert not work_folder(out).exists()


def test_files_of_others_in_the_folder_of_a_build_are_not_deleted(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    notes = work_folder(tmp_path / "out") / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"notes\.txt is not a file that glassbert wrote there; move it"):
            build(text, tokenizer, tmp_path / "out", overwrite=overwrite)
    assert notes.read_text() == "mine"
    notes.unlink()
    build(text, tokenizer, tmp_path / "out")
    assert not notes.parent.exists()


def test_resuming_with_other_settings_is_refused_and_loses_nothing(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "publish", fail)
    with pytest.raises(KeyboardInterrupt):
        build(text, tokenizer, out)
    before = contents(work_folder(out))
    monkeypatch.undo()
    other = Tokenizer(Vocabulary((*VOCABULARY.pieces, "new")))
    with pytest.raises(UserError, match="an unfinished build with another vocabulary; .*--force"):
        build(text, other, out)
    with pytest.raises(UserError, match="other tokenizer settings"):
        build(text, Tokenizer(VOCABULARY, lowercase=False), out)
    with pytest.raises(UserError, match="shards of 1600 tokens"):
        build(text, tokenizer, out, shard_tokens=1_500)
    text.write_text("More.\n\n" + text.read_text())
    with pytest.raises(UserError, match="other files"):
        build(text, tokenizer, out)
    assert contents(work_folder(out)) == before
    assert build(text, other, out, overwrite=True).num_shards_before == 0
    assert Corpus.open(out, verify=True).manifest.vocab_sha256 == other.vocabulary.sha256


def test_a_corpus_is_kept_unless_it_may_be_replaced(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = build(text, tokenizer, out)
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert build(text, tokenizer, out) == Built(first.manifest, len(first.manifest.shards))
    with pytest.raises(UserError, match="holds another corpus .*--force"):
        build(text, tokenizer, out, shard_tokens=1_500)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == times
    build(text, tokenizer, out, overwrite=True, shard_tokens=1_500)
    assert Corpus.open(out, verify=True).manifest.shard_tokens == 1_500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "text.txt"]


def test_a_folder_that_is_no_corpus_is_never_replaced(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    with pytest.raises(UserError, match="not a corpus"):
        build(text, tokenizer, tmp_path / "other", overwrite=True)
    with pytest.raises(UserError, match="is a file"):
        build(text, tokenizer, text, overwrite=True)


def test_a_full_disk_is_explained_and_finished_shards_are_kept(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    write, num_written = shards._HashedFile.write, [0]

    def write_until_full(file: shards._HashedFile, values: np.ndarray) -> None:
        num_written[0] += values.nbytes
        if num_written[0] > 10_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(file, values)

    monkeypatch.setattr(shards._HashedFile, "write", write_until_full)
    with pytest.raises(UserError, match=r"out: no space left .* [1-9] finished shards are kept"):
        build(text, tokenizer, out)
    monkeypatch.undo()
    monkeypatch.setattr(sources, "_BLOCK_CHARACTERS", 2_000)
    assert build(text, tokenizer, out).num_shards_before > 0
    build(text, tokenizer, whole)
    assert contents(out) == contents(whole)


def test_documents_are_held_out_whole_and_none_is_lost(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(text, tokenizer, tmp_path / "all")
    built = build(text, tokenizer, tmp_path / "out", held_out=0.2)
    everything, trained = sentences_of(tmp_path / "all"), sentences_of(tmp_path / "out")
    held_out = sentences_of(tmp_path / "out" / "held-out")
    assert built.held_out == Corpus.open(tmp_path / "out" / "held-out").manifest
    assert built.held_out is not None
    assert (built.held_out.is_held_out, built.manifest.is_held_out) == (True, False)
    assert len(trained) + len(held_out) == len(everything) == 120
    assert 12 < len(held_out) < 36, "about a fifth"
    merged = iter(trained)
    others = iter(held_out)
    following, other = next(merged), next(others)
    for document in everything:
        assert document in (following, other)
        if document == following:
            following = next(merged, [])
        else:
            other = next(others, [])
    assert (following, other) == ([], [])
    assert Corpus.open(tmp_path / "out" / "held-out").tokenizer().vocabulary == VOCABULARY


def test_what_is_held_out_depends_on_the_number_of_a_document_alone(
    text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(text, tokenizer, tmp_path / "one", held_out=0.1)
    build(text, tokenizer, tmp_path / "two", held_out=0.1, processes=2)
    monkeypatch.setattr(sources, "_BLOCK_CHARACTERS", 300)
    build(text, tokenizer, tmp_path / "small-blocks", held_out=0.1)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "small-blocks")
    # More text after it, and a larger share, hold out the same documents and more.
    few = sentences_of(tmp_path / "one" / "held-out")
    text.write_text(text.read_text() + "\nmore text\nin the end\n" * 50)
    build(text, tokenizer, tmp_path / "more", held_out=0.3)
    many = sentences_of(tmp_path / "more" / "held-out")
    assert all(document in many for document in few)
    assert len(many) > len(few)


@pytest.mark.parametrize("stop_after", [1, 2, 3, 4, 5, 6])
def test_an_interrupted_build_with_held_out_documents_ends_in_the_same_bytes(
    stop_after: int, text: Path, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    options = {"held_out": 0.4, "drop_duplicates": True, "shard_tokens": 300}
    build(text, tokenizer, whole, **options)
    save, num_saved = resume.Progress.save, [0]

    def stop(progress: resume.Progress, folder: Path) -> None:
        save(progress, folder)
        num_saved[0] += bool(progress.shards)
        if num_saved[0] == stop_after:
            raise KeyboardInterrupt

    monkeypatch.setattr(resume.Progress, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        build(text, tokenizer, out, **options)
    monkeypatch.setattr(resume.Progress, "save", save)
    build(text, tokenizer, out, **options)
    assert contents(out) == contents(whole)
    assert build(text, tokenizer, out, **options).held_out == Manifest.load(out / "held-out")


def test_another_share_is_another_corpus(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    build(text, tokenizer, out, held_out=0.1)
    with pytest.raises(UserError, match=r"holds another corpus \(a share of 0.1 held out\)"):
        build(text, tokenizer, out)
    build(text, tokenizer, out, overwrite=True)
    assert not (out / "held-out").exists()


def test_a_share_that_leaves_nothing_is_refused(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    text.write_text("a\nb\n\na\n")
    with pytest.raises(DataError, match="held_out=1e-05 of all documents is none"):
        build(text, tokenizer, tmp_path / "out", held_out=1e-5)
    with pytest.raises(DataError, match="held_out=0.99999 is every document"):
        build(text, tokenizer, tmp_path / "out", held_out=0.99999)
    assert list(tmp_path.iterdir()) == [text]
    for share in (-0.1, 1.0):
        with pytest.raises(
            UserError, match=f"held_out={share}; expected a number of at least 0 and less than 1"
        ):
            BuildSettings(held_out=share)


def test_a_manifest_from_before_there_was_a_share_is_read(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    built = build(text, tokenizer, tmp_path / "out")
    path = tmp_path / "out" / "manifest.json"
    content = json.loads(path.read_text())
    del content["held_out_share"], content["is_held_out"]
    path.write_text(json.dumps(content))
    assert Manifest.load(tmp_path / "out") == built.manifest


def test_a_corpus_knows_which_file_a_document_is_from(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    other, empty = tmp_path / "other.txt", tmp_path / "odd.txt"
    other.write_text("abc def\nghi\n\nabc\nabc\n\nxyz\n" * 5)
    empty.write_text("\u200b\n\u200b\n\n\u200b\n")  # documents without a token
    files = [text, empty, other]
    settings = {"tokenizer": tokenizer, "shard_tokens": 900, "held_out": 0.2}
    build_corpus(files, out=tmp_path / "two", **settings, processes=2)  # type: ignore[arg-type]
    built = build_corpus(files, out=tmp_path / "out", **settings)  # type: ignore[arg-type]
    assert len(built.manifest.shards) > 2
    for folder in (tmp_path / "out", tmp_path / "out" / "held-out"):
        corpus = Corpus.open(folder)
        assert corpus.source_ends is not None
        assert corpus.source_ends[0] == corpus.source_ends[1] < corpus.source_ends[2] == corpus.num_documents
        assert corpus.source_names == ("text", "odd", "other")
        alone = build_corpus(text, out=tmp_path / folder.name / "alone", **settings)  # type: ignore[arg-type]
        expected = alone.held_out if corpus.manifest.is_held_out else alone.manifest
        assert expected is not None
        assert corpus.source_ends[0] == expected.num_documents
        assert Manifest.load(tmp_path / "two") == built.manifest


def test_a_corpus_that_was_built_before_files_were_recorded_is_read(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    build(text, tokenizer, tmp_path / "out")
    assert Corpus.open(tmp_path / "out").source_ends is not None
    path = tmp_path / "out" / "manifest.json"
    content = json.loads(path.read_text())
    for shard in content["shards"]:
        del shard["documents_of_sources"]
    path.write_text(json.dumps(content))
    corpus = Corpus.open(tmp_path / "out", verify=True)
    assert corpus.source_ends is None
    assert corpus.num_documents > 0


def test_files_of_one_name_have_names_of_their_own(tokenizer: Tokenizer, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text.txt").write_text("abc\nabc\n\nabc\nabc\n")
    files = [tmp_path / folder / "text.txt" for folder in ("a", "b")]
    build_corpus(files, tokenizer=tokenizer, out=tmp_path / "out")
    assert Corpus.open(tmp_path / "out").source_names == ("text.txt#0", "text.txt#1")


def test_an_error_before_the_first_shard_leaves_no_trace(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(b"One.\nTwo.\n\nThree.\nb\xff\n")
    with pytest.raises(DataError, match=r"text\.txt:5"):
        build(path, tokenizer, tmp_path / "out")
    path.write_text("\u200b\n\n\u200b\u200b\nx\u200b\n".replace("x", ""))
    with pytest.raises(DataError, match="no token in it"):
        build(path, tokenizer, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [path]


def test_a_segmenter_marks_chinese_words_and_is_named_in_the_manifest(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("北京\n天安门\n", encoding="utf-8")
    built = build(text, tokenizer, tmp_path / "out", segmenter=str(words))
    assert built.manifest.segmenter is not None
    assert built.manifest.segmenter.startswith("words.txt sha256 ")
    corpus = Corpus.open(tmp_path / "out")
    plain = build(text, tokenizer, tmp_path / "plain")
    assert corpus.num_tokens == plain.manifest.num_tokens
    borders = [0, *corpus.sentence_ends]
    for start, stop in zip(borders, borders[1:], strict=False):
        if corpus.tokens(start, stop)[0] == VOCABULARY.id("我"):
            starts = corpus.word_starts(start, stop)[:8].astype(int).tolist()
            assert starts == [1, 1, 1, 0, 1, 0, 0, 1]


def test_repeated_lines_are_dropped_and_counted(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    long = "a line that is long enough"
    path.write_text(f"{long}\nshort\n\n{long}\nshort\n\n{long}\n")
    built = build(path, tokenizer, tmp_path / "out", drop_duplicates=True)
    assert built.manifest.num_duplicate_lines_dropped == 2
    assert (built.manifest.num_documents, built.manifest.num_sentences) == (2, 3)
    kept = build(path, tokenizer, tmp_path / "kept")
    assert kept.manifest.num_duplicate_lines_dropped is None
    assert kept.manifest.num_sentences == 5


def test_a_line_of_a_megabyte_and_one_long_document_are_read(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("word " * 200_000 + "\n" + "x" * 1_000_000 + "\n")
    built = build_corpus(path, tokenizer=tokenizer, out=tmp_path / "out", form="sentences")
    assert (built.manifest.num_documents, built.manifest.has_documents) == (1, False)
    assert built.manifest.num_tokens == 800_000 + 1_953 + 64  # a cut of 512 x is one [UNK]
    assert built.manifest.num_unknown == 1_953


def test_text_in_gb18030_gives_the_same_tokens(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    other = tmp_path / "other.txt"
    other.write_bytes(text.read_text(encoding="utf-8").encode("gb18030"))
    lines: list[str] = []
    build_corpus(other, tokenizer=tokenizer, out=tmp_path / "other", log=lines.append)
    build_corpus(text, tokenizer=tokenizer, out=tmp_path / "utf8", log=lines.append)
    assert sentences_of(tmp_path / "other") == sentences_of(tmp_path / "utf8")
    assert sum("other.txt: read as GB18030" in line for line in lines) == 1


def test_progress_ends_at_the_size_of_the_files(text: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    calls: list[ReadProgress] = []
    build_corpus(text, tokenizer=tokenizer, out=tmp_path / "out", on_read=calls.append)
    size = text.stat().st_size
    assert calls[-1] == ReadProgress(size, size, size)


@pytest.mark.parametrize("name", ["shard_tokens", "processes"])
def test_settings_below_one_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}=0"):
        BuildSettings(**{name: 0})


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.slow
def test_builds_that_are_killed_end_in_the_same_bytes(
    text: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    text.write_text(text.read_text() * 20)
    whole, out, folder = tmp_path / "whole", tmp_path / "out", tmp_path / "tokenizer"
    tokenizer.save(folder)
    build(text, tokenizer, whole)
    code = (
        "import sys\n"
        "from glassbert.data.corpus.build import build_corpus\n"
        "from glassbert.text import sources\n"
        "sources._BLOCK_CHARACTERS = 2_000\n"
        "text, folder, out = sys.argv[1:]\n"
        "build_corpus(text, tokenizer=folder, out=out, shard_tokens=1_600, processes=2)\n"
    )
    draw = random.Random(0)
    num_kills = 0
    while not out.exists():
        run = subprocess.Popen([sys.executable, "-c", code, str(text), str(folder), str(out)])
        if num_kills < 6:
            before = resume._num_finished(work_folder(out))
            wait_until(
                lambda run=run, before=before: (
                    run.poll() is not None
                    or resume._num_finished(work_folder(out)) > before + draw.randrange(8)
                )
            )
            time.sleep(draw.random() * 0.05)
            run.send_signal(signal.SIGKILL)
            num_kills += 1
        run.wait()
    assert num_kills == 6
    assert contents(out) == contents(whole)
