"""Pages whose code is executed, and what they show compared with the outputs.

- console: `$ glassbert ...` with the output below it; `$ cat > FILE <<'END'` writes a file;
  `$ echo $?` shows the exit code of the command before. Remarks on stderr show like output.
  `$ glassbert serve ... &` starts a server, `$ curl ...` asks it, `$ kill %1` ends it.
- python: the blocks of a page run top to bottom in one namespace. What they print stands in `# ->` comments,
  or in a text block that follows.
  A block that begins with `# needs PACKAGE` is only compiled where that package is not installed.
- sh: how to set up, with make, pip or programs that are not here; checked, not run.
- A shown line `...` stands for any lines; a shown decimal number may differ by one in its last digit.

Each page runs in its own empty folder, where `tests` is the folder of the tests.
"""

import ast
import contextlib
import hashlib
import io
import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from glassbert.cli.main import main
from helpers.page_server import PageServer, curl

ROOT = Path(__file__).parents[2]
HANDBOOK = ROOT / "docs" / "handbook"
READMES = (ROOT / "README.md", ROOT / "README.zh.md")
PAGES = [READMES, *((path, HANDBOOK / "zh" / path.name) for path in sorted(HANDBOOK.glob("*.md")))]
"""Each page in English and in Chinese."""
TRAINING = ("distil", "pretrain", "train")

