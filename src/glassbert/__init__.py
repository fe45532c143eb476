"""glassbert: the BERT family from raw text to a fast encoder, with every number inside open to view.

Public names load on first use: `import glassbert` stays instant, and torch is imported only when needed.
"""

from importlib import import_module

from glassbert.version import __version__ as __version__

TYPE_CHECKING = False  # type checkers take it as true; importing typing would cost more than the rest
if TYPE_CHECKING:
    from typing import Any

    from glassbert import serve as serve
    from glassbert.bulk.api import FilesResult as FilesResult
    from glassbert.bulk.api import embed_files as embed_files
    from glassbert.bulk.api import predict_files as predict_files
    from glassbert.config import PRESETS as PRESETS
    from glassbert.config import BertConfig as BertConfig
    from glassbert.config import ModelConfig as ModelConfig
    from glassbert.config import TransformerConfig as TransformerConfig
    from glassbert.config import preset as preset
    from glassbert.data.corpus.build import build_corpus as build_corpus
    from glassbert.data.corpus.check import check_corpus as check_corpus
    from glassbert.data.corpus.reader import Corpus as Corpus
    from glassbert.data.examples import ReadOptions as ReadOptions
    from glassbert.data.rows.formats import register_format as register_format
    from glassbert.errors import DataError as DataError
    from glassbert.errors import ModelError as ModelError
    from glassbert.errors import UserError as UserError
    from glassbert.evaluation.evaluate import evaluate as evaluate
    from glassbert.evaluation.result import Evaluation as Evaluation
    from glassbert.glassbox.accounting import params as params
    from glassbert.glassbox.doctor.examine import doctor as doctor
    from glassbert.glassbox.doctor.verdict import Diagnosis as Diagnosis
    from glassbert.glassbox.lab.catalogue import experiments as experiments
    from glassbert.glassbox.lab.claims import saved_claims as saved_claims
    from glassbert.glassbox.lab.experiment import lab as lab
    from glassbert.glassbox.lab.experiment import saved_result as saved_result
    from glassbert.glassbox.trace.api import trace as trace
    from glassbert.glassbox.trace.trace import Trace as Trace
    from glassbert.glassbox.why.explanation import Explanation as Explanation
    from glassbert.glassbox.why.nearest import nearest_tokens as nearest_tokens
    from glassbert.inference.decode import DecodeSettings as DecodeSettings
    from glassbert.inference.embeddings import Embeddings as Embeddings
    from glassbert.inference.loading import load as load
    from glassbert.inference.model import Candidate as Candidate
    from glassbert.inference.model import Filled as Filled
    from glassbert.inference.model import Model as Model
    from glassbert.inference.translator import Translation as Translation
    from glassbert.inference.translator import Translator as Translator
    from glassbert.inference.word_vectors import WordVectors as WordVectors
    from glassbert.inference.word_vectors import word_vectors as word_vectors
    from glassbert.inference.words import Word as Word
    from glassbert.interop.convert import convert as convert
    from glassbert.interop.extend import extend_vocabulary as extend_vocabulary
    from glassbert.interop.trim import trim_vocabulary as trim_vocabulary
    from glassbert.model.bert import Bert as Bert
    from glassbert.model.init import new_bert as new_bert
    from glassbert.model.init import new_transformer as new_transformer
    from glassbert.model.layout import Batch as Batch
    from glassbert.model.layout import Layout as Layout
    from glassbert.model.seq2seq import Transformer as Transformer
    from glassbert.model.tap import Tap as Tap
    from glassbert.reports.page import write_report as write_report
    from glassbert.runs.api import distil as distil
    from glassbert.runs.api import extend_from_text as extend_from_text
    from glassbert.runs.api import pretrain as pretrain
    from glassbert.runs.api import train as train
    from glassbert.runs.run import RunResult as RunResult
    from glassbert.tasks.answer.predictions import AnswerPrediction as AnswerPrediction
    from glassbert.tasks.classify.predictions import ClassPrediction as ClassPrediction
    from glassbert.tasks.objectives.registry import register_objective as register_objective
    from glassbert.tasks.registry import register as register
    from glassbert.tasks.tag.predictions import TagPrediction as TagPrediction
    from glassbert.text.inspection import inspect_text as inspect_text
    from glassbert.text.inspection import inspect_vocabulary as inspect_vocabulary
    from glassbert.text.segment import segmenter as segmenter
    from glassbert.text.vocabulary import SPECIALS as SPECIALS
    from glassbert.text.vocabulary import Vocabulary as Vocabulary
    from glassbert.text.wordpiece.learn import LearnSettings as LearnSettings
    from glassbert.text.wordpiece.learn import learn_vocabulary as learn_vocabulary
    from glassbert.text.wordpiece.tokenizer import Encoding as Encoding
    from glassbert.text.wordpiece.tokenizer import Tokenizer as Tokenizer

