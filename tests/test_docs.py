"""The handbook is executed: every command and every Python block, and what a page shows must come out.

- console: `$ glassbert ...` with the output below it; `$ cat > FILE <<'END'` writes a file;
  `$ echo $?` shows the exit code of the command before. Remarks on stderr show like output.
  `$ glassbert serve ... &` starts a server, `$ curl ...` asks it, `$ kill %1` ends it.
- python: the blocks of a page run top to bottom in one namespace. What they print stands in `# ->` comments,
  or in a text block that follows.
  A block that begins with `# needs PACKAGE` is only compiled where that package is not installed.
- sh: how to set up, with make, pip or programs that are not here; checked, not run.
- A shown line `...` stands for any lines; a shown decimal number may differ by one in its last digit.

Each page runs in its own empty folder, where `tests` is this folder.
"""

import contextlib
import io
import itertools
import os
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from glassbert.cli.main import main
from helpers.page_server import PageServer, curl

ROOT = Path(__file__).parents[1]
HANDBOOK = ROOT / "docs" / "handbook"
READMES = [ROOT / "README.md", ROOT / "README.zh.md"]
PAGES = [*READMES, *sorted(HANDBOOK.rglob("*.md"))]
GENERATOR = ROOT / "docs" / "make_reference.py"

_FENCE = re.compile(r"```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"cat > (\S+) <<'END'")
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
_NEEDS = re.compile(r"# needs (\w+)")
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Code:
    """One fenced block of a page."""

    language: str
    text: str
    line: int
    has_output_below: bool
    """Whether the next block is the output of this one: nothing but blank lines is between them."""


def blocks_of(page: str) -> list[Code]:
    """Return the fenced blocks of a page in order."""
    matches = list(_FENCE.finditer(page))
    follows = [
        then.group(1) == "text" and not page[this.end() : then.start()].strip()
        for this, then in itertools.pairwise(matches)
    ]
    return [
        Code(match.group(1), match.group(2), page.count("\n", 0, match.start()) + 1, is_followed)
        for match, is_followed in zip(matches, [*follows, False], strict=True)
    ]


def difference(shown: list[str], came: list[str]) -> str | None:
    """Return what is wrong with the lines that a page shows, or None."""
    if "..." not in shown:
        pairs = itertools.zip_longest(shown, came)
        wrong = next((pair for pair in pairs if not _is_same(*pair)), None)
        return f"shown: {wrong[0]!r}\n came: {wrong[1]!r}" if wrong else None
    at = shown.index("...")
    if problem := difference(shown[:at], came[:at]):
        return problem
    rest = shown[at + 1 :]
    if not rest:
        return None
    if any(difference(rest, came[start:]) is None for start in range(at, len(came))):
        return None
    return f"shown after '...': {rest[0]!r}, not found, or not followed by what is shown"


def _is_same(shown: str | None, came: str | None) -> bool:
    if shown is None or came is None or _DECIMAL.sub("#", shown) != _DECIMAL.sub("#", came):
        return False
    numbers = zip(_DECIMAL.findall(shown), _DECIMAL.findall(came), strict=True)
    return all(abs(float(a) - float(b)) <= 1.001 * _last_digit(a) for a, b in numbers)


def _last_digit(number: str) -> float:
    """Return the worth of one in the last digit of a decimal number."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


@contextlib.contextmanager
def caught_output(*, with_stderr: bool) -> Iterator[io.StringIO]:
    """Catch what is printed; remarks too, in the order in which a terminal shows them, or not."""
    caught = io.StringIO()
    errors = caught if with_stderr else io.StringIO()
    with contextlib.redirect_stdout(caught), contextlib.redirect_stderr(errors):
        yield caught


def run_console(code: Code, page: str, server: PageServer) -> None:
    """Run the commands of a block one by one."""
    lines = iter(code.text.splitlines())
    exit_code = 0
    commands: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
            if _HERE_DOCUMENT.fullmatch(line[2:]):
                commands[-1][1].extend(itertools.takewhile(lambda inside: inside != "END", lines))
        else:
            assert commands, f"{page}:{code.line}: a console block begins with '$ '"
            commands[-1][1].append(line)
    for command, below in commands:
        if here := _HERE_DOCUMENT.fullmatch(command):
            Path(here.group(1)).write_text("".join(f"{line}\n" for line in below), encoding="utf-8")
            continue
        name, *arguments = shlex.split(server.actual(command))
        came: list[str] = []
        if command == "echo $?":
            came = [str(exit_code)]
        elif command == "kill %1":
            exit_code = server.stop()
        elif name == "curl":
            came = server.shown(curl(arguments)).splitlines()
        elif arguments[-1:] == ["&"]:
            came = server.start(arguments[:-1])
        else:
            assert name == "glassbert", f"{page}:{code.line}: only glassbert can be run, not {name}"
            with caught_output(with_stderr=True) as output:
                exit_code = main(arguments)
            came = output.getvalue().splitlines()
        problem = difference(below, came)
        assert problem is None, f"{page}:{code.line}: $ {command}\n{problem}\n\nall that came:\n" + "\n".join(
            came
        )


def run_python(code: Code, shown_below: str, namespace: dict[str, object], page: str) -> None:
    """Run a block; what it prints is what its `# ->` comments and the block below say."""
    program = compile("\n" * code.line + code.text, page, "exec")
    # Other libraries draw progress bars on stderr; a page does not show them.
    with caught_output(with_stderr=False) as output:
        exec(program, namespace)
    shown = re.findall(r"# -> ?(.*)", code.text) + shown_below.splitlines()
    came = [line.rstrip() for line in output.getvalue().splitlines()]
    problem = difference(shown, came)
    assert problem is None, f"{page}:{code.line}: python\n{problem}\n\nall that came:\n" + "\n".join(came)


def check_shell(code: Code, page: str) -> None:
    """Check lines that a test cannot run: targets of `make`, `pip`, deployments, a page that stays open."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    reference = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8").partition("glassbert open")[2]
    for line in code.text.splitlines():
        command, argument, *_ = line.split()
        known = (command == "make" and argument in targets) or (command == "pip" and argument == "install")
        if (command, argument) == ("glassbert", "open"):
            known = {*re.findall(r"--[a-z-]+", line)} <= {*re.findall(r"--[a-z-]+", reference)}
        known = known or command in ("docker", "kubectl", "systemctl", "serve", "sudo")
        assert known, f"{page}:{code.line}: {line}"