_FENCE = re.compile(r"```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_DOCUMENT = re.compile(r"cat > (\S+) <<'END'")
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?")
_NEEDS = re.compile(r"# needs (\w+)")


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


def difference(shown: list[str], output: list[str]) -> str | None:
    """Return what is wrong with the lines that a page shows, or None."""
    if "..." not in shown:
        pairs = itertools.zip_longest(shown, output)
        wrong = next((pair for pair in pairs if not _is_same(*pair)), None)
        return f"shown: {wrong[0]!r}\n  got: {wrong[1]!r}" if wrong else None
    at = shown.index("...")
    if problem := difference(shown[:at], output[:at]):
        return problem
    rest = shown[at + 1 :]
    if not rest:
        return None
    if any(difference(rest, output[start:]) is None for start in range(at, len(output))):
        return None
    return f"shown after '...': {rest[0]!r}, not found, or not followed by what is shown"


def _is_same(shown: str | None, output: str | None) -> bool:
    if shown is None or output is None or _DECIMAL.sub("#", shown) != _DECIMAL.sub("#", output):
        return False
    numbers = zip(_DECIMAL.findall(shown), _DECIMAL.findall(output), strict=True)
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


@dataclass(frozen=True)
class Step:
    """A command, or a block of Python, and what the page shows of its output."""

    language: str
    code: str
    shown: list[str]
    where: str

    @property
    def is_usable(self) -> bool:
        """Whether the package that it needs is here."""
        needed = _NEEDS.match(self.code.lstrip())
        return needed is None or is_usable(needed[1])

    @property
    def meaning(self) -> str:
        """What is done; Python without its comments."""
        return ast.dump(ast.parse(self.code)) if self.language == "python" else self.code

    def check(self, output: list[str]) -> None:
        """Compare the output with what the page shows."""
        problem = difference(self.shown, output)
        assert problem is None, (
            f"{self.where}: {self.code.lstrip().partition(chr(10))[0]}\n{problem}\n\nall output:\n"
            + "\n".join(output)
        )


def steps_of(path: Path) -> list[Step]:
    """Return what a page does, top to bottom; check what a test cannot run."""
    return steps_in(path.read_text(encoding="utf-8"), path)


def steps_in(text: str, path: Path) -> list[Step]:
    """Return what the text of a page does."""
    page, steps = str(path.relative_to(ROOT)), list[Step]()
    blocks = blocks_of(text)
    for code, after in itertools.zip_longest(blocks, blocks[1:]):
        where = f"{page}:{code.line}"
        if code.language == "console":
            steps.extend(commands_of(code, where))
        elif code.language == "python":
            below = after.text.splitlines() if code.has_output_below else []
            # Empty lines, so that a traceback shows the line of the page.
            text = "\n" * code.line + code.text
            steps.append(Step("python", text, re.findall(r"# -> ?(.*)", code.text) + below, where))
        elif code.language == "sh":
            check_shell(code, where)
        else:
            assert code.language == "text", f"{where}: a block of {code.language!r} is not executed"
    return steps


def commands_of(code: Code, where: str) -> Iterator[Step]:
    """Yield the commands of a console block, each with the lines below it."""
    lines = iter(code.text.splitlines())
    command, below = "", list[str]()
    for line in lines:
        if not line.startswith("$ "):
            assert command, f"{where}: a console block begins with '$ '"
            below.append(line)
            continue
        if command:
            yield Step("console", command, below, where)
        command, below = line[2:], []
        if _HERE_DOCUMENT.fullmatch(command):
            command = "\n".join([command, *itertools.takewhile(lambda inside: inside != "END", lines)])
    yield Step("console", command, below, where)


def check_shell(code: Code, where: str) -> None:
    """Check lines that a test cannot run: targets of `make`, `pip`, deployments, a page that stays open."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    reference = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8").partition("glassbert open")[2]
    for line in code.text.splitlines():
        command, argument, *_ = line.split()
        known = (command == "make" and argument in targets) or (command == "pip" and argument == "install")
        if (command, argument) == ("glassbert", "open"):
            known = {*re.findall(r"--[a-z-]+", line)} <= {*re.findall(r"--[a-z-]+", reference)}
        known = known or command in ("docker", "kubectl", "systemctl", "serve", "sudo")
        assert known, f"{where}: {line}"


def is_usable(package: str) -> bool:
    """Return whether a block that needs a package can run."""
    if package == "huggingface_hub" and os.environ.get("HF_HUB_OFFLINE"):
        return False  # it then refuses this machine too
    return find_spec(package) is not None


class TrainedBefore:
    """Training commands that ran before, on the same files, with what they printed and what they wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outcomes: dict[str, tuple[int, list[str]]] = {}

    def run(self, arguments: list[str]) -> tuple[int, list[str]]:
        """Run a command in the present folder; return its exit code and output."""
        if arguments[0] not in TRAINING:
            return run_glassbert(arguments)
        key = self._key(arguments)
        kept = self._folder / key
        if key in self._outcomes:
            for path in Path().iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            shutil.copytree(kept, ".", symlinks=True, dirs_exist_ok=True)
        else:
            self._outcomes[key] = run_glassbert(arguments)
            shutil.copytree(".", kept, symlinks=True)
        return self._outcomes[key]

    @staticmethod
    def _key(arguments: list[str]) -> str:
        """Return a digest of a command and of all files that it can see."""
        digest = hashlib.sha256(json.dumps(arguments).encode())
        for folder, _, names in sorted(os.walk(".")):
            for path in (Path(folder, name) for name in sorted(names)):
                digest.update(f"{path}\0{path.stat().st_size}\0".encode() + path.read_bytes())
        return digest.hexdigest()


def run_glassbert(arguments: list[str]) -> tuple[int, list[str]]:
    """Run a command in this process; return its exit code and output."""
    with caught_output(with_stderr=True) as output:
        exit_code = main(arguments)
    return exit_code, output.getvalue().splitlines()


class Execution:
    """A page that is executed in the present folder, step by step."""

    def __init__(self, trained: TrainedBefore) -> None:
        self.server = PageServer()
        self._trained = trained
        self._exit_code = 0
        self._namespace: dict[str, object] = {"__name__": "page"}

    def run(self, step: Step) -> list[str]:
        """Run a step; return the lines of its output."""
        return self._command(step) if step.language == "console" else self._python(step)

    def _command(self, step: Step) -> list[str]:
        command, _, document = step.code.partition("\n")
        if here := _HERE_DOCUMENT.fullmatch(command):
            Path(here[1]).write_text(f"{document}\n", encoding="utf-8")
            return []
        name, *arguments = shlex.split(self.server.actual(command))
        output: list[str] = []
        if command == "echo $?":
            output = [str(self._exit_code)]
        elif command == "kill %1":
            self._exit_code = self.server.stop()
        elif name == "curl":
            output = self.server.shown(curl(arguments)).splitlines()
        elif arguments[-1:] == ["&"]:
            output = self.server.start(arguments[:-1])
        else:
            assert name == "glassbert", f"{step.where}: only glassbert can be run, not {name}"
            self._exit_code, output = self._trained.run(arguments)
        return output

    def _python(self, step: Step) -> list[str]:
        text = self.server.actual(step.code)
        program = compile(text, step.where.partition(":")[0], "exec")
        if not step.is_usable:
            return step.shown
        # Other libraries draw progress bars on stderr; a page does not show them.
        with caught_output(with_stderr=False) as output:
            exec(program, self._namespace)
        return [line.rstrip() for line in output.getvalue().splitlines()]


def execute(
    steps: list[Step],
    folder: Path,
    trained: TrainedBefore,
    look_at: Callable[[Step, list[str]], None] = Step.check,
) -> list[list[str]]:
    """Execute a page in a new folder, look at each step, and return the outputs."""
    folder.mkdir()
    (folder / "tests").symlink_to(ROOT / "tests")
    outputs = []
    with contextlib.chdir(folder):
        execution = Execution(trained)
        try:
            for step in steps:
                outputs.append(execution.run(step))
                look_at(step, outputs[-1])
        finally:
            execution.server.stop()
    return outputs


def is_same_code(one: list[Step], other: list[Step]) -> bool:
    """Return whether two pages do the same, so that the output of one is that of the other."""
    return [step.meaning for step in one] == [step.meaning for step in other]
