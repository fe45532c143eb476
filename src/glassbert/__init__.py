"""glassbert: the BERT family from raw text to a fast encoder, with every number inside open to view.

Public names load on first use: `import glassbert` stays instant, and torch is imported only when needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassbert.version import __version__ as __version__

if TYPE_CHECKING:
    from glassbert.config import PRESETS as PRESETS
    from glassbert.config import BertConfig as BertConfig
    from glassbert.config import ModelConfig as ModelConfig
    from glassbert.config import preset as preset
    from glassbert.errors import DataError as DataError
    from glassbert.errors import ModelError as ModelError
    from glassbert.errors import UserError as UserError
    from glassbert.glassbox.accounting import params as params
    from glassbert.inference.embeddings import Embeddings as Embeddings
    from glassbert.inference.loading import load as load
    from glassbert.inference.model import Candidate as Candidate
    from glassbert.inference.model import Model as Model
    from glassbert.interop.convert import convert as convert
    from glassbert.model.bert import Bert as Bert
    from glassbert.model.init import new_bert as new_bert
    from glassbert.runs.api import train as train
    from glassbert.text.segment import segmenter as segmenter
    from glassbert.text.wordpiece.learn import LearnSettings as LearnSettings
    from glassbert.text.wordpiece.learn import learn_vocabulary as learn_vocabulary
    from glassbert.text.wordpiece.tokenizer import Encoding as Encoding
    from glassbert.text.wordpiece.tokenizer import Tokenizer as Tokenizer

_HOMES = {
    "Bert": "model.bert",
    "BertConfig": "config",
    "Candidate": "inference.model",
    "DataError": "errors",
    "Embeddings": "inference.embeddings",
    "Encoding": "text.wordpiece.tokenizer",
    "LearnSettings": "text.wordpiece.learn",
    "Model": "inference.model",
    "ModelConfig": "config",
    "ModelError": "errors",
    "PRESETS": "config",
    "Tokenizer": "text.wordpiece.tokenizer",
    "UserError": "errors",
    "convert": "interop.convert",
    "learn_vocabulary": "text.wordpiece.learn",
    "load": "inference.loading",
    "new_bert": "model.init",
    "params": "glassbox.accounting",
    "preset": "config",
    "segmenter": "text.segment",
    "train": "runs.api",
}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'glassbert' has no attribute {name!r}")
    return getattr(import_module(f"glassbert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
