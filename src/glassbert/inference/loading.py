"""`glassbert.load`: the model of a folder, ready to work."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar, overload

from glassbert.errors import ModelError
from glassbert.inference.loaded import Loaded
from glassbert.inference.model import Model
from glassbert.inference.model import load as load_encoder
from glassbert.inference.places import Device, PrecisionName
from glassbert.inference.translator import Translator, load_translator
from glassbert.interop.translator_config import is_encoder_decoder
from glassbert.model_names import hub_names, model_folder
from glassbert.storage import read_json

L = TypeVar("L", bound=Loaded)


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


def load(
    name: str | Path,
    kind: type[Loaded] | None = None,
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
        precision: float32, or bfloat16, which is smaller, less exact and faster where the device has it.
        online: Fetch a name that is no folder from the Hugging Face hub; otherwise nothing uses the network.
    """
    with hub_names() if online else nullcontext():
        folder = model_folder(name)
    config = folder / "config.json"
    is_translator = config.is_file() and is_encoder_decoder(read_json(config))
    if is_translator and kind is Model:
        raise ModelError(f"{name} is a translator; use `translate`, or name a BERT")
    if kind is Translator and not is_translator:
        raise ModelError(f"{name} holds no translator; train one with `glassbert train translate`")
    make = load_translator if is_translator else load_encoder
    return make(folder, device=device, precision=precision)
