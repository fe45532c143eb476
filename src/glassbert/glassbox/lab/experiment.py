"""What an experiment is, and `glassbert.lab`, which runs one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from glassbert.arguments import checked
from glassbert.errors import UserError
from glassbert.glassbox.lab.catalogue import CATALOGUE
from glassbert.glassbox.lab.result import Report, Result, read_result
from glassbert.glassbox.lab.words import Words
from glassbert.typed import settings_from

S = TypeVar("S")
Size = Literal["small", "large"]
SAVED = Path(__file__).parent / "saved"
"""Results that come with the package."""


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """A question that can be put to the test."""

    theory: Words
    """What is expected, and why."""
    settings: type[S]
    """What a user may change; the defaults take seconds."""
    run: Callable[[S], Report]
    large: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the large form, which takes minutes."""


@checked
def lab(name: str, *, size: Size = "small", **settings: Any) -> Result:
    """Run an experiment and return its result.

    Args:
        name: One of those that `glassbert lab` lists.
        size: small takes seconds; large takes minutes and has narrower intervals.
        settings: Settings of the experiment by name, such as ``num_seeds=3``.
    """
    experiment = find(name)
    table = {**(experiment.large if size == "large" else {}), **settings}
    chosen = settings_from(experiment.settings, table, name)
    for key, value in vars(chosen).items():
        if value == ():
            raise UserError(f"{name}.{key} is empty; expected at least one value")
    started_at = time.perf_counter()
    report = experiment.run(chosen)
    return Result(
        name=name,
        question=CATALOGUE[name].question,
        theory=experiment.theory,
        settings=asdict(chosen),
        elapsed_s=round(time.perf_counter() - started_at, 3),
        versions=_versions(),
        **vars(report),
    )


def find(name: str) -> Experiment[Any]:
    """Return the experiment of a name."""
    if name not in CATALOGUE:
        near = get_close_matches(name, CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(CATALOGUE)}"
        raise UserError(f"no experiment {name!r}; {hint}")
    module = import_module(f"glassbert.glassbox.lab.{CATALOGUE[name].module}")
    found: Experiment[Any] = module.EXPERIMENTS[name]
    return found


@checked
def saved_result(name: str) -> Result:
    """Return the result of an experiment that comes with the package."""
    find(name)
    path = SAVED / f"{name}.json"
    if not path.is_file():
        raise UserError(f"no saved result of {name}; run it: glassbert lab {name}")
    return read_result(path)


def _versions() -> dict[str, str]:
    import torch

    from glassbert.version import __version__

    return {"glassbert": __version__, "torch": torch.__version__.split("+")[0]}


def check_place(name: str, place: int, count: int) -> None:
    """Refuse a place, counted from 0, outside of ``count`` places."""
    if not 0 <= place < count:
        raise UserError(f"{name}={place}; expected from 0 to {count - 1}")
