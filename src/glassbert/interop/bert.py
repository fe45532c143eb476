"""BERT as `transformers` stores it, with our own options where a folder has them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from glassbert.config import ModelConfig
from glassbert.errors import ModelError
from glassbert.interop.bert_config import read_bert_config, write_bert_config
from glassbert.interop.bert_names import is_buffer, modernise, to_ours, to_theirs
from glassbert.interop.family import Config, NamedTensors
from glassbert.interop.on_demand import OnDemand
from glassbert.sentence import Sentence

if TYPE_CHECKING:
    from torch import Tensor

    from glassbert.model.bert import Bert

# The bias of the MLM decoder in files, and the place where some hold a second one.
_BIAS = "cls.predictions.bias"
_DECODERS_BIAS = "cls.predictions.decoder.bias"


class BertFamily:
    """See `Family`."""

    name = "a BERT"
    is_translator = False
    may_hold_more = True

    def describes(self, data: Mapping[str, Any]) -> bool:
        return True  # also files without a model_type, such as Google's; other types are refused

    def holds(self, config: Config) -> bool:
        return isinstance(config, ModelConfig)

    def read_config(
        self, data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
    ) -> tuple[ModelConfig, tuple[str, ...]]:
        return read_bert_config(data, source, tensor_names)

    def write_config(self, config: ModelConfig, dtype: str) -> dict[str, Any]:
        return write_bert_config(config, dtype)

    def network_class(self, config: ModelConfig) -> "type[Bert]":
        from glassbert.model.bert import Bert

        return Bert

    def to_theirs(self, name: str) -> str:
        return to_theirs(name)

    def to_ours(self, name: str) -> str | None:
        return to_ours(name)

    def is_buffer(self, name: str) -> bool:
        return is_buffer(name)

    def from_file(self, tensors: "Mapping[str, Tensor]", config: ModelConfig) -> NamedTensors:
        in_file: dict[str, str] = {}
        num_renamed = 0
        for old_name in tensors:
            if is_buffer(old_name):
                continue
            name = modernise(old_name)
            num_renamed += name != old_name and not name.endswith("." + old_name)
            if name in in_file and not tensors[in_file[name]].equal(tensors[old_name]):
                raise ModelError(f"{name} is in the weights twice, with different values")
            in_file[name] = old_name
        notes: list[str] = []
        if num_renamed:
            notes.append(Sentence("{count} tensors had an older spelling", count=num_renamed))
        notes += _choose_bias(tensors, in_file, is_tied=config.encoder.tie_word_embeddings)
        names = {ours: old for name, old in in_file.items() if (ours := to_ours(name)) is not None}
        unknown = tuple(name for name in in_file if to_ours(name) is None)
        return NamedTensors(OnDemand(names, lambda name: tensors[names[name]]), unknown, tuple(notes))

    def to_file(self, state: "Mapping[str, Tensor]", config: ModelConfig) -> "dict[str, Tensor]":
        tensors = {to_theirs(name): tensor for name, tensor in state.items()}
        if _BIAS in tensors and not config.encoder.tie_word_embeddings:
            tensors[_DECODERS_BIAS] = tensors[_BIAS].clone()
        if config.head != "none":
            return tensors
        return {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}


def _choose_bias(tensors: "Mapping[str, Tensor]", in_file: dict[str, str], *, is_tied: bool) -> list[str]:
    """Leave one decoder bias in ``in_file``: files may hold two, and untied ones use the decoder's own."""
    decoders_own = in_file.pop(_DECODERS_BIAS, None)
    if decoders_own is None:
        return []
    differs = _BIAS in in_file and not tensors[in_file[_BIAS]].equal(tensors[decoders_own])
    if differs and is_tied:
        raise ModelError(f"{_BIAS} and {_DECODERS_BIAS} differ, but tied models have one")
    in_file[_BIAS] = decoders_own
    return [f"{_BIAS} differs from {_DECODERS_BIAS}, which is the one in use"] if differs else []
