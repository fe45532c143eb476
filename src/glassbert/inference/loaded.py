"""The base of `Model` and `Translator`: where they run, how large they are, their repr."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from glassbert.arguments import checked_methods
from glassbert.data.examples import ReadOptions
from glassbert.errors import UserError
from glassbert.inference.devices import Device, Place, PrecisionName
from glassbert.inference.prepare import choose_device, choose_precision
from glassbert.model.init import Network, without_values
from glassbert.model.torch_state import with_own_torch_state

if TYPE_CHECKING:
    from glassbert import Evaluation, Trace

EXTENSIONS = {
    "evaluate": "glassbert.evaluation.evaluate",
    "trace": "glassbert.glassbox.trace.api",
    "words": "glassbert.inference.words",
    "why": "glassbert.glassbox.why.explain",
}
"""Methods that are built on this package, which must not import them: each with the module of its function.

The function has the method's name and takes the model first."""


N = TypeVar("N", bound=Network)


@dataclass(frozen=True)
class InFile(Generic[N]):
    """A network of which only the int8 form is in memory."""

    int8: N
    read: Callable[[], N]
    """Reads the float32 network from its file."""


@checked_methods
class Loaded(Generic[N]):
    """A network on a device, which can describe itself."""

    def __init__(self, network: N | InFile[N], device: Device, precision: PrecisionName) -> None:
        self.device = choose_device(device)
        self.precision = choose_precision(precision, self.device)
        self._source = network

    @cached_property
    @with_own_torch_state
    def network(self) -> N:
        """The network in float32; one that was loaded in int8 is read again when it is first asked for."""
        return self._source.read() if isinstance(self._source, InFile) else self._source

    @property
    def _in_memory(self) -> N:
        """The network, in float32 or int8: for its shape, and to compute with in this precision."""
        if isinstance(self._source, InFile) and self.precision == "int8":
            return self._source.int8
        return self.network

    @property
    def num_parameters(self) -> int:
        """Numbers that training can change; shared weights count once."""
        plan = without_values(type(self._in_memory), self._in_memory.config)
        return sum(parameter.numel() for parameter in plan.parameters())

    def evaluate(
        self,
        data: str | Path | Sequence[Any],
        *,
        task: str | None = None,
        options: ReadOptions | None = None,
    ) -> "Evaluation":
        """Return how good the model is on rows, sentence pairs or a corpus; see `glassbert.evaluate`."""
        return self._extension("evaluate")(data, task=task, options=options)

    def trace(
        self,
        text: str,
        pair: str | None = None,
        *,
        target: object = None,
        grad: bool = False,
        names: str | Collection[str] = (),
        layers: Collection[int] | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
    ) -> "Trace":
        """Return every number of one pass, by name, and the gradients; see `glassbert.trace`."""
        selected = {"names": names, "layers": layers, "out": out, "overwrite": overwrite}
        return self._extension("trace")(text, pair, target=target, grad=grad, **selected)

    def __repr__(self) -> str:
        facts = [f"{name}={shortened(fact)}" for name, fact in self._facts().items() if fact is not None]
        return f"{type(self).__name__}({', '.join(facts)})"

    def _facts(self) -> Mapping[str, object]:
        """Return what a user wants to know first, by name; None is left out."""
        return {"device": str(self.device), "precision": self.precision}

    def _extension(self, name: str) -> Callable[..., Any]:
        """Return the function of `EXTENSIONS` behind a method, bound to this model; imported on first use."""
        return partial(getattr(import_module(EXTENSIONS[name]), name), self)

    def refuse_int8(self, what: str) -> None:
        """Refuse to show the numbers of a pass in int8, which the formula does not have.

        Args:
            what: What was asked for, with the article.
        """
        if self.precision == "int8":
            raise UserError(f"{what} shows the formula, which has no int8; use the precision float32")

    def in_precision(self, precision: PrecisionName) -> Self:
        """Return the same model in another precision; weights that are in memory are shared."""
        twin = copy(self)
        for name in ("engine", "decoder"):  # the fast path of this precision
            vars(twin).pop(name, None)
        twin.precision = choose_precision(precision, self.device)
        return twin

    @property
    def _place(self) -> Place:
        return {"device": "cpu" if self.device.type == "cpu" else "cuda", "precision": self.precision}
