"""The vocabulary files of a translator's folder: `tokenizer.json` and what transformers needs beside it."""

from pathlib import Path

from glassbert.errors import ModelError
from glassbert.open_files import DOCUMENT
from glassbert.storage import new_files, read_json, write_atomically, write_json
from glassbert.text.bpe.pieces import END, PAD, UNKNOWN, WORD, Merge, check_pieces
from glassbert.typed import shown

DEFAULT_MAX_LENGTH = 512

_ENGINE, _CONFIG = "tokenizer.json", "tokenizer_config.json"


def write_subwords(folder: str | Path, engine_json: str, *, max_length: int, overwrite: bool) -> None:
    """Write the files; ``engine_json`` is the engine's own form, which holds pieces and merges."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
        "pad_token": PAD,
        "eos_token": END,
        "unk_token": UNKNOWN,
    }
    with new_files(Path(folder), overwrite=overwrite) as aside:
        write_atomically(aside / _ENGINE, engine_json.encode("utf-8") + b"\n")
        write_json(aside / _CONFIG, config)


def read_subwords(folder: str | Path) -> tuple[list[str], list[Merge], int]:
    """Return the pieces, the merges and the maximum length of a text, in ids."""
    folder = Path(folder)
    path = folder / _ENGINE
    engine = read_json(path, limit=DOCUMENT)
    model = engine.get("model")
    model = model if isinstance(model, dict) else {}
    try:
        pattern = engine["pre_tokenizer"]["pattern"]["Regex"]
    except (KeyError, TypeError, IndexError):
        pattern = None
    expected = {
        "model.type": (model.get("type"), "BPE"),
        "model.byte_fallback": (model.get("byte_fallback"), True),
        "pre_tokenizer.pattern": (pattern, WORD),
    }
    for key, (found, wanted) in expected.items():
        if found != wanted:
            raise ModelError(
                f"{path}: {key} is {shown(found)}; only {wanted!r} is supported, "
                "as `train translate` writes it"
            )
    settings = read_json(folder / _CONFIG)
    try:
        by_id = {int(id_): str(piece) for piece, id_ in model["vocab"].items()}
        merges = [(str(left), str(right)) for left, right in model["merges"]]
        max_length = int(settings.get("model_max_length", DEFAULT_MAX_LENGTH))
        if not max_length >= 1:
            raise ValueError(max_length)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        raise ModelError(
            f"{path}: model.vocab or model.merges is damaged, or model_max_length in {_CONFIG}; "
            "download the folder again"
        ) from None
    if sorted(by_id) != list(range(len(by_id))):
        raise ModelError(f"{path}: the ids of model.vocab are not 0 to {len(by_id) - 1}, each once")
    pieces = [by_id[id_] for id_ in range(len(by_id))]
    check_pieces(pieces, merges, str(path))
    return pieces, merges, max_length