# Each public name, and the module that it is loaded from.
_HOMES = {
    "AnswerPrediction": "tasks.answer.predictions",
    "Batch": "model.layout",
    "Bert": "model.bert",
    "BertConfig": "config",
    "Candidate": "inference.model",
    "ClassPrediction": "tasks.classify.predictions",
    "Corpus": "data.corpus.reader",
    "DataError": "errors",
    "DecodeSettings": "inference.decode",
    "Diagnosis": "glassbox.doctor.verdict",
    "Embeddings": "inference.embeddings",
    "Encoding": "text.wordpiece.tokenizer",
    "Evaluation": "evaluation.result",
    "Explanation": "glassbox.why.explanation",
    "FilesResult": "bulk.api",
    "Filled": "inference.model",
    "Layout": "model.layout",
    "LearnSettings": "text.wordpiece.learn",
    "Model": "inference.model",
    "ModelConfig": "config",
    "ModelError": "errors",
    "PRESETS": "config",
    "ReadOptions": "data.examples",
    "RunResult": "runs.run",
    "SPECIALS": "text.vocabulary",
    "TagPrediction": "tasks.tag.predictions",
    "Tap": "model.tap",
    "Tokenizer": "text.wordpiece.tokenizer",
    "Trace": "glassbox.trace.trace",
    "Transformer": "model.seq2seq",
    "TransformerConfig": "config",
    "Translation": "inference.translator",
    "Translator": "inference.translator",
    "UserError": "errors",
    "Vocabulary": "text.vocabulary",
    "Word": "inference.words",
    "WordVectors": "inference.word_vectors",
    "build_corpus": "data.corpus.build",
    "check_corpus": "data.corpus.check",
    "convert": "interop.convert",
    "distil": "runs.api",
    "doctor": "glassbox.doctor.examine",
    "embed_files": "bulk.api",
    "evaluate": "evaluation.evaluate",
    "experiments": "glassbox.lab.catalogue",
    "extend_from_text": "runs.api",
    "extend_vocabulary": "interop.extend",
    "inspect_text": "text.inspection",
    "inspect_vocabulary": "text.inspection",
    "lab": "glassbox.lab.experiment",
    "learn_vocabulary": "text.wordpiece.learn",
    "load": "inference.loading",
    "nearest_tokens": "glassbox.why.nearest",
    "new_bert": "model.init",
    "new_transformer": "model.init",
    "params": "glassbox.accounting",
    "predict_files": "bulk.api",
    "preset": "config",
    "pretrain": "runs.api",
    "register": "tasks.registry",
    "register_format": "data.rows.formats",
    "register_objective": "tasks.objectives.registry",
    "saved_claims": "glassbox.lab.claims",
    "saved_result": "glassbox.lab.experiment",
    "segmenter": "text.segment",
    "trace": "glassbox.trace.api",
    "train": "runs.api",
    "trim_vocabulary": "interop.trim",
    "word_vectors": "inference.word_vectors",
    "write_report": "reports.page",
}

# Public names that are packages themselves.
_PACKAGES = ("serve",)

__all__ = sorted([*_HOMES, *_PACKAGES, "__version__"])


def __getattr__(name: str) -> "Any":
    if name in _PACKAGES:
        return import_module(f"glassbert.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'glassbert' has no attribute {name!r}")
    return getattr(import_module(f"glassbert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