def is_usable(package: str) -> bool:
    """Return whether a block that needs a package can run."""
    if package == "huggingface_hub" and os.environ.get("HF_HUB_OFFLINE"):
        return False  # it then refuses this machine too
    return find_spec(package) is not None


def run_page(path: Path, server: PageServer) -> None:
    """Execute a page in the present folder."""
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    namespace: dict[str, object] = {"__name__": "page"}
    page = str(path.relative_to(ROOT))
    for code, after in itertools.zip_longest(blocks, blocks[1:]):
        if code.language == "console":
            run_console(code, page, server)
        elif code.language == "sh":
            check_shell(code, page)
        elif code.language == "python":
            code = replace(code, text=server.actual(code.text))
            needed = _NEEDS.match(code.text)
            if needed and not is_usable(needed[1]):
                compile(code.text, page, "exec")
            else:
                run_python(code, after.text if code.has_output_below else "", namespace, page)
        else:
            assert code.language == "text", (
                f"{page}:{code.line}: a block of {code.language!r} is not executed"
            )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_shows_is_what_comes_out(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    server = PageServer()
    try:
        run_page(path, server)
    finally:
        server.stop()


def test_both_languages_have_the_same_chapters() -> None:
    english = {path.name for path in HANDBOOK.glob("*.md")}
    assert english
    assert {path.name for path in (HANDBOOK / "zh").glob("*.md")} == english


@pytest.mark.parametrize(
    "path", [*READMES, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_to_files(path: Path) -> None:
    links = [link for link in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    generator = runpy.run_path(str(GENERATOR))
    assert generator["PAGE"].read_text(encoding="utf-8") == generator["reference"](), (
        "docs/reference/cli.md is out of date; run `python docs/make_reference.py`"
    )


@pytest.mark.parametrize(
    ("shown", "came", "is_right"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "b", "d"], False),
        (["a", "...", "c"], ["a", "b", "c", "d"], False),
        (["a", "...", "c", "...", "e"], ["a", "b", "c", "d", "e"], True),
        (["p = 0.5761"], ["p = 0.5762"], True),
        (["p = 0.5761"], ["p = 0.5763"], False),
        (["2.1e-07"], ["2.2e-07"], True),
        (["2.1e-07"], ["2.3e-07"], False),
        (["12 tokens"], ["13 tokens"], False),
    ],
)
def test_a_wrong_output_is_noticed(shown: list[str], came: list[str], is_right: bool) -> None:
    assert (difference(shown, came) is None) == is_right
