"""`convert`: any BERT that we can read, as a folder that `transformers` and glassbert load."""

from pathlib import Path
from typing import Literal

from glassbert.cli.output import print_json, remark
from glassbert.model_names import model_folder


def convert(
    source: str,
    destination: Path,
    /,
    *,
    dtype: Literal["float32", "float16", "bfloat16"] | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Rewrite a model as a plain folder of config.json, model.safetensors and tokenizer files.

    Parameters
    ----------
    source:
        Folder with safetensors, pytorch_model.bin, or Google's bert_model.ckpt files.
    destination:
        Folder to write; it must be new or empty.
    dtype:
        How to store the numbers; as the source does when not given.
    force:
        Replace a destination that holds something.
    json:
        Print what became of the tensors as JSON.
    """
    from glassbert.interop.folder import convert as convert_folder

    report = convert_folder(model_folder(source), destination, dtype=dtype, may_replace=force)
    if json:
        print_json(
            {
                "destination": str(destination),
                "kept": len(report.kept),
                "unexpected": list(report.unexpected),
                "dtype": dtype or report.dtype,
                "notes": list(report.notes),
            }
        )
        return
    for line in report.lines():
        remark(line)
    print(destination)
