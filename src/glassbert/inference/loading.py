"""`glassbert.load`: the model of a folder, ready to work."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar, overload

from glassbert.arguments import checked
from glassbert.errors import UserError
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.loaded import InFile, Loaded
from glassbert.inference.model import Model
from glassbert.inference.prepare import choose_device, choose_precision
from glassbert.inference.quantise import quantised
from glassbert.inference.translator import Translator
from glassbert.interop.build import LoadReport
from glassbert.interop.companions import read_companions
from glassbert.interop.folder import EncoderFolder, ModelFolder, TranslatorFolder
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.model.torch_state import with_own_torch_state
from glassbert.model_names import hub_names
from glassbert.typed import shown

L = TypeVar("L", bound=Loaded[Any])
_OPEN: dict[type[Loaded[Any]] | None, Callable[[str | Path], ModelFolder]] = {
    None: ModelFolder.open,
    Model: EncoderFolder.open,
    Translator: TranslatorFolder.open,
}


@overload
def load(
    name: str | Path,
    *,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    online: bool = False,
) -> Model | Any: ...


@overload
def load(
    name: str | Path,
    kind: type[L],
    *,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    online: bool = False,
) -> L: ...


@checked
@with_own_torch_state
def load(
    name: str | Path,
    kind: type[Loaded[Any]] | None = None,
    *,
    device: Device = "auto",
    precision: PrecisionName = "float32",
    online: bool = False,
) -> Any:
    """Load a model folder, the best model of a run folder, or `demo`; it knows its task.

    The result is a `Model`, or a `Translator` if the folder holds one.

    Args:
        kind: `Model` or `Translator`: refuse a folder that holds the other; the result then has this type.
        device: Where the model runs; `auto` takes a GPU if there is one.
        precision: float32; bfloat16, which is smaller, less exact and faster where the device has it; or
            int8 (CPU only), which is the fastest and gives a text the same bits alone and in any batch.
        online: Fetch a name that is not a folder from the Hugging Face hub; otherwise nothing uses the
            network.
    """
    if kind not in _OPEN:
        raise UserError(f"kind={shown(kind)}; expected Model or Translator")
    with hub_names() if online else nullcontext():
        found = _OPEN[kind](name)
    chosen = choose_precision(precision, choose_device(device))
    known: Any = {"folder": found.path, "run": found.run, "device": device, "precision": chosen}
    source, report = _read(found, chosen)
    if isinstance(found, TranslatorFolder):
        return Translator(source, found.tokenizer(), **known)
    assert isinstance(found, EncoderFolder)
    tokenizer = found.tokenizer()
    sentences = read_sentence_settings(found.path, tokenizer.settings.lowercase)
    companions = read_companions(found.path)
    return Model(source, tokenizer, report, sentences=sentences, companions=companions, **known)


def _read(folder: ModelFolder, precision: PrecisionName) -> tuple[Any, LoadReport]:
    """Return the network of a folder; in int8, its float32 weights stay in their file."""
    if precision != "int8":
        return folder.build()
    network, report = folder.build(assemble=quantised)
    return InFile(network, lambda: folder.build()[0]), report
