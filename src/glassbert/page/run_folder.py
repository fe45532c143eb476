"""A run folder on the page: its log as it grows, the models that it saved, how far they moved apart.

Everything is read from files, so a run of another process, a run that crashed and a copied folder look alike.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from glassbert.errors import UserError
from glassbert.glassbox.movement import movements
from glassbert.open_files import check_regular
from glassbert.page import scripts
from glassbert.page.work import event, until_left
from glassbert.parsing import FormatError, parse_json
from glassbert.runs.folder import RECIPE, kind_of
from glassbert.runs.recipe import read_recipe
from glassbert.sentence import Sentence
from glassbert.serve.http.shell import Receive
from glassbert.training.checkpoint import checkpoints
from glassbert.training.log import METRICS

POLL_SECONDS = 0.5
# The rows of a long log come in portions.
_PORTION_BYTES = 1 << 19
# Distinguishes a client that has disconnected from an idle one.
_HEARTBEAT = b": still here\n\n"
_POLLS_PER_HEARTBEAT = 20


class MovesRequest(msgspec.Struct):
    """Two saved models of the run."""

    before: str
    after: str


class SavedRequest(msgspec.Struct):
    """A saved model of the run."""

    saved: str


@dataclass(frozen=True)
class RunFolder:
    """A folder that a run writes, wrote, or was writing when it ended."""

    path: Path

    @classmethod
    def of(cls, source: str | Path) -> "RunFolder | None":
        """Return the run in a folder; None if it is a model, or something else."""
        folder = Path(source)
        is_run = any((folder / name).is_file() for name in (RECIPE, METRICS))
        return cls(folder) if is_run and not (folder / "config.json").is_file() else None

    @property
    def name(self) -> str:
        """What the page calls it: never a path."""
        return self.path.resolve().name

    def saved(self) -> list[str]:
        """Return the names of the saved models, in the order of training."""
        found = [*checkpoints(self.path), self.path / "best", self.path / "last"]
        return [one.name for one in found if (one / "config.json").is_file()]

    def folder(self, saved: str) -> Path:
        """Return the folder of a saved model; nothing else can be asked for."""
        if saved not in self.saved():
            raise UserError(
                Sentence(
                    "{run} has no {saved!r} now; choose one of those listed", run=self.name, saved=saved[:40]
                )
            )
        return self.path / saved

    def newest_model(self) -> Path | None:
        """Return the model to look at first: the best, the last, or the newest checkpoint."""
        names = self.saved()
        preferred = [name for name in ("best", "last") if name in names] + names[::-1]
        return self.path / preferred[0] if preferred else None

    def state(self) -> dict[str, Any]:
        """Return what is known of the run beside its log."""
        names = self.saved()
        found = {
            "name": self.name,
            "saved": names,
            "is_finished": "last" in names,
            "kind": None,
            "steps": None,
            "python": scripts.of_log((self.path / METRICS).resolve()),
        }
        try:
            tables = read_recipe(self.path / RECIPE)
        except (UserError, OSError):
            return {**found, "is_gone": not self.path.is_dir()}
        steps = tables.get("train", {}).get("steps")
        is_number = isinstance(steps, int) and not isinstance(steps, bool)
        return {
            **found,
            "is_gone": False,
            "kind": kind_of(tables),
            "steps": steps if is_number else None,
        }

    def moves(self, asked: MovesRequest) -> list[dict[str, Any]]:
        """Return how far each tensor moved between two saved models."""
        before, after = self.folder(asked.before), self.folder(asked.after)
        return [
            {
                **vars(one),
                "share": one.share,
                "python": scripts.of_movement(before.resolve(), after.resolve(), one.name),
            }
            for one in movements(before, after)
        ]


@dataclass
class Tail:
    """Follows a log that another process may be appending to."""

    path: Path
    num_damaged: int = 0
    """Lines that are not rows of a log."""
    _offset: int = 0
    _file: int | None = None

    def read(self) -> tuple[bool, list[dict[str, Any]]]:
        """Return whether the log was restarted, and the rows since the last call.

        A last line without its end is left for the next call, unless it is longer than any of ours. A run
        that resumes replaces its log by a shorter one, which then comes from its first line.
        """
        try:
            check_regular(self.path)  # a pipe would keep this thread waiting
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                is_new = self._file != found.st_ino or found.st_size < self._offset
                if is_new:
                    self._file, self._offset, self.num_damaged = found.st_ino, 0, 0
                file.seek(self._offset)
                portion = file.read(_PORTION_BYTES)
        except (OSError, UserError):
            is_new, self._file = self._file is not None, None
            return is_new, []
        is_endless = len(portion) == _PORTION_BYTES and b"\n" not in portion
        whole = portion if is_endless else portion[: portion.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = [_row(line) for line in whole.splitlines()]
        self.num_damaged += sum(row is None for row in rows)
        return is_new, [row for row in rows if row is not None]


def _row(line: bytes) -> dict[str, Any] | None:
    """Return the numbers of one line; None if it is damaged."""
    try:
        row = parse_json(line)
    except FormatError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return None
    measured = row.get("evaluation")
    if isinstance(measured, dict):
        return {"step": row["step"], "evaluation": _numbers(measured)}
    return _numbers(row)


def _numbers(table: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in table.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


async def run_events(
    run: RunFolder, receive: Receive, is_closing: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield the rows of the log and the state of the folder as they change, until the client leaves."""
    left = asyncio.ensure_future(until_left(receive))
    tail, state, num_polls = Tail(run.path / METRICS), None, 0
    try:
        while not left.done() and not is_closing():
            is_new, rows = await asyncio.to_thread(tail.read)
            if is_new or rows:
                yield event("log", {"is_new": is_new, "rows": rows, "damaged": tail.num_damaged})
            now = await asyncio.to_thread(run.state)
            if now != state:
                state = now
                yield event("run", state)
            num_polls += 1
            if num_polls % _POLLS_PER_HEARTBEAT == 0:
                yield _HEARTBEAT
            if not rows:
                await asyncio.wait({left}, timeout=POLL_SECONDS)
    finally:
        left.cancel()
