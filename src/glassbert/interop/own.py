"""Our own format, for translators that no other library computes: our names, and the fields of our config."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from glassbert.config import BertConfig, LstmConfig, TransformerConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.config_keys import KeyRules
from glassbert.interop.family import Config, NamedTensors
from glassbert.typed import shown

if TYPE_CHECKING:
    from torch import Tensor

    from glassbert.model.lstm import Lstm
    from glassbert.model.seq2seq import Transformer

TranslatorConfig = TransformerConfig | LstmConfig
_CONFIGS: dict[str, type[TranslatorConfig]] = {"Transformer": TransformerConfig, "Lstm": LstmConfig}
_HEADER = ("architectures", "model_type", "dtype")


class OwnFamily:
    """See `Family`."""

    name = "a translator"
    is_translator = True
    may_hold_more = False

    def describes(self, data: Mapping[str, Any]) -> bool:
        return data.get("architectures") in [[name] for name in _CONFIGS]

    def holds(self, config: Config) -> bool:
        return isinstance(config, TranslatorConfig)

    def read_config(
        self, data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
    ) -> tuple[TranslatorConfig, tuple[str, ...]]:
        config_class = _CONFIGS[data["architectures"][0]]
        values = {key: value for key, value in data.items() if key not in _HEADER}
        _check_fields(values, config_class, source)
        try:
            if config_class is TransformerConfig:
                _check_fields(values["encoder"], BertConfig, f"{source}: encoder")
                values["encoder"] = BertConfig(**values["encoder"])
            return config_class(**values), ()
        except KeyError as error:
            raise ModelError(f"{source}: no {error.args[0]}; the file is damaged, fetch it again") from None
        except (UserError, TypeError) as error:
            raise ModelError(f"{source}: {error}") from None

    def write_config(self, config: TranslatorConfig, dtype: str) -> dict[str, Any]:
        architecture = next(name for name, kind in _CONFIGS.items() if isinstance(config, kind))
        header = {"architectures": [architecture], "model_type": "glassbert", "dtype": dtype}
        return header | asdict(config)

    def network_class(self, config: TranslatorConfig) -> "type[Transformer | Lstm]":
        from glassbert.model.lstm import Lstm
        from glassbert.model.seq2seq import Transformer

        return Lstm if isinstance(config, LstmConfig) else Transformer

    def to_theirs(self, name: str) -> str:
        return name

    def to_ours(self, name: str) -> str | None:
        return name

    def is_buffer(self, name: str) -> bool:
        return False

    def from_file(self, tensors: "Mapping[str, Tensor]", config: TranslatorConfig) -> NamedTensors:
        return NamedTensors(tensors)

    def to_file(self, state: "Mapping[str, Tensor]", config: TranslatorConfig) -> "dict[str, Tensor]":
        return dict(state)


def _check_fields(values: Any, config_class: type[Any], source: str) -> None:
    if not isinstance(values, Mapping):
        raise ModelError(
            f"{source}: expected an object, got {shown(values)}; the file is damaged, fetch it again"
        )
    names = [field.name for field in fields(config_class)]
    KeyRules(read=names, harmless=(), fixed={}).check(values, source, is_foreign=False)
