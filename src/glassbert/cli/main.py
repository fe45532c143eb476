"""How the `glassbert` command runs and ends: signals, closed streams, exit codes, one line for an error."""

import os
import signal
import sys

from glassbert.start import EXIT_INTERRUPTED, STOPPING, handle_signals, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

EXIT_FAILED = 1
EXIT_USAGE = 2


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    from glassbert import signals

    with signals.handled_by(_stop):
        try:
            return _run_verb(argv)
        except KeyboardInterrupt:
            return _fail("interrupted", EXIT_INTERRUPTED)


def _run_verb(argv: list[str] | None) -> int:
    if not _has_current_folder():
        return _fail("the current folder was removed; change to another one", EXIT_USAGE)
    import cyclopts

    from glassbert.cli.app import run_verb
    from glassbert.errors import UserError
    from glassbert.storage import is_disk_full

    try:
        code = run_verb(argv)
        sys.stdout.flush()  # inside the try: Python itself would complain of a closed pipe when it exits
    except cyclopts.CycloptsError as error:
        return _fail(" ".join(str(error).split()), EXIT_USAGE)
    except UserError as error:
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        _drop_output()
        return 0
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _drop_output()  # rich found the pipe closed
        return 0
    except OSError as error:
        if error.filename is None:  # not a file that the user named: mostly stdout
            _drop_output()
        code = EXIT_FAILED if error.filename is None or is_disk_full(error) else EXIT_USAGE
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}", code)
    return code if isinstance(code, int) else 0


def _has_current_folder() -> bool:
    """Return whether the folder that we were started in still exists; without one, torch ends the process."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _drop_output() -> None:
    """Discard what could not be printed; otherwise Python would complain when it exits."""
    from contextlib import suppress

    with suppress(OSError):  # a stream that a caller put in its place has no number
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, exit_code: int) -> int:
    from glassbert.messages import to_stderr

    to_stderr(f"glassbert: {message}")
    return exit_code


def run() -> None:
    """Run the verb that the command line of this process names, and end the process."""
    handle_signals()
    sys.unraisablehook = _unraisable
    _mend_streams()
    code = main()
    for number in STOPPING:  # everything is done, but a signal could still kill Python while it exits
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def _stop(number: int, frame: "FrameType | None") -> None:
    """End a verb: what it has begun to write is removed on the way out."""
    from glassbert import signals

    if _is_importing(frame) and not signals.is_writing():
        leave(number, frame)  # an import that is interrupted may end in anything
    raise KeyboardInterrupt


def _is_importing(frame: "FrameType | None") -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _unraisable(found: "Any") -> None:
    """Ask to stop again, in case the first time was lost where nothing can raise, such as in a destructor."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    else:
        sys.__unraisablehook__(found)


def _mend_streams() -> None:
    """Replace closed streams, so that no file that we open gets their numbers; print any character."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    # A closed stdout fails as soon as something is printed: no result is lost silently.
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
