"""The extra files of a sentence-transformers folder: how it pools, its prompts, how long texts may be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from glassbert.errors import ModelError
from glassbert.model.pooling import Pooling, PoolingMode
from glassbert.parsing import json_text
from glassbert.ranges import Length
from glassbert.storage import read_json, read_json_value, write_atomically, write_json
from glassbert.typed import fits, shown, typed

# 1_Pooling/config.json has one switch per mode in older folders and one list in newer ones. Vectors of
# several switches are joined in this order, that of sentence-transformers.
_SWITCHES: dict[str, PoolingMode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_PROMPTS_FILE = "config_sentence_transformers.json"


@dataclass(frozen=True)
class SentenceSettings:
    """How a folder of sentence-transformers pools, its prompts, and how long its texts may be."""

    pooling: Pooling
    max_length: int | None = None
    """Tokens of the longest text; as many as the encoder takes when None."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What is put before a text, by name, such as "query: "; the model was trained with it."""
    default_prompt_name: str | None = None
    """The prompt of texts for which none is named."""

    def prompt(self, name: str | None = None) -> str:
        """Return what to put before a text: the prompt of this name, or the folder's default."""
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = f"it has {', '.join(map(shown, self.prompts))}" if self.prompts else "it has none"
            raise ModelError(f"the model has no prompt {shown(name)}; {known}")
        return self.prompts[name]


def read_sentence_settings(folder: str | Path, is_lowercase: bool) -> SentenceSettings | None:
    """Return the folder's pooling, prompts and length; None when it is not one of sentence-transformers.

    Args:
        is_lowercase: Whether the tokenizer lower-cases.
    """
    folder = Path(folder)
    if not (folder / "modules.json").is_file():
        return None
    modes: tuple[PoolingMode, ...] = ()
    should_normalise = False
    prompts, default_prompt_name = _prompts(folder / _PROMPTS_FILE)
    for kind, path in _modules(folder):
        if kind == "Pooling":
            modes = _modes(path / "config.json", has_prompts=any(prompts.values()))
        elif kind == "Normalize":
            should_normalise = True
        elif kind != "Transformer":
            raise ModelError(
                f"{folder / 'modules.json'}: module {shown(kind)[1:-1]} is not supported; only pooling and "
                "normalising"
            )
    if not modes:
        raise ModelError(f"{folder / 'modules.json'}: no Pooling module; expected one after the Transformer")
    pooling = Pooling(modes=modes, should_normalise=should_normalise)
    return SentenceSettings(pooling, _max_length(folder, is_lowercase), prompts, default_prompt_name)


def write_sentence_settings(folder: str | Path, settings: SentenceSettings, *, hidden_size: int) -> None:
    """Write the files from which `read_sentence_settings` and sentence-transformers read how to pool."""
    folder = Path(folder)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if settings.pooling.should_normalise else [])]
    modules = [
        {
            "idx": index,
            "name": str(index),
            "path": f"{index}_{kind}" if index else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, kind in enumerate(kinds)
    ]
    write_atomically(folder / "modules.json", json_text(modules, indent=2).encode("utf-8"))
    (folder / "1_Pooling").mkdir()
    modes = settings.pooling.modes
    pooling = {
        "word_embedding_dimension": hidden_size,
        "pooling_mode": modes[0] if len(modes) == 1 else modes,
    }
    write_json(folder / "1_Pooling" / "config.json", pooling)
    if settings.max_length is not None:
        limits = {"max_seq_length": settings.max_length, "do_lower_case": False}
        write_json(folder / "sentence_bert_config.json", limits)
    if settings.prompts:
        prompts = {"prompts": dict(settings.prompts), "default_prompt_name": settings.default_prompt_name}
        write_json(folder / _PROMPTS_FILE, prompts)


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """Return each module's class and folder, in order."""
    source = folder / "modules.json"
    try:
        modules: list[dict[str, Any]] = read_json_value(source)
        found = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (KeyError, TypeError):
        raise ModelError(f"{source}: expected a list of modules with type and path") from None
    for _, path in found:
        if path == ".." or (path and Path(path).name != path):
            raise ModelError(f"{source}: {shown(path)} is not the name of a folder beside it")
    return [(kind, folder / path) for kind, path in found]


def _modes(source: Path, *, has_prompts: bool) -> tuple[PoolingMode, ...]:
    data = read_json(source)
    if has_prompts and data.get("include_prompt") is False:
        raise ModelError(
            f"{source}: include_prompt is false, which is not supported; only prompts that are pooled with "
            "their text"
        )
    named = data.get("pooling_mode")
    if named is None:
        modes = tuple(mode for switch, mode in _SWITCHES.items() if data.get(switch))
    else:
        listed = [named] if isinstance(named, str) else named
        modes = typed(listed, tuple[PoolingMode, ...], f"{source}: pooling_mode", error=ModelError)
    if not modes:
        expected = ", ".join(get_args(PoolingMode))
        raise ModelError(f"{source}: pooling missing; expected some of {expected}")
    return modes


def _max_length(folder: Path, is_lowercase: bool) -> int | None:
    source = folder / "sentence_bert_config.json"
    data = read_json(source) if source.is_file() else {}
    if data.get("do_lower_case") and not is_lowercase:
        raise ModelError(
            f"{source}: do_lower_case is true, but the tokenizer keeps capitals; set do_lower_case to true "
            "in tokenizer_config.json, or to false here"
        )
    limit: int | None = typed(
        data.get("max_seq_length"), Length | None, f"{source}: max_seq_length", error=ModelError
    )
    return limit


def _prompts(source: Path) -> tuple[dict[str, str], str | None]:
    """Return the prompts by name, and the name of the default one."""
    data = read_json(source) if source.is_file() else {}
    prompts: dict[str, str] = data.get("prompts") or {}
    if not fits(prompts, dict[str, str]):
        raise ModelError(f"{source}: prompts={shown(prompts)}; expected an object of texts")
    default: str | None = typed(
        data.get("default_prompt_name"), str | None, f"{source}: default_prompt_name", error=ModelError
    )
    if default is not None and default not in prompts:
        known = ", ".join(map(shown, prompts)) or "none"
        raise ModelError(f"{source}: default_prompt_name is {shown(default)}; the prompts are {known}")
    return prompts, default
