"""`glassbert.load`: whatever a folder holds, ready to work."""

from pathlib import Path

from glassbert.inference.model import Model
from glassbert.inference.model import load as load_encoder
from glassbert.inference.translator import Translator, load_translator
from glassbert.interop.translator_config import is_encoder_decoder
from glassbert.model_names import hub_names, model_folder
from glassbert.storage import read_json


def load(name: str | Path, *, online: bool = False) -> Model | Translator:
    """Load a model folder, the best model of a run folder, or `demo`; it knows what it can do.

    Args:
        online: Fetch a name that is no folder from the Hugging Face hub; otherwise nothing uses the network.
    """
    with hub_names(allowed=online):
        folder = model_folder(name)
    config = folder / "config.json"
    if config.is_file() and is_encoder_decoder(read_json(config)):
        return load_translator(folder)
    return load_encoder(folder)
