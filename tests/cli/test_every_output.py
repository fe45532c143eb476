"""No verb overwrites or deletes what it reads: every verb, each of its outputs, all of its inputs."""

import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import glassbert as gb
from glassbert.cli.app import build_app
from glassbert.cli.main import main
from helpers.every_verb import ALIKE, ALSO, ARGUMENTS, INPUTS, NAMED_IN, OUTPUTS, verbs, write_inputs

VERBS = {verb.name: verb for verb in verbs(build_app())}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("originals"))


@pytest.fixture(scope="module")
def inputs(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that are attacked; no attack may change them, so one copy serves all."""
    folder = tmp_path_factory.mktemp("inputs") / "all"
    shutil.copytree(originals, folder)
    for recipe in NAMED_IN:
        text = (folder / recipe).read_text(encoding="utf-8").replace(str(originals), str(folder))
        (folder / recipe).write_text(text, encoding="utf-8")
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Return the digest of each file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_every_verb_and_every_path_of_it_is_known_here() -> None:
    assert set(VERBS) == set(ARGUMENTS)
    for verb in VERBS.values():
        assert verb.paths <= OUTPUTS | INPUTS, f"is it read or written? {verb}"


def test_every_input_is_attacked_by_itself() -> None:
    missing = []
    for verb in VERBS.values():
        if not verb.outputs or verb.name == "demo" or verb.name in ALIKE:
            continue
        attacked = set[str]()
        for arguments in (ARGUMENTS[verb.name], *ALSO.get(verb.name, ())):
            named = verb.named_by(arguments)
            for parameter, names in named.items():
                others = (found for other, found in named.items() if other != parameter)
                if names - set[str]().union(*others):
                    attacked.add(parameter)
        missing += [f"{verb.name}: {one}" for one in sorted(verb.paths & INPUTS - attacked)]
    # Where these are not files, they are texts.
    assert missing == ["trace: text", "why: text"]


CASES = [
    (verb.name, arguments, output)
    for verb in VERBS.values()
    for arguments in (ARGUMENTS.get(verb.name, []), *ALSO.get(verb.name, ()))
    for output in verb.outputs
    if verb.name != "demo"  # it reads nothing
]


ENDINGS = {"embed": ".npy", "trace": ".safetensors"}
OF_PAGES = {"html": ".html", "report": ".html", "plot": ".svg"}


def attacks(path: Path, links: Path, ending: str) -> Iterator[Path]:
    """Yield names of outputs that would harm what is read at ``path``; those of new links have an ending."""
    number = len(os.listdir(links))
    yield path
    yield path.parent
    soft, hard = (links / f"{kind}-{number}{ending}" for kind in ("soft", "hard"))
    soft.symlink_to(path)
    yield soft
    if path.is_file():
        hard.hardlink_to(path)
        yield hard
    else:
        yield from (file for file in path.iterdir() if file.is_file())


@pytest.mark.parametrize(("name", "arguments", "output"), CASES, ids=lambda part: str(part)[:40])
def test_nothing_that_is_read_is_overwritten_or_deleted(
    name: str,
    arguments: list[str],
    output: str,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb, links = VERBS[name], tmp_path / "links"
    links.mkdir()
    given = [word.replace("@", f"{inputs}/") for word in arguments]
    before = tree(inputs)
    for word in verb.reads(arguments):
        for path in attacks(inputs / word, links, OF_PAGES.get(output, ENDINGS.get(name, ""))):
            code = main(verb.words(given, output, path))
            errors, after = capsys.readouterr().err, tree(inputs)
            assert {name: after.get(name) for name in before} == before, path
            if (code, path) == (0, (inputs / word).parent):
                # A vocabulary may be written into a folder that holds other things.
                assert name.startswith("vocab ")
                for new in set(after) - set(before):
                    (inputs / new).unlink()
                continue
            assert (code, set(after) - set(before)) == (2, set()), (path, errors)
            assert errors.count("\n") == 1, errors
    assert not [path.name for path in links.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("name", "arguments", "output"), CASES, ids=lambda part: str(part)[:40])
def test_a_folder_with_one_input_in_it_is_not_replaced(
    name: str, arguments: list[str], output: str, originals: Path, tmp_path: Path
) -> None:
    for number, word in enumerate(VERBS[name].named(arguments)):
        alone = tmp_path / str(number) / word
        alone.parent.mkdir(parents=True)
        copy = shutil.copytree if (originals / word).is_dir() else shutil.copyfile
        copy(originals / word, alone)
        given = [
            one.replace(f"@{word}", str(alone))
            if one.endswith(f"@{word}")
            else one.replace("@", f"{originals}/")
            for one in arguments
        ]
        before = tree(alone.parent)
        code = main(VERBS[name].words(given, output, alone.parent))
        after = tree(alone.parent)
        assert {path: after.get(path) for path in before} == before, word
        assert code == (0 if name.startswith("vocab ") and code == 0 else 2), word


SEVERAL = [name for name, verb in VERBS.items() if len(verb.outputs) > 1]
# Never a real device: a test that fails would replace it.
PLACES = ["", ".", "/proc/none/x", "a\nb", "x" * 300, "\udcff"]


@pytest.mark.parametrize("name", SEVERAL)
def test_two_outputs_are_not_one_file(
    name: str, originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = VERBS[name]
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS[name]]
    for first, second in combinations(verb.outputs, 2):
        out = tmp_path / f"one{ENDINGS.get(name, '')}"
        words = [*verb.words(given, first, out), f"--{second}", str(out)]
        assert main(words) == 2, words
        assert capsys.readouterr().err.count("\n") == 1
        assert not out.exists()


@pytest.mark.parametrize(("name", "output"), sorted({(name, output) for name, _, output in CASES}))
def test_a_place_where_nothing_can_be_is_refused_in_one_line(
    name: str, output: str, originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS[name]]
    pipe, link = (f"{one}{ENDINGS.get(name, '')}" for one in ("pipe", "link"))
    os.mkfifo(pipe)
    Path(link).symlink_to(pipe)
    # A run is long: it is attacked only where it is refused before its first step.
    places = [pipe, link, *(() if name.split()[0] in ("train", "pretrain") else PLACES)]
    for place in places:
        stderr = io.StringIO()
        with redirect_stderr(stderr), redirect_stdout(io.StringIO()):
            code = main(VERBS[name].words(given, output, Path(place)))
        last = stderr.getvalue().splitlines()[-1:]
        assert code in (0, 1, 2), (place, last)
        assert code == 0 or last[0].startswith("glassbert: "), place
        assert Path(pipe).is_fifo(), "a file took the place of the pipe"
        assert Path(link).is_symlink()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def write_foreign(folder: Path) -> dict[str, bytes]:
    """Return a whole file of each kind that a verb writes, none of which is ours."""
    array, tensors = folder / "foreign.npy", folder / "foreign.safetensors"
    np.save(array, np.zeros((3, 2), np.float32))
    save_file({"weight": np.ones(3)}, tensors, {"format": "pt"})
    return {
        "html": b'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>mine</title></head>',
        "json": b'{\n  "name": "mine",\n  "versions": {"glassbert": "1"}\n}\n',
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><style></style></svg>',
        "png": b"\x89PNG\r\n\x1a\n" + bytes(40),
        "txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nmine\n",
        "npy": array.read_bytes(),
        "safetensors": tensors.read_bytes(),
    }


EVERY_OUTPUT = sorted({(name, output) for name, _, output in CASES} | {("demo", "out")})


@pytest.mark.parametrize(("name", "output"), EVERY_OUTPUT)
def test_force_does_not_replace_a_file_of_others_whatever_its_kind(
    name: str, output: str, originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS[name]]
    foreign = write_foreign(tmp_path)
    for kind, content in foreign.items():
        path = tmp_path / f"{kind}{ENDINGS.get(name, '') if output == 'out' else ''}"
        path.write_bytes(content)
        assert main(VERBS[name].words(given, output, path)) == 2, kind
        assert capsys.readouterr().err.count("\n") == 1
        assert path.read_bytes() == content, kind
    beside = tmp_path / "trace.json"
    beside.write_bytes(foreign["json"])
    if name == "trace" and output == "out":
        assert main(VERBS[name].words(given, output, beside.with_suffix(".safetensors"))) == 2
    assert (beside.read_bytes(), beside.with_suffix(".safetensors").exists()) == (foreign["json"], False)


@pytest.mark.parametrize(
    ("name", "output"), [one for one in EVERY_OUTPUT if one[1] in ("out", "destination")]
)
def test_force_does_not_replace_a_folder_of_others(
    name: str, output: str, originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in ENDINGS or name == "lab":
        return  # they write a file
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS[name]]
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for file in (
        "config.json",
        "model.safetensors",
        "vocab.txt",
        "tokenizer.json",
        "manifest.json",
        "words.txt",
    ):
        (theirs / file).write_text("{}")
    (theirs / "shard-00000.ids").write_text("mine")
    before = tree(theirs)
    assert main(VERBS[name].words(given, output, theirs)) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("glassbert: ")
    assert tree(theirs) == before


REPLACED = [("embed", "out"), ("trace", "out"), ("trace", "html"), ("why", "html"), ("evaluate", "report")]


@pytest.mark.parametrize(("name", "output"), [*REPLACED, *(("lab", one) for one in ("html", "plot", "out"))])
def test_force_replaces_a_file_that_we_wrote(
    name: str, output: str, originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, arguments = VERBS[name], ["waves"] if name == "lab" else ARGUMENTS[name]
    given = [word.replace("@", f"{originals}/") for word in arguments]
    out = tmp_path / f"ours{ENDINGS.get(name, '') if output == 'out' else ''}"
    first = main([word for word in verb.words(given, output, out) if word != "--force"])
    written = tree(tmp_path)
    assert written
    if verb.has_force:
        assert main([word for word in verb.words(given, output, out) if word != "--force"]) == 2
        assert "exists; name another file, or replace it: --force" in capsys.readouterr().err
    assert main(verb.words(given, output, out)) == first
    assert set(tree(tmp_path)) == set(written)


def test_a_trace_in_python_does_not_replace_the_weights(inputs: Path) -> None:
    before, model = tree(inputs), gb.load(inputs / "bert")
    with pytest.raises(gb.UserError, match="is not a trace that glassbert wrote"):
        model.trace("a", out=inputs / "bert" / "model.safetensors", overwrite=True)
    assert tree(inputs) == before


def test_a_saved_array_is_one_that_numpy_reads(originals: Path, tmp_path: Path) -> None:
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS["embed"]]
    assert main(["embed", *given, "--out", str(tmp_path / "deep" / "a.npy")]) == 0
    vectors = gb.load(originals / "bert").embed(["a b", "c d"])
    for mode in (None, "r"):
        np.testing.assert_allclose(np.load(tmp_path / "deep" / "a.npy", mmap_mode=mode), vectors, atol=1e-6)


def test_python_saves_over_nothing_unless_asked(originals: Path, tmp_path: Path) -> None:
    tokenizer, result = gb.Tokenizer.load(originals / "bert"), gb.lab("linear")
    savers: dict[str, Callable[..., None]] = {"result.json": result.save, "folder": tokenizer.save}
    for name, save in savers.items():
        save(tmp_path / name)
        with pytest.raises(gb.UserError, match="replace it: "):
            save(tmp_path / name)
        save(tmp_path / name, overwrite=True)
    (tmp_path / "theirs").mkdir()
    for name in ("result.json", "theirs/tokenizer.json"):
        (tmp_path / name).write_text("mine")
    savers = {**savers, "theirs": tokenizer.save}
    del savers["folder"]
    for name, save in savers.items():
        with pytest.raises(gb.UserError, match="that glassbert wrote"):
            save(tmp_path / name, overwrite=True)
    assert tree(tmp_path)["theirs/tokenizer.json"] == hashlib.sha256(b"mine").hexdigest()


def test_a_bare_vocabulary_replaces_nothing_as_it_has_no_place_for_a_mark(
    originals: Path, tmp_path: Path
) -> None:
    vocabulary = gb.Tokenizer.load(originals / "bert").vocabulary
    theirs, link = tmp_path / "vocab.txt", tmp_path / "link"
    theirs.write_bytes(write_foreign(tmp_path)["txt"])
    link.symlink_to("nothing")
    before = tree(tmp_path)
    for path in (theirs, link):
        with pytest.raises(gb.UserError, match="exists; name another file, or remove it"):
            vocabulary.save(path)
    assert tree(tmp_path) == before


FORCED = [
    (verb.name, arguments)
    for verb in VERBS.values()
    if verb.has_force and {"out", "destination"} & verb.paths and verb.name not in ("trace", "lab", "embed")
    for arguments in (ARGUMENTS.get(verb.name, []), *ALSO.get(verb.name, ()))
    if "--from" not in arguments  # that is a run, which is resumed
]


@pytest.mark.parametrize(("name", "arguments"), FORCED, ids=lambda part: str(part)[:40])
def test_force_replaces_what_we_wrote_and_leaves_the_rest(
    name: str, arguments: list[str], originals: Path, tmp_path: Path
) -> None:
    verb, out = VERBS[name], tmp_path / "out"
    given = [word.replace("@", f"{originals}/") for word in arguments]
    assert main(verb.words(given, verb.outputs[0], out)) == 0
    written = tree(out)
    (out / "notes.txt").write_text("mine")
    (out / "plots").mkdir()
    (out / "plots" / "a.png").write_text("mine")
    assert main(verb.words(given, verb.outputs[0], out)) == 0
    others = {"notes.txt", "plots/a.png"}
    assert set(tree(out)) == set(written) | others
    assert (out / "notes.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["out"]


FUNCTIONS: dict[str, Callable[[Path, Path], object]] = {
    "convert": lambda at, out: gb.convert(at / "bert", out, overwrite=True),
    "extend_vocabulary": lambda at, out: gb.extend_vocabulary(
        at / "bert", at / "words.txt", out, overwrite=True
    ),
    "learn_vocabulary": lambda at, out: gb.learn_vocabulary(
        at / "bert" / "vocab.txt", size=64, out=out, overwrite=True
    ),
    "build_corpus": lambda at, out: gb.build_corpus(
        at / "text.txt", tokenizer=at / "bert", out=out, segmenter=at / "words.txt", overwrite=True
    ),
    "train": lambda at, out: gb.train("classify", model=at / "bert", train=at / "rows.tsv", out=out, steps=1),
    "train translate": lambda at, out: gb.train(
        "translate", model=at / "bert", train=f"{at}/texts.txt,{at}/words.txt", out=out, steps=1
    ),
    "pretrain": lambda at, out: gb.pretrain(at / "corpus", model=at / "bert", out=out, steps=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_link", [False, True])
def test_python_refuses_the_same(name: str, is_link: bool, inputs: Path, tmp_path: Path) -> None:
    before, out = tree(inputs), inputs / "bert" if name == "learn_vocabulary" else inputs
    if is_link:
        (tmp_path / "link").symlink_to(out)
        out = tmp_path / "link"
    with pytest.raises(gb.UserError, match="which is read; name another"):
        FUNCTIONS[name](inputs, out)
    assert tree(inputs) == before


def test_a_report_does_not_take_the_place_of_a_file_of_the_run(
    originals: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("@", f"{originals}/") for word in ARGUMENTS["train classify"]]
    for name in ("metrics.jsonl", "best/model.safetensors"):
        report = tmp_path / "run" / name
        words = ["train", "classify", *given, "--out", str(tmp_path / "run"), "--report", str(report)]
        assert main(words) == 2
        assert "name a report there with .html" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
